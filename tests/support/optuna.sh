# Finds Optuna for shell tests: . tests/support/optuna.sh; $python has it, or is empty.
# OPTUNA_PYTHON names an interpreter with another version: the venv of the Python
# package has the newest. A python3 that is not Debian's does not see Debian's packages.
python=''
for candidate in ${OPTUNA_PYTHON:-} python3 /usr/bin/python3; do
    "$candidate" -c 'import optuna' 2>/dev/null || continue
    python=$(command -v "$candidate")
    break
done
no_optuna='no Optuna: apt install python3-optuna, or pip install optuna'
