#!/usr/bin/env bash
# Checks that long operations show a progress line on a terminal, that the line
# disappears at the end, and that other outputs contain no progress line.
. tests/support/tap.sh
plan_dir
. tests/support/corpus.sh
cd "$dir" || exit 1
export TERM=xterm

# --- input ------------------------------------------------------------------

for i in 1 2 3; do
    awk -v run=$i 'BEGIN { print "step,layer,head,entropy"
        for (s = 0; s < 40; s++) for (l = 0; l < 3; l++) for (h = 0; h < 2; h++)
            printf "%d,%d,%d,%.3f\n", s, l, h, 1 + run / 10 + h / 8 }' >run$i.csv
    "$scan" import run$i.csv -o run$i.db --ctx 16 -q
done
mkdir modules runs
cp run?.db runs
for i in 1 2 3 4 5 6 7 8 9; do echo "x = $i" >modules/m$i.py; done

# --- the line ---------------------------------------------------------------

on_terminal() { # COMMAND: prints all that it writes to a terminal of 100 columns
    script -qec "stty cols 100; $1" /dev/null </dev/null
}
# Prints what the terminal finally shows, without erased lines.
shown() { sed 's/.*\r\x1b\[K//; s/\r$//'; }
draws() { # NAME REGEX COMMAND
    local text
    text=$(on_terminal "$3")
    if ! grep -qE -- $'\r'"$2"$'.*\e\\[K' <<<"$text"; then
        fail "$1 draws a progress line" "$text"
    elif shown <<<"$text" | grep -qE -- "$2"; then
        fail "$1 removes the progress line" "$(shown <<<"$text")"
    else
        pass "$1 draws a progress line, and removes it"
    fi
    same_text "$1 draws no progress line on a dumb terminal" 0 \
        "$(TERM=dumb on_terminal "$3" | grep -c $'\e')"
    same_text "$1 draws no progress line without a terminal" 0 \
        "$(bash -c "$3" 2>&1 </dev/null | grep -c $'\e\\|\r')"
}
draws import 'importing run1.csv: 0\.0 of 0\.0 MB' "'$scan' import run1.csv -o i.db"
draws merge 'merging into all.db: 0\.0 of 0\.[0-9] MB' \
    "rm -f all.db; '$scan' merge run?.db -o all.db"
draws report 'reading: 0 of 3 files' "'$scan' report run?.db -o r.html"
draws 'the page of a report' 'writing r.html: [0-9]+ of 120 samples' "'$scan' report run?.db -o r.html"
draws 'a scan' 'reading: 0 of 3 files' "'$scan' -r runs"
draws 'a picture' 'reading: 0 of 3 files' "'$scan' run?.db --heatmap=h.png"
draws corpus 'reading: 1 of 9 files' "'$corpus' -o c.tok modules"
draws 'the encoding of a corpus' 'encoding: [0-9.]+ of 0\.0 MB' "'$corpus' -o c.tok modules"

for command in "'$scan' import run1.csv -o i.db" "'$scan' merge run1.db -o all2.db" \
    "'$scan' report run1.db run2.db -o r.html" "'$corpus' -o c.tok modules"; do
    same_text "-q draws nothing: ${command##*/}" 0 "$(on_terminal "$command -q" | grep -c $'\e')"
done
text=$(on_terminal "'$scan' run1.db run2.db --csv")
same_text 'text printed to the terminal suppresses the progress line' 0 \
    "$(grep -c $'\e' <<<"$text")"

# --- notes are printed above the line --------------------------------------

echo broken >run2.db
same_text 'a failure is printed on a separate line' 1 "$(on_terminal \
    "NO_COLOR=1 '$scan' report run?.db -o r.html" | shown | grep -c '^entropy-scan: run2.db: ')"

# --- the trainer -------------------------------------------------------------

write_source source
"$corpus" -q -o small.tok source
training="'$train' --data small.tok --arch SM --n-layer 2 --n-head 3 --d-model 12 --ctx 8 \
    --batch 2 --steps 20 --record-every 1 --out t.db"
draws training 'step [0-9]+/20  loss [0-9.]+  bands \[[-_=#!]*\]  [0-9]+ tokens/s  [0-9]+s left' \
    "$training"

# --- a sweep -----------------------------------------------------------------

cat >sweep.ini <<'END'
[sweep]
arch = SM
seed = 1 2
data = small.tok
[train]
n-layer = 1
n-head = 2
d-model = 8
ctx = 8
batch = 2
eval-batches = 2
steps = 2000
END
text=$(on_terminal "'$scan' sweep sweep.ini -o swept -j 1")
same_text 'a sweep on a terminal trains its runs' 2 "$(ls swept/*.db | wc -l)"
output 'a sweep prints the remaining time' '^1 of 2 runs done, 0 broken, [0-9]+s left' \
    echo "$text"
finish
