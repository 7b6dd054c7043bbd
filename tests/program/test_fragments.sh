#!/usr/bin/env bash
# Simulates a file system that several hosts share. Recordings are written as
# fragments, and all programs can read fragments. A run file with an SQLite
# write-ahead log is refused.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
sanitized_sqlite3

own_corpus "$dir/own.tok" || exit 1
echo '22 1 0:1 / / rw - nfs4 filer:/ rw' >"$dir/mounts"
cd "$dir" || exit 1
small=(--arch SM+LN+G --data own.tok --n-layer 2 --n-head 2 --d-model 16 --ctx 16
    --batch 2 --threads 1 --eval-every 10 -q)
on_nfs() { ENTROPY_MOUNTINFO=$dir/mounts "$@"; }

# --- location of a recording
check 'a recording on a local disk is a run file' "$train" "${small[@]}" --steps 30 --maps 4 --out plain.db
check 'a recording on a local disk leaves no other file' test "$(echo plain*)" = plain.db
text=$(on_nfs "$train" "${small[@]}" --steps 30 --maps 4 --name plain --out far.db 2>&1)
same_text 'a recording on nfs is a fragment, which a line reports' \
    'entropy-recorder: far.db: is on the shared file system nfs4: recording into far.esf' "$text"
check 'a recording on nfs leaves only the fragment' test "$(echo far*)" = far.esf
check 'a fragment is recorded on a local disk if requested' "$train" "${small[@]}" --steps 30 --maps 4 \
    --store fragment --name plain --out near.db
check 'a fragment on a local disk becomes a run file at the end' test "$(echo near*)" = near.db
on_nfs "$train" "${small[@]}" --steps 30 --store sqlite --name plain --out forced.db
check 'a run file is recorded on nfs if requested' test "$(echo forced*)" = forced.db
exits 'an unknown --store is refused' 2 'auto, sqlite.*fragment' "$train" "${small[@]}" --store x --out x.db

# --- all programs read fragments
numbers() { "$scan" "$@" --json | grep -vE '"(path|run|uuid|minutes|tokens_per_s)"'; }
samples() { # FILE: prints every sample; tokens_per_s differs between trainings
    local series
    for series in entropy loss act_rms lr attention_map; do
        "$scan" export "$1" --series $series --format jsonl || echo "$1 has no $series"
    done | grep -v '^{"run"' | sed 's/"uuid":"[^"]*"//'
}
same_text 'a fragment has the same table as a run file' "$(numbers plain.db)" "$(numbers far.esf)"
same_text 'a fragment has the same samples as a run file' "$(samples plain.db)" "$(samples far.esf)"
same_text 'a fragment that became a run file has the same samples' "$(samples plain.db)" "$(samples near.db)"
same_text 'a fragment is found under the name of the run file' "$(numbers far.esf)" "$(numbers far.db)"
check 'figures are drawn of a fragment' "$scan" far.esf --heatmap=h.png --curves=c.svg --figure maps -o m.png
check 'a report of a fragment and a run file is written' "$scan" report far.esf plain.db -o r.html
output 'sql counts the samples of a fragment' '^ *4$' "$scan" sql far.esf \
    "SELECT count(*) AS n FROM sample NATURAL JOIN series WHERE name='loss' AND phase='train' AND length(value)=4"
same_text 'es_values reads a fragment' \
    "$("$scan" sql plain.db "SELECT step, sum(value) FROM es_values('entropy') GROUP BY step")" \
    "$("$scan" sql far.esf "SELECT step, sum(value) FROM es_values('entropy') GROUP BY step")"
mkdir tree && cp far.esf plain.db tree
same_text 'a folder may contain fragments and run files' 2 "$("$scan" tree --json | grep -c '"path"')"
output 'watch reads a fragment' 'overload' "$scan" watch far.esf --once --severity info
check 'merge converts a fragment to a run file' "$scan" merge far.esf -o merged.db
same_text 'the converted run file has the same samples' "$(samples far.esf)" "$(samples merged.db)"
check 'the converted run file has the attention maps' test "$("$scan" export merged.db --series attention_map | wc -l)" -gt 10
output "the converted run file passes SQLite's integrity check" '^ok$' sqlite3 merged.db 'PRAGMA integrity_check'

# --- resumed recordings
go=(--checkpoint ck --checkpoint-every 10 --out go.db)
on_nfs "$train" "${small[@]}" --steps 20 "${go[@]}" --maps 4 2>/dev/null
check 'a training run is resumed in its fragment' on_nfs "$train" --resume ck --steps 30 "${go[@]}" -q
output 'a resumed fragment has one run' '^ *1$' "$scan" sql go.esf 'SELECT count(*) FROM run'
go=(--checkpoint ck2 --checkpoint-every 10 --out old.db)
"$train" "${small[@]}" --steps 20 "${go[@]}" --maps 4
exits 'a run file is not resumed in a fragment' 3 \
    'old.db: already contains the run.*nfs4.*record into another file' \
    on_nfs "$train" --resume ck2 --steps 30 --out old.db -q
"$train" --resume ck2 --steps 30 "${go[@]}" -q
same_text 'a resumed fragment has the samples of a resumed run file' "$(samples old.db)" "$(samples go.esf)"

# --- a sweep with fragments
cat >sweep.ini <<'END'
[sweep]
arch = SM; SM+LN+G
seed = 1
data = own.tok
[train]
n-layer = 2
n-head = 2
d-model = 16
ctx = 16
batch = 2
steps = 20
END
check 'a sweep runs on nfs' on_nfs "$scan" sweep sweep.ini -o swept -j 2
same_text 'a sweep on nfs writes fragments' 'swept/SM+LN+G_seed1.esf swept/SM_seed1.esf' \
    "$(cd "$dir" && LC_ALL=C ls swept/*.esf swept/*.db 2>/dev/null | xargs)"
output 'the fragments of a sweep are finished' '^2 runs: 2 finished' on_nfs "$scan" sweep swept --status
kept=$(sha256sum swept/*.esf)
on_nfs "$scan" sweep sweep.ini -o swept >/dev/null 2>&1
same_text 'a repeated sweep leaves finished fragments unchanged' "$kept" "$(sha256sum swept/*.esf)"

# --- killed
"$train" "${small[@]}" --steps 100000000 --store fragment --out killed.db 2>/dev/null &
trainer=$!
has_grown() { [ "$(stat -c %s killed.esf)" -gt 20000 ]; }
await 'a fragment grows' has_grown
output 'a fragment is read while it is written' '"status": *"running"' "$scan" killed.esf --json
recorder=$(pgrep -P $trainer)
kill -9 $recorder $trainer
wait $trainer 2>/dev/null
is_interrupted() { "$scan" killed.esf --json | grep '"status": *"interrupted"'; }
check 'a fragment of a killed recording is shown as interrupted' until_true is_interrupted

# --- logs of SQLite on a shared file system
cp plain.db logged.db
: >logged.db-wal
exits 'a run file with a write-ahead log on nfs is refused' 3 'logged.db: is on nfs4 and has a log.*--store fragment' \
    on_nfs "$scan" logged.db
check 'a run file with a write-ahead log on a local disk is read' "$scan" logged.db
rm logged.db-wal
check 'a run file without a write-ahead log on nfs is read' on_nfs "$scan" logged.db
finish
