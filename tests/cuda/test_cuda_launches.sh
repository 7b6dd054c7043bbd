#!/usr/bin/env bash
# Checks in the sources of the CUDA back-end that the result of every launch
# and of every call of the CUDA runtime is checked. Plants an unchecked call in
# a copy of each source and expects the check to find it.
set -uo pipefail
. tests/support/tap.sh
plan_dir

sources=(hooks/trainer/cuda/*.cu hooks/trainer/cuda/*.h tests/emulation/*)
check 'every launch and every call is checked' \
    tests/gpu/launches.sh "${sources[@]}"

planted=('void f() { kernel<<<1, 32>>>(); }'
    'void f() { kernel <<<1, 32, 0, stream>>>(x); }'
    'void f() { cudaFree(0); }'
    'void f() { if (x) cudaFree(0); }'
    'void f() { if (x) y(); else cudaFree(0); }'
    'void f() { for (;;) { cudaMemsetAsync(x, 0, 1, s); } }'
    'void f() { x && cudaFree(0); }'
    'void f() { cublasLtMatmul(x, y); }'
    '__global__ void f(int *x) { *x = 1; es_begin_kernel(); }')
sees_all() { # SOURCE: appends each line of `planted` to a copy of SOURCE
    local copy line n
    copy=$dir/$(basename "$1")
    { cat "$1"; printf '%s\n' "${planted[@]}"; } >"$copy"
    tests/gpu/launches.sh "$copy" >"$dir/seen"
    n=$(wc -l <"$1")
    for line in "${planted[@]}"; do
        n=$((n + 1))
        grep -q "^$copy:$n: " "$dir/seen" || { echo "not found: $line"; return 1; }
    done
}
for source in hooks/trainer/cuda/*.cu; do
    check "$(basename "$source"): a planted unchecked call is found" sees_all "$source"
done
finish
