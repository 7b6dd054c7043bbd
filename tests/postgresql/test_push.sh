#!/usr/bin/env bash
# Tests entropy-scan push with a private PostgreSQL server: the database has
# the contents of the files, bit for bit, even after a run was resumed from an
# earlier step or a file was damaged.
. tests/support/tap.sh
. tests/support/postgres.sh
plan_dir
trap 'postgres_stop immediate; rm -rf "$dir"' EXIT
postgres_or_end 'runs are pushed'
runs() { SCAN=$scan "$root/tests/postgresql/runs.py" "$@"; }
sql() { psql -qAt -c "$1"; }
cd "$dir"

check 'files are made' runs make files 6 20 3 4

# --- the tables
exits 'a user who may not create the tables gets an error' 3 \
    'permission denied.*GRANT' sh -c 'psql -qc "CREATE ROLE guest LOGIN PASSWORD '"'guest'"'" &&
    PGPASSWORD=guest "$0" push files --to "postgresql://guest@127.0.0.1:$PGPORT/runs"' "$scan"
for _ in 1 2 3 4; do "$scan" push -q files/0 --to "$postgres_url" & pushers+=($!); done
failed=0
for pid in "${pushers[@]}"; do wait "$pid" || failed=1; done
check 'four concurrent first pushes create the tables once' test $failed = 0
same_text 'four concurrent first pushes push the run once' 1 "$(sql 'SELECT count(*) FROM entropy_scan.run')"
check 'psql runs the SQL that --schema prints' sh -c 'psql -qc "CREATE DATABASE other" &&
    "$0" push --schema | psql -q1 -v ON_ERROR_STOP=1 other && "$0" push -q files --to "${1%runs}other"' "$scan" "$postgres_url"

# --- the contents of the files
exits 'runs are pushed' 0 "$postgres_url: 5 new runs, 0 continued, 1 unchanged: " \
    "$scan" push files --to "$postgres_url"
output 'the database equals the files, bit by bit' '^6 runs, 144 samples' runs compare files
output 'a view has the rows of entropy-scan sql' '^120 values, 3 states' runs values files/1/run-1.db
exits 'nothing is pushed twice' 0 ' 0 new runs, 0 continued, 6 unchanged: 0 samples, 0 events, 0 alerts' \
    "$scan" push files --to "$postgres_url"
output '--json is an object' '"new":0,"changed":0,"same":6,.*"seconds":[0-9.]+}$' \
    "$scan" push files --to "$postgres_url" --json
check 'the password is in no message' sh -c '! "$0" push files no.db --to "postgresql://es:$PGPASSWORD@127.0.0.1:$PGPORT/runs" 2>&1 |
    grep -F "$PGPASSWORD"' "$scan"
printf '[runs]\nhost=127.0.0.1\nport=%s\nuser=es\ndbname=runs\n' "$PGPORT" >services
while read -r line; do
    check "example: $line" sh -c "ln -sfn files runs && PGSERVICEFILE=services PATH=$(dirname "$scan"):\$PATH && export PGSERVICEFILE && $line"
done < <("$scan" help push --man | sed -n '/^\.SH EXAMPLES/,/^\.SH/p' | sed -n '/^entropy/s/\\//gp')

cp files/2/run-2.db files/copy.db
psql -qc 'SELECT entropy_scan.drop_run(uuid) FROM entropy_scan.run' >/dev/null
for jobs in 1 2; do
    exits "--jobs $jobs: a run with a copy in the folder is pushed once" 0 ' 6 new runs, 0 continued, 1 unchanged: 144 samples' \
        "$scan" push files --jobs $jobs --to "$postgres_url"
    output 'a run with a copy in the folder is complete' '^6 runs, 144 samples' runs compare files
    [ $jobs = 2 ] || psql -qc 'SELECT entropy_scan.drop_run(uuid) FROM entropy_scan.run' >/dev/null
done
rm files/copy.db

# --- a run that grows, and one that is resumed earlier
copy=files/2/run-2.db
cp $copy whole.db
shorten() { # RUN.db STEP CHANGE: deletes everything from the step on, and runs CHANGE
    sqlite3 "$1" "DELETE FROM sample WHERE step >= $2; UPDATE run SET status = 'running', ended_at = NULL;
        DELETE FROM event WHERE step >= $2; $3; DELETE FROM row_checksum"
}
shorten $copy 50 ''
exits 'a run that was resumed earlier loses its later samples' 0 '1 continued' "$scan" push files --to "$postgres_url"
output 'the database equals the shortened file' 'the same$' runs compare files
cp whole.db $copy
exits 'a run that grows is continued' 0 '1 continued, 5 unchanged: 10 samples' \
    "$scan" push files --to "$postgres_url"
output 'the database equals the grown file' 'the same$' runs compare files
runs make others 3 20 3 4 2
uuid=$(sqlite3 $copy 'SELECT uuid FROM run')
sqlite3 others/2/run-2.db "UPDATE run SET uuid = '$uuid'" # the checksums are for another uuid: all samples are damaged
"$scan" merge -q --salvage others/2/run-2.db -o other.db 2>/dev/null
exits 'another file with other samples of the run is refused' 3 \
    "other.db: the database has run $uuid with different samples, from .*/files/2/run-2: .*drop_run" \
    "$scan" push other.db --to "$postgres_url"
cp whole.db older.db && shorten older.db 50 ''
exits 'an older copy is skipped' 0 '0 continued, 1 unchanged' "$scan" push older.db --to "$postgres_url"
output 'an older copy changes nothing' 'the same$' runs compare files
cp other.db $copy
"$scan" push -q files --to "$postgres_url"
output 'values that were recorded again with other bits are replaced' 'the same$' runs compare files
cp whole.db $copy

