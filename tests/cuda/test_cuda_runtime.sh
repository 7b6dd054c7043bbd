#!/usr/bin/env bash
# Tests the host code of the CUDA back-end. Links all object files of the
# back-end with a fake CUDA runtime (tests/gpu/fake_runtime.c), and checks
# which devices the back-end refuses, how it handles each call that fails, and
# whether a device could accept its launches. Also tests the real library on a
# machine without a driver.
# needs: nvcc
set -uo pipefail
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
read -ra cc <<<"${CC:-gcc}"
train=$BUILD/entropy-train
library=$BUILD/libentropytrain_cuda.so

own_corpus "$dir/corpus.tok" || exit 1
query() { sqlite3 "$1" "$2"; }

export ENTROPY_TRAIN_TUNING=off
run() { # LIBRARY BACKEND FAULT [OPTION...]: sets $outcome, writes $dir/err and $dir/run.db
    rm -f "$dir"/run.db* "$dir/err" "$dir/choices"
    FAKE_CUDA=$3 ENTROPY_TRAIN_CUDA=$1 timeout -k 1 300 "$train" -q \
        --backend "$2" --arch SM+LN+G --n-layer 2 --n-head 2 --d-model 16 \
        --ctx 8 --batch 2 --steps 5 --record-every 1 --eval-every 2 \
        --eval-batches 1 --threads 1 --seed 7 --data "$dir/corpus.tok" \
        -o "$dir/run.db" "${@:4}" >"$dir/out" 2>"$dir/err" </dev/null
    outcome=$?
}

# Succeeds if the run printed a single warning with this text, used the CPU and
# finished.
fell_back() {
    [ $outcome = 0 ] && [ "$(wc -l <"$dir/err")" = 1 ] &&
        grep -q "^entropy-train: warning: using the CPU: $1" "$dir/err" &&
        [ "$(query "$dir/run.db" "SELECT status || ' ' ||
            json_extract(config, '\$.backend') FROM run")" = 'finished cpu' ] ||
        { echo "exit $outcome: $(cat "$dir/err")"; return 1; }
}
refused() {
    [ $outcome = 3 ] && [ "$(wc -l <"$dir/err")" = 1 ] && [ ! -e "$dir/run.db" ] &&
        grep -qE "^entropy-train: $1" "$dir/err" ||
        { echo "exit $outcome: $(cat "$dir/err")"; return 1; }
}

# --- the library itself ------------------------------------------------------

run "$library" cuda ''
if grep -qE 'CUDA: (no driver|no device|the driver supports)' "$dir/err"; then
    check 'without a device, training fails before a run file is created' refused 'CUDA: '
    run "$library" auto ''
    check 'without a device, auto uses the CPU, with one warning' fell_back 'CUDA: '
else
    skip 'without a device, training fails, and auto uses the CPU' 'there is a GPU'
fi
: >"$dir/empty.c"
"${cc[@]}" -shared -fPIC -o "$dir/libneeded.so" "$dir/empty.c"
"${cc[@]}" -shared -fPIC -Wl,--no-as-needed -o "$dir/needs.so" "$dir/empty.c" \
    -L"$dir" -lneeded
rm "$dir/libneeded.so"
run "$dir/needs.so" cuda ''
check 'a library with a missing dependency is refused' \
    refused '.*needs.so: libneeded.so: cannot open shared object.*: back-end cuda is not available$'
run "$dir/needs.so" auto ''
check 'auto uses the CPU if the library has a missing dependency' fell_back '.*needs.so: libneeded.so: '

# --- on a fake runtime --------------------------------------------------------

