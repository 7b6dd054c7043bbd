#!/usr/bin/env bash
# Tests entropy-corpus: --tokenizer bpe loses no byte, and the same files give the same
# tokens; --ids packs the ids of other tokenizers; entropy-train trains on both kinds of
# token files.
. tests/support/tap.sh
plan_dir
python() { /usr/bin/python3 "$@"; } # the Python that has Debian's modules

number() { od -An -tu8 -j"$2" -N8 "$1" | tr -d ' '; }
field() { od -An -tu4 -j"$2" -N4 "$1" | tr -d ' '; }
tokenizer() { head -c 88 "$1" | tail -c 32 | tr -d '\0'; }
ids() { od -An -v -w2 -tu2 -j96 "$1" | tr -d ' ' | tr '\n' ' '; echo; }
bytes() { tail -c +97 "$1"; }

# --- existing ids ----------------------------------------------------------

pack() { "$corpus" -q --ids "$@" -o "$dir/ids.tok"; }
packs() { # VOCAB BYTES: packs 640 ids, of which 20 are held out
    seq 0 639 | tr '\n' '\t ' >"$dir/ids"
    pack "$dir/ids" --vocab "$1" --tokenizer-name 'gpt2 of 2019' &&
        [ "$(field "$dir/ids.tok" 12)" = "$1" ] &&
        [ "$(field "$dir/ids.tok" 16)" = "$2" ] &&
        [ "$(number "$dir/ids.tok" 24)" = 620 ] &&
        [ "$(number "$dir/ids.tok" 32)" = 20 ] &&
        [ "$(tokenizer "$dir/ids.tok")" = 'gpt2 of 2019' ] &&
        od -An -v -tu"$2" -w"$2" -j96 "$dir/ids.tok" | tr -d ' ' |
        cmp - <(seq 0 639)
}
check 'ids of a vocabulary of 640 take 2 bytes each' packs 640 2
check 'ids of a vocabulary of 65536 take 2 bytes each' packs 65536 2
check 'ids of a vocabulary of 65537 take 4 bytes each' packs 65537 4
narrow() {
    echo '0 255 7' >"$dir/ids" && pack "$dir/ids" --vocab 256 --held-out 100 &&
        [ "$(field "$dir/ids.tok" 16)" = 1 ] && [ "$(number "$dir/ids.tok" 32)" = 3 ] &&
        [ "$(tokenizer "$dir/ids.tok")" = ids ] &&
        bytes "$dir/ids.tok" | cmp - <(printf '\0\377\7')
}
check 'ids of a vocabulary of 256 take 1 byte each; all may be held out' narrow
piped() { seq 0 99 | "$corpus" -q --ids - --vocab 100 -o - | cmp -s -n 8 - <(printf ESTOKENS); }
check 'ids may come from standard input' piped
check 'ids may come from a named pipe' pack <(sleep 0.1; seq 0 99) --vocab 100
mkfifo "$dir/fifo"
exits 'a FIFO without a writer is refused' 3 'fifo: a FIFO without a writer' \
    timeout 60 "$corpus" -q --ids "$dir/fifo" --vocab 100 -o "$dir/x.tok"
refuses() { # NAME REGEX TEXT
    printf "$3" >"$dir/ids"
    rm -f "$dir/ids.tok"
    exits "$1" 3 "$2" "$corpus" -q --ids "$dir/ids" --vocab 50257 -o "$dir/ids.tok"
    check "$1: no file" test ! -e "$dir/ids.tok"
}
refuses 'an id outside the vocabulary is refused' 'ids:2: an id is not below --vocab 50257' '1 2\n50257\n'
refuses 'an id too large for any integer is refused' 'ids:1: an id' '99999999999999999999999999\n'
refuses 'a negative id is refused' 'ids:1: not a list' '4 -3\n'
refuses 'a fraction is refused' 'ids:3: not a list' '1\n2\n3.5\n'
refuses 'a list in the syntax of Python is refused' 'ids:1: not a list' '[1, 2, 3]'
refuses 'a binary file is refused' 'ids:1: not a list' '\001\377\0'
refuses 'a file without ids is refused' 'no token ids' ' \n\n'
exits 'ids without a vocabulary are refused' 2 '--vocab N' "$corpus" --ids "$dir/ids" -o "$dir/x.tok"
exits 'ids and a directory are refused' 2 'a directory cannot be' "$corpus" --ids "$dir/ids" --vocab 9 -o "$dir/x.tok" .
exits 'ids and a model are refused' 2 '--model: cannot be combined with' "$corpus" --ids "$dir/ids" --model m -o "$dir/x.tok"
exits 'a missing list is refused' 3 'nowhere' "$corpus" --ids "$dir/nowhere" --vocab 9 -o "$dir/x.tok"
exits 'a directory in place of a list is refused' 3 . "$corpus" --ids "$dir" --vocab 9 -o "$dir/x.tok"
exits 'a name of 32 bytes is refused' 2 'tokenizer-name' "$corpus" --ids "$dir/ids" --vocab 9 \
    --tokenizer-name 12345678901234567890123456789012 -o "$dir/x.tok"