# --- damage, ranks, unreadable files
cp whole.db damaged.db
sqlite3 damaged.db "UPDATE sample SET value = zeroblob(length(value)) WHERE step = 30; UPDATE run SET uuid = uuid"
psql -qc "SELECT entropy_scan.drop_run('$uuid')" >/dev/null
exits 'a damaged sample gives exit code 3' 3 'damaged.db: .*damaged' "$scan" push damaged.db --to "$postgres_url"
same_text 'a damaged sample is pushed as missing values, with an event' 'missing|2' \
    "$(sql "SELECT string_agg(DISTINCT state, ',') FROM entropy_scan.sample_value
        JOIN entropy_scan.run USING(run_id) WHERE uuid = '$uuid' AND step = 30")|$(sql "SELECT count(*)
        FROM entropy_scan.event JOIN entropy_scan.run USING(run_id) WHERE uuid = '$uuid' AND kind = 'damaged'")"
psql -qc "SELECT entropy_scan.drop_run('$uuid')" >/dev/null
printf '# uuid: %s\n# config: {"fragment":{"world":2,"ranks":[1],"layer":0,"head":0}}\nstep,layer,head,entropy\n0,0,0,1\n' \
    00000000-89ab-4def-8123-456789abcdef | "$scan" import -q - -o rank.db
exits 'a rank has to be merged first' 4 'rank.db: is a rank of a distributed.*merge' \
    "$scan" push rank.db files --to "$postgres_url"
fragment() { # RANK PATH
    printf '# uuid: %s\n# config: {"fragment":{"world":2,"ranks":[%s],"layer":0,"head":0}}\nstep,layer,head,entropy\n0,0,0,1\n%s,0,0,1\n' \
        11111111-89ab-4def-8123-456789abcdef "$1" "${3:-3}" | "$scan" import -q - -o "$2"
}
mkdir ranks && fragment 0 ranks/a.db && fragment 1 ranks/a.rank1.db || exit 1
"$scan" merge -q ranks/a.db ranks/a.rank1.db -o ranks/joined.db
exits 'ranks next to their joined run are accepted' 0 '1 new' "$scan" push ranks --to "$postgres_url"
exits 'ranks whose joined run was pushed before are accepted' 0 '' "$scan" push ranks/a.db --to "$postgres_url"
fragment 0 ranks/a.db 4
exits 'ranks that have grown since they were joined are refused' 4 'ranks/a.db: is a rank of a distributed' \
    "$scan" push ranks --to "$postgres_url"
psql -qc "SELECT entropy_scan.drop_run('11111111-89ab-4def-8123-456789abcdef')" >/dev/null
echo text >text.db
exits 'files next to an invalid one are pushed' 4 'text.db: not a run file' "$scan" push text.db files --to "$postgres_url"
output 'files pushed next to an invalid one equal the database' 'the same$' runs compare files

# --- alerts
exec 8> >(exec psql -qAt >heard 2>&1)
echo "LISTEN entropy_scan_alert; SELECT 'it listens';" >&8
await 'a listener is connected' grep -q 'it listens' heard
psql -qc 'SELECT entropy_scan.drop_run(uuid) FROM entropy_scan.run' >/dev/null
"$scan" push -q files --to "$postgres_url"
n_alerts=$(sql 'SELECT count(*) FROM entropy_scan.alert')
n_heard() { grep -c 'notification "entropy_scan_alert" with payload "{"alert_id" : .*"line" : ' heard; }
hears_all() { # psql shows notifications only after a command
    echo 'SELECT 1;' >&8
    [ "$(n_heard)" -ge "$n_alerts" ]
}
await 'the listener receives all alerts' hears_all
exec 8>&-
same_text 'a listener is notified of each alert' "$n_alerts" "$(n_heard)"
check 'there are several alerts' test "$n_alerts" -gt 6

# --- retention
old=files/3/run-3.db
sqlite3 $old "UPDATE run SET ended_at = '2024-05-06T07:08:09.000Z', started_at = '2024-05-01T00:00:00.000Z', status = 'finished'; DELETE FROM row_checksum"
psql -qc "SELECT entropy_scan.drop_run(uuid) FROM entropy_scan.run WHERE name = 'run 3'" >/dev/null
"$scan" push -q files --to "$postgres_url"
same_text 'a run is in the partition of its month' 24 "$(sql 'SELECT count(*) FROM entropy_scan.sample_2024_05')"
exits '--keep deletes old runs' 0 'runs not pushed because of --keep: 1, deleted: 1' "$scan" push files --keep 30 --to "$postgres_url"
same_text '--keep drops the partition of a month without runs' '5|' "$(sql "SELECT count(*), to_regclass('entropy_scan.sample_2024_05') FROM entropy_scan.run")"
exits 'a deleted run is pushed again without --keep' 0 '1 new run' "$scan" push files --to "$postgres_url"
output 'a run that is pushed again is complete' 'the same$' runs compare files

# --- the command line
exits 'a newer schema is refused' 3 'schema 2 is newer than this program.s 1: upgrade' \
    sh -c 'psql -qc "UPDATE entropy_scan.about SET schema = 2" && "$0" push files --to "$1"' "$scan" "$postgres_url"
psql -qc 'UPDATE entropy_scan.about SET schema = 1'
exits 'a missing --to is a usage error' 2 'no database to push to: add --to' "$scan" push files
exits 'a missing file is a usage error' 2 'no run files to push' "$scan" push --to "$postgres_url"
exits 'a URL with conditions is refused' 2 'remove where= and run=, which only select runs to read' \
    "$scan" push files --to "$postgres_url?where=name%3D%27x%27"
exits 'an unreachable server is named' 3 'postgresql://es@127.0.0.1:1/runs: .*refused' \
    "$scan" push files --to postgresql://es@127.0.0.1:1/runs
finish
