#!/usr/bin/env bash
# A sample of tests/program/faults.py: no failing system call of the commands that read
# runs gives another result with exit 0. `make faults` tries them all.
#
#   ES_SEED=17  another sample
. tests/support/tap.sh
points=300
if ! strace -f --seccomp-bpf -qq -o /dev/null -e trace=none true 2>/dev/null; then
    skip 'failing system calls' 'no strace, or it may not trace here'
else
    exec python3 tests/program/faults.py "$BUILD" --points $points --seed "${ES_SEED:-1}"
fi
finish
