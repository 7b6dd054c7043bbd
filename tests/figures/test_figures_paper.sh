#!/usr/bin/env bash
# Figures as a paper has them: as wide as one of its columns, with numbers as
# they are typeset, and with nothing that would identify a run cut away.
. tests/support/tap.sh
plan_dir
cd "$dir"

# Two layers of three heads at one step.
run() { # FILE ENTROPY CONFIG [SEED]
    cat >run.csv <<END
# arch: SM
# n_layer: 2
# n_head: 3
# ctx: 8
# seed: ${4:-1}
# config: $3
step,layer,head,entropy
END
    local layer head
    for layer in 0 1; do
        for head in 0 1 2; do echo "0,$layer,$head,$2"; done
    done >>run.csv
    "$scan" import -q run.csv -o "$1" || exit 1
}
run small.db 0.00001 '{}'

draws() { # FIGURE RUN...: into FIGURE.svg
    local figure=$1
    shift
    "$scan" -q "$@" --for column --figure "$figure" -o "$figure.svg"
}
says() { grep -qE -- "$2" "$1" || { grep -o '>[^<]*</text>' "$1"; return 1; }; } # FILE REGEX

draws heatmap small.db
check 'a note has its powers of ten typeset' says heatmap.svg '>max = 10⁻⁵ \(observed\)<'
output 'a table has short exponents' '^m = 1e-5 nats' "$scan" small.db
finish