exits 'a held-out share above 100 per cent is refused' 2 'held-out' "$corpus" --ids "$dir/ids" --vocab 9 \
    --held-out 100.5 -o "$dir/x.tok"

# --- training on wide tokens -----------------------------------------------

trains() { # VOCAB BYTES
    awk -v v="$1" 'BEGIN { for (i = 0; i < 2000; i++) print (i * 7919 + i % 13) % v }' \
        >"$dir/ids"
    rm -f "$dir/run.db"
    pack "$dir/ids" --vocab "$1" && [ "$(field "$dir/ids.tok" 16)" = "$2" ] &&
        "$train" --quiet --arch SM+LN+G --data "$dir/ids.tok" --out "$dir/run.db" \
            --n-layer 1 --n-head 1 --d-model 8 --ctx 16 --batch 2 --steps 3 --threads 1 &&
        "$BUILD/entropy-scan" "$dir/run.db" --json | grep -q '"status": *"finished"'
}
check 'tokens of 2 bytes train' trains 16384 2
check 'tokens of 4 bytes train' trains 70001 4
exits 'a token file of another vocabulary is refused' 2 'vocabulary has 70001 tokens, but --vocab is 50257' \
    "$train" --arch SM --data "$dir/ids.tok" --out "$dir/x.db" --vocab 50257 \
    --n-layer 1 --n-head 1 --d-model 8 --ctx 16 --steps 3
"$train" --quiet --arch SM --data "$dir/ids.tok" --out "$dir/c.db" --checkpoint "$dir/ck" \
    --n-layer 1 --n-head 1 --d-model 8 --ctx 16 --batch 2 --steps 1 --threads 1
seq 0 1999 >"$dir/ids"
pack "$dir/ids" --vocab 50257
exits 'a checkpoint of another vocabulary cannot be resumed' 2 'vocabulary has 50257 tokens, but --vocab is 70001' \
    "$train" --data "$dir/ids.tok" --out "$dir/c.db" --resume "$dir/ck" --steps 2
