#!/usr/bin/env bash
# Plants one fault at a time in a copy of a source of the CUDA back-end, and
# expects the tests of this source's operations to fail on the emulation.
# needs: nvcc
set -uo pipefail
. tests/support/tap.sh
plan_dir

cuda=hooks/trainer/cuda
library=$BUILD/tests/libentropytrain_cuda_host.so
cxx=${CC:-gcc}
cxx=${cxx/%clang/clang++}
cxx=${cxx/%gcc/g++}
flags=(-std=c++17 -D_GNU_SOURCE -O0 -w -I. -fPIC -fvisibility=hidden
    -isystem "${CUDA_HOME:-/usr/local/cuda}/include")

# Lists the object files of the emulated library except the given one.
others() {
    find "$BUILD/obj/$cuda" "$BUILD/obj/tests/emulation" -name '*.o' ! -name "$1.o" \
        ! -name device.cu.o ! -name gemm.cu.o ! -name ranks.cu.o
}

# Succeeds if the test fails with the library that contains the fault. The test
# is ended at its first failure. A test that hangs because of the fault counts
# as failed.
fails() { # TEST [CASE]: CASE selects a part of the test
    local test
    : >"$dir/log" # discards the output of the previous test
    CMOCKA_TEST_FILTER=${2:+*__$2} CMOCKA_MESSAGE_OUTPUT=stdout \
        ENTROPY_TRAIN_CUDA=$dir/planted.so timeout -k 1 600 "$1" >"$dir/log" 2>&1 &
    test=$!
    while kill -0 $test 2>/dev/null; do
        ! grep -q '^\[  FAILED' "$dir/log" || { kill $test; break; }
        sleep 0.1
    done 2>/dev/null
    ! wait $test
}

# SOURCE FAULT TEST [CASE]: changes SOURCE by the sed script FAULT, and expects
# TEST to fail. In a slow test, only CASE is run, which finds the fault.
planted() {
    local source=$1 fault=$2 test=$BUILD/tests/$3 name
    name="a fault in $source is found: $fault"
    sed -E "$fault" "$cuda/$source" >"$dir/$source"
    if cmp -s "$cuda/$source" "$dir/$source"; then
        fail "$name" 'the fault changes nothing'
    elif ! $cxx "${flags[@]}" -x c++ -c -o "$dir/planted.o" "$dir/$source" ||
        ! $cxx "${flags[@]}" -shared -o "$dir/planted.so" "$dir/planted.o" \
            $(others "$source"); then
        fail "$name" 'the faulty source does not compile'
    elif fails "$test" "${4:-}"; then
        pass "$name"
    else
        fail "$name" "$(basename "$test") passes"
    fi
}

none() { skip 'planted faults are found' "$1"; finish; exit; }
# Links the library in the same way as a library with a planted fault, and expects the
# test to pass. This shows that a test with a planted fault does not fail merely because
# its library cannot be loaded.
passes() {
    $cxx "${flags[@]}" -shared -o "$dir/planted.so" $(others none) &&
        ! fails "$BUILD/tests/test_cuda_stride" &&
        grep -q '^\[  PASSED' "$dir/log" && ! grep -q 'SKIPPED' "$dir/log"
}
check 'a test passes without a planted fault' passes
planted linear.cu 's/beta = residual \? 1 : 0/beta = 0/' test_cuda_linear
planted linear.cu 's/min\(first \+ chunk_rows, n_rows\)/first + chunk_rows - 1/' \
    test_cuda_linear
planted linear.cu 's/product.lda = y_stride\(linear\)/product.lda = linear->n_out/' \
    test_cuda_stride
planted linear.cu 's/product.aux = pre/product.aux = post/' test_cuda_acts
planted linear.cu "s/(return how->kind == ES_ACT_GELU)_TANH/\1/" test_cuda_acts
planted linear.cu 's/product.epilogue = ES_GEMM_DGELU/(void)0/' test_cuda_acts
planted loss.cu 's/(A \*x = .*)l.stride/\1l.vocab/' test_cuda_stride
planted attention_exact.cu 's/call.flags\[mine\] != 0/false/' test_cuda_attention \
    nan_key_or_value
planted attention_exact.cu 's/es_mend_wanted\(/false \&\& es_mend_wanted(/' \
    test_cuda_attention infinite_query
planted attention_mma_backward.cu 's/OWN_FACTOR, true>/OWN_FACTOR, false>/' \
    test_cuda_attention recomputed_rows_have_their_gradients
planted attention.cu 's/dlog_t\[i\] -= sum/dlog_t[i] += sum/' test_cuda_attention \
    temperatures
planted residual.cu 's/es_drop_factors\(factors, \&mask, i\)/es_drop_factors(factors, \&mask, i + 1)/' \
    test_cuda_sums
planted attention_mma.cu '/es_cp_wait<1>/{n;s/__syncthreads..;//}' \
    test_cuda_attention any_order_of_threads
planted copies.cu 's/copy \+ at \* sizeof/copy + 0 * at * sizeof/' \
    test_cuda_backend
finish
