#!/usr/bin/env bash
# Tests how entropy-scan reads damaged rows of a PostgreSQL database. SOAK_COUNT times,
# this script replaces some fields of a valid database by random invalid values; SOAK_SEED
# is the seed. Each time, entropy-scan must end within a time limit, exit with 0, 3 or 4,
# and print one-line messages.
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
