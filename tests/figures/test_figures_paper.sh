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

draws() { # FIGURE RUN...: into FIGURE.svg, one line
    local figure=$1
    shift
    "$scan" -q "$@" --for column --figure "$figure" -o - --format svg | tr '\n' ' ' >"$figure.svg"
}
says() { grep -qE -- "$2" "$1" || { grep -o '>[^<]*</text>' "$1"; return 1; }; } # FILE REGEX

ereg() { # FILE ENTROPY GAMMA LAMBDA REDUCTION SEED
    run "$1" "$2" "{\"gamma\":$3,\"lambda\":$4,\"ereg_reduce\":\"$5\"}" "$6"
}
ereg a.db 1.1 0.1 1e-5 token 1
ereg b.db 1.2 0.2 1e-5 token 1
ereg c.db 1.3 0.2 1e-5 mean 1
ereg d.db 1.4 0.2 0.04 token 1
ereg e.db 1.5 0.2 0.04 token 7

draws heatmap small.db
check 'a note has its powers of ten typeset' says heatmap.svg '>max = 10⁻⁵ \(observed\)<'
output 'a table has short exponents' '^m = 1e-5 nats' "$scan" small.db

# Titles that do not fit are broken: cut, those of two of these runs are alike.
long=(a.db b.db c.db d.db e.db)
draws heatmap "${long[@]}"
check 'long titles are whole, in several lines' says heatmap.svg '>γ = 0\.2, λ = 0\.04<.*>reduction = token<.*>seed 7<'
exits 'and none is cut' 1 '^$' grep … heatmap.svg
draws delta "${long[@]}"
check 'so is the note of a delta' says delta.svg '>each minus γ = 0\.1, .*>seed 1<'
exits 'and it is not cut' 1 '^$' grep … delta.svg
draws heatmap+curves "${long[@]}"
exits 'nor is anything of a page of several figures' 1 '^$' grep … heatmap+curves.svg
finish
