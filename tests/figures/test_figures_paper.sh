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

ereg() { # FILE ENTROPY GAMMA LAMBDA REDUCTION SEED
    run "$1" "$2" "{\"gamma\":$3,\"lambda\":$4,\"ereg_reduce\":\"$5\"}" "$6"
}
ereg a.db 1.1 0.1 1e-5 token 1
ereg b.db 1.2 0.2 1e-5 token 1
ereg c.db 1.3 0.2 1e-5 mean 1
ereg d.db 1.4 0.2 0.04 token 1
ereg e.db 1.5 0.2 0.04 token 7

draws heatmap small.db
file_has 'a note has its powers of ten typeset' heatmap.svg '>max = 10⁻⁵ \(observed\)<'
output 'a table has short exponents' '^m = 1e-5 nats' "$scan" small.db

# Titles that do not fit are broken: cut, those of two of these runs are alike.
long=(a.db b.db c.db d.db e.db)
draws heatmap "${long[@]}"
file_has 'long titles are whole, in several lines' heatmap.svg '>γ = 0\.2, λ = 0\.04<.*>reduction = token<.*>seed 7<'
exits 'and none is cut' 1 '^$' grep … heatmap.svg
draws delta "${long[@]}"
file_has 'so is the note of a delta' delta.svg '>difference from γ = 0\.1, .*>token, seed 1<'
exits 'and it is not cut' 1 '^$' grep … delta.svg
draws heatmap+curves "${long[@]}"
exits 'nor is anything of a page of several figures' 1 '^$' grep … heatmap+curves.svg

# Panels of two heads are too narrow for a letter and a title beside each other.
for seed in 1 2 3 4 5; do
    printf '%s\n' '# arch: SM' '# n_layer: 1' '# n_head: 2' '# ctx: 8' "# seed: $seed" \
        step,layer,head,entropy,loss 0,0,0,1, 0,0,1,1, 0,,,,2 >narrow.csv
    "$scan" import -q narrow.csv -o "narrow$seed.db" || exit 1
done
draws heatmap+loss narrow?.db
file_has 'a title has a line of its own then' heatmap+loss.svg '>\(a\) <.*>seed 1<'
exits 'and is not cut either' 1 '^$' grep … heatmap+loss.svg

# Runs of one architecture are called by what they differ in where points are.
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
file_has 'points of one architecture are called by what differs' pareto.svg '>γ = 0\.1<' '>γ = 0\.2<'
exits 'and nothing is said of the best' 1 '^$' grep 'the best' pareto.svg

# --- several figures in one PDF
figures() { "$scan" a.db b.db --figure heatmap,bands,heatmap+bands "$@"; }
exits 'several figures are the pages of a PDF' 0 '^entropy-scan: all.pdf written$' figures -o all.pdf
output 'each is one' '^Pages: +3$' pdfinfo all.pdf
sizes() { pdfinfo -l 9 "$1" | sed -n 's/^Page .*size: *\(.*\) pts.*/\1/p' | tr '\n' ' '; }
output 'of a size of its own' '^([0-9.]+ x [0-9.]+) ([0-9.]+ x [0-9.]+) ([0-9.]+ x [0-9.]+) $' sizes all.pdf
check 'not one for all' test "$(sizes all.pdf | tr ' ' '\n' | grep '[0-9]' | sort -u | wc -l)" -gt 2
output 'the second has the bands' 'share of heads|heads' sh -c 'pdftotext -f 2 -l 2 all.pdf -'
check 'the same bytes come twice' sh -c 'cp all.pdf 1.pdf && "$@" -q -o all.pdf && cmp all.pdf 1.pdf' \
    sh "$scan" a.db b.db --figure heatmap,bands,heatmap+bands
mkdir folder.pdf
check 'a folder that is called so is one' figures -q -o folder.pdf
check 'with a file for each' test -s folder.pdf/a-bands.png
exits 'no other format has pages' 2 'all.png: several figures: name a folder, or a .pdf' figures -o all.png
check 'and no folder is made of it' test ! -e all.png
exits 'a PDF for two outputs' 2 'x.pdf: two outputs' "$scan" a.db --figure bands,curves,heatmap -o x.pdf --heatmap=x.pdf
exits 'a PDF in the place of a run' 2 'run.pdf: is (a database|both input and output)' sh -c 'cp a.db run.pdf; "$0" a.db --figure bands,curves -o run.pdf' "$scan"

# --- sizes
size_is() { # NAME SIZE ARGUMENT...: in points
    same_text "$1" "$2 " "$("$scan" -q small.db "${@:3}" --heatmap=sized.pdf && sizes sized.pdf)"
}
size_is 'a size in inches' '234 x 180' --size 3.25x2.5in
size_is 'a size in millimetres' '720 x 360' --size 254x127mm
size_is 'a size in points' '300 x 200' --size 300x200pt
size_is 'as without a unit' '300 x 200' --size 300x200
output "NeurIPS's text is 5.5 inches wide" '^396 x ' sh -c '"$0" -q small.db --heatmap=n.pdf --for neurips && pdfinfo n.pdf | sed -n "s/^Page size: *//p"' "$scan"
output "a column of ICML 3.25" '^234 x ' sh -c '"$0" -q small.db --heatmap=i.pdf --for icml && pdfinfo i.pdf | sed -n "s/^Page size: *//p"' "$scan"
output 'a PNG has two pixels a point' '800 x 600' sh -c '"$0" -q small.db --heatmap=s.png --size 400x300pt && file s.png' "$scan"
exits 'a PNG in inches may be too large, too' 2 '--size: a PNG of 144000x144000' "$scan" small.db --heatmap=s.png --size 1000x1000in
exits 'an unknown unit' 2 "--size '3x4ft'" "$scan" small.db --heatmap --size 3x4ft
# The size of the letters on a page of one size.
letters() { "$scan" -q small.db --heatmap=- --format svg --for icml "$@" | grep -o 'font-size="[0-9.]*"' | tr -dc '0-9.\n' | sort -n | tail -n 1; }
check '--font-size makes letters as large' python3 -c 'import sys
half, whole = map(float, sys.argv[1:])
assert abs(half / whole - 0.5) < 0.02, sys.argv' "$(letters --font-size 4)" "$(letters --font-size 8)"
output 'and leaves the width' 'width="234(pt)?"' "$scan" -q small.db --heatmap=- --format svg --for icml --font-size 6
exits 'letters that nobody can read' 2 '--font-size: 1 is not between 4 and 40' "$scan" small.db --heatmap --font-size 1
exits '--font-size without a picture' 2 'applies only to pictures' "$scan" small.db --font-size 8
finish
