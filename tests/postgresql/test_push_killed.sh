#!/usr/bin/env bash
# Tests eight concurrent pushers that are killed, or whose server crashes,
# whose disk is full or whose network fails: afterwards the database has each
# run once, with every bit of the files. PUSH_RUNS, PUSH_SAMPLES and PUSH_KILLS
# set the size; PUSH_FOLDER keeps the run files.
. tests/support/tap.sh
. tests/support/postgres.sh
plan_dir
most=20 kills=5
n_runs=${PUSH_RUNS-$most} n_samples=${PUSH_SAMPLES-50} n_kills=${PUSH_KILLS-$kills}
files=${PUSH_FOLDER-$dir/files}
cleanup() {
    [ -z "${network-}" ] || kill "$network"
    postgres_stop immediate
    mountpoint -q "$dir/small" && umount "$dir/small"
    rm -rf "$dir"
}
trap cleanup EXIT
postgres_or_end 'pushers are killed'
runs() { SCAN=$scan "$root/tests/postgresql/runs.py" "$@"; }
sql() { psql -qAt -c "$1"; }
[ -d "$files/0" ] || check 'run files are made' runs make "$files" "$n_runs" "$n_samples" 12 12
same() { output "$1: the database equals the files" "^$n_runs runs, .* the same$" runs compare "$files"; }
push() { "$scan" push -q "$files" --to "${1-$postgres_url}"; }

# Each pusher K begins with a different folder; its application name contains K.
start() { # K [URL]
    local order=() i
    for ((i = 0; i < 10; i++)); do order+=("$files/$((($1 + i) % 10))"); done
    PGAPPNAME=pusher-$1 "$scan" push -q "${order[@]}" --to "${2-$postgres_url}" 2>>"$dir/messages" &
    pushers[$1]=$!
}
all_end() {
    local k failed=0
    for k in "${!pushers[@]}"; do wait "${pushers[k]}" || failed=$((failed + 1)); done
    pushers=()
    return $failed
}
empty() { sql 'DO $$ BEGIN PERFORM entropy_scan.drop_run(uuid) FROM entropy_scan.run; END $$'; }

# --- eight concurrent pushers
pushers=()
for k in 0 1 2 3 4 5 6 7; do start $k; done
all_end
same_text 'eight concurrent pushers succeed' 0 $?
echo "# $n_runs runs of $((n_samples / 2)) + $((n_samples / 2)) samples of 144 heads"
same 'eight concurrent pushers'

# --- kill -9 of a pusher that has written but not committed: a trigger holds it there.
# client_connection_check_interval makes a waiting server process notice a dead client.
held() { victim=$(sql "SELECT application_name FROM pg_stat_activity
    WHERE wait_event = 'advisory' AND application_name LIKE 'pusher-_' LIMIT 1") && [ -n "$victim" ]; }
is_locked() { [ "$(sql "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")" = 1 ]; }
gone() { [ "$(sql "SELECT count(*) FROM pg_stat_activity WHERE application_name = '$victim'")" = 0 ]; }
empty
sql "ALTER DATABASE $PGDATABASE SET client_connection_check_interval = 20;
    CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END';
    CREATE TRIGGER hold AFTER INSERT ON entropy_scan.sample EXECUTE FUNCTION hold()"
exec 8> >(exec psql -qAt >/dev/null)
echo 'SELECT pg_advisory_lock(1);' >&8
await 'the lock is held' is_locked
for k in 0 1 2 3 4 5 6 7; do start $k; done
for ((kill = 0; kill < n_kills; kill++)); do
    until_true held || break
    k=${victim#pusher-}
    kill -9 "${pushers[k]}"
    wait "${pushers[k]}" 2>/dev/null
    await 'the server ends its transaction' gone
    start "$k"
done
same_text 'pushers are killed in their transaction' "$n_kills" "$kill"
echo 'SELECT pg_advisory_unlock(1);' >&8
exec 8>&-
all_end
check 'the next push succeeds' push
same 'after the kills'

# --- the server crashes and starts again
empty
for k in 0 1 2 3 4 5 6 7; do start $k; done
at_work() { # true if a pusher is still running
    local k
    for k in "${!pushers[@]}"; do ! ended "${pushers[k]}" && return; done
    return 1
}
has_runs() { [ "$(sql 'SELECT count(*) FROM entropy_scan.run')" -ge "$1" ] || ! at_work; }
is_missed() { [ "$(wc -l <"$dir/messages")" -gt "$n_messages" ] || ! at_work; }
for crash in 1 2; do
    await 'some runs are pushed' has_runs $((crash * n_runs / 8))
    n_messages=$(wc -l <"$dir/messages")
    postgres_stop immediate
    await 'a pusher misses the server' is_missed
    postgres_again || fail 'the server starts again'
done
all_end
check 'the next push succeeds' push
same 'after two crashes of the server'

# --- a full disk
mkdir "$dir/small"
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=$((8600 + n_runs * n_samples * 7 / 40))k none "$dir/small" 2>/dev/null; then
    chown postgres "$dir/small" && chmod 700 "$dir/small"
    sql "CREATE TABLESPACE small LOCATION '$dir/small'"
    sql 'CREATE DATABASE little TABLESPACE small'
    check 'a database on a separate disk accepts a run' "$scan" push -q "$files/0/run-0.db" --to "${postgres_url%runs}little"
    mount -o "remount,size=$(($(du -sk "$dir/small" | cut -f1) + n_runs * n_samples / 5))k" "$dir/small"
    exits 'a full disk is named' 3 'No space left on device: check the server' push "${postgres_url%runs}little"
    mount -o remount,size=2g "$dir/small"
    check 'with more space the push succeeds' push "${postgres_url%runs}little"
    PGDATABASE=little same 'after a full disk'
    psql -q postgres -c 'DROP DATABASE little' -c 'DROP TABLESPACE small'
else
    skip 'a full disk is named' 'mounting is not permitted here'
fi

# --- the network fails
empty
"$root/tests/postgresql/cutting.py" "$PGPORT" $((n_runs * n_samples * 150)) 7 >"$dir/port" &
network=$!
lines=$(wc -l <"$dir/server/log")
await "the network is there" test -s "$dir/port"
cut=$(sed "s/:$PGPORT/:$(cat "$dir/port")/" <<<"$postgres_url")
for k in 0 1 2 3 4 5 6 7; do start $k "$cut"; done
all_end
check 'connections were lost' sh -c "tail -n +$lines '$dir/server/log' | grep -q 'Connection reset by peer\\|unexpected EOF'"
check 'the next push succeeds' push
same 'after network failures'
finish
