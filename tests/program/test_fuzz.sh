#!/usr/bin/env bash
# Every fuzz target, a fixed number of inputs from a fixed seed: that the
# targets work, and that nothing breaks which has broken easily. `make fuzz`
# looks for longer.
. tests/support/tap.sh
plan_dir
compiler=${FUZZ_CC:-clang}

# NAME:INPUTS, about a third of a second each.
inputs='arch:10000 fragment:150 import:1000 npy:3000 reader:400 rules:5000 safetensors:2000 scan:250
    settings:2000 text:10000 tokens:2000'

none() { skip 'fuzz targets' "$1"; finish; exit 0; }

echo 'int LLVMFuzzerTestOneInput(const char *b, unsigned long n);
    int LLVMFuzzerTestOneInput(const char *b, unsigned long n)
    { return b == (void *)&n; }' >"$dir/probe.c"
$compiler -fsanitize=fuzzer,address,undefined -o "$dir/probe" "$dir/probe.c" \
    2>/dev/null || none "no $compiler with libFuzzer: install clang"

build() { # not with the settings of a make around this test; few inputs: to
    # compile takes longer than they do
    env -u MAKEFLAGS make -s -j"$(nproc)" fuzzers BUILD="$BUILD" \
        FUZZ_CC="$compiler" FUZZ_OPTIMISE='-O0 -gline-tables-only' LINKER=gold
}
check 'the targets build' build
nothing_breaks() { # NAME INPUTS
    BUILD=$BUILD/fuzz ONLY=$1 CORPUS=$dir/corpus \
        tests/fuzz/run.sh -seed=1 -runs="$2"
}
for pair in $inputs; do
    check "fuzz_${pair%:*}: ${pair#*:} inputs, nothing broken" \
        nothing_breaks "${pair%:*}" "${pair#*:}"
done
every_target() {
    for source in tests/fuzz/fuzz_*.c; do
        target=$(basename "$source" .c)
        grep -q "${target#fuzz_}:" <<<"$inputs" ||
            { echo "not run: $target"; return 1; }
    done
}
check 'every target is run' every_target
finish
