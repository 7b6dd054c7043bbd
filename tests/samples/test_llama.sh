#!/usr/bin/env bash
# samples/llama with a fake of llama.cpp, whose attention is known: what it
# records is compared with logarithms; hidden cells, strides, faults.
set -uo pipefail
. tests/support/tap.sh
plan_dir

warnings='-Wall -Wextra -Wpedantic -Wconversion -Werror'
check 'it is compiled with the public header and a stub of llama.h' \
    ${CC:-gcc} -std=c11 -D_GNU_SOURCE $warnings -O1 -I. -I"$BUILD/include" \
    -Isamples/llama/stub \
    samples/llama/{main,attention}.c tests/samples/fake_llama.c -o "$dir/llama-entropy" \
    -L"$BUILD" -lentropyrecord -lm
export LD_LIBRARY_PATH=$BUILD ENTROPY_RECORDER=$BUILD/entropy-recorder
prompt='one two three four five six'
llama() { # FAULT: six tokens, then as many as one by one until the end
    rm -f "$dir/run.db"
    FAKE=$1 "$dir/llama-entropy" model.gguf "$dir/run.db" 7 "$prompt"
}
# Prints what is not as it should be: FAULT, then layers and heads by an expression
# of l, h that are missing or NaN.
recorded() {
    "$BUILD/entropy-scan" export "$dir/run.db" -o - 2>&1 | python3 -c '
import csv, math, sys
fault = sys.argv[1]
rows = list(csv.DictReader(line for line in sys.stdin if line[0] != "#"))
steps = [range(0, 6), range(6, 7), range(7, 8), range(8, 9)]
column = next(name for name in rows[0] if name.endswith("entropy")) if rows else ""
sink = next(name for name in rows[0] if name.endswith("sink")) if rows else ""
seen = 0
for row in rows:
    if not row["head"] or not row["layer"]:
        continue
    step, layer, head = int(row["step"]), int(row["layer"]), int(row["head"])
    positions = list(steps[step])
    if fault == "padding":  # the last query of each four is hidden from all
        positions = [p for p in positions if p not in (3, 5, 6, 7, 8)]
    wide = [min(1 + 4 * layer + head, p + 1) for p in positions]
    want = repr(sum(math.log(n) for n in wide) / len(wide)) if wide else "NA"
    first = sum((n == p + 1) / n for n, p in zip(wide, positions)) / len(wide) if wide else 0
    if fault in ("half", "mask", "op") and layer == 1 or not wide:
        want = "NA"
    if fault == "nan" and (layer, head) == (2, 3):
        want = "NaN"
    got = row[column]
    seen += 1
    if want in ("NA", "NaN"):
        same = got == want == row[sink]
    else:
        # the formula adds 1e-9 within the logarithm
        same = abs(float(got) - float(want)) < 1e-6 and abs(float(row[sink]) - first) < 1e-6
    if not same:
        print(step, layer, head, got, row[sink], "not", want, first)
print(seen, "heads")' "$1"
}
check 'a prompt and tokens are decoded' llama ''
same_text 'entropies and sinks are those of the closed form' '48 heads' "$(recorded '')"
output 'the run is whole: one sample a batch, until the end of the text' \
    '"status":"finished".*"step":3' "$BUILD/entropy-scan" "$dir/run.db" --json
same_text 'nothing was said' '' "$(llama '' 2>&1)"

check 'learnt sinks' llama sinks
same_text 'leave the entropy over the cells' '48 heads' "$(recorded '')"
check 'a head of NaN' llama nan
same_text 'is NaN, and no other is' '48 heads' "$(recorded nan)"
check 'a query that sees no cell' llama padding
same_text 'does not count, alone it is missing' '48 heads' "$(recorded padding)"
for fault in half mask op; do
    said=$(llama $fault 2>&1)
    output "$fault: it is refused once, by name" '^kq_soft_max-1: not recorded: it' \
        echo "$said"
    same_text "$fault: once" 1 "$(wc -l <<<"$said")"
    same_text "$fault: its layer is missing" '48 heads' "$(recorded $fault)"
done

exits 'more heads than the model has are no crash' 3 \
    '^kq_soft_max-0: not recorded: it has more heads' llama heads
exits 'flash attention shows nothing, which is said' 3 'is flash attention on' llama flash
exits 'a decoder that fails ends it' 3 '^model.gguf: llama_decode failed$' llama decode
output 'what was recorded before is there' '"status":"failed".*"step":0' \
    "$BUILD/entropy-scan" "$dir/run.db" --json
exits 'a model that is not there' 3 '^missing.gguf: ' "$dir/llama-entropy" missing.gguf \
    "$dir/none.db" 1 text
exits 'a prompt without tokens' 3 '^prompt: it has no tokens' "$dir/llama-entropy" m.gguf \
    "$dir/none.db" 1 ' '
exits 'a run file that cannot be written' 3 '^recorder: ' "$dir/llama-entropy" m.gguf \
    "$dir/no/run.db" 1 text
exits 'too few arguments' 2 '^usage: ' "$dir/llama-entropy" m.gguf
exits 'a number with a letter in it' 2 '^usage: ' "$dir/llama-entropy" m.gguf r.db 3x text
finish
