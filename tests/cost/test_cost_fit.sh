#!/usr/bin/env bash
# Tests that a fit to the published tables gives the coefficients of the model
# of private inference, and that the model extrapolates as well as the README of
# analyzer/cost states.
. tests/support/tap.sh
plan_dir
fit=$root/analyzer/cost/fit.py
tables=$root/samples/private-inference/aero_tables.csv
kept=$root/analyzer/cost/coefficients.inc.h

check 'a fit gives the coefficients that are built in' "$fit" "$scan" "$tables" --check "$kept"
sed 's/,25.32,/,25.33,/' "$tables" >"$dir/other.csv"
exits 'another table gives other coefficients' 1 'differs from a fit to the tables: run make cost-fit' \
    "$fit" "$scan" "$dir/other.csv" --check "$kept"

"$fit" "$scan" "$tables" >"$dir/errors"
within() { # NAME MODEL WHICH RMS WORST ROWS: largest errors in per cent; number of rows
    check "$1" awk -v model="$2" -v which="$3" -v rms="$4" -v worst="$5" -v rows="$6" '
        $1 == model && $2 == which {
            n++
            bad = !($4 <= rms && $6 <= worst && $8 == rows)
            print
        }
        END { exit n != 1 || bad }' "$dir/errors"
}
within 'communication fits to 0.5 per cent' communication fitted 0.5 1.6 28
within 'latency fits to 4.6 per cent' latency fitted 4.6 9.9 28
within 'communication of a row follows from the others' communication leave-one-out 1.25 6 28
within 'communication at 256 and 512 tokens follows from 128' communication from-T128 2.2 2.6 13
within 'communication of 18 layers follows from 12' communication from-L12 0.8 1.6 6
within 'latency at 256 and 512 tokens follows from 128' latency from-T128 5.2 9.3 13
within 'latency of 18 layers follows from 12' latency from-L12 6.6 8.5 6
same_text 'the README has these figures' 8 "$(while read -r model which _ rms _ worst _; do
    grep -cE "^\| .*\| .*$rms \($worst\)" "$root/analyzer/cost/README.md"
done <"$dir/errors" | grep -cx 1)"
same_text 'the page of contradictions is up to date' \
    "$(cat "$root/samples/private-inference/contradictions.md")" \
    "$("$root/samples/private-inference/contradictions.py" "$scan")"
finish