exits 'nor initialise a training' 2 'vocabulary has 50257 tokens, but the vocabulary of the weights .* has 70001' \
    "$train" --arch SM --data "$dir/ids.tok" --out "$dir/x.db" --init "$dir"/ck/*.safetensors \
    --n-layer 1 --n-head 1 --d-model 8 --ctx 16 --steps 1
exits 'nor be probed' 2 'vocabulary has 50257 tokens, but the vocabulary of the weights .* has 70001' \
    "$train" probe "$dir"/ck/*.safetensors --data "$dir/ids.tok" --out "$dir/x.db"

# --- byte pairs ------------------------------------------------------------

exits 'an unknown tokenizer is refused' 2 'bytes or bpe' "$corpus" --tokenizer words -o "$dir/x.tok" .
exits 'a vocabulary for bytes is refused' 2 'only with --tokenizer bpe' "$corpus" --vocab 9 -o "$dir/x.tok" .
exits 'a size for a trained model is refused' 2 'a trained model' "$corpus" --model m --vocab 9 -o "$dir/x.tok" .
exits 'a tokenizer name without ids is refused' 2 'only with --ids' "$corpus" --tokenizer-name x -o "$dir/x.tok" .
exits 'a model without a file name is refused' 2 'give -o FILE' "$corpus" --tokenizer bpe -o - .

mkdir "$dir/src" "$dir/none"
for i in $(seq 60); do
    printf 'def function_%d(argument):\n    """Number %d."""\n' "$i" $((i * 77)) 
    printf '    for number in range(%d):\n        print(number,  argument)\n\n' "$i"
done | split -l 9 --additional-suffix=.py - "$dir/src/m"
fake() { # PYTHON: writes a module that replaces sentencepiece
    echo "$1" >"$dir/none/sentencepiece.py"
}
faked() { PYTHONPATH=$dir/none TMPDIR=$dir/t "$corpus" "$@"; }
mkdir "$dir/t"
fake 'raise ImportError'
exits 'a missing library is named with its package' 3 'sentencepiece: .*install .*python3-sentencepiece' \
    faked --tokenizer bpe --vocab 400 -o "$dir/x.tok" "$dir/src"
if ! python -c 'import sentencepiece' 2>/dev/null; then
    skip 'byte-pair tokens' 'the Debian package python3-sentencepiece is not installed'
    finish
    exit
fi

# Make texts that a tokenizer might change: tabs, spaces at both ends, blank lines,
# other line endings, no newline at the end, characters that Unicode would normalise,
# U+2581, which BPE models use for a space, U+2585 and <unk>, which they reserve, and a
# very long line.
printf '\tif x:\n\t\ty  =   1 \n   \n\n\n \t mixed\r\nend without newline' >"$dir/src/white.py"
printf '\xef\xac\x81 \xe2\x91\xa0 \xef\xbc\xa1 e\xcc\x81 \xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80\n' \
    >"$dir/src/other.py"
printf 'a\xe2\x96\x81b \xe2\x96\x81\xe2\x96\x81\n\xe2\x96\x81\n\xe2\x96\x85 <unk> <0x0A> <s>\n\xe2\x96' \
    >"$dir/src/cut.py"
printf '\xe2\x96\x81\xe2\x96\x85 \xe2\x96\x81 <unk> <0x0A> <s> </s>\n\xef\xbb\xbf\x0b\x0c\x1c\xc2\x85' \
    >"$dir/src/reserved.py"
seq -s ' number' 30000 >"$dir/src/wide.py"
echo >"$dir/src/newline.py"
printf 'caf\xe9 = 1\n' >"$dir/src/latin.py"

bpe() { "$corpus" --tokenizer bpe --vocab 500 -o "$@" 2>"$dir/messages"; }
check 'a BPE model is trained and the corpus is encoded' bpe "$dir/p.tok" "$dir/src"
check 'files that are not UTF-8 are skipped and counted' grep -q ' 2 not UTF-8' "$dir/messages"
named() {
    [ "$(field "$dir/p.tok" 12)" = 500 ] && [ "$(field "$dir/p.tok" 16)" = 2 ] &&
        tokenizer "$dir/p.tok" | grep -qxE 'sentencepiece 500 [0-9a-f]{8}'
}
check 'the token file contains the name of its BPE model' named
decode() { # TOKENS MODEL: prints the text of the tokens
    ids "$1" | python -c 'import sentencepiece, sys
model = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])
ids = [int(i) for i in sys.stdin.read().split()]
sys.stdout.buffer.write(model.decode(ids).encode())' "$2"
}
lossless() {
    "$corpus" -q -o "$dir/b.tok" "$dir/src" &&
        decode "$dir/p.tok" "$dir/p.tok.model" | cmp - <(bytes "$dir/b.tok") &&
        [ "$(number "$dir/p.tok" 40)" = "$(number "$dir/b.tok" 40)" ] &&
        [ "$(number "$dir/p.tok" 48)" = "$(number "$dir/b.tok" 48)" ]
}
check 'the library decodes every byte' lossless
split_holds() { # the training part ends at the same place in bytes and in tokens
    local n
    n=$(number "$dir/p.tok" 24)
    { head -c $((96 + 2 * n)) "$dir/p.tok"; } >"$dir/train.tok"
    decode "$dir/train.tok" "$dir/p.tok.model" |
        cmp - <(bytes "$dir/b.tok" | head -c "$(number "$dir/b.tok" 24)")
}
check 'the training and held-out parts are the same as with byte tokens' split_holds
shorter() { [ "$(ids "$dir/p.tok" | wc -w)" -lt $(($(number "$dir/b.tok" 24) / 2)) ]; }
check 'there are fewer tokens than bytes' shorter
again() {
    cp -r "$dir/src" "$dir/copy" &&
        TMPDIR="$dir/t" bpe "$dir/again.tok" -j 3 "$dir/copy" &&
        cmp "$dir/p.tok" "$dir/again.tok" && cmp "$dir/p.tok.model" "$dir/again.tok.model" &&
        [ -z "$(ls -A "$dir/t")" ]
}
check 'the same files in another folder give the same bytes, and no temporary file remains' again
reuse() {
    "$corpus" -q --model "$dir/p.tok.model" -j 1 -o - "$dir/src" | cmp - "$dir/p.tok"
}
check 'an existing model can be used' reuse
ignoring() { # COMMAND...: runs it with SIGCHLD ignored, as some daemons do
    python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])' "$@"
}
check 'encoding works even if SIGCHLD is ignored' \
    ignoring "$corpus" -q --model "$dir/p.tok.model" -o "$dir/i.tok" "$dir/src"
sampled() {
    bpe "$dir/s.tok" --sample 200000 "$dir/src" &&
        ! cmp -s "$dir/s.tok.model" "$dir/p.tok.model" &&
        decode "$dir/s.tok" "$dir/s.tok.model" | cmp - <(bytes "$dir/b.tok")
}
check '--sample trains the BPE model on a part and encodes everything' sampled
batches() { # more text than one process gets: batches of two files and of one
    mkdir "$dir/big" && for i in 1 2 3; do
        yes "    for number_$i in range($i):  # argument" | head -n 60000 >"$dir/big/$i.py"
    done
    "$corpus" -q --model "$dir/p.tok.model" -j 2 -o "$dir/2.tok" "$dir/big" &&
        "$corpus" -q -o "$dir/b.tok" "$dir/big" &&
        decode "$dir/2.tok" "$dir/p.tok.model" | cmp - <(bytes "$dir/b.tok")
}
check 'the documents stay in order with several processes' batches

exits 'more pieces than the text has are refused' 3 'sentencepiece: .*too high' \
    "$corpus" --tokenizer bpe --vocab 50000 -o "$dir/x.tok" "$dir/src"
exits 'an empty sample is refused' 3 '--sample 1: ' \
    "$corpus" --tokenizer bpe --sample 1 -o "$dir/x.tok" "$dir/src"
exits 'fewer pieces than there are bytes are refused' 3 'sentencepiece: .*required_chars' \
    "$corpus" --tokenizer bpe --vocab 100 -o "$dir/x.tok" "$dir/src"
exits 'a file that is not a model is refused' 3 'not a sentencepiece model' \
    "$corpus" --model "$dir/src/white.py" -o "$dir/x.tok" "$dir/src"
head -c 2000 "$dir/p.tok.model" >"$dir/short.model"
exits 'a truncated model is refused' 3 'short.model: sentencepiece: ' \
    "$corpus" --model "$dir/short.model" -o "$dir/x.tok" "$dir/src"
exits 'a missing model is refused' 3 'nowhere: ' "$corpus" --model "$dir/nowhere" -o "$dir/x.tok" "$dir/src"
other() { # KEYWORDS: trains a model with options that differ from ours
    cat "$dir"/src/m*.py >"$dir/other.txt" && python -c "import sentencepiece
sentencepiece.SentencePieceTrainer.train(input='$dir/other.txt', minloglevel=2,
    model_prefix='$dir/other', model_type='bpe', vocab_size=350, $1)" >"$dir/log" 2>&1
}
other byte_fallback=True
exits 'a model that normalises is refused' 3 'other.model: does not keep the text of .*src/' \
    "$corpus" --model "$dir/other.model" -o "$dir/x.tok" "$dir/src"
other hard_vocab_limit=False
exits 'a model without byte fallback is refused' 3 'byte fallback' \
    "$corpus" --model "$dir/other.model" -o "$dir/x.tok" "$dir/src"
broken() { # NAME REGEX STATEMENT: runs the statement in an encoder, after it encoded `lines`
    fake "import os, sys, time
sys.path.remove('$dir/none')
this = sys.modules.pop('sentencepiece')
from sentencepiece import SentencePieceProcessor as Processor
sys.modules['sentencepiece'] = this
class SentencePieceProcessor(Processor):
    def encode(self, lines, **options):
        encoded = Processor.encode(self, lines, **options)
        $3
        return encoded"
    [ -z "$2" ] || exits "$1" 3 "$2" \
        faked --model "$dir/p.tok.model" -o "$dir/x.tok" "$dir/src"
}
broken 'a killed encoder is reported' 'sentencepiece: ended by signal 9' 'os.kill(os.getpid(), 9)'
broken 'a failing encoder is reported' 'sentencepiece: exit code 1: no luck' 'raise RuntimeError("no luck")'
broken 'an encoder that returns nothing is reported' 'does not keep the text' 'encoded = []'
broken 'an encoder that loses a token is reported' 'does not keep the text' 'encoded[0].pop()'
broken 'an encoder that confuses tab and newline is reported' 'does not keep the text' \
    'encoded = [[11 if i == 10 else i for i in line] for line in encoded]'
broken 'an encoder that returns too large an id is reported' 'does not keep the text' 'encoded[0][0] = 500'
broken 'an encoder that returns a negative id is reported' 'does not keep the text' 'encoded[0][0] = -1'
broken '' '' "open('$dir/pid', 'w').write(str(os.getpid())); time.sleep(1000)"
stopped() { # sends SIGTERM while a child process encodes
    PYTHONPATH=$dir/none TMPDIR="$dir/t" "$corpus" --model "$dir/p.tok.model" \
        -o "$dir/x.tok" "$dir/src" 2>"$dir/messages" &
    local pid=$!
    until_true test -s "$dir/pid"
    kill -TERM $pid
    wait $pid
    [ $? = 143 ] && grep -q 'stopped by signal 15' "$dir/messages" &&
        ! kill -0 "$(cat "$dir/pid")" 2>/dev/null
}
check 'SIGTERM ends entropy-corpus and its children' stopped
absent() { [ ! -e "$dir/x.tok" ] && [ ! -e "$dir/x.tok.model" ] && [ -z "$(ls -A "$dir/t")" ]; }
check 'a failure leaves no file behind' absent
finish
