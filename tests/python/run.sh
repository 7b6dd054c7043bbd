#!/usr/bin/env bash
# Runs the tests of the Python package in a venv with its own PyTorch. The venv is
# created once in build/ for each list of requirements (LIST=FILE, default
# requirements.txt); VENV=DIR uses an existing venv. --venv only creates the venv. Other
# arguments are passed to pytest. The last line is "N passed, N failed, N skipped".
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

make_venv() { # makes the venv completely or not at all
    made=$(mktemp -d "$venv.XXXXXX")
    trap 'rm -rf "$made"' EXIT
    python3 -m venv "$made" || skip "python3 -m venv failed: install python3-venv"
    "$made/bin/pip" --version >/dev/null
    "$made/bin/pip" download -q --no-deps --no-cache-dir --retries 1 --timeout 30 \
        -d "$made/reached" cffi >/dev/null 2>&1 || skip "PyPI cannot be reached"
    rm -rf "$made/reached"
    # Install with uv, which needs half of pip's processor time for these gigabytes. Do
    # not compile all modules in advance, because only a twentieth of them is ever
    # imported; Python compiles a module when it is imported.
    { "$made/bin/pip" install -q --no-compile uv &&
        "$made/bin/uv" pip install -q --cache-dir "$made/cache" --python "$made/bin/python" -r "$list"; } ||
        "$made/bin/pip" install -q --no-compile -r "$list" || skip "the requirements could not be installed (see above)"
    # Install older versions of Triton for test_triton.py, which skips versions that are
    # missing.
    for version in $([ -n "$kind" ] || echo 3.2.0 3.6.0); do
        "$made/bin/uv" pip install -q --cache-dir "$made/cache" --python "$made/bin/python" \
            --no-deps --target "$made/triton-$version" "triton==$version" || true
    done
    rm -rf "$made/cache"
    # The scripts in bin/ still contain the path from before this move; this does no
    # harm, because only bin/python is called.
    mv "$made" "$venv"
    trap - EXIT
}

mkdir -p "$BUILD"
[ -x "$venv/bin/python" ] || make_venv
[ "${1-}" != --venv ] || exit 0
# Test files run in parallel, so waiting threads must not spin.
export BUILD OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
# Keep byte code out of the source tree and out of the venv, which may belong to the
# user.
export PYTHONPYCACHEPREFIX=$BUILD/pycache
unset PYTHONDONTWRITEBYTECODE
[ $# -gt 0 ] || set -- tests/python
# Most tests use one thread. If xdist is installed, run test files in parallel, in the
# order given in conftest.py.
"$venv/bin/python" -c 'import xdist' 2>/dev/null &&
    set -- -n "$(nproc)" --dist loadfile --no-loadscope-reorder "$@"
exec "$venv/bin/python" -m pytest -q -p no:logging -p no:cacheprovider --tb=short \
    -W 'ignore::DeprecationWarning' "$@"
