#!/usr/bin/env bash
# Tests samples/powersoftmax: makes tiny runs, draws their figures and prints their
# table.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
sample=samples/powersoftmax
export ENTROPY_TRAIN=$train ENTROPY_SCAN=$scan SEEDS=1 BASE=6 MORE=20 STEPS=4
tiny='--n-layer 2 --n-head 3 --d-model 12 --ctx 8 --batch 2 --threads 1 --eval-every 10 --eval-batches 2'
runs() { sh $sample/runs.sh "$1" "$dir/a.tok" "$dir/runs" $tiny; }
figure() { python3 -B $sample/figures.py "$@"; }

own_corpus "$dir/a.tok"
check 'softmax continues as PowerSoftmax with range losses' runs continual
check 'there are seven runs' test "$(find "$dir/runs" -name '*.db' | wc -l)" = 7
same_text 'existing runs are not trained again' '' "$(runs continual 2>&1)"
rows() { # RUN SERIES: prints the number of training samples
    "$scan" sql "$dir/runs/$1-s1.db" "SELECT count(*) AS n FROM es_values('$2', 'train')" --csv |
        tail -n 1 | tr -d '\r'
}
same_text 'the range loss is recorded only in runs that have one' "$(rows on-psm-range ce) 0" \
    "$(rows on-psm-range range) $(rows on-psm range 2>/dev/null)"
check 'models are trained from scratch' env ONLY=ra sh $sample/runs.sh scratch "$dir/a.tok" "$dir/runs" $tiny
check 'several powers are trained' env ONLY='p[24]' sh $sample/runs.sh study "$dir/a.tok" "$dir/runs" $tiny
check 'several epsilons are trained, with two seeds' \
    env SEEDS='1 2' ONLY='*1e-[14]' sh $sample/runs.sh study "$dir/a.tok" "$dir/runs" $tiny
same_text 'both forms are trained with both seeds' 8 "$(find "$dir/runs" -name '*1e-[14]-s[12].db' | wc -l)"
check 'softmax is trained for comparison' env ONLY='softmax' sh $sample/runs.sh study "$dir/a.tok" "$dir/runs" $tiny
for kind in p epsilon distance; do
    check "$kind is drawn" figure $kind "$dir/runs" -o "$dir/$kind.svg"
done
check 'all figures are XML' python3 -c 'import sys, xml.dom.minidom as x; [x.parse(p) for p in sys.argv[1:]]' \
    "$dir"/{p,epsilon,distance}.svg
dots() { grep -c '<circle' "$dir/$1.svg"; }
runs_drawn() { grep -c 'fill-opacity="0.45"' "$dir/$1.svg"; }
same_text 'each run is a dot: p = 2 and 4; four epsilons with two seeds, and p = 4' '2 9' \
    "$(runs_drawn p) $(runs_drawn epsilon)"
same_text 'each head is a dot: 6 for each of softmax, p = 2 and p = 4, and one in the legend' 19 "$(dots distance)"
output 'the table has a line for each kind' 'on-psm-large \| `PSM\(4\)\+LN\+G` \| 1 \| [0-9.]+ ' \
    figure table "$dir/runs"
mkdir "$dir/none"
exits 'a folder without runs is refused' 3 'no run file' figure p "$dir/none" -o "$dir/x.svg"
exits 'an unknown study is refused' 2 'continual, study or scratch' \
    sh $sample/runs.sh other "$dir/a.tok" "$dir/runs"
finish
