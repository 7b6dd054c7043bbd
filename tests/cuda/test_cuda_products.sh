#!/usr/bin/env bash
# Checks the calls of cuBLASLt in gemm.cu with tests/gpu/products.cc. The calls
# must be permitted by cuBLASLt's documentation, and the products must be those
# that gemm.h defines. Also plants faults in a copy of gemm.cu, which must be
# found.
# needs: nvcc
set -uo pipefail
. tests/support/tap.sh
plan_dir

cxx=${CC:-gcc}
cxx=${cxx/%clang/clang++}
cxx=${cxx/%gcc/g++}
flags=(-std=c++17 -D_GNU_SOURCE -O1 -g1
    -isystem "${CUDA_HOME:-/usr/local/cuda}/include")
choices=(-x c++ hooks/trainer/cuda/choices.cu)
warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
# Compiles the code that does not depend on the planted fault only once, since
# this takes half of the time.
compile_shared() {
    printf '#include <%s>\n' math.h stdio.h cuda_{bf16,fp16,runtime}.h >"$dir/common.h" &&
        $cxx "${flags[@]}" -w -x c++-header -o "$dir/common.h.gch" "$dir/common.h" &&
        $cxx "${flags[@]}" -w -I. -c -o "$dir/choices.o" "${choices[@]}"
}

planted() { # FAULT: a sed script for gemm.cu
    local name="a fault is found: $1" copy=$dir/hooks/trainer/cuda/gemm.cu
    mkdir -p "${copy%/*}"
    sed -E "$1" hooks/trainer/cuda/gemm.cu >"$copy"
    if cmp -s hooks/trainer/cuda/gemm.cu "$copy"; then
        fail "$name" 'the fault changes nothing'
    elif ! $cxx "${flags[@]}" -w -include "$dir/common.h" -I"$dir" -I. -o "$dir/planted" \
        tests/gpu/products.cc "$dir/choices.o"; then
        fail "$name" 'the faulty source does not compile'
    elif timeout 300 "$dir/planted" "$dir" >"$dir/log" 2>&1; then
        fail "$name" 'all tests pass'
    else
        pass "$name"
    fi
}

check 'gemm.cu compiles without a device' $cxx "${flags[@]}" \
    "${warnings[@]}" -I. -o "$dir/products" tests/gpu/products.cc "${choices[@]}"
[ -e "$dir/products" ] || { finish; exit; }
"$dir/products" "$dir" >"$dir/out" 2>"$dir/err"
while read -r verdict name; do
    check "$name" [ "$verdict $(head -1 "$dir/err")" = 'ok ' ]
done <"$dir/out"
check 'all tests run' [ "$(wc -l <"$dir/out")" = 15 ]

check 'the code that does not depend on the fault compiles' compile_shared
planted 's/(first = )s->b_transposed/\1s->a_transposed/'
planted 's/transposed \? rows : columns/transposed ? columns : rows/'
planted 's/(stride = )s->ldd/\1s->n/'
planted 's/(const void \*c = ).*/\1product->d;/'
planted 's/(biased = )s->align_bias != 0/\1false/'
planted 's/return CUBLASLT_EPILOGUE_DGELU/return CUBLASLT_EPILOGUE_GELU_AUX/'
planted 's/\(status = set_pointers\(added, product\)\) \|\|//'
planted 's/(s.align_aux = ).*/\116;/'
planted 's/s.align_b = .*/s.align_b = BEST_ALIGNMENT;/'
planted 's/CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE/CUBLASLT_REDUCTION_SCHEME_MASK/'
planted 's/found\[i\].state == CUBLAS_STATUS_SUCCESS/true/'
planted 's/if \(refused \|\| /if (/'
planted 's/apart \? apart : product->d/product->d/'
planted 's/\&\& !es_device_captures\(device\)//'
planted 's/found < p->n_candidates/true/'
planted 's/(is_refusal\(status\)) \&\& is_dispensable/false \&\& is_dispensable/'
planted 's/major == 9/major >= 8/'
planted 's/: !p->n_candidates/: p->n_candidates/'
finish
