#!/usr/bin/env bash
# Tests `make thresholds` with small runs: checks which runs are trained, and that the
# page agrees with the run files.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
export BUILD=$bin THRESHOLDS_DIR=$dir/runs THRESHOLDS_RESULTS=$dir/results PYTHONDONTWRITEBYTECODE=1
export THRESHOLDS_TABLE=$dir/table.toml THRESHOLDS_DIRTY=1 THRESHOLDS_NICE=0
mkdir "$dir/runs"
write_source "$dir/src"
"$corpus" -q -o "$dir/runs/corpus.tok" "$dir/src" || echo 'Bail out! no corpus'
cat >"$THRESHOLDS_TABLE" <<END
gamma = [0.1, 0.5]
seed = [1]
[corpus]
sha256 = "$(sha256sum <"$dir/runs/corpus.tok" | cut -d' ' -f1)"
[reduce]
token = { lambda = 1e-2 }
mean = { lambda = 1 }
[options]
arch = "EReg(SM(t)+ScFuFFN)"
n-layer = 2
n-head = 3
d-model = 12
ctx = 16
batch = 4
steps = 20
lr = 1e-2
record-every = 1
eval-every = 20
eval-batches = 2
END
thresholds() { samples/truth/thresholds.py "$@" >"$dir/said" 2>&1 || { cat "$dir/said"; return 1; }; }
page=$dir/results/thresholds.md

exits 'a page without runs is refused' 1 'no runs of this table' samples/truth/thresholds.py --page
check 'make thresholds runs' thresholds
check 'every reduction is trained with every tolerance' test "$(cd "$dir/runs" && echo *.db)" = \
    'mean-gamma0.10-s1.db mean-gamma0.50-s1.db token-gamma0.10-s1.db token-gamma0.50-s1.db'
smallest() { # FILE: prints its smallest threshold at the end in the format of the page
    "$scan" sql "$1" "SELECT printf('%.3f', min(value)) AS x FROM es_values('theta', 'train')
        WHERE step = 19" --csv | tail -1
}
for run in token-0.10 token-0.50 mean-0.10 mean-0.50; do
    check "the page has the smallest threshold of $run" grep -q \
        "^| ${run%-*} | ${run#*-} | $(smallest "$dir/runs/${run/-/-gamma}-s1.db") |" "$page"
done
# The thresholds of this run start at 0.5, its gamma. If the regulariser uses
# the mean of each head's entropies, the thresholds do not move.
check 'thresholds that began at gamma are still at gamma' grep -qE \
    '^\| mean \| 0.50 \| 0.500 \| 100 % \| 0 % \| 100 % \| 0.000 ' "$page"
check 'thresholds at gamma are counted' grep -q 'reduce mean`, the .* in 1 of 2 runs (gamma 0.50 in 1 of 1 runs)' "$page"
for picture in heads steps; do
    check "draws thresholds-$picture.png" test \
        "$(head -c 4 "$dir/results/thresholds-$picture.png" | tail -c 3)" = PNG
done
stamps() { stat -c '%n %y' "$dir"/runs/*.db; }
before=$(stamps)
cp "$page" "$dir/first.md"
check '--page makes the page again' thresholds --page
check '--page makes the same bytes' cmp "$page" "$dir/first.md"
check '--page trains nothing' test "$(stamps)" = "$before"
rm "$dir/runs/mean-gamma0.10-s1.done"
exits 'a page with a missing run is refused' 1 'mean-gamma0.10-s1: not finished' \
    samples/truth/thresholds.py --page
sed -i '/^gamma/d' "$THRESHOLDS_TABLE"
exits 'a table without gamma is refused' 1 'table.toml: no gamma' samples/truth/thresholds.py
finish
