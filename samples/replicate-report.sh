#!/usr/bin/env bash
# The report of a replication: queries entropy-scan for what became of each run,
# has SQLite decide the papers' claims by rules, draws the six baselines.
# samples/replicate.sh calls it, with the same environment.
#
#   replication-cpu.md           tables, claims, remarks
#   replication-cpu.csv          one line a run
#   replication-cpu-heatmap.png  the heads of the baselines, first seed
set -euo pipefail
cd "$(dirname "$0")/.."
scan=${BUILD:-build}/entropy-scan
runs=${REPLICATE_DIR:-${BUILD:-build}/replicate}
results=${REPLICATE_RESULTS:-samples/results}
answers=$runs/report
mkdir -p "$answers" "$results"

json() { # FILE OPTION...: what entropy-scan says of the runs that ended
    local file=$1
    shift
    "$scan" --json --max ceiling "$@" >"$file.new"
    mv "$file.new" "$file"
}

sql() { (cd "$answers" && sqlite3 -batch -bail report.db "$@"); }

ended=()
for done in "$runs"/*.done; do
    [ ! -f "${done%.done}.db" ] || ended+=("${done%.done}.db")
done
[ ${#ended[@]} -gt 0 ] || { echo "$runs: no run has ended" >&2 && exit 3; }

# Flags are judged over the training; the heads are those of the held-out data.
json "$answers/train.json" "${ended[@]}"
json "$answers/eval.json" "${ended[@]}" --phase eval
rm -f "$answers"/before-*.json "$answers/report.db"

# Where NaN has hidden the heads: at the last record before it.
sql "SELECT printf('%s %d', path, (onset - 1) / every * every) FROM (
        SELECT r.value->>'path' AS path,
            r.value->'config'->>'record_every' AS every,
            (SELECT min(f.value->>'onset') FROM json_each(r.value, '\$.flags') f
             WHERE f.value->>'kind' = 'nan') AS onset
        FROM json_each(readfile('train.json'), '\$.runs') r)
    WHERE onset > 0" | while read -r path step; do
    json "$answers/before-$(basename "$path" .db).json" "$path" --step "$step"
done
{
    printf '['
    first=1
    for file in "$answers"/before-*.json; do
        [ -f "$file" ] || continue
        [ $first ] || printf ,
        first=
        cat "$file"
    done
    printf ']'
} >"$answers/before.json"

mapfile -t learnt < <(sql "SELECT value->>'path'
    FROM json_each(readfile('train.json'), '\$.runs')
    WHERE value->>'arch' LIKE 'SM+LR(layer%' OR value->>'arch' LIKE 'SM+LR(global%'")
echo '{"runs":[]}' >"$answers/slopes.json"
[ ${#learnt[@]} = 0 ] ||
    json "$answers/slopes.json" "${learnt[@]}" --series slope --max run

grep '^gpt2-l12-t128 ' samples/configs/table.txt | grep -v gamma= |
    sed 's/ *| */|/g' | cut -d'|' -f2,3 >"$answers/published.txt"
sql 'CREATE TABLE published(arch TEXT, figure TEXT)'
sql -separator '|' '.import published.txt published'
sql ".read $PWD/samples/replicate.sql"
sql -csv -header 'SELECT * FROM summary' >"$results/replication-cpu.csv"

# --- the picture -------------------------------------------------------------

panel() { # ARCH: $drawn: its first run at its own rate, up to before NaN
    local name step
    IFS='|' read -r name step < <(sql "SELECT run, CASE WHEN nan_step
        IS NOT NULL THEN heads_step END FROM summary
        WHERE arch = '$1' ORDER BY run GLOB '*-lr*', seed LIMIT 1")
    drawn=$runs/$name.db
    [ -n "$step" ] || return 0
    drawn=$answers/$1.db
    "$scan" export "$runs/$name.db" --series entropy --phase train -o - |
        awk -F, -v step="$step" '!/^#/ && ($1 == "step" || $1 + 0 <= step)' |
        "$scan" import - -q --from long --ctx "$(sql "SELECT value->>'ctx'
            FROM json_each(readfile('train.json'), '\$.runs') LIMIT 1")" \
            --name "$1, before NaN" -o "$drawn"
}

panels=()
for arch in SM+LN+G SM+LN+R SM+LN SM+G SM+R SM; do
    rm -f "$answers/$arch.db"
    [ "$(sql "SELECT count(*) FROM summary WHERE arch = '$arch'")" = 0 ] && continue
    panel "$arch"
    panels+=("$drawn")
done
[ ${#panels[@]} = 0 ] || "$scan" "${panels[@]}" --max ceiling \
    --heatmap="$results/replication-cpu-heatmap.png" >/dev/null

# --- the report --------------------------------------------------------------

times() { # started and ended of every run
    for run in "${ended[@]}"; do
        sqlite3 -readonly "$run" "SELECT julianday(started_at),
            julianday(ended_at) FROM run"
    done
}
wall() { times | awk -F'|' '
    NR == 1 { from = $1; to = $2 }
    { if ($1 < from) from = $1; if ($2 > to) to = $2; sum += $2 - $1 }
    END { printf "%d minutes from the first start to the last end, " \
              "%.0f seconds a run", (to - from) * 1440, sum * 86400 / NR }'; }
processor() { grep -m1 '^model name' /proc/cpuinfo | cut -d: -f2- | xargs; }

{
    echo '# The papers at small scale, on a CPU'
    echo
    echo 'Made by `make replicate` (samples/replicate.sh): every line of'
    echo '[samples/replicate.txt](../replicate.txt), one thread a run. The runs, one a line, are in'
    echo '[replication-cpu.csv](replication-cpu.csv).'
    echo
    echo "- machine: $(processor), $(nproc) processors"
    echo "- time: $(wall)"
    sed 's/^/- programs: commit /' "$runs/programs.txt"
    sql "SELECT * FROM sizes" | sed 's/^/- /'
    echo
    sql ".read $PWD/samples/replicate-tables.sql"
    echo
    echo '![Heads of the six baselines](replication-cpu-heatmap.png)'
    cat "$results/replication-cpu-remarks.md" 2>/dev/null || true
} >"$results/replication-cpu.md.new"
mv "$results/replication-cpu.md.new" "$results/replication-cpu.md"
echo "$results/replication-cpu.md" >&2
