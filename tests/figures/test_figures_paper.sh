#!/usr/bin/env bash
# Checks that figures for papers are as wide as a column, that numbers are
# typeset, and that texts which identify a run are not truncated.
. tests/support/tap.sh
plan_dir
cd "$dir"

# Imports a run that has two layers of three heads and a single step.
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

draws() { # FIGURE RUN...: to FIGURE.svg, as one line
    local figure=$1
    shift
    "$scan" -q "$@" --for column --figure "$figure" -o - --format svg | tr '\n' ' ' >"$figure.svg"
}

ereg() { # FILE ENTROPY GAMMA LAMBDA REDUCTION SEED
    run "$1" "$2" "{\"gamma\":$3,\"lambda\":$4,\"ereg_reduce\":\"$5\"}" "$6"
}
ereg a.db 1.1 0.1 1e-5 token 1
ereg b.db 1.2 0.2 1e-5 token 1
ereg c.db 1.3 0.2 1e-5 mean 1
ereg d.db 1.4 0.2 0.04 token 1
ereg e.db 1.5 0.2 0.04 token 7

draws heatmap small.db
file_has 'a note has typeset powers of ten' heatmap.svg '>max = 10⁻⁵ \(observed\)<'
output 'a table has short exponents' '^m = 1e-5 nats' "$scan" small.db

# Long titles are broken into several lines. If long titles were truncated
# instead, two of these titles would be equal.
long=(a.db b.db c.db d.db e.db)
draws heatmap "${long[@]}"
file_has 'long titles are complete, in several lines' heatmap.svg '>γ = 0\.2, λ = 0\.04<.*>reduction = token<.*>seed 7<'
exits 'long titles are not cut' 1 '^$' grep … heatmap.svg
draws delta "${long[@]}"
file_has 'the note of a delta is broken into lines' delta.svg '>difference from γ = 0\.1, .*>token, seed 1<'
exits 'the note of a delta is not cut' 1 '^$' grep … delta.svg
draws heatmap+curves "${long[@]}"
exits 'nothing is cut on a page of several figures' 1 '^$' grep … heatmap+curves.svg

# Panels with two heads are too narrow for the panel's letter and its title on
# the same line.
for seed in 1 2 3 4 5; do
    printf '%s\n' '# arch: SM' '# n_layer: 1' '# n_head: 2' '# ctx: 8' "# seed: $seed" \
        step,layer,head,entropy,loss 0,0,0,1, 0,0,1,1, 0,,,,2 >narrow.csv
    "$scan" import -q narrow.csv -o "narrow$seed.db" || exit 1
done
draws heatmap+loss narrow?.db
file_has 'a title is below its letter if both do not fit in one line' heatmap+loss.svg '>\(a\) <.*>seed 1<'
exits 'a title below its letter is not cut' 1 '^$' grep … heatmap+loss.svg

# If all points have the same architecture, they are labelled with the settings
# in which the runs differ.
evaluated() { # FILE GAMMA LOSS
    sed "s/^# config: .*/# config: {\"gamma\":$2,\"mlp_mult\":4}/; s/^step,.*/step,layer,head,entropy,eval:ce/" run.csv |
        sed '/^[0-9]/s/$/,/' >"e$2.csv"
    sed -i 's/^# seed.*/# d_model: 6\n# vocab: 9\n# series: head nats entropy\n# series: run nats eval:ce/' "e$2.csv"
    echo "0,,,,$3" >>"e$2.csv"
    "$scan" import -q "e$2.csv" -o "$1" || exit 1
}
evaluated ea.db 0.1 1.5
evaluated eb.db 0.2 1.75
"$scan" ea.db eb.db -q --figure pareto -o pareto.svg
file_has 'points of one architecture are labelled with their differences' pareto.svg '>γ = 0\.1<' '>γ = 0\.2<'
exits 'the note does not mention the best run then' 1 '^$' grep 'the best' pareto.svg
sqlite3 eb.db "UPDATE run SET family = 'sas'" || exit 1
"$scan" ea.db eb.db -q --figure pareto -o pareto.svg --salvage
file_has 'a model of simplified blocks has another name' pareto.svg '>SAS:' 'the same architecture'

# --- the heatmap of a run that became NaN
{
    printf '%s\n' '# arch: SM' '# n_layer: 2' '# n_head: 2' '# ctx: 8' step,layer,head,entropy
    for step in 0 10 20 30; do
        for head in 0,0 0,1 1,0 1,1; do
            case $step$head in 201,1 | 30*) value=NaN ;; *) value=1.$step ;; esac
            echo "$step,$head,$value"
        done
    done
} >nan.csv
"$scan" import -q nan.csv -o nan.db || exit 1
"$scan" nan.db -q --heatmap=nan.svg
file_has 'a run that became NaN is shown at its last finite step' nan.svg '>step 10, NaN from step 20<' 'max = 1\.1 \(observed\)'
"$scan" nan.db -q --heatmap=last.svg --step last
file_has '--step last shows the last step' last.svg '>step 30<'
"$scan" nan.db -q --heatmap=some.svg --step 20
file_has 'a chosen step is shown even with NaN' some.svg '>step 20<'

