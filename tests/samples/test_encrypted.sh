#!/usr/bin/env bash
# Tests samples/encrypted: computes a layer with SEAL's CKKS at 128 bits of security and
# compares the result with plain arithmetic.
# needs: PyTorch
. tests/support/tap.sh
. tests/support/venv.sh
plan_dir
python_with 'seal, numpy' || { fail 'a layer under CKKS' "$no_modules"; finish; exit; }

sample=samples/encrypted
run() { "$python" $sample/attention.py "$@"; }
model() { # FOLDER ARCH: trains three layers with two heads on four tokens
    "$train" --arch "$2" --data "$dir/a.tok" --no-record --n-layer 3 --n-head 2 --d-model 8 \
        --ctx 4 --steps 30 --batch 8 --lr 1e-2 --checkpoint "$dir/$1"
}
mkdir "$dir/texts"
for i in $(seq 200); do
    printf 'def f%d(x):\n    return x * %d\n' $(seq "$i" $((i + 39))) >"$dir/texts/m$i.py"
done
check 'a corpus is made' "$corpus" -q -o "$dir/a.tok" "$dir/texts"
check 'a plain PowerSoftmax is trained' model plain 'PSM(2,1,plain)+LN+G'
check 'a stable PowerSoftmax is trained' model stable 'PSM(2)+LN+G'
plain=$(echo "$dir"/plain/*.safetensors)
stable=$(echo "$dir"/stable/*.safetensors)

check 'layer 1 is computed under encryption, at 128 bits' \
    run "$plain" --data "$dir/a.tok" --layer 1 --log-n 14 --factors 3 -o "$dir/p.json"
judge() { # NAME EXPRESSION of the profile: p, its output o, its errors by factors b
    "$python" -c "import json, sys
p = json.load(open(sys.argv[1]))
o, b = p.get('output'), p['by_factors']
print(p['k'], o, b)
sys.exit(not ($2))" "$dir/$1.json"
}
check 'the output is not zero' judge p "o['largest'] > 1e-4"
check 'the encrypted result equals the polynomial within the noise' \
    judge p "o['encrypted and polynomial']['max'] <= 1e-2 * o['largest']"
check 'the polynomial is near the exact form, but differs from it' \
    judge p "0 < o['polynomial and exact']['max'] <= 1e-2 * o['largest']"
check 'each factor reduces the error' \
    judge p "len(b) == 3 and b[0]['encrypted']['max'] > 3 * b[1]['encrypted']['max'] > 0"
check 'every stage is timed' judge p \
    "len({e['stage'] for e in p['profile']}) == 8 and all(e['seconds'] > 0 for e in p['profile'])"
check 'with --reencrypt a result without remaining levels is encrypted again' run "$plain" --data "$dir/a.tok" --layer 1 \
    --log-n 14 --factors 5 --bits 40 --reencrypt -o "$dir/r.json"
check 're-encryption is counted and gives the same result' judge r \
    "p['reencrypted'] > 0 and o['encrypted and exact']['max'] <= 1e-2 * o['largest']"
check 'the inverse alone is computed' run "$plain" --data "$dir/a.tok" --log-n 14 --factors 6 --inverse \
    -o "$dir/i.json"
check 'the inverse equals 1 / x' judge i "b[-1]['encrypted']['max'] <= 1e-3"
check 'the time is drawn' "$python" $sample/draw.py time "$dir/p.json" -o "$dir/t.svg"
check 'the error is drawn' \
    "$python" $sample/draw.py error "a=$dir/p.json" "$dir/i.json" -o "$dir/e.svg"
check 'both figures are XML' "$python" -c 'import sys, xml.dom.minidom as x; [x.parse(p) for p in sys.argv[1:]]' \
    "$dir/t.svg" "$dir/e.svg"

exits 'the stable form is refused' 1 'is not a polynomial' run "$stable" --data "$dir/a.tok" -o "$dir/x.json"
exits 'more levels than are secure are refused' 1 'within 128 bits of security, 40 are needed' \
    run "$plain" --data "$dir/a.tok" --log-n 14 --factors 35 -o "$dir/x.json"
exits 'a layer that does not exist is refused' 1 'contains no layer 3' \
    run "$plain" --data "$dir/a.tok" --layer 3 -o "$dir/x.json"
exits 'a file that is not a token file is refused' 1 'not a token file' \
    run "$plain" --data "$plain" -o "$dir/x.json"
check 'a refusal writes nothing' test ! -e "$dir/x.json"
finish
