#!/usr/bin/env bash
# The tests of the Python package, with a PyTorch of their own: a venv below
# build/, made once for each list of requirements (LIST=FILE: another than
# requirements.txt), or VENV=DIR as it is; --venv makes it and runs nothing. Arguments
# go to pytest. Closes with "N passed, N failed, N skipped".
set -euo pipefail
cd "$(dirname "$0")/../.."
BUILD=$(realpath -m "${BUILD:-build}")
list=${LIST:-tests/python/requirements.txt}
kind=$(basename "$list" .txt)
kind=${kind#requirements}
venv=${VENV:-$BUILD/venv-python$kind-$(sha256sum <"$list" | cut -c1-8)}

skip() {
    echo "skipped: the Python package: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

make_venv() { # whole or not at all
    made=$(mktemp -d "$venv.XXXXXX")
    trap 'rm -rf "$made"' EXIT
    python3 -m venv "$made" || skip "python3 -m venv failed: install python3-venv"
    "$made/bin/pip" --version >/dev/null
    "$made/bin/pip" download -q --no-deps --no-cache-dir --retries 1 --timeout 30 \
        -d "$made/reached" cffi >/dev/null 2>&1 || skip "PyPI cannot be reached"
    rm -rf "$made/reached"
    # uv takes half of pip's processor time for these gigabytes. What is imported is
    # compiled then: a twentieth of what is there.
    { "$made/bin/pip" install -q --no-compile uv &&
        "$made/bin/uv" pip install -q --cache-dir "$made/cache" --python "$made/bin/python" -r "$list"; } ||
        "$made/bin/pip" install -q --no-compile -r "$list" || skip "what it needs could not be installed (above)"
    # Older compilers of kernels, for test_triton.py; without them it leaves that out.
    for version in $([ -n "$kind" ] || echo 3.2.0 3.6.0); do
        "$made/bin/uv" pip install -q --cache-dir "$made/cache" --python "$made/bin/python" \
            --no-deps --target "$made/triton-$version" "triton==$version" || true
    done
    rm -rf "$made/cache"
    # Scripts know the place that they were made for; we call python alone.
    mv "$made" "$venv"
    trap - EXIT
}

mkdir -p "$BUILD"
[ -x "$venv/bin/python" ] || make_venv
[ "${1-}" != --venv ] || exit 0
# Threads that wait do not spin: files run beside each other.
export BUILD OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
# Neither in the source tree nor in the venv, which may not be ours.
export PYTHONPYCACHEPREFIX=$BUILD/pycache
unset PYTHONDONTWRITEBYTECODE
[ $# -gt 0 ] || set -- tests/python
# Most of a test is one thread: files side by side, if the venv can, in conftest.py's order.
"$venv/bin/python" -c 'import xdist' 2>/dev/null &&
    set -- -n "$(nproc)" --dist loadfile --no-loadscope-reorder "$@"
exec "$venv/bin/python" -m pytest -q -p no:logging -p no:cacheprovider --tb=short \
    -W 'ignore::DeprecationWarning' "$@"
