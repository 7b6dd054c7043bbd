#!/usr/bin/env bash
# Draws every figure for every set of runs, in the light and the dark theme, and writes
# a page that shows all of them. `make figures` calls this script. BUILD is the folder
# of the programs; results go to BUILD/figures. Takes two minutes on two cores, mostly
# for training; existing runs are reused.
#
#   FIGURE_STEPS=N     optimiser steps of each training run (default 500)
#   FIGURE_SCAN=...    additional options for each drawing, such as '--format svg'
#   FIGURE_DIR=DIR     folder of the results (default: BUILD/figures)
#
# figure-runs.sh describes further variables.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
out=${FIGURE_DIR:-$build/figures}
steps=${FIGURE_STEPS:-500}
published=samples/published
read -ra scan <<<"${FIGURE_SCAN:-}"
page=$out/index.html
. samples/figure-runs.sh

# --- runs --------------------------------------------------------------------

publish() { # ARCH
    local db=$out/runs/$1.db
    rm -f "$db"
    "$build/entropy-scan" import -q "$published/$1.csv" -o "$db" --arch "$1" \
        --name "$1" --ctx 128 --step 32000
}

# --- pictures and their page -------------------------------------------------

begin_page() {
    cat >"$page" <<'HTML'
<!DOCTYPE html>
<meta charset="utf-8"><title>Figures</title>
<style>
body { font: 14px sans-serif; margin: 2em; background: #888 }
h2 { background: #fff; padding: .3em } td { vertical-align: top }
table.numbers { background: #fff } table.numbers td { padding: .1em .6em }
img { max-width: 46vw }
</style>
HTML
}

# Draws the runs into $out/FOLDER/{light,dark,column}/RUN-FIGURE.png and adds the
# figures to the page, below HEADING.
draw() { # FOLDER HEADING RUN...
    local folder=$out/$1 heading=$2 name
    say "drawing $1"
    rm -rf "$folder"
    mkdir -p "$folder"
    "$build/entropy-scan" -q "${@:3}" --all="$folder/light" "${scan[@]}"
    "$build/entropy-scan" -q "${@:3}" --all="$folder/dark" --theme dark "${scan[@]}"
    "$build/entropy-scan" -q "${@:3}" --all="$folder/column" --for column "${scan[@]}"
    printf '<h2>%s</h2>\n<table>\n' "$heading" >>"$page"
    for name in "$folder"/light/*; do
        name=${name##*/}
        printf '<tr><td><img src="%s"><td><img src="%s">\n' \
            "$1/light/$name" "$1/dark/$name" >>"$page"
    done
    echo '</table>' >>"$page"
    for name in "$folder"/column/*; do
        printf '<img src="%s" style="width: 234pt">\n' "$1/column/${name##*/}" >>"$page"
    done
}

# Prints a table that compares the published shares of heads in each band with our
# shares for the same entropies.
compare_bands() { # RUN...
    { grep '^| SM' "$published/README.md"; "$build/entropy-scan" --csv "$@"; } |
        awk -F '[,|]' '
            /^\|/ { gsub(/ /, ""); theirs[$2] = $3 "<td>" $4 "<td>" $5 "<td>" $6; next }
            !n++ {
                for (i = 1; i <= NF; i++) column[$i] = i
                print "<table class=numbers><tr><th>share of heads" \
                    "<th>[0,m/4)<th>[m/4,m/2)<th>[m/2,3m/4)<th>[3m/4,m]"
                next
            }
            {
                arch = $column["arch"]
                printf "<tr><td>%s, drawn here", arch
                for (i = 1; i <= 4; i++)
                    printf "<td>%.1f%%", 100 * $column["band_" i] / $column["heads"]
                printf "\n<tr><td>%s, published<td>%s\n", arch, theirs[arch]
            }
            END { print "</table>" }'
}

begin_page
models=()
for arch in SM+LN+G SM+LN+R SM+G SM+R SM; do
    publish "$arch"
    models+=("$out/runs/$arch.db")
done
draw published 'Published heads of four models' "${models[@]:0:4}"
compare_bands "${models[@]:0:4}" >>"$page"
draw collapsed 'Published: the model that collapses beside the baseline' \
    "${models[0]}" "${models[4]}"
draw samples 'samples/runs' samples/runs/sm-ln-g.db samples/runs/sm.db

train thresholds --preset=gpt2-l12-t128-ereg-sm-t-scfuffn-tiny --maps 16
train scales --preset=gpt2-l12-t128-sm-scffn-tiny
train slopes-layer --preset=gpt2-l12-t128-sm-lr-layer-tiny
train slopes-global --preset=gpt2-l12-t128-sm-lr-global-tiny
train collapse --config=samples/demo.conf --arch SM --lr 1e-2
runs=("$out"/runs/{thresholds,scales,slopes-layer,slopes-global,collapse}.db)
draw thresholds 'Trained here: entropy regularisation' "${runs[0]}"
draw scales 'Trained here: scaled FFN' "${runs[1]}"
draw slopes 'Trained here: learnable slopes' "${runs[2]}" "${runs[3]}"
draw collapse 'Trained here: softmax only, at a high rate' "${runs[4]}"
onset=$("$build/entropy-scan" "${runs[4]}" --json | tr -d ' \n' |
    sed -nE 's/.*"kind":"nan"[^}]*"onset":([0-9]+).*/\1/p')
if [ "${onset:-0}" -gt 2 ]; then
    draw before-nan "Trained here: the same just before the NaN of step $onset" \
        "${runs[4]}" --step $((onset / 2 * 2 - 2))
fi
draw all 'Trained here: all' "${runs[@]}"
say "look at $page"
