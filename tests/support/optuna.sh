# Finds Optuna for shell tests. Usage: . tests/support/optuna.sh
# $python becomes an interpreter that has Optuna, or empty. OPTUNA_PYTHON
# selects an interpreter with another version of Optuna; the venv of the Python
# package has the newest version. Only Debian's own python3 finds Debian's Python
# packages.
python=''
for candidate in ${OPTUNA_PYTHON:-} python3 /usr/bin/python3; do
    "$candidate" -c 'import optuna' 2>/dev/null || continue
    python=$(command -v "$candidate")
    break
done
no_optuna='no Optuna: apt install python3-optuna, or pip install optuna'
