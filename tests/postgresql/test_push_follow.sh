#!/usr/bin/env bash
# Tests entropy-scan push --follow during two training runs, which write a run file and a fragment.
# The training runs are killed and resumed from a checkpoint, and the server stops and starts again.
. tests/support/tap.sh
. tests/support/corpus.sh
. tests/support/background.sh
. tests/support/postgres.sh
plan_dir
trap 'kill $follower $trainer 2>/dev/null; postgres_stop immediate; rm -rf "$dir"' EXIT
postgres_or_end 'trainings are followed'
own_corpus "$dir/own.tok" || exit 1
sql() { psql -qAt -c "$1" 2>/dev/null; }
n_samples() { sql "SELECT coalesce(sum(n_samples), 0) FROM entropy_scan.run JOIN entropy_scan.series USING(run_id) WHERE run.name = '$1'"; }
has_more() { [ "$(n_samples "$1")" -gt "$2" ] 2>/dev/null; }
has_ended() { [ "$(sql "SELECT status FROM entropy_scan.run WHERE name = '$1'")" = finished ]; }
cd "$dir" || exit 1
small=(--arch SM+LN+G --data own.tok --n-layer 2 --n-head 3 --d-model 24 --ctx 16
    --batch 2 --threads 1 --eval-every 50 --maps 4 --record-every 2 --checkpoint saved --checkpoint-every 50)
mkdir files
"$scan" push --follow --poll 0.2 files --to "$postgres_url" 2>messages &
follower=$!
check 'a follower waits for the first run' until_true grep -q 'files: no run file .* yet: waiting' messages
start "${small[@]}" --steps 1000000 --store fragment --name frag --out files/frag.db
check 'a fragment is pushed as it grows' until_true has_more frag 100
seen=$(n_samples frag)
check 'the growing fragment continues to be pushed' until_true has_more frag "$seen"
postgres_stop immediate
postgres_again || fail 'the server starts again' # not in a subshell, with which the server would end
seen=$(n_samples frag)
check 'a push continues with the restarted server' until_true has_more frag "$seen"
kill -9 $(pgrep -P $trainer) $trainer
wait $trainer 2>/dev/null
last=$(ls saved | sed -n 's/.*-\([0-9]*\)\.safetensors/\1/p' | sort -n | tail -n 1)
check 'a killed training resumes from its checkpoint' "$train" -q --resume saved \
    --steps $((10#$last + 60)) --lr 0.1 --store fragment --out files/frag.db
check 'the samples that it wrote again replace the old ones' until_true has_ended frag
start "${small[@]}" --steps 120 --store sqlite --name wal --out files/wal.db
check 'a run file is pushed, too' until_true has_more wal 10
finish_training
check 'a run file is pushed to its end' until_true has_ended wal
compare() { SCAN=$scan "$root/tests/postgresql/runs.py" compare files 2>&1; }
is_all_pushed() { compare | grep -qE '^2 runs, [0-9]* samples, .* the same$'; }
await 'everything recorded is pushed' is_all_pushed
kill $follower
wait $follower 2>/dev/null
same_text 'a stopped follower ends by the signal' 143 $?
output 'the database equals the recordings' '^2 runs, [0-9]* samples, .* the same$' compare
output 'the database has the attention maps, too' '^[1-9]' sql 'SELECT count(*) FROM entropy_scan.attention_map'
exits 'nothing is left to push' 0 ' 0 new runs, 0 continued, 2 unchanged' "$scan" push files --to "$postgres_url"
finish
