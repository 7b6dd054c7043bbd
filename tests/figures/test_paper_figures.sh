#!/usr/bin/env bash
# Runs `make paper-figures` with small models. Checks that the page has the papers' figures.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
write_source "$dir/src"
export FIGURE_DIR=$dir/figures FIGURE_CORPUS=$dir/src FIGURE_STEPS=30
export FIGURE_OPTIONS='--d-model 12 --n-head 3 --n-layer 8 --ctx 16 --batch 2
    --eval-batches 1 --eval-every 10'
page=$FIGURE_DIR/index.html
draw() { samples/paper-figures.sh >"$dir/said" 2>"$dir/complaints" || { cat "$dir/complaints"; return 1; }; }
numbers() { # PAPER: its figures on the page
    grep -o '<b>[^<]*' "$page" | grep -o "$1 [0-9]*" | cut -d' ' -f2 | sort -n | uniq | tr '\n' ' '
}
pictures_are_svg() {
    local n=0
    while read -r text; do
        base64 -d <<<"$text" | grep -q '</svg>' || return 1
        n=$((n + 1))
    done < <(grep -o 'base64,[^"]*' "$page" | cut -d, -f2)
    [ $n -ge 28 ]
}

check 'all figures are drawn' draw
same_text 'none is missing' 0 "$(grep -c 'class="missing"' "$page")"
same_text 'AERO has its figures' '1 3 4 5 6 7 9 10 11 12 13 14 15 16 17 18 19 20 21 ' "$(numbers AERO)"
same_text 'Entropy-Guided Attention has its figures' '2 4 5 6 7 ' "$(numbers EGA)"
same_text "ReLU's Revival has its figures" '1 2 3 4 5 ' "$(numbers RR)"
same_text 'PowerSoftmax has its figures' '1 3 4 5 6 7 8 9 10 11 12 13 ' "$(numbers PS)"
check 'every picture is SVG' pictures_are_svg
check 'a second run trains nothing' sh -c 'samples/paper-figures.sh 2>"$0/again" && ! grep -q training "$0/again"' "$dir"
rm "$FIGURE_DIR/runs/scffn.db"
printf 'no run' >"$FIGURE_DIR/runs/scffn.db"
check 'a figure that cannot be drawn says why' sh -c \
    'samples/paper-figures.sh 2>/dev/null; grep -q "class=.missing.><b>AERO 7</b>.*scffn\.db" "$0"' "$page"
finish
