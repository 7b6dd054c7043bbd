#!/usr/bin/env bash
# entropy-corpus --tokenizer bpe: no byte is lost, the same files give the same
# tokens; --ids packs what other tokenizers made; both train.
. tests/support/tap.sh
plan_dir
python() { /usr/bin/python3 "$@"; } # the one that Debian's modules are of

number() { od -An -tu8 -j"$2" -N8 "$1" | tr -d ' '; }
field() { od -An -tu4 -j"$2" -N4 "$1" | tr -d ' '; }
tokenizer() { head -c 88 "$1" | tail -c 32 | tr -d '\0'; }
ids() { od -An -v -w2 -tu2 -j96 "$1" | tr -d ' ' | tr '\n' ' '; echo; }
bytes() { tail -c +97 "$1"; }

# --- ids made elsewhere ----------------------------------------------------

pack() { "$corpus" -q --ids "$@" -o "$dir/ids.tok"; }
packs() { # VOCAB BYTES: 640 ids, of which 20 are held out
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
check 'ids of a vocabulary of 640: 2 bytes each' packs 640 2
check 'ids of a vocabulary of 65536: 2 bytes each' packs 65536 2
check 'ids of a vocabulary of 65537: 4 bytes each' packs 65537 4
narrow() {
    echo '0 255 7' >"$dir/ids" && pack "$dir/ids" --vocab 256 --held-out 100 &&
        [ "$(field "$dir/ids.tok" 16)" = 1 ] && [ "$(number "$dir/ids.tok" 32)" = 3 ] &&
        [ "$(tokenizer "$dir/ids.tok")" = ids ] &&
        bytes "$dir/ids.tok" | cmp - <(printf '\0\377\7')
}
check 'ids of a vocabulary of 256: 1 byte each; all held out' narrow
piped() { seq 0 99 | "$corpus" -q --ids - --vocab 100 -o - | cmp -s -n 8 - <(printf ESTOKENS); }
check 'ids by a pipe' piped
check 'ids by a pipe with a name' pack <(sleep 0.1; seq 0 99) --vocab 100
mkfifo "$dir/fifo"
exits 'a FIFO that nobody writes' 3 'fifo: a FIFO that nobody writes' \
    timeout 60 "$corpus" -q --ids "$dir/fifo" --vocab 100 -o "$dir/x.tok"
refuses() { # NAME REGEX TEXT
    printf "$3" >"$dir/ids"
    rm -f "$dir/ids.tok"
    exits "$1" 3 "$2" "$corpus" -q --ids "$dir/ids" --vocab 50257 -o "$dir/ids.tok"
    check "$1: no file" test ! -e "$dir/ids.tok"
}
refuses 'an id outside the vocabulary' 'ids:2: an id is not below --vocab 50257' '1 2\n50257\n'
refuses 'an id that no number holds' 'ids:1: an id' '99999999999999999999999999\n'
refuses 'a negative id' 'ids:1: not a list' '4 -3\n'
refuses 'a fraction' 'ids:3: not a list' '1\n2\n3.5\n'
refuses 'a list of another language' 'ids:1: not a list' '[1, 2, 3]'
refuses 'bytes that are no text' 'ids:1: not a list' '\001\377\0'
refuses 'no ids at all' 'no token ids' ' \n\n'
exits 'ids without a vocabulary' 2 '--vocab N' "$corpus" --ids "$dir/ids" -o "$dir/x.tok"
exits 'ids and a directory' 2 'no directory' "$corpus" --ids "$dir/ids" --vocab 9 -o "$dir/x.tok" .
exits 'ids and a model' 2 '--model: not with' "$corpus" --ids "$dir/ids" --model m -o "$dir/x.tok"
exits 'no such list' 3 'nowhere' "$corpus" --ids "$dir/nowhere" --vocab 9 -o "$dir/x.tok"
exits 'a directory is no list' 3 . "$corpus" --ids "$dir" --vocab 9 -o "$dir/x.tok"
exits 'a name of 32 bytes' 2 'tokenizer-name' "$corpus" --ids "$dir/ids" --vocab 9 \
    --tokenizer-name 12345678901234567890123456789012 -o "$dir/x.tok"
exits 'more held out than there is' 2 'held-out' "$corpus" --ids "$dir/ids" --vocab 9 \
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
exits 'a token file of another vocabulary is refused' 2 'vocabulary is 70001, not the 50257' \
    "$train" --arch SM --data "$dir/ids.tok" --out "$dir/x.db" --vocab 50257 \
    --n-layer 1 --n-head 1 --d-model 8 --ctx 16 --steps 3
"$train" --quiet --arch SM --data "$dir/ids.tok" --out "$dir/c.db" --checkpoint "$dir/ck" \
    --n-layer 1 --n-head 1 --d-model 8 --ctx 16 --batch 2 --steps 1 --threads 1
seq 0 1999 >"$dir/ids"
pack "$dir/ids" --vocab 50257
exits 'a checkpoint of another vocabulary goes not on' 2 'vocabulary is 50257, not the 70001' \
    "$train" --data "$dir/ids.tok" --out "$dir/c.db" --resume "$dir/ck" --steps 2
exits 'nor starts a training' 2 'vocabulary is 50257, that of the weights .* is 70001' \
    "$train" --arch SM --data "$dir/ids.tok" --out "$dir/x.db" --init "$dir"/ck/*.safetensors \
    --n-layer 1 --n-head 1 --d-model 8 --ctx 16 --steps 1
exits 'nor is probed' 2 'vocabulary is 50257, that of the weights .* is 70001' \
    "$train" probe "$dir"/ck/*.safetensors --data "$dir/ids.tok" --out "$dir/x.db"

# --- byte pairs ------------------------------------------------------------

exits 'an unknown tokenizer' 2 'bytes or bpe' "$corpus" --tokenizer words -o "$dir/x.tok" .
exits 'a vocabulary for bytes' 2 'only with --tokenizer bpe' "$corpus" --vocab 9 -o "$dir/x.tok" .
exits 'a model and a size for it' 2 'trained already' "$corpus" --model m --vocab 9 -o "$dir/x.tok" .
exits 'a name for ids alone' 2 'only with --ids' "$corpus" --tokenizer-name x -o "$dir/x.tok" .
exits 'no place for the model' 2 'give -o FILE' "$corpus" --tokenizer bpe -o - .

mkdir "$dir/src" "$dir/none"
for i in $(seq 60); do
    printf 'def function_%d(argument):\n    """Number %d."""\n' "$i" $((i * 77)) 
    printf '    for number in range(%d):\n        print(number,  argument)\n\n' "$i"
done | split -l 9 --additional-suffix=.py - "$dir/src/m"
fake() { # PYTHON: the module that is found in place of sentencepiece
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

# What gets lost easily: tabs, spaces at both ends, blank lines, other line
# ends, no newline at the end, what Unicode would fold, U+2581 which stands for
# a space in models, U+2585 and <unk> which they reserve, a very long line.
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
check 'trains a model and encodes' bpe "$dir/p.tok" "$dir/src"
check 'what is not UTF-8 is left out and counted' grep -q ' 2 not UTF-8' "$dir/messages"
named() {
    [ "$(field "$dir/p.tok" 12)" = 500 ] && [ "$(field "$dir/p.tok" 16)" = 2 ] &&
        tokenizer "$dir/p.tok" | grep -qxE 'sentencepiece 500 [0-9a-f]{8}'
}
check 'the token file says of which model its tokens are' named
decode() { # TOKENS MODEL: the text of the tokens
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
split_holds() { # where the training part ends in bytes and in tokens
    local n
    n=$(number "$dir/p.tok" 24)
    { head -c $((96 + 2 * n)) "$dir/p.tok"; } >"$dir/train.tok"
    decode "$dir/train.tok" "$dir/p.tok.model" |
        cmp - <(bytes "$dir/b.tok" | head -c "$(number "$dir/b.tok" 24)")
}
check 'the parts are those of the bytes' split_holds
shorter() { [ "$(ids "$dir/p.tok" | wc -w)" -lt $(($(number "$dir/b.tok" 24) / 2)) ]; }
check 'there are fewer tokens than bytes' shorter
again() {
    cp -r "$dir/src" "$dir/copy" &&
        TMPDIR="$dir/t" bpe "$dir/again.tok" -j 3 "$dir/copy" &&
        cmp "$dir/p.tok" "$dir/again.tok" && cmp "$dir/p.tok.model" "$dir/again.tok.model" &&
        [ -z "$(ls -A "$dir/t")" ]
}
check 'again elsewhere: the same bytes, no temporary file stays' again
reuse() {
    "$corpus" -q --model "$dir/p.tok.model" -j 1 -o - "$dir/src" | cmp - "$dir/p.tok"
}
check 'a model that is there is used' reuse
ignoring() { # COMMAND...: as some daemons start theirs
    python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])' "$@"
}
check 'so it is where ends of children are ignored' \
    ignoring "$corpus" -q --model "$dir/p.tok.model" -o "$dir/i.tok" "$dir/src"
sampled() {
    bpe "$dir/s.tok" --sample 200000 "$dir/src" &&
        ! cmp -s "$dir/s.tok.model" "$dir/p.tok.model" &&
        decode "$dir/s.tok" "$dir/s.tok.model" | cmp - <(bytes "$dir/b.tok")
}
check '--sample: a model of a part, tokens of the whole' sampled
batches() { # more text than one process gets: two files, then one, in the same order
    mkdir "$dir/big" && for i in 1 2 3; do
        yes "    for number_$i in range($i):  # argument" | head -n 60000 >"$dir/big/$i.py"
    done
    "$corpus" -q --model "$dir/p.tok.model" -j 2 -o "$dir/2.tok" "$dir/big" &&
        "$corpus" -q -o "$dir/b.tok" "$dir/big" &&
        decode "$dir/2.tok" "$dir/p.tok.model" | cmp - <(bytes "$dir/b.tok")
}
check 'several processes: the documents stay in order' batches

exits 'more pieces than the text has' 3 'sentencepiece: .*too high' \
    "$corpus" --tokenizer bpe --vocab 50000 -o "$dir/x.tok" "$dir/src"
exits 'a sample of nothing' 3 '--sample 1: ' \
    "$corpus" --tokenizer bpe --sample 1 -o "$dir/x.tok" "$dir/src"
exits 'fewer pieces than the bytes' 3 'sentencepiece: .*required_chars' \
    "$corpus" --tokenizer bpe --vocab 100 -o "$dir/x.tok" "$dir/src"
exits 'a file that is no model is refused' 3 'not a sentencepiece model' \
    "$corpus" --model "$dir/src/white.py" -o "$dir/x.tok" "$dir/src"
head -c 2000 "$dir/p.tok.model" >"$dir/short.model"
exits 'a model cut short' 3 'short.model: sentencepiece: ' \
    "$corpus" --model "$dir/short.model" -o "$dir/x.tok" "$dir/src"
exits 'no such model' 3 'nowhere: ' "$corpus" --model "$dir/nowhere" -o "$dir/x.tok" "$dir/src"
other() { # KEYWORDS: a model with other options than ours
    cat "$dir"/src/m*.py >"$dir/other.txt" && python -c "import sentencepiece
sentencepiece.SentencePieceTrainer.train(input='$dir/other.txt', minloglevel=2,
    model_prefix='$dir/other', model_type='bpe', vocab_size=350, $1)" >"$dir/log" 2>&1
}
other byte_fallback=True
exits 'a model that normalises' 3 'other.model: does not keep the text of .*src/' \
    "$corpus" --model "$dir/other.model" -o "$dir/x.tok" "$dir/src"
other hard_vocab_limit=False
exits 'a model without bytes' 3 'byte fallback' \
    "$corpus" --model "$dir/other.model" -o "$dir/x.tok" "$dir/src"
broken() { # NAME REGEX STATEMENT: an encoder that fails; it encodes `lines`
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
broken 'an encoder that is killed' 'sentencepiece: ended by signal 9' 'os.kill(os.getpid(), 9)'
broken 'an encoder that fails' 'sentencepiece: exit code 1: no luck' 'raise RuntimeError("no luck")'
broken 'an encoder that says nothing' 'does not keep the text' 'encoded = []'
broken 'an encoder that loses a token' 'does not keep the text' 'encoded[0].pop()'
broken 'an encoder that takes a tab for a newline' 'does not keep the text' \
    'encoded = [[11 if i == 10 else i for i in line] for line in encoded]'
broken 'an encoder that says too large an id' 'does not keep the text' 'encoded[0][0] = 500'
broken 'an encoder that says a negative id' 'does not keep the text' 'encoded[0][0] = -1'
broken '' '' "open('$dir/pid', 'w').write(str(os.getpid())); time.sleep(1000)"
stopped() { # SIGTERM while a process encodes: it ends, too
    PYTHONPATH=$dir/none TMPDIR="$dir/t" "$corpus" --model "$dir/p.tok.model" \
        -o "$dir/x.tok" "$dir/src" 2>"$dir/messages" &
    local pid=$!
    until_true test -s "$dir/pid"
    kill -TERM $pid
    wait $pid
    [ $? = 143 ] && grep -q 'stopped by signal 15' "$dir/messages" &&
        ! kill -0 "$(cat "$dir/pid")" 2>/dev/null
}
check 'SIGTERM ends it and its children' stopped
absent() { [ ! -e "$dir/x.tok" ] && [ ! -e "$dir/x.tok.model" ] && [ -z "$(ls -A "$dir/t")" ]; }
check 'a failure leaves no file behind' absent
finish
