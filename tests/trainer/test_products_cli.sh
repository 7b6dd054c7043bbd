#!/usr/bin/env bash
# Tests entropy-train --products: which library computes matrix products, and the
# messages if the library is not installed.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
write_source "$dir/src"
"$BUILD/entropy-corpus" -q -o "$dir/x.tok" "$dir/src" || echo 'Bail out! no corpus'

train_by() { # LIBRARY-FILE CHOICE [OPTION...]: LIBRARY-FILE "" is the installed library
    local library=$1 choice=$2
    shift 2
    ENTROPY_TRAIN_ONEDNN=$library "$train" --n-layer 2 --n-head 3 --d-model 12 --ctx 16 \
        --batch 4 --threads 1 --eval-batches 2 --data "$dir/x.tok" --steps 5 \
        --products "$choice" "$@"
}
losses() { sed 's/,[^,]*$//' "$1"; } # everything but the speed

exits 'an unknown library is refused' 2 'expected one of auto, openblas, onednn' train_by '' mkl --no-record
exits 'a missing library is refused with the remedy' 3 \
    '/none/libdnnl.so.2: .*: install libdnnl2, or use --products openblas$|built without oneDNN: use --products openblas' \
    train_by /none/libdnnl.so.2 onednn --no-record
lines=$(train_by /none/libdnnl.so.2 onednn --no-record 2>&1 | wc -l)
check 'the message has one line' [ "$lines" = 1 ]
libc=$(ldd "$train" | awk '$1 ~ /^libc\./ { print $3 }')
exits 'another library is refused' 3 \
    'libc.so.6: not oneDNN 2 with OpenMP|built without oneDNN' \
    train_by "$libc" onednn --no-record
output 'auto works without oneDNN' '^products: OpenBLAS [0-9.]+ [A-Za-z0-9]+$' \
    env ENTROPY_TRAIN_ONEDNN=/none "$train" --version
quiet() { [ -z "$(train_by /none auto --no-record --quiet 2>&1)" ]; }
check 'auto without oneDNN prints no warning' quiet
train_by '' openblas --no-record >"$dir/openblas" 2>/dev/null
train_by /none auto --no-record >"$dir/without" 2>/dev/null
check 'auto without oneDNN uses openblas' \
    [ "$(losses "$dir/openblas")" = "$(losses "$dir/without")" ]

if ! train_by '' onednn -o "$dir/onednn.db" --checkpoint "$dir/kept" >"$dir/result" 2>"$dir/messages"; then
    check 'without oneDNN the run records openblas' grep -q oneDNN "$dir/messages"
    skip 'trains with oneDNN' 'it is not there'
    finish
    exit
fi
output 'the run names oneDNN' '"products":"oneDNN 2[0-9.]+ [a-z0-9_]+"' \
    "$BUILD/entropy-scan" "$dir/onednn.db" --json
resume_by() { # CHOICE STEPS
    "$train" --resume "$dir/kept" --steps "$2" --no-record --products "$1" 2>&1
}
output 'a run resumed with another library is warned about' \
    'warning: resuming with --products openblas instead of onednn: the bits differ' \
    resume_by openblas 7
silent() { resume_by openblas 9 >"$dir/result" && ! grep -q 'resuming with' "$dir/result"; }
check 'a run resumed with the same library is not warned about' silent
resume_by onednn 11 >"$dir/result"
check 'a resumed run is compared with the library of the run before it' \
    grep -q 'resuming with --products onednn instead of openblas' "$dir/result"
exits 'a checkpoint whose library is missing is refused with the remedy' 3 \
    'install libdnnl2, or use --products openblas' \
    env ENTROPY_TRAIN_ONEDNN=/none "$train" --resume "$dir/kept" --steps 13 --no-record
if grep -q avx512vl /proc/cpuinfo; then
    held_back() {
        ONEDNN_MAX_CPU_ISA=AVX2 train_by '' onednn --no-record 2>&1
    }
    output 'kernels below the processor cause a warning' \
        'warning: oneDNN uses its kernels for avx2 .*unset ONEDNN_MAX_CPU_ISA \(AVX2\)' \
        held_back
    output 'auto does not use kernels below the processor' '^products: OpenBLAS [0-9.]+ [A-Za-z0-9]+$' \
        env ONEDNN_MAX_CPU_ISA=AVX2 "$train" --version
    output 'auto uses both libraries' '^products: OpenBLAS [^,]+, oneDNN 2[0-9.]+ avx512[a-z0-9_]+$' \
        "$train" --version
else
    skip 'kernels below the processor cause a warning' 'this one has no AVX-512'
fi
# Takes the smallest of twenty counts, because a thread may still be listed after it has
# been joined.
n_threads() { # CHOICE: number of threads of a process that trains with two
    : >"$dir/messages" # clears the messages of the previous process
    train_by '' "$1" --threads 2 --steps 100000 --no-record --log-every 1 \
        >/dev/null 2>"$dir/messages" &
    local pid=$! program
    until_true grep -q '^step 3/' "$dir/messages"
    program=$(pgrep -P $pid -x entropy-train || echo $pid)
    for _ in {1..20}; do ls "/proc/$program/task" | wc -l; done | sort -n | head -n 1
    kill "$program"
    wait $pid
}
n=$(n_threads openblas)
check 'oneDNN starts no additional threads' [ "${n:-0}" -ge 2 -a "$(n_threads onednn)" = "$n" ]
finish