# --- several figures in one PDF
figures() { "$scan" a.db b.db --figure heatmap,bands,heatmap+bands "$@"; }
exits 'several figures are the pages of a PDF' 0 '^entropy-scan: all.pdf written$' figures -o all.pdf
output 'each figure is one page' '^Pages: +3$' pdfinfo all.pdf
sizes() { pdfinfo -l 9 "$1" | sed -n 's/^Page .*size: *\(.*\) pts.*/\1/p' | tr '\n' ' '; }
output 'pages have different sizes' '^([0-9.]+ x [0-9.]+) ([0-9.]+ x [0-9.]+) ([0-9.]+ x [0-9.]+) $' sizes all.pdf
check 'the sizes are not all equal' test "$(sizes all.pdf | tr ' ' '\n' | grep '[0-9]' | sort -u | wc -l)" -gt 2
output 'the second page has the bands' 'share of heads|heads' sh -c 'pdftotext -f 2 -l 2 all.pdf -'
check 'a PDF is reproducible' sh -c 'cp all.pdf 1.pdf && "$@" -q -o all.pdf && cmp all.pdf 1.pdf' \
    sh "$scan" a.db b.db --figure heatmap,bands,heatmap+bands
mkdir folder.pdf
check 'a folder named like a PDF is used as a folder' figures -q -o folder.pdf
check 'the folder has a file for each figure' test -s folder.pdf/a-bands.png
exits 'only a PDF can have several figures' 2 'all.png: cannot contain several figures: name a folder, or a .pdf' figures -o all.png
check 'no folder is made instead' test ! -e all.png
exits 'one PDF for two outputs is refused' 2 'x.pdf: two outputs' "$scan" a.db --figure bands,curves,heatmap -o x.pdf --heatmap=x.pdf
exits 'a PDF that would replace a run is refused' 2 'run.pdf: (is a database|is both input and output)' sh -c 'cp a.db run.pdf; "$0" a.db --figure bands,curves -o run.pdf' "$scan"

# --- sizes
size_is() { # NAME SIZE ARGUMENT...: in points
    same_text "$1" "$2 " "$("$scan" -q small.db "${@:3}" --heatmap=sized.pdf && sizes sized.pdf)"
}
size_is 'a size in inches' '234 x 180' --size 3.25x2.5in
size_is 'a size in millimetres' '720 x 360' --size 254x127mm
size_is 'a size in points' '300 x 200' --size 300x200pt
size_is 'a PDF size without a unit is in points' '300 x 200' --size 300x200
output "the NeurIPS text is 5.5 inches wide" '^396 x ' sh -c '"$0" -q small.db --heatmap=n.pdf --for neurips && pdfinfo n.pdf | sed -n "s/^Page size: *//p"' "$scan"
output "an ICML column is 3.25 inches wide" '^234 x ' sh -c '"$0" -q small.db --heatmap=i.pdf --for icml && pdfinfo i.pdf | sed -n "s/^Page size: *//p"' "$scan"
output 'a PNG has two pixels per point' '800 x 600' sh -c '"$0" -q small.db --heatmap=s.png --size 400x300pt && file s.png' "$scan"
exits 'a PNG in inches may be too large' 2 '--size: a PNG of 144000x144000' "$scan" small.db --heatmap=s.png --size 1000x1000in
exits 'an unknown unit is refused' 2 "--size '3x4ft'" "$scan" small.db --heatmap --size 3x4ft
# Prints the largest font size in a figure.
letters() { "$scan" -q small.db --heatmap=- --format svg --for icml "$@" | grep -o 'font-size="[0-9.]*"' | tr -dc '0-9.\n' | sort -n | tail -n 1; }
check '--font-size scales the letters' python3 -c 'import sys
half, whole = map(float, sys.argv[1:])
assert abs(half / whole - 0.5) < 0.02, sys.argv' "$(letters --font-size 4)" "$(letters --font-size 8)"
output '--font-size keeps the width' 'width="234(pt)?"' "$scan" -q small.db --heatmap=- --format svg --for icml --font-size 6
exits 'an illegible font size is refused' 2 '--font-size: 1 is not between 4 and 40' "$scan" small.db --heatmap --font-size 1
exits '--font-size without a picture is refused' 2 'applies only to pictures' "$scan" small.db --font-size 8
finish
