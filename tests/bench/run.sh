#!/usr/bin/env bash
# usage: tests/bench/run.sh PROGRAM...   (make bench)
# Runs the bench programs one after the other, bench_cli last. Each program prints each
# measurement next to its target.
set -uo pipefail
cd "$(dirname "$0")/../.."
export BUILD=${BUILD:-build} OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-2}

if [ -n "${OPENBLAS_CORETYPE:-}" ]; then
    echo "OPENBLAS_CORETYPE=$OPENBLAS_CORETYPE is ignored: the benches measure the kernels of this processor"
    unset OPENBLAS_CORETYPE
fi

failed=0
run() {
    case $1 in */python | python3) echo "== $(basename "$2")" ;; *) echo "== $(basename "$1")" ;; esac
    "$@" || { echo "$1 ended with exit code $?" >&2; failed=1; }
    echo
}
# Runs a Python bench with the PyTorch of PyPI that `make test-python`
# installed.
run_python() {
    local place
    for place in "$BUILD"/venv-python-*/bin/python; do
        [ ! -x "$place" ] || { run "$place" "$@"; return; }
    done
    echo "== $(basename "$1")"
    echo "skipped: \`make test-python\` installs the PyTorch that it needs"
}
last=
for program in "$@"; do
    if [ "$(basename "$program")" = bench_cli ]; then last=$program; continue; fi
    run "$program"
    [ "$(basename "$program")" != bench_recorder ] || run tests/bench/bench_watch.py 10
    if [ "$(basename "$program")" = bench_entropy ]; then
        run tests/bench/bench_statistics.py "$BUILD/libentropyscan.so" 1
        [ "$(nproc)" = 1 ] || run tests/bench/bench_statistics.py "$BUILD/libentropyscan.so" "$(nproc)"
    fi
    # Also runs bench_torch.py with the system's Python and Debian's PyTorch
    # package.
    if [ "$(basename "$program")" = bench_train ]; then
        for threads in $(printf '%s\n' 1 "$(nproc)" | sort -u); do
            run tests/bench/bench_torch.py "$program" "$threads"
            run_python tests/bench/bench_torch.py "$program" "$threads"
        done
        run_python tests/bench/bench_watch_cost.py 1
        [ "$(nproc)" = 1 ] || run_python tests/bench/bench_watch_cost.py "$(nproc)"
    fi
done
[ -z "$last" ] || run "$last"
exit $failed
