#!/usr/bin/env bash
# `make replicate`, small: trains what is listed, once; decides the claims.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
export REPLICATE_DIR=$dir/runs REPLICATE_RESULTS=$dir/results
export REPLICATE_LIST=$dir/list REPLICATE_SEEDS=1
# A rate at which SM becomes NaN while SM+LN+G goes on.
export REPLICATE_OPTIONS='--steps 20 --n-layer 2 --n-head 3 --d-model 12
    --ctx 16 --batch 4 --eval-batches 2 --record-every 1 --after-nan 2'
printf '# two\n\n%s\n%s 1e12\n' gpt2-l12-t128-sm-ln-g-tiny \
    gpt2-l12-t128-sm-tiny >"$dir/list"

mkdir -p "$dir/runs"
write_source "$dir/src"
"$BUILD/entropy-corpus" -q -o "$dir/runs/corpus.tok" "$dir/src" || echo 'Bail out! no corpus'

replicate() { samples/replicate.sh >"$dir/said" 2>"$dir/complaints" || { cat "$dir/complaints"; return 1; }; }
report=$dir/results/replication-cpu.md csv=$dir/results/replication-cpu.csv
names() { (cd "$dir/runs" && echo *.db); }
check 'runs' replicate
check 'trains each line of the list' test "$(names)" = \
    'gpt2-l12-t128-sm-ln-g-tiny-s1.db gpt2-l12-t128-sm-tiny-s1-lr1e12.db'
check 'writes the report' grep -q '^| SM+LN+G ' "$report"
check 'with what is published' grep -q '^| SM+LN+G .*| perplexity 2.688' "$report"
check 'and the data and sizes' grep -qE '20 steps of 4 sequences.*' "$report"
check 'says where NaN began' grep -qE '^\| SM .*\| NaN .*\| 1 of 1, from [1-9]' "$report"
check 'decides a claim by its rule' grep -qE '\| SM collapses +\| 10+\.0 .*\| yes' "$report"
check 'draws the heads' test "$(head -c 4 "$dir/results/replication-cpu-heatmap.png" | tail -c 3)" = PNG
ppl() { "$BUILD/entropy-scan" "$1" --json | grep -o '"eval_ppl":[0-9.]*' | cut -d: -f2; }
check 'the summary has the perplexity of the run' grep -q \
    "^gpt2-l12-t128-sm-ln-g-tiny-s1,SM+LN+G,1,.*,finished,$(ppl "$dir/runs/gpt2-l12-t128-sm-ln-g-tiny-s1.db")," "$csv"
heads_before_nan() { # the head columns of a NaN run are of a step before it
    awk -F, '$2 == "SM" { ok = $7 == "" && $8 > $16 && $17 == 6 && $20 != "" }
        END { exit !ok }' "$csv"
}
check 'and heads from before the NaN' heads_before_nan

stamps() { stat -c '%n %y' "$dir"/runs/*.db; }
before=$(stamps)
cp "$report" "$dir/first.md"
check 'runs again' replicate
check 'and trains nothing twice' test "$(stamps)" = "$before"
check 'with the same report' cmp "$report" "$dir/first.md"
changed() { # RUN N: it is among the N that were trained again
    stamps | grep -vxFf <(echo "$before") >"$dir/changed"
    grep -q "$1" "$dir/changed" && [ "$(wc -l <"$dir/changed")" = "$2" ]
}
rm "$dir/runs/gpt2-l12-t128-sm-ln-g-tiny-s1.done"
replicate
check 'a run that was cut off is trained again' changed ln-g-tiny-s1 1
before=$(stamps)
REPLICATE_OPTIONS+=' --steps 19' replicate
check 'so are runs of another configuration' changed ln-g-tiny-s1 2
unset REPLICATE_OPTIONS
echo 'gpt2-l12-t128-sm-tiny 1e999' >"$dir/list"
exits 'a run that cannot start ends it' 123 'lr' samples/replicate.sh
finish
