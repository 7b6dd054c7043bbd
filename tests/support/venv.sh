# Finds a Python interpreter for the tests of samples.
# Usage: . tests/support/venv.sh; python_with MODULES || ...
# $python becomes $PYTHON, or the interpreter of `make test-python`, if it has
# the modules. Python stores compiled modules in the build folder.
export PYTHONPYCACHEPREFIX=$bin/pycache
unset PYTHONDONTWRITEBYTECODE
no_modules='neither PYTHON nor the Python of `make test-python` has the modules'

python_with() { # MODULES
    for python in ${PYTHON:-"$bin"/venv-python-????????/bin/python}; do
        ! "$python" -c "import $1" 2>/dev/null || return 0
    done
    return 1
}
