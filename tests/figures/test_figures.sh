#!/usr/bin/env bash
# Runs `make figures` with small models. Checks that every file is a picture,
# that no picture is blank, and that no texts overlap.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
write_source "$dir/src"
export FIGURE_DIR=$dir/figures FIGURE_CORPUS=$dir/src FIGURE_STEPS=30
export FIGURE_OPTIONS='--d-model 12 --n-head 3 --n-layer 5 --ctx 16 --batch 2
    --eval-batches 1 --eval-every 10'
figures() { samples/figures.sh >"$dir/said" 2>"$dir/complaints" || { cat "$dir/complaints"; return 1; }; }
pictures() { find "$FIGURE_DIR" -path "*/$1/*" -type f | sort; }

is_picture() { # FILE: has 100 to 20000 pixels per side, and is not blank
    local size width height
    size=$(od -An -tu1 -j16 -N8 "$1" | awk '{ print 65536 * $2 + 256 * $3 + $4, 65536 * $6 + 256 * $7 + $8 }')
    read -r width height <<<"$size"
    [ "$(head -c 4 "$1" | tail -c 3)" = PNG ] && [ "$(stat -c %s "$1")" -gt 2500 ] &&
        [ "$width" -ge 100 ] && [ "$width" -le 20000 ] &&
        [ "$height" -ge 100 ] && [ "$height" -le 20000 ]
}
all_pictures() {
    local file n=0
    for file in $(pictures light) $(pictures dark) $(pictures column); do
        is_picture "$file" || { echo "$file"; return 1; }
        n=$((n + 1))
    done
    [ $n -gt 30 ]
}
light_like_dark() { diff <(pictures light | sed 's/light//') <(pictures dark | sed 's/dark//'); }
of_a_column() { # 234 points at two pixels per point
    local file
    for file in $(pictures column); do
        [ "$(od -An -tu1 -j18 -N2 "$file" | awk '{ print 256 * $1 + $2 }')" = 468 ] ||
            { echo "$file"; return 1; }
    done
}
every_figure() { # of --help is drawn
    local name
    pictures light >"$dir/light"
    for name in $(sed -n '/^The figures of/,/^$/s/^  \([a-z]*\) .*/\1/p' <<<"$("$BUILD/entropy-scan" --help)"); do
        grep -q -- "-$name.png" "$dir/light" || { echo "$name"; return 1; }
    done
}
page_shows() {
    local file
    for file in $(grep -o 'src="[^"]*' "$FIGURE_DIR/index.html" | cut -d'"' -f2); do
        [ -s "$FIGURE_DIR/$file" ] || { echo "$file"; return 1; }
    done
}
apart() { pictures "$1" | xargs awk -f tests/tools/texts_apart.awk; }

check 'all figures are drawn' figures
check 'every file is a picture' all_pictures
check 'every figure of --help is drawn' every_figure
check 'light and dark have the same pictures' light_like_dark
check 'pictures for a column have its width' of_a_column
check 'every picture of the index page exists' page_shows
check 'the index page has the published shares' grep -q \
    '^<tr><td>SM+G, published<td>1%<td>18%<td>23%<td>58%' "$FIGURE_DIR/index.html"
check 'the index page has the shares of these runs' grep -q '^<tr><td>SM+G, drawn here<td>1.4%<td>18.1%' "$FIGURE_DIR/index.html"
export FIGURE_SCAN='--format svg'
check 'the same runs are drawn as SVG' figures
check 'existing runs are not trained again' eval '! grep -q training "$dir/complaints"'
check 'no texts overlap' apart light
check 'no texts overlap in a column' apart column

# Smoothing keeps a NaN, so the curve has a gap.
awk 'BEGIN { print "step,layer,head,entropy"
    for (s = 0; s < 40; s++) printf "%d,0,0,%s\n", s, s == 20 ? "NaN" : 2 + s % 2 }' >"$dir/noise.csv"
cd "$dir"
"$scan" import -q noise.csv -o noise.db --ctx 128
check '--smooth is noted in the figure' sh -c '"$0" -q noise.db --curves=smooth.svg --smooth 9 &&
    grep -q "smoothed, window of 9 samples" smooth.svg' "$scan"
check 'without --smooth nothing is smoothed' sh -c '"$0" -q noise.db --curves=plain.svg && ! grep -q smoothed plain.svg &&
    ! cmp -s plain.svg smooth.svg' "$scan"
if "$scan" --version | grep -q '^no GSL'; then
    exits '--spikes needs GSL' 2 'built without GSL' "$scan" -q noise.db --curves=spikes.svg --spikes
else
    check 'spikes are noted if they are requested' sh -c '"$0" -q noise.db --curves=spikes.svg --spikes=9 &&
        grep -q "rings: spikes, window of 9 samples" spikes.svg && ! grep -q rings plain.svg' "$scan"
