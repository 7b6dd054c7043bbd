#!/usr/bin/env bash
# Tests SQL over run files through entropy-scan sql, the views in plain SQL, and
# es_values as an extension of the program sqlite3. All three must give the same
# rows.
set -uo pipefail
. tests/support/tap.sh
. tests/support/schema.sh
plan_dir
if ! type -P sqlite3 >/dev/null; then
    skip 'SQL over run files' 'the program sqlite3 is not installed: make deps'
    finish
    exit
fi
sanitized_sqlite3
case $BUILD in /*) bin=$BUILD ;; *) bin=$PWD/$BUILD ;; esac
scan=$bin/entropy-scan
extension=$bin/entropyscan_sqlite
cd "$dir"

# A run with L = 2, H = 3: a NaN, a missing value, a zero, both infinities, the
# smallest and the largest float32.
cat >a.csv <<'END'
# name: a
# series: head nats entropy
# series: layer - slope
# series: run nats train:loss
# series: run nats eval:loss
step,layer,head,entropy,slope,loss,eval:loss
10,,,,,3.5,NA
10,0,,,0.25,,
10,1,,,-1.5,,
10,0,0,0,,,
10,0,1,NaN,,,
10,0,2,NA,,,
10,1,0,inf,,,
10,1,1,-inf,,,
10,1,2,1e-45,,,
20,,,,,2.5,
20,0,0,3.4028235e38,,,
20,0,1,1.1754944e-38,,,
20,0,2,-0.1,,,
20,1,0,2.375,,,
20,1,1,16777217,,,
20,1,2,-7.006492e-45,,,
30,0,0,1.5,,,
END
printf '# name: b\nstep,layer,head,entropy\n10,0,0,1.25\n10,0,1,2.5\n25,0,1,0.5\n' >b.csv
"$scan" import -q a.csv -o a.db && "$scan" import -q b.csv -o b.db || exit 1
"$scan" sql --views -o views.sql || exit 1

plain() { sqlite3 -readonly -init views.sql -csv "$1" "$2" 2>/dev/null; }
loaded() { sqlite3 -readonly -csv -cmd ".load $extension" "$1" "$2"; }

want='10,,,3.5,value
20,,,2.5,value'
query="SELECT step, layer, head, value, state FROM es_values('loss', 'train')"
same_text 'a series of the run has neither layer nor head' "step,layer,head,value,state
$want" "$("$scan" sql a.db "$query" --csv)"

# The programs print numbers in different formats, so the queries print values
# in an exact form.
exact='SELECT step, layer, head, state, series, phase, typeof(value),
    cast(value * 1e30 AS TEXT), value IS 0.0, value > 1e38, value < -1e38, run
    FROM VALUES ORDER BY series_id, step, layer, head'
of() { sed "s/VALUES/$1/" <<<"$exact"; }
same_text 'the views in plain SQL have the rows of es_values' \
    "$("$scan" sql a.db "$(of es_values)" --csv)" \
    "$("$scan" sql a.db "$(of sample_value)" --csv)"
same_text 'sqlite3 with the extension gives the same rows' \
    "$("$scan" sql a.db "$(of es_values)" --csv | tail -n +2 | tr -d "'\"")" \
    "$(loaded a.db "$(of es_values)" | tr -d "'\"")"
# Finds a Python that can load SQLite extensions, which some builds cannot.
for python in python3 /usr/bin/python3 ''; do
    [ -n "$python" ] && "$python" -c 'import sqlite3
sqlite3.Connection.enable_load_extension' 2>/dev/null && break
done
if [ -n "$python" ]; then
    ${SAN:+env LD_PRELOAD=$(sanitizer_runtime) ASAN_OPTIONS=detect_leaks=0} \
        "$python" - "$extension" "$(of es_values)" >python.txt 2>&1 <<'END'
import sqlite3
import sys

file = sqlite3.connect("file:a.db?mode=ro", uri=True)
file.enable_load_extension(True)
file.load_extension(sys.argv[1])
file.enable_load_extension(False)
for row in file.execute(sys.argv[2]):
    print(*("" if value is None else value for value in row), sep=",")
END
    same_text "so has Python's sqlite3" "$(loaded a.db "$(of es_values)" | tr -d "'\"")" \
        "$(cat python.txt)"
    rm python.txt
else
    skip "Python's sqlite3 with the extension" 'no python3 here loads extensions'
fi
same_text 'sqlite3 with only the views gives the same rows' \
    "$("$scan" sql a.db "$(of es_values)" --csv | tail -n +2 | tr -d "'\"")" \
    "$(plain a.db "$(of sample_value)" | tr -d "'\"")"
same_text 'NaN, missing, zero and infinite stay apart' '0,0,0,value
0,1,,nan
0,2,,missing
1,0,inf,value
1,1,-inf,value
1,2,1e-45,value' "$("$scan" sql a.db --csv "SELECT layer, head, value, state
    FROM es_values('entropy') WHERE step = 10" | tail -n +2)"
output 'NaN, missing, zero and infinite stay apart in JSON' '"value":null,"value_state":"-inf"' "$scan" sql a.db --json \
    'SELECT value FROM es_values WHERE step = 10 AND layer = 1 AND head = 1'
output 'NULL is null in JSON' '"value":null\}' "$scan" sql a.db --json \
    "SELECT value FROM es_values WHERE state = 'missing' AND head = 2 AND step = 10"
output 'eval is a separate series' '^missing$' "$scan" sql a.db --csv \
    "SELECT state FROM es_values('loss', 'eval')"
output 'a value is the float32 that was recorded' '^16777216$' \
    "$scan" sql a.db --csv 'SELECT value FROM es_values
        WHERE step = 20 AND layer = 1 AND head = 1'

# --- conditions: those that are pushed down give the same rows as those that
# are not
bad=0
for condition in 'step = 20' 'step > 10' 'step >= 10' 'step < 20' 'step <= 20' \
    'step BETWEEN 11 AND 29' 'step IN (10, 30)' "step > '10'" 'step > 10.5' \
    'step = 20.0' 'layer = 1' "layer = '1'" 'layer = 1.5' 'layer = -1' 'layer IS NULL' \
    'head = 2 AND layer = 0' 'head = NULL' "series = 'slope'" \
    "series = 'SLOPE' COLLATE NOCASE" "phase = 'eval'" "run = 'a'" 'run_id = 1' \
    "run_id = '1'" 'series_id = 2' 'series_id = 2 AND step > 5' 'step = NULL' \
    'series_id > 1' "state = 'nan'" 'value > 1'; do
    # A unary plus prevents SQLite from passing the condition to es_values.
    hidden=$(sed -E 's/\b(step|layer|head|series|phase|run|run_id|series_id|state|value)\b/+\1/g' \
        <<<"$condition")
    count() { "$scan" sql a.db b.db --csv "SELECT count(*), count(value), sum(step)
        FROM es_values WHERE $1" 2>&1; }
    case $condition in *COLLATE*) hidden="lower(series) = 'slope'" ;; esac
    # A column with a unary plus loses its type affinity, so quoted numbers are
    # unquoted.
    hidden=$(sed -E "s/'([0-9]+)'/\1/" <<<"$hidden")
    [ "$(count "$condition")" = "$(count "$hidden")" ] ||
        { bad=1; echo "# $condition: $(count "$condition") / $(count "$hidden")"; }
done
check 'a pushed-down condition gives the same rows' test $bad = 0
output 'a range of steps is passed to es_values' 'INDEX 0:c= g= b>=b<=' \
    sqlite3 -readonly -cmd ".load $extension" a.db "EXPLAIN QUERY PLAN SELECT *
    FROM es_values('entropy') WHERE step BETWEEN 1 AND 2 AND layer = 1"
reads() { # STEPS: counts the pages that SQLite reads for a range of steps
    strace -f -e trace=pread64 -o trace "$scan" sql many.db \
        "SELECT count(*) FROM es_values('entropy') WHERE step BETWEEN 1 AND $1" >/dev/null
    grep -c pread64 trace
}
{
    echo 'step,layer,head,entropy'
    awk 'BEGIN { for (s = 1; s <= 3000; s++) for (l = 0; l < 4; l++)
        for (h = 0; h < 6; h++) printf "%d,%d,%d,%g\n", s, l, h, s / 7 + l - h / 3 }'
} >many.csv
"$scan" import -q many.csv -o many.db
few=$(reads 3) most=$(reads 3000)
check 'a short range of steps reads few pages' test $((few * 4)) -lt "$most"

# --- several files
same_text 'several files are queried as one, with their runs' 'a,18,7
b,4,1' "$("$scan" sql a.db b.db --csv "SELECT run, count(*), sum(state != 'value')
    FROM es_values('entropy') GROUP BY run" | tail -n +2)"
same_text 'tables of several files join by their own numbers' 'a,entropy,3
a,loss,1
a,loss,2
a,slope,1
b,entropy,2' "$("$scan" sql a.db b.db --csv 'SELECT run.name, series.name,
    count(*) AS n FROM sample JOIN series USING (series_id) JOIN run USING (run_id)
    GROUP BY series.series_id ORDER BY 1, 2, 3' | tail -n +2)"
output 'the second of two files is found by its number' '^b,2$' "$scan" sql a.db b.db --csv \
    "SELECT run, count(*) FROM es_values WHERE step = 10 AND run_id =
        (SELECT run_id FROM run WHERE name = 'b')"

# --- damage, and schema 1
cp a.db damaged.db
sqlite3 damaged.db "UPDATE sample SET value = zeroblob(24) WHERE step = 20 AND series_id = 1;
    UPDATE sample SET value = x'00' WHERE step = 30"
same_text 'damaged samples have the state damaged and no value' '10,value
20,damaged
30,damaged' "$("$scan" sql damaged.db --csv "SELECT step, max(state) FROM
    es_values('entropy') WHERE layer = 1 GROUP BY step" | tail -n +2)"
same_text 'the extension reports damaged samples, too' '20,6' "$(loaded damaged.db "SELECT step,
    sum(state = 'damaged' AND value IS NULL) FROM es_values('entropy') WHERE step = 20")"
cp a.db one.db
to_schema_1 one.db
same_text 'a file of schema 1 has the same values' \
    "$("$scan" sql a.db "$(of es_values)" --csv)" \
    "$("$scan" sql one.db "$(of es_values)" --csv)"
same_text 'a file of schema 1 has no checksums' '15' "$("$scan" sql one.db --csv \
    'SELECT count(*) + sum(crc IS NULL) + 1 FROM sample' | tail -n 1)"
same_text 'the extension reads a file of schema 1' "$(loaded a.db "$(of es_values)")" \
    "$(loaded one.db "$(of es_values)")"
same_text 'the extension reads attached files' '1.25' "$(loaded a.db "ATTACH 'b.db' AS other;
    CREATE VIRTUAL TABLE temp.v USING es_values(other);
    SELECT value FROM v WHERE head = 0 AND step = 10")"
output 'another database is refused with a message' 'es_values: not a run file' \
    sh -c 'sqlite3 -cmd ".load $1" :memory: "SELECT * FROM es_values" 2>&1 || true' \
    sh "$extension"
sqlite3 evil.db "CREATE TABLE run(run_id, uuid, name, n_layer, n_head);
    CREATE TABLE series(series_id, run_id, name, phase, shape);
    CREATE TABLE sample(series_id, step, value, crc);
    INSERT INTO run VALUES (1, NULL, NULL, 4096, 4096), (2, 1, 'x', 1, 1);
    INSERT INTO series VALUES (1, 1, NULL, NULL, 'head'), (2, 2, x'00', 7, 'run');
    INSERT INTO sample VALUES (1, 'x', 5, 'y'), (2, NULL, 'text', 1.5)"
output 'impossible numbers are reported as an error of the file' 'es_values: damaged' \
    sh -c 'sqlite3 -cmd ".load $1" evil.db "SELECT * FROM es_values" 2>&1 || true' \
    sh "$extension"
output 'values of other types are damaged' '^damaged$' sqlite3 -cmd ".load $extension" \
    evil.db 'SELECT state FROM es_values WHERE run_id = 2'

# --- refused queries
fails() { # NAME CODE REGEX ARGUMENT...: like exits, and the message is one line
    local name=$1 text
    exits "$1" "$2" "$3" "$scan" sql "${@:4}"
    text=$("$scan" sql "${@:4}" 2>&1 >/dev/null </dev/null)
    [ "$(wc -l <<<"$text")" = 1 ] || fail "$name: one line" "$text"
}
sums=$(cat ./*.db | md5sum; ls)
fails 'ATTACH is refused' 2 'ATTACH is refused' a.db "ATTACH 'b.db' AS b"
for write in 'DELETE FROM run' "UPDATE run SET name = 'x'" 'CREATE TABLE x(y)' \
    'DROP VIEW sample_value' 'CREATE VIRTUAL TABLE temp.v USING es_values(main)' \
    'INSERT INTO sample VALUES (1, 2, 3, 4)' "VACUUM INTO 'x.db'" \
    REINDEX 'BEGIN' 'SAVEPOINT x' 'PRAGMA query_only = 0' 'PRAGMA journal_mode = wal' \
    "PRAGMA temp_store_directory = '/'" "SELECT load_extension('x')" \
    "SELECT writefile('x', 'y')" "SELECT readfile('/etc/passwd')"; do
    fails "$write" 2 'refused|not be modified|not authorized|no such function' a.db "$write"
done
fails 'malformed SQL is refused' 2 'near "SELEC": syntax error' a.db 'SELEC 1'
fails 'no SQL' 2 'is empty' a.db ' -- nothing'
fails 'two statements are refused' 2 'one statement at a time' a.db 'SELECT 1; SELECT 2'
fails 'a query without a run file is refused' 2 'followed by a query' 'SELECT 1'
fails 'no run file' 3 'none.db: no such file' none.db 'SELECT 1'
fails 'a missing run file among existing files is an error' 3 'views.sql: not a run file' a.db views.sql 'SELECT 1'
fails 'a missing table is an error' 2 'no such table: nowhere' a.db 'SELECT * FROM nowhere'
fails 'a huge blob is refused' 2 'too big' a.db 'SELECT zeroblob(1000000000)'
fails 'CSV together with JSON is refused' 2 'are mutually exclusive' a.db 'SELECT 1' --csv --json
fails 'the run file is refused as output' 2 'a.db' a.db 'SELECT 1' -o a.db
sqlite3 view.db '.restore a.db' 'CREATE VIEW es_trap AS SELECT load_extension(1)' 2>/dev/null
fails "what else is in a file is out of reach" 2 'no such table: es_trap' view.db \
    'SELECT * FROM es_trap'
rm -f view.db
same_text 'nothing was written, and nothing is left' "$sums" "$(cat ./*.db | md5sum; ls)"

endless='WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x) SELECT'
interrupt() {
    python3 -c '
import signal, subprocess, sys, time
run = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
while int(open(f"/proc/{run.pid}/stat").read().split()[13]) < 30: # until it is busy
    assert run.poll() is None
    time.sleep(0.025)
run.send_signal(signal.SIGINT)
sys.exit(run.wait(60) != -signal.SIGINT)' "$@"
}
check 'a query without end ends with Ctrl-C' interrupt "$scan" sql a.db "$endless count(*) FROM x"
check 'a query ends when its reader ends' timeout 60 sh -c \
    '"$1" sql a.db "$2 i FROM x" --csv | head -n 3 >/dev/null' sh "$scan" "$endless"

# --- blobs: NaN, missing and infinite values with their bits, an empty blob,
# NULL
blobs="SELECT step, value AS bytes, x'' AS none, NULL AS absent FROM sample
    WHERE series_id = 1 AND step < 30 ORDER BY step"
ten=000000000000c07fa207c07f0000807f000080ff01000000
twenty=ffff7f7f00008000cdccccbd000018400000804b05000080
same_text 'a blob is hexadecimal in CSV' "step,bytes,none,absent
10,x'$ten',x'',
20,x'$twenty',x''," "$("$scan" sql a.db "$blobs" --csv)"
same_text 'and in JSON' "[
{\"step\":10,\"bytes\":\"x'$ten'\",\"none\":\"x''\",\"absent\":null},
{\"step\":20,\"bytes\":\"x'$twenty'\",\"none\":\"x''\",\"absent\":null}
]" "$("$scan" sql a.db "$blobs" --json)"
same_text 'a blob is its size in a table' 'step  bytes       none       absent
  10  (24 bytes)  (0 bytes)       -
  20  (24 bytes)  (0 bytes)       -' "$("$scan" sql a.db "$blobs")"

output 'a table is aligned' '^a         20$' "$scan" sql a.db \
    "SELECT run AS name, step AS a_step FROM es_values('loss') WHERE step = 20"
same_text 'a table without rows has its titles' 'run  step' \
    "$("$scan" sql a.db "SELECT run, step FROM es_values('nothing')")"
finish
