#!/usr/bin/env bash
# What `make gpu-check` does where there is no GPU, and its parts on the
# emulation of the host: no figure comes of that.
set -uo pipefail
. tests/tap.sh
plan_dir
emulation=$BUILD/tests/libentropytrain_cuda_host.so

says() { # TEXT CODE COMMAND...
    local text=$1 code=$2 got=0
    shift 2
    "$@" >"$dir/said" 2>&1 || got=$?
    [ "$got" = "$code" ] && grep -qF -- "$text" "$dir/said" ||
        { echo "exit $got:"; tail -5 "$dir/said"; return 1; }
}

# No driver's program: as on a machine without a card.
mkdir "$dir/bin"
for tool in bash mkdir dirname head; do
    ln -s "$(command -v $tool)" "$dir/bin/"
done
no_device() {
    says 'skipped: no CUDA device' 3 env PATH="$dir/bin" PREBUILT=1 \
        OUT="$dir/out" bash tests/gpu/check.sh &&
        [ -z "$(ls "$dir/out")" ]
}
check 'gpu-check without a device passes nothing' no_device
check 'a time that is no number' \
    says "'soon': MINUTES is a number" 2 samples/gpu-replicate.sh SM soon
check 'the peer without PyTorch or a device' \
    says 'skipped' 1 python3 tests/gpu/peer_torch.py rate

if [ ! -e "$emulation" ]; then
    skip 'attention by itself, on the emulation' 'no nvcc'
else
    four_times() {
        says ' ' 0 env ENTROPY_TRAIN_CUDA="$emulation" ENTROPY_BENCH_ROUNDS=1 \
            ENTROPY_BENCH_CALLS=1 "$BUILD/gpu-bench-attention" "$1" 1 2 17 16 &&
            grep -qE '^([0-9]+\.[0-9]{5} ?){7}$' "$dir/said"
    }
    for precision in fp32 bf16 fp16; do
        check "attention by itself, $precision, on the emulation" \
            four_times "$precision"
    done
    check 'a precision that does not exist' \
        says "no precision 'fp8'" 2 "$BUILD/gpu-bench-attention" fp8 1 1 1 16
fi
finish