fi
exits '--spikes is refused for a heatmap' 2 '^entropy-scan: --spikes applies only to --figure curves, loss or values' "$scan" -q noise.db --heatmap --spikes
exits 'a window of two samples is refused by --spikes' 2 "--spikes '2': expected 3 to 9999 samples" "$scan" -q noise.db --curves --spikes=2
exits '--smooth is refused for a heatmap' 2 '^entropy-scan: --smooth applies only to --figure curves, loss or values' "$scan" -q noise.db --heatmap --smooth 9
exits 'a window of one sample is refused by --smooth' 2 '--smooth' "$scan" -q noise.db --curves --smooth 1

# --- a range of steps: drawn like a run that has only these steps
awk -F , 'NR == 1 || ($1 >= 18 && $1 <= 25)' noise.csv >part.csv
"$scan" import -q part.csv --name noise -o part.db --ctx 128
drawn() { # FIGURE RUN.db OPTION...: prints the shapes and texts of its drawing
    "$scan" draw "$1" "${@:2}" -o drawn.svg 2>/dev/null && grep -o '<[pt].*' drawn.svg || echo "no drawing: $*"
}
for figure in curves raster timeline; do
    same_text "$figure: --steps draws only these steps" "$(drawn $figure part.db)" "$(drawn $figure noise.db --steps 18-25)"
done
same_text '--steps A- goes to the end' "$(drawn curves noise.db --steps 30-39)" "$(drawn curves noise.db --steps 30-)"
same_text '--steps -B begins with the first step' "$(drawn curves noise.db --steps 0-9)" "$(drawn curves noise.db --steps=-9)"
check 'a figure without steps ignores --steps' [ "$(drawn heatmap+curves noise.db --steps 5-9 | grep -c 'step 39')" = 1 ]
exits 'a run that ends before the steps is left out' 4 'part.db: the last step is 25, but --steps begins at 30' \
    "$scan" draw curves noise.db part.db --steps 30-35 -o both.svg
check 'and the other runs are drawn' test -s both.svg
awk 'BEGIN { print "step,loss"; for (s = 0; s < 100; s += 10) print s "," 9 - s / 20 }' >losses.csv
"$scan" import -q losses.csv -o losses.db
exits 'steps between two samples' 3 'no loss was recorded from step 11 to 19' "$scan" draw loss losses.db --series loss --steps 11-19
exits 'steps between two samples of a series' 3 'losses.db: series loss has no sample from step 11 to 19' \
    "$scan" draw curves losses.db --series loss --steps 11-19
printf 'step,loss,eval:loss\n0,3,3\n10,2,\n20,,2\n' >phases.csv
"$scan" import -q phases.csv -o phases.db
exits 'steps after the last sample of a phase' 3 'phases.db: series loss has no sample from step 11 on' \
    "$scan" draw curves phases.db --series loss --steps 11-
exits 'steps without values' 3 'no value was recorded from step 11 to 19' "$scan" draw values losses.db --series loss --steps 11-19

# --- values of runs
awk 'BEGIN { printf "step"; for (k = 1; k <= 13; k++) printf ",a%02d", k; print ",loss"
    for (s = 0; s < 9; s++) { printf "%d", s; for (k = 1; k <= 14; k++) printf ",%d", s + k; print "" } }' >many.csv
"$scan" import -q many.csv -o many.db
titles() { grep -o '>[a-z][a-z0-9]*</text>' drawn.svg | tr -d '>' | sed 's,</text,,' | grep -v -e step -e nats | xargs; }
"$scan" draw values many.db --series loss -o drawn.svg 2>/dev/null
same_text 'the figure values has twelve panels, the first of the loss' \
    'loss a01 a02 a03 a04 a05 a06 a07 a08 a09 a10 a11' "$(titles | cut -d' ' -f 1-12)"
check 'further series are mentioned' grep -q 'further series: draw curves --series NAME' drawn.svg
"$scan" draw values many.db losses.db --series loss -o drawn.svg 2>/dev/null
check 'the runs of a figure may have different series' grep -q '>a11<' drawn.svg
exits 'a run without values' 3 'noise.db: a figure of values needs a series with one value per run' "$scan" draw values noise.db
for range in 5-3 - 5 x-7 1-2-3 9999999999999999999- ''; do
    exits "--steps '$range' is refused" 2 "^entropy-scan: --steps '$range': expected a range of steps, as in 200-400" \
        "$scan" draw curves noise.db "--steps=$range"
done
exits '--steps is refused for a heatmap' 2 'applies only to --figure curves, nans, slopes, loss, values, raster or timeline' \
    "$scan" draw heatmap noise.db --steps 5-9
exits '--trends and --steps exclude each other' 2 'mutually exclusive' "$scan" -q noise.db --curves --trends --steps 5-9
finish
