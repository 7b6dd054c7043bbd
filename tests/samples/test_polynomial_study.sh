#!/usr/bin/env bash
# samples/polynomial/study.sh with a few steps: a line for each model and choice,
# numbers in each, and nothing trained twice.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir

write_source "$dir/src" 90
mkdir "$dir/study"
"$BUILD/entropy-corpus" -q -o "$dir/study/python.tok" "$dir/src" || echo 'Bail out! no corpus'
study() { PATH=$bin:$PATH samples/polynomial/study.sh "$dir/study" 10 1 >"$dir/table" 2>"$dir/err"; }
check 'the study runs' study
lines() { [ "$(grep -c '^| ' "$dir/table")" = 17 ] || { sed 's/^/# /' "$dir/table"; false; }; }
check 'there are a head, softmax, and fourteen polynomial models' lines
number='([0-9]+(\.[0-9]+)?(e-?[0-9]+)?|NaN|inf)'
output 'softmax has a perplexity' "^\| softmax \| $number \| - \|" cat "$dir/table"
output 'factors are those that were chosen' \
    "^\| ranges, 12 factors \| $number \| $number \| 12 12 12 \| [0-9]+, [0-9]+, [0-9]+ \| $number \| [0-9]+ \|$" \
    cat "$dir/table"
outside() { # with a margin of 1 something is outside, of 17 batches
    ! grep -q 'as calibrated | [^|]*|[^|]*|[^|]*| 0, 0, 0 |' "$dir/table"
}
check 'what is outside of narrow intervals is counted' outside
again() {
    local before
    before=$(cat "$dir"/study/*.db | cksum)
    study && [ "$before" = "$(cat "$dir"/study/*.db | cksum)" ]
}
check 'what is there is not trained again' again
finish
