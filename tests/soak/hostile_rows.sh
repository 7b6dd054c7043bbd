#!/usr/bin/env bash
# Reads hostile rows from PostgreSQL. SOAK_COUNT times, some fields of a good
# database get invalid values, drawn at random from SOAK_SEED. entropy-scan then
# reads the database: it must exit in time with 0, 3 or 4 and print one-line
# messages.
. tests/support/tap.sh
. tests/support/postgres.sh
dir=${SOAK_FOLDER:-$(mktemp -d)}
trap 'postgres_stop immediate; rm -rf "$dir"' EXIT
missing=$(postgres_missing)
if [ -n "$missing" ]; then
    echo "soak: skipped: $missing"
    exit 0
fi
chmod 755 "$dir"
postgres_start "$dir/server" || { cat "$dir/server/log"; exit 1; }
mkdir "$dir/runs"
cp samples/runs/sm.db "$dir/runs"
"$scan" push -q "$dir/runs" --to "$postgres_url" || exit 1
python3 tests/soak/hostile_rows.py "$scan" "$postgres_url" "${SOAK_COUNT:-20}" "${SOAK_SEED:-1}" "$dir"