fake=$dir/fake.so
objects=(build/cuda/hooks/trainer/cuda/*.cu.o)
check 'the object files can be linked with the fake runtime' "${cc[@]}" -std=c11 \
    -D_GNU_SOURCE -Wall -Wextra -Werror -g -O1 -fPIC -shared \
    -isystem "${CUDA_HOME:-/usr/local/cuda}/include" \
    -o "$fake" tests/gpu/fake_runtime.c "${objects[@]}" -lstdc++
[ -e "$fake" ] || { finish; exit; }

run "$fake" cuda ''
check 'a training run releases all resources' \
    [ "$outcome $(cat "$dir/err")" = '0 ' ]
[ $outcome = 0 ] || { finish; exit; } # the following tests expect that runs without a fault finish

# The first step runs, the second step is captured, and from then on each step
# launches the graph once. No step waits until the complete stream is empty.
calls() { # FUNCTION N OPTION...: succeeds if 9 steps make exactly N calls
    run "$fake" cuda "$1=$(($2 + 1)):719" "${@:3}"
    [ "$outcome $(cat "$dir/err")" = '0 ' ] || return 1
    run "$fake" cuda "$1=$2:719" "${@:3}"
    [ $outcome = 3 ]
}
for n in 1 3; do
    steps=(--accumulate $n --steps 9 --eval-every 0)
    check "a step of $n micro-batches is one graph" calls cudaGraphLaunch 8 "${steps[@]}"
    check "a step of $n micro-batches is captured once" \
        calls cudaStreamBeginCapture 1 "${steps[@]}"
    run "$fake" cuda cudaStreamSynchronize=1:719 "${steps[@]}"
    check "a step of $n micro-batches waits only for its results" \
        [ "$outcome $(cat "$dir/err")" = '0 ' ]
done

refuses() { # NAME FAULT MESSAGE
    run "$fake" cuda "$2"
    check "$1: the message states the reason" refused "$3"
    run "$fake" auto "$2"
    check "$1: auto uses the CPU, with one warning" fell_back "$3"
}
refuses 'no driver' driver=0 'CUDA: no driver is installed; install one'
refuses 'an old driver' driver=12080,cudaGetDeviceCount=1:35 \
    'CUDA: the driver supports CUDA 12.8, but this program needs 13.0: update the driver to version 580 or newer'
refuses 'no device' devices=0 'CUDA: no device is available; give --backend cpu$'
refuses 'an old device' major=7 'CUDA: Fake 0 has compute capability 7.0, but 8.0 is required'
refuses 'the device of another process' cudaSetDevice=1:46 'CUDA: Fake 0: error 46; give'
refuses 'a device without memory' cudaHostAlloc=1:2 'CUDA: Fake 0: error 2'
export CUDA_VISIBLE_DEVICES=
refuses 'hidden devices' devices=0 'CUDA: no device is visible with CUDA_VISIBLE_DEVICES=: '
unset CUDA_VISIBLE_DEVICES
run "$fake" cuda devices=2,cudaSetDevice=1:46
check 'a device in use is skipped' [ "$outcome $(cat "$dir/err")" = '0 ' ]

# --- every call that fails ---------------------------------------------------


ended_well() {
    [ $outcome = 3 ] && [ "$(wc -l <"$dir/err")" = 1 ] && [ ! -s "$dir/out" ] &&
        grep -q '^entropy-train: CUDA: ' "$dir/err" ||
        { echo "exit $outcome: $(cat "$dir/err")"; return 1; }
    [ ! -e "$dir/run.db" ] ||
        [ "$(query "$dir/run.db" 'SELECT status FROM run; PRAGMA quick_check')" \
            = $'failed\nok' ] || { echo 'the run is not marked as failed'; return 1; }
}

# FUNCTION CODE FIRST STRIDE: lets call number FIRST of FUNCTION return CODE in
# a first run, call number FIRST + STRIDE in a second run, and so on, until the
# run has no more such calls.
fails() {
    local name="$1 fails with $2" k n=0
    for ((k = $3; ; k += $4)); do
        run "$fake" cuda "$1=$k:$2"
        [ $outcome != 0 ] || break
        ended_well >"$dir/why" || {
            fail "$name" "call $k: $(cat "$dir/why")"
            return
        }
        n=$((n + 1))
    done
    echo "# $name: $n calls"
    check "$name" [ $n -ge 1 -a ! -s "$dir/err" ]
}
fails cudaStreamCreateWithFlags 2 1 1
fails cudaHostAlloc 2 2 1
fails cudaEventCreateWithFlags 2 1 1
fails cudaMalloc 2 1 1
fails cudaMalloc 719 2 3
fails cublasLtCreate 1 1 1
fails cublasLtMatmulDescCreate 3 1 5
fails cublasLtMatrixLayoutCreate 3 1 11
fails cublasLtMatmulAlgoGetHeuristic 14 1 5
fails cublasLtMatmul 13 1 23
fails cudaLaunchKernelExC 701 1 29
fails cudaLaunchKernelExC 2 7 41
fails cudaMemsetAsync 2 1 5
fails cudaMemcpyAsync 719 1 13
fails cudaEventRecord 2 1 17
fails cudaEventSynchronize 700 1 13
fails cudaStreamSynchronize 700 1 3
fails cudaStreamBeginCapture 2 1 2
fails cudaStreamEndCapture 2 1 2
fails cudaGraphInstantiate 2 1 2
fails cudaGraphLaunch 719 1 5
fails cudaEventCreate 2 1 1
ENTROPY_TRAIN_TUNING=$dir/choices
fails cudaEventElapsedTime 700 1 17
check 'the choice of a candidate is stored in the file' grep -q '^[0-9 ]* 0$' "$dir/choices"
ENTROPY_TRAIN_TUNING=off

# Checks that verify reports the failure of the device, and does not report the
# values that are missing because of the failure.
cases=(tests/trainer/cases/g1[0-2]*.safetensors)
verify_tells() {
    FAKE_CUDA=$1 ENTROPY_TRAIN_CUDA=$fake "$train" verify --backend cuda \
        "${cases[@]}" >"$dir/out" 2>&1
    [ $? = 1 ] && grep -q "fail: CUDA: .*error 700$" "$dir/out" &&
        ! grep -q 'grads/\|no driver' "$dir/out" || { cat "$dir/out"; return 1; }
}
check 'verify reports a device that fails in the backward pass' \
    verify_tells cudaStreamSynchronize=9:700
check 'verify reports a device that fails at a launch' \
    verify_tells cudaLaunchKernelExC=7:700

# --- several ranks -----------------------------------------------------------

# Runs the real ranks.cu with a fake NCCL library that adds arrays in host
# memory.
check 'NCCL can be faked' "${cc[@]}" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 -fPIC \
    -shared -fvisibility=hidden -o "$dir/libnccl.so" tests/gpu/fake_nccl.c -lm
ranks() { # FAULT: runs two ranks with FAULT; prints their exit codes and messages
    local r pids=() codes=
    rm -f "$dir"/ranks.db*
    for r in 0 1; do
        TMPDIR=$dir FAKE_CUDA=$1 ENTROPY_TRAIN_CUDA=$fake ENTROPY_TRAIN_NCCL=$dir/libnccl.so \
            timeout -k 1 300 "$train" -q --backend cuda --arch SM+LN+G --n-layer 2 --n-head 2 \
            --d-model 16 --ctx 8 --batch 2 --steps 5 --record-every 1 --eval-every 2 \
            --eval-batches 1 --threads 1 --seed 7 --data "$dir/corpus.tok" -o "$dir/ranks.db" \
            --world 2 --rank $r >"$dir/out" 2>"$dir/err.$r" </dev/null &
        pids+=($!)
    done
    for r in "${pids[@]}"; do
        wait "$r"
        codes+="$? "
    done
    echo "$codes$(cat "$dir"/err.*)"
}
same_text 'two ranks release all resources' '0 0 ' "$(ranks '')"
same_text 'a rank waits until its step is complete' '0 0 ' "$(ranks cudaStreamQuery=2:600)"
fail_together() { # FAULT
    local said
    said=$(ranks "$1")
    [[ $said == '3 3 entropy-train: '*'CUDA: '* && $said != *$'\n'* ]] || { echo "$said"; false; }
}
for fault in cudaGetDevice=1:2 cudaEventRecord=3:2 cudaStreamWaitEvent=2:2 cudaStreamQuery=2:719; do
    check "two ranks: ${fault%=*} fails, and a single line reports the failure" fail_together $fault
done

# --- launches ----------------------------------------------------------------

# Counts the launches of the first captured step up to AdamW. The README of
# hooks/trainer/cuda states these numbers.
counts() { # LAYERS RECORD-EVERY: prints the numbers of kernels and products
    rm -f "$dir/log"
    (export FAKE_CUDA_LOG=$dir/log && run "$fake" cuda '' --precision bf16 --d-model 32 \
        --n-layer "$1" --eval-every 0 --steps 5 --record-every "$2" && exit "$outcome") || return
    awk '!$5 { next }
        /adamw/ { ends = 1 }
        ends && !/adamw/ { exit }
        { n[$1 == "cublasLtMatmul"]++ }
        END { print n[0], n[1] }' "$dir/log"
}
for n in 2 5; do
    same_text "launches of a step of $n layers" "$((16 + 15 * n)) $((3 + 12 * n))" \
        "$(counts $n 1000)"
    same_text "launches of a measured step of $n layers" \
        "$((17 + 17 * n)) $((3 + 12 * n))" "$(counts $n 1)"
done

# From compute capability 9.0 on, a kernel may start early if the previous
# operation in the stream is also a kernel of the back-end.
overlaps() { # WANTED FAULT [VARIABLE=VALUE]
    rm -f "$dir/log"
    (export FAKE_CUDA_LOG=$dir/log ${3:+"$3"} && run "$fake" cuda "$2") &&
        awk -v wanted="$1" '
            $6 > 0 && (NR == 1 || before == "cublasLtMatmul") { bad = 1 }
            { n += $6; before = $1 }
            END { exit bad || (n > 0) != wanted }' "$dir/log"
}
check 'kernels overlap' overlaps 1 ''
check 'kernels do not overlap before 9.0' overlaps 0 major=8
check 'kernels do not overlap if switched off' \
    overlaps 0 '' ENTROPY_TRAIN_OVERLAP=off

# Runs GPT-2 small with fewer layers. The fake runtime checks the grid, the
# block and the shared memory of each launch; the numbers of registers come
# from nvcc's output.
launches() {
    FAKE_CUDA_LOG=$dir/log ENTROPY_TRAIN_CUDA=$fake "$train" bench \
        --backend cuda --precision "$1" --pairs 5 --n-layer 2 --n-head 12 \
        --d-model 768 --ctx 128 --batch 64 --vocab 50257 >"$dir/out" 2>"$dir/err"
}
fit() {
    launches "$1" || { cat "$dir/err"; return 1; }
    awk '
        FILENAME ~ /\.cu\.log$/ {
            if (/Compiling entry function/) { split($0, quoted, "\047"); name = quoted[2] }
            if (match($0, /Used [0-9]+ registers/)) {
                n = substr($0, RSTART + 5, RLENGTH - 15)
                n = 8 * int((n + 7) / 8) # rounded up to the unit of allocation
                if (n > registers[name]) registers[name] = n
            }
            next
        }
        $1 == "cublasLtMatmul" { next }
        !registers[$1] { print $1 ": nvcc did not report its registers"; bad = 1 }
        registers[$1] * $3 > 65536 { print $1 ": a block of " $3; bad = 1 }
        END { exit bad || !NR || !FNR }
    ' build/cuda/hooks/trainer/cuda/*.cu.log "$dir/log"
}
for precision in fp32 bf16; do
    check "$precision: a device could accept every launch" fit $precision
done
finish
