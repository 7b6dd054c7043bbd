#!/usr/bin/env bash
# No source of the CUDA back-end has a launch or a call of the runtime without a
# check of its result: planted into each, one is seen.
set -uo pipefail
. tests/support/tap.sh
plan_dir

sources=(hooks/trainer/cuda/*.cu hooks/trainer/cuda/*.h tests/emulation/*)
check 'nothing is launched or called without a check' \
    tests/gpu/launches.sh "${sources[@]}"

# SOURCE LINE: whether it is seen at the end of the source.
sees() {
    local copy
    copy=$dir/$(basename "$1")
    { cat "$1"; echo "$2"; } >"$copy"
    [ "$(tests/gpu/launches.sh "$copy" | wc -l)" -ge 1 ] ||
        { echo "not seen: $2"; return 1; }
}
sees_all() { # SOURCE
    local line
    for line in 'void f() { kernel<<<1, 32>>>(); }' \
        'void f() { kernel <<<1, 32, 0, stream>>>(x); }' \
        'void f() { cudaFree(0); }' \
        'void f() { if (x) cudaFree(0); }' \
        'void f() { if (x) y(); else cudaFree(0); }' \
        'void f() { for (;;) { cudaMemsetAsync(x, 0, 1, s); } }' \
        'void f() { x && cudaFree(0); }' \
        'void f() { cublasLtMatmul(x, y); }'; do
        sees "$1" "$line" || return 1
    done
}
for source in hooks/trainer/cuda/*.cu; do
    check "$(basename "$source"): what is planted is seen" sees_all "$source"
done
finish
