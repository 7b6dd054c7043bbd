#!/usr/bin/env bash
# Checks in the compiler's output that no kernel of the CUDA back-end spills
# registers to memory.
# needs: nvcc
set -uo pipefail
. tests/support/tap.sh
plan_dir

logs=(build/cuda/hooks/trainer/cuda/*.log)
check 'no kernel spills' tests/gpu/spills.sh "${logs[@]}"

cat >"$dir/log" <<'END'
ptxas info    : Compiling entry function '_Z4sumsv' for 'sm_90'
ptxas info    : Function properties for _Z4sumsv
    40 bytes stack frame, 32 bytes spill stores, 28 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
END
output 'the output of nvcc is read' '^sm_90 +255 +40 +32 +28  sums$' \
    sh -c 'tests/gpu/spills.sh "$1" 2>/dev/null || true' sh "$dir/log"
check 'a kernel that spills is found' \
    sh -c '! tests/gpu/spills.sh "$1"' sh "$dir/log"
: >"$dir/log"
check 'a log without kernels fails' sh -c '! tests/gpu/spills.sh "$1"' sh "$dir/log"
finish
