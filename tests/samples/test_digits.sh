#!/usr/bin/env bash
# samples/digits: scikit-learn's digits as data, a short study, its figure. scikit-learn
# and matplotlib go into a small venv of their own, or PYTHON has both.
. tests/support/tap.sh
without_sanitizers 'it is Python, and short trainings'
plan_dir
venv=$bin/venv-digits
absent() { skip 'digits' "$1"; finish; exit; }

make_venv() { # whole or not at all
    local made
    made=$(mktemp -d "$venv.XXXXXX")
    python3 -m venv "$made" &&
        timeout 120 "$made/bin/pip" install -q --no-compile --retries 1 --timeout 30 \
            scikit-learn matplotlib && mv -T "$made" "$venv" && return
    rm -rf "$made"
    return 1
}
python=${PYTHON:-$venv/bin/python}
[ -n "${PYTHON-}" ] || [ -x "$python" ] || make_venv >/dev/null 2>&1 ||
    absent 'scikit-learn could not be installed'
"$python" -B -c 'import sklearn, matplotlib' 2>/dev/null ||
    absent "$python: pip install scikit-learn matplotlib"

PATH=$bin:$PATH
sample=samples/digits
data() { "$python" -B $sample/digits.py | "$corpus" --ids - --vocab 17 --tokenizer-name digits \
    --held-out 20 -q -o "$dir/digits.tok"; }
study() { STEPS=30 EVERY=15 bash $sample/study.sh "$dir/digits.tok" "$dir/runs" 'PSM(4)+LN+G'; }
last() { "$scan" export "$dir/runs/psm4lng-1.db" --series accuracy -o - | tail -1; }

check 'the digits become a token file' data
check 'of 1,760 images, a fifth held out' \
    test "$(stat -c %s "$dir/digits.tok")" = $((96 + 1760 * 65))
check 'a study runs' study
output 'in 30 steps more than half are named right' '^30,,,0\.[5-9]' last
output 'the figure has its table' '^\| PSM\(4\)\+LN\+G \| [0-9.]+ % \(' \
    "$python" -B $sample/draw.py "$dir/runs" -o "$dir/digits.svg"
check 'and is one' grep -q '</svg>' "$dir/digits.svg"
finish
