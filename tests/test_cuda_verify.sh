#!/usr/bin/env bash
# The reference cases and a short training by the CUDA back-end: its kernels
# on the emulation, and on a device where there is one.
set -uo pipefail
. tests/tap.sh
plan_dir

train=$BUILD/entropy-train
cases=("$ES_SHARED"/reference/train/*/)
all=${#cases[@]}

by() { # LIBRARY COMMAND...
    local library=$1
    shift
    env ENTROPY_TRAIN_CUDA="$library" "$@"
}

verifies() { # NAME LIBRARY
    if [ -d "${cases[0]}" ]; then
        output "$1: all reference cases" "^$all passed, 0 failed$" \
            by "$2" "$train" verify --backend cuda "${cases[@]}"
    else
        skip "$1: all reference cases" 'no reference cases'
    fi
}

emulated=$BUILD/tests/libentropytrain_cuda_host.so
library=$BUILD/libentropytrain_cuda.so
if [ ! -e "$library" ]; then
    skip 'the CUDA back-end' 'built without CUDA'
    finish
    exit
fi
verifies 'emulation' "$emulated"
for wish in reverse; do
    export ENTROPY_TRAIN_EMULATION=$wish
    verifies "emulation, $wish" "$emulated"
    unset ENTROPY_TRAIN_EMULATION
done

why=$(by "$library" "$train" verify --backend cuda "${cases[0]}" 2>&1)
if grep -qE 'CUDA: (no driver|no device)' <<<"$why"; then
    skip 'device: all reference cases' 'no CUDA device'
else
    verifies 'device' "$library"
fi
finish
