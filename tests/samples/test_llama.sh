#!/usr/bin/env bash
# Tests samples/llama with a fake llama.cpp, whose attention is known: compares the
# recorded entropies with the expected logarithms, also with hidden cells, strides and
# faults.
set -uo pipefail
. tests/support/tap.sh
plan_dir

warnings='-Wall -Wextra -Wpedantic -Wconversion -Werror'
check 'the sample is compiled with the public header and a stub of llama.h' \
    ${CC:-gcc} -std=c11 -D_GNU_SOURCE $warnings -O1 -I. -I"$BUILD/include" \
    -Isamples/llama/stub \
    samples/llama/{main,attention}.c tests/samples/fake_llama.c -o "$dir/llama-entropy" \
    -L"$BUILD" -lentropyrecord -lm
export LD_LIBRARY_PATH=$BUILD ENTROPY_RECORDER=$BUILD/entropy-recorder
prompt='one two three four five six'
llama() { # FAULT: decodes six tokens, then one at a time until the end of the text
    rm -f "$dir/run.db"
    FAKE=$1 "$dir/llama-entropy" model.gguf "$dir/run.db" 7 "$prompt"
}
# recorded FAULT: prints the heads whose values differ from the expected values, and the
# number of heads.
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
    if fault == "padding":  # the last query of each four sees no cell
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
        # Allow a tolerance, because the entropy formula adds 1e-9 inside the logarithm.
        same = abs(float(got) - float(want)) < 1e-6 and abs(float(row[sink]) - first) < 1e-6
    if not same:
        print(step, layer, head, got, row[sink], "not", want, first)
print(seen, "heads")' "$1"
}
check 'a prompt and tokens are decoded' llama ''
same_text 'entropies and sinks equal the closed form' '48 heads' "$(recorded '')"
output 'the run has one sample for each batch until the end of the text' \
    '"status":"finished".*"step":3' "$BUILD/entropy-scan" "$dir/run.db" --json
same_text 'nothing is printed' '' "$(llama '' 2>&1)"

check 'a model with learnt sinks is decoded' llama sinks
same_text 'with sinks, entropies are computed over the cells alone' '48 heads' "$(recorded '')"
check 'a model with a head of NaN is decoded' llama nan
same_text 'only the head with NaN weights is NaN' '48 heads' "$(recorded nan)"
check 'a batch with a query that sees no cell is decoded' llama padding
same_text 'a query that sees no cell does not count; a batch without other queries is missing' '48 heads' \
    "$(recorded padding)"
for fault in half mask op; do
    said=$(llama $fault 2>&1)
    output "$fault: the tensor is refused by name" '^kq_soft_max-1: not recorded: the ' \
        echo "$said"
    same_text "$fault: only once" 1 "$(wc -l <<<"$said")"
    same_text "$fault: its layer is missing" '48 heads' "$(recorded $fault)"
done

exits 'more heads than the model has are refused' 3 \
    '^kq_soft_max-0: not recorded: the tensor has more heads' llama heads
exits 'flash attention, which stores no weights, is reported' 3 'is flash attention on' llama flash
exits 'a decoder that fails ends the program' 3 '^model.gguf: llama_decode failed$' llama decode
output 'earlier samples are in the file' '"status":"failed".*"step":0' \
    "$BUILD/entropy-scan" "$dir/run.db" --json
exits 'a missing model is reported' 3 '^missing.gguf: ' "$dir/llama-entropy" missing.gguf \
    "$dir/none.db" 1 text
exits 'a prompt without tokens is refused' 3 '^prompt: the prompt has no tokens' "$dir/llama-entropy" m.gguf \
    "$dir/none.db" 1 ' '
exits 'a run file that cannot be written is reported' 3 '^recorder: ' "$dir/llama-entropy" m.gguf \
    "$dir/no/run.db" 1 text
exits 'too few arguments are refused' 2 '^usage: ' "$dir/llama-entropy" m.gguf
exits 'a number with a letter in it is refused' 2 '^usage: ' "$dir/llama-entropy" m.gguf r.db 3x text
finish
