#!/usr/bin/env bash
# usage: push.sh [PAIRS] [FOLDER]
# Compares entropy-scan push with a manual \copy of the same rows into a table like
# `sample`. Runs the two alternately, with a separate PostgreSQL server in FOLDER (default
# /tmp): first eight runs of 31,250 samples each, then 1,000 runs of 250 samples each; a
# sample has 144 heads. Prints for both ways the seconds, the samples per second, and the
# CPU seconds of client and server.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/support/postgres.sh
pairs=${1:-3}
export SCAN=${BUILD:-build}/entropy-scan
dir=$(mktemp -d -p "${2:-/tmp}")
trap 'postgres_stop immediate; rm -rf "$dir"' EXIT
files=${PUSH_FOLDER-$dir} # a folder that keeps the run files
chmod a+x "$dir"
missing=$(postgres_missing)
[ -z "$missing" ] || { echo "$missing" >&2; exit 1; }
postgres_start "$dir/server"
sql() { psql -qAt -c "$1"; }

server_seconds() { # of all current and former processes of the server
    local pid
    for pid in "$postgres_pid" $(cat /proc/"$postgres_pid"/task/*/children); do
        cat "/proc/$pid/stat" 2>/dev/null || true
    done | awk -v server="$postgres_pid" -v hz="$(getconf CLK_TCK)" \
        '{ sum += $14 + $15 + ($1 == server ? $16 + $17 : 0) } END { print sum / hz }'
}
turn() { # NAME N_SAMPLES COMMAND...
    local name=$1 n=$2 before line
    shift 2
    sql CHECKPOINT
    before=$(server_seconds)
    line=$({ TIMEFORMAT='%R %U %S'; time "$@" >/dev/null 2>&1; } 2>&1)
    sleep 0.2 # until the backend has ended
    awk -v name="$name" -v n="$n" -v server="$(server_seconds)" -v before="$before" '{
        printf "%-12s %6.2f s  %7.0f/s  client %5.2f  server %5.2f\n", name, $1, n / $1, $2 + $3, server - before
    }' <<<"$line"
}
by_hand() { psql -qc "\\copy by_hand FROM '$dir/rows' (FORMAT binary)"; }
empty() { sql 'DO $$ BEGIN PERFORM entropy_scan.drop_run(uuid) FROM entropy_scan.run; END $$' && sql VACUUM; }

measure() { # N_RUNS N_SAMPLES
    local n i
    echo "$1 runs of $2 samples of 144 heads"
    [ -d "$files/$1" ] || tests/postgresql/runs.py make "$files/$1" "$1" "$2" 12 12
    "$SCAN" push -q "$files/$1" --to "$postgres_url"
    n=$(sql 'SELECT count(*) FROM entropy_scan.sample')
    psql -qc "\\copy (SELECT * FROM entropy_scan.sample ORDER BY run_id, series, step) TO '$dir/rows' (FORMAT binary)"
    for ((i = 0; i < pairs; i++)); do
        sql 'CREATE TABLE by_hand(LIKE entropy_scan.sample INCLUDING ALL)'
        turn '\copy' "$n" by_hand
        sql 'DROP TABLE by_hand'
        empty
        turn push "$n" "$SCAN" push -q "$files/$1" --to "$postgres_url"
    done
    empty
}
measure 8 31250
measure 1000 250
