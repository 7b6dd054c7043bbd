# Python for samples: . tests/support/venv.sh; python_with NAME MODULES [PACKAGE...] || ...
# $python is PYTHON, or the venv of `make test-python`, if it has the modules, or, where
# packages are given, a small venv of the test's own, $BUILD/venv-NAME. What it compiles
# is kept beside it.
export PYTHONPYCACHEPREFIX=$bin/pycache
unset PYTHONDONTWRITEBYTECODE

small_venv() { # FOLDER PACKAGE...: whole or not at all
    local made
    made=$(mktemp -d "$1.XXXXXX")
    python3 -m venv "$made" &&
        timeout 180 "$made/bin/pip" install -q --no-compile --retries 1 --timeout 30 \
            "${@:2}" && mv -T "$made" "$1" && return
    rm -rf "$made"
    return 1
}

python_with() {
    local modules=$2 own=$bin/venv-$1
    for python in ${PYTHON:-"$bin"/venv-python-????????/bin/python "$own/bin/python"}; do
        ! "$python" -c "import $modules" 2>/dev/null || return 0
    done
    [ -z "${PYTHON-}" ] && [ $# -gt 2 ] && [ ! -e "$own" ] && small_venv "$own" "${@:3}" >/dev/null 2>&1 &&
        "$own/bin/python" -c "import $modules"
}
