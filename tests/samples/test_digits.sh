#!/usr/bin/env bash
# Tests samples/digits: makes data from scikit-learn's digits, runs a short study and
# draws its results.
# needs: PyTorch
. tests/support/tap.sh
. tests/support/venv.sh
plan_dir
python_with 'sklearn, matplotlib' || { fail 'digits' "$no_modules"; finish; exit; }

PATH=$bin:$PATH
sample=samples/digits
data() { "$python" $sample/digits.py | "$corpus" --ids - --vocab 17 --tokenizer-name digits \
    --held-out 20 -q -o "$dir/digits.tok"; }
study() { STEPS=30 EVERY=15 bash $sample/study.sh "$dir/digits.tok" "$dir/runs" 'PSM(4)+LN+G'; }
last() { "$scan" export "$dir/runs/psm4lng-1.db" --series accuracy -o - | tail -1; }

check 'the digits become a token file' data
check 'the token file has 1,760 images' \
    test "$(stat -c %s "$dir/digits.tok")" = $((96 + 1760 * 65))
check 'a short study runs' study
output 'after 30 steps the accuracy is above one half' '^30,,,0\.[5-9]' last
output 'drawing prints a table' '^\| PSM\(4\)\+LN\+G \| [0-9.]+ % \(' \
    "$python" $sample/draw.py "$dir/runs" -o "$dir/digits.svg"
check 'draw.py writes a figure of the study' grep -q '</svg>' "$dir/digits.svg"
finish
