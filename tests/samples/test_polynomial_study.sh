#!/usr/bin/env bash
# Tests samples/polynomial/study.sh with a few steps: the table has a line with numbers
# for each model and setting, and no model is trained twice.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir

write_source "$dir/src" 90
mkdir "$dir/study"
"$BUILD/entropy-corpus" -q -o "$dir/study/python.tok" "$dir/src" || echo 'Bail out! no corpus'
study() { PATH=$bin:$PATH samples/polynomial/study.sh "$dir/study" 10 1 >"$dir/table" 2>"$dir/err"; }
check 'the study runs' study
lines() { [ "$(grep -c '^| ' "$dir/table")" = 17 ] || { sed 's/^/# /' "$dir/table"; false; }; }
check 'the table has its header, softmax, and fourteen polynomial models' lines
number='([0-9]+(\.[0-9]+)?(e-?[0-9]+)?|NaN|inf)'
output 'softmax has a perplexity' "^\| softmax \| $number \| - \|" cat "$dir/table"
output 'the factors are the given ones' \
    "^\| ranges, 12 factors \| $number \| $number \| 12 12 12 \| [0-9]+, [0-9]+, [0-9]+ \| $number \| [0-9]+ \|$" \
    cat "$dir/table"
outside() { # with a margin of 1, some values of 17 batches are outside
    ! grep -q 'as calibrated | [^|]*|[^|]*|[^|]*| 0, 0, 0 |' "$dir/table"
}
check 'values outside of narrow intervals are counted' outside
again() {
    local before
    before=$(cat "$dir"/study/*.db | cksum)
    study && [ "$before" = "$(cat "$dir"/study/*.db | cksum)" ]
}
check 'existing models are not trained again' again
finish
