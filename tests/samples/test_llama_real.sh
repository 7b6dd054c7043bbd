#!/usr/bin/env bash
# Tests samples/llama with the real llama.cpp, if LLAMA_CPP=DIR is its built source
# tree: runs a model with random weights and compares its attention with the attention
# that NumPy computes (llama_model.py). PYTHON must have numpy and gguf. PyPI has the
# sources, in vendor/llama.cpp of
#     pip download --no-deps --no-binary :all: llama-cpp-python  # needs scikit-build-core
# and this builds the library in DIR, in ten minutes on one core:
#     cmake -B b -DBUILD_SHARED_LIBS=ON -DLLAMA_BUILD_{TESTS,TOOLS,EXAMPLES,SERVER}=OFF \
#         -DLLAMA_BUILD_COMMON=OFF && cmake --build b --target llama
set -uo pipefail
. tests/support/tap.sh
plan_dir
python=${PYTHON:-python3}
absent() { skip 'llama.cpp itself' "$1"; finish; exit; }
[ -e "${LLAMA_CPP-}/include/llama.h" ] || absent 'LLAMA_CPP=DIR names no llama.cpp'
"$python" -c 'import gguf, numpy' 2>/dev/null ||
    absent "$python: no gguf: pip install gguf"

check 'the sample is compiled with the headers of llama.cpp' \
    ${CC:-gcc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 -I. -I"$BUILD/include" \
    -isystem "$LLAMA_CPP/include" \
    -isystem "$LLAMA_CPP/ggml/include" \
    samples/llama/{main,attention}.c -o "$dir/llama-entropy" -L"$LLAMA_CPP/b/bin" \
    -lllama -lggml -lggml-base -L"$BUILD" -lentropyrecord -lm
export LD_LIBRARY_PATH=$LLAMA_CPP/b/bin:$BUILD ENTROPY_RECORDER=$BUILD/entropy-recorder
prompt='Once upon a time'
check 'a model with random weights is written' sh -c \
    '"$1" tests/samples/llama_model.py "$2/m.gguf" "$3" 3 >"$2/want.csv"' \
    sh "$python" "$dir" "$prompt"
check 'a prompt and three tokens are decoded' \
    "$dir/llama-entropy" "$dir/m.gguf" "$dir/run.db" 3 "$prompt"
"$BUILD/entropy-scan" export "$dir/run.db" -o "$dir/got.csv"
same_text 'entropies and sinks equal those of NumPy' '48 heads' "$("$python" -c '
import csv, sys
def rows(path):
    with open(path) as file:
        for row in csv.DictReader(line for line in file if line[0] != "#"):
            place = row["step"], row["layer"], row["head"]
            by_name = {name.split(":")[-1]: value for name, value in row.items()}
            yield place, [float(by_name[name]) for name in ("entropy", "sink")]
want, got = dict(rows(sys.argv[1])), dict(rows(sys.argv[2]))
for place, values in want.items():
    # Allow a tolerance, because keys in the cache and their products are float16.
    if not all(abs(a - b) <= 5e-5 for a, b in zip(values, got[place], strict=True)):
        print(*place, *values, "not", *got[place])
print(len(got), "heads")' "$dir/want.csv" "$dir/got.csv")"
finish
