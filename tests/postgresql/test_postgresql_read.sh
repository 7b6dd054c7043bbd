#!/usr/bin/env bash
# Tests that every command that reads run files also reads the runs of a
# PostgreSQL database by its URL, with the same bits and the same pictures;
# that conditions in the URL select runs; and that every failure gives one line
# and exit code 3.
. tests/support/tap.sh
. tests/support/postgres.sh
plan_dir
trap 'postgres_stop immediate; rm -rf "$dir"' EXIT
postgres_or_end 'runs of a database are read'
. tests/support/watching.sh
# The fourth run is larger than the 8 MiB that a reader fetches at once.
SCAN=$scan "$root/tests/postgresql/runs.py" make runs 3 40 3 4 >/dev/null
SCAN=$scan "$root/tests/postgresql/runs.py" make large 1 600 64 66 7 >/dev/null
cp "$root"/samples/runs/sm*.db runs
for place in runs large; do "$scan" push -q $place --to "$postgres_url"; done
where() { echo "$postgres_url?where=$1"; }
without_path() { sed -E 's#"(path|file)":"[^"]*",?##g; s#^(postgresql:|runs)[^ ,]*##; s/^ +//'; }

# --- equal to files
"$scan" export --format jsonl runs -o files.jsonl
"$scan" export --format jsonl "$(where 'layers!=64')" -o url.jsonl
check 'samples have the bits of the files: NaN, missing and zero stay distinct' cmp files.jsonl url.jsonl
check 'NaN, missing and zero occur in the files' grep -q 'null.*"NaN' files.jsonl
"$scan" export --format npz large/0/run-0.db -o files.npz
"$scan" export --format npz "$(where layers=64)" -o url.npz
check 'samples of a run that is fetched in pieces have the bits of the files' cmp files.npz url.npz
same_text '--json prints the same for the database as for the files' "$("$scan" runs --json | without_path)" \
    "$("$scan" "$(where 'layers!=64')" --json | without_path)"
same_text '--compare prints the same for the database as for the files' "$("$scan" runs --compare | without_path)" \
    "$("$scan" "$(where 'layers!=64')" --compare | without_path)"
for figure in heatmap overview loss raster; do
    "$scan" -q runs/sm-ln-g.db runs/sm.db --figure $figure -o files-$figure.png
    "$scan" -q "$(where 'seed=1 program=entropy-train*')" --figure $figure -o url-$figure.png
done
check 'a heatmap equals the heatmap of the files' cmp files-heatmap.png url-heatmap.png
check 'curves of the loss equal the curves of the files' cmp files-loss.png url-loss.png
check 'a raster equals the raster of the files' cmp files-raster.png url-raster.png
output 'a run is opened by its single URL' '^1$' sh -c \
    '"$0" "$("$0" "$1" --jsonl | sed -n "1s/.*\"path\":\"\([^\"]*\)\".*/\1/p")" --jsonl | wc -l' "$scan" "$postgres_url"
check 'a report is written' "$scan" report "$(where arch=SM)" -o report.html
query='SELECT count(*), min(step), max(crc) FROM sample JOIN series USING (series_id) WHERE run_id = 1'
same_text 'sql returns the same rows as for the file' "$("$scan" sql runs/sm.db "$query")" "$("$scan" sql "$(where arch=SM)" "$query")"
check 'a picture is named after the database' sh -c '"$0" -q "$1" --heatmap && ls runs-heatmap.png' "$scan" "$(where 'data=build/*')"
same_text 'es_values returns the same values as for the file' "$("$scan" sql runs/sm.db "SELECT sum(value) FROM es_values('entropy')")" \
    "$("$scan" sql "$(where arch=SM)" "SELECT sum(value) FROM es_values('entropy')")"
check 'merge writes the runs to a run file' "$scan" merge -q "$(where arch=SM)" -o back.db
same_text 'the merged run has the same bits' "$("$scan" export --format jsonl runs/sm.db | sum)" "$("$scan" export --format jsonl back.db | sum)"
output 'a command reads files and databases together' '^3$' sh -c '"$0" runs/sm.db "$1" --jsonl | wc -l' "$scan" "$(where 'arch=SM*')"

# --- conditions
names() { "$scan" "$(where "$1")" --jsonl 2>&1 | sed -E 's/.*"name":"([^"]*)".*/\1/' | sort | tr '\n' ' '; }
while IFS='|' read -r condition want; do
    same_text "where=$condition" "$want" "$(names "$condition")"
done <<'END'
arch=SM|SM 
arch=SM*|SM SM+LN+G 
arch=SM+*|SM+LN+G 
arch=S[M]|SM 
arch=SM%2B??%2BG|SM+LN+G 
arch!=SM arch=SM*|SM+LN+G 
layers>=12 layers<13|SM SM+LN+G 
seed<=1 d_model=48|SM SM+LN+G 
lr>1e-3 lr<1|SM SM+LN+G 
config.eval_every=300 run!=SM|SM+LN+G 
data=build/*|SM SM+LN+G 
END
exits 'a condition cannot inject SQL' 3 'contains no run' "$scan" \
    "$(where "arch=x'/**/OR/**/true--")"
exits 'computed values need --where' 3 'eval_ppl: no run.*--where' "$scan" "$(where 'eval_ppl<20')"
exits 'a text cannot be compared by <' 3 'arch: is a text' "$scan" "$(where 'arch<SM')"
exits 'a number is compared with a number' 3 'layers: is compared with a number' "$scan" "$(where 'layers=many')"
exits 'a condition needs a relation' 3 'relations are' "$scan" "$(where 'arch')"
exits 'sql refuses conditions on the configuration' 2 'use SQL.s WHERE' "$scan" sql "$(where 'lr<1')" 'SELECT 1'
output '--where restricts the runs further' '^1$' sh -c '"$0" "$1" --where "eval_ppl<10" --jsonl | wc -l' "$scan" "$(where 'arch=SM*')"

# --- failures
port=$PGPORT
exits 'an unreachable server is reported' 3 '127.0.0.1:1/runs: connection to server .*refused: check host' \
    "$scan" postgresql://es@127.0.0.1:1/runs
exits 'a missing database is reported' 3 'database "nope" does not exist: check' "$scan" "postgresql://es@127.0.0.1:$port/nope"
exits 'a wrong password is reported' 3 'password authentication failed.*check' env PGPASSWORD=pearl "$scan" "$postgres_url"
exits 'a missing password is reported' 3 'no password supplied: give a password by ~/.pgpass' env -u PGPASSWORD "$scan" "$postgres_url"
exits 'a database without our tables is reported' 3 'not a database of runs: entropy-scan push makes one' "$scan" "postgresql://es@127.0.0.1:$port/postgres"
exits 'a URL with an unescaped @ is refused' 2 'as %40' "$scan" "postgresql://es:pearl@x@127.0.0.1/runs"
exits 'a failing database does not affect the others' 4 'refused' "$scan" postgresql://127.0.0.1:1/runs runs/sm.db
echo "127.0.0.1:*:*:es:$PGPASSWORD" >pgpass && chmod 600 pgpass
check 'a password comes from ~/.pgpass' env -u PGPASSWORD PGPASSFILE=pgpass "$scan" -q "$(where arch=SM)"
printf '[mine]\nhost=127.0.0.1\nport=%s\nuser=es\ndbname=runs\n' "$port" >services
check 'a service file names the server' env -u PGHOST -u PGPORT -u PGDATABASE PGSERVICEFILE=services "$scan" -q "postgresql:///?service=mine&where=arch=SM"
check 'PGSERVICE names the server' env -u PGHOST -u PGPORT -u PGDATABASE PGSERVICEFILE=services PGSERVICE=mine "$scan" -q "postgresql://?where=arch=SM"
secret="postgresql://es:open-sesame@127.0.0.1:$port/runs?where=arch=SM*"
env -u PGPASSWORD "$scan" "$secret" --json --heatmap=secret.svg >secret.json 2>secret.err
env -u PGPASSWORD "$scan" report "$secret" -o secret.html 2>>secret.err
env -u PGPASSWORD "$scan" "${secret%\*}xx" 2>>secret.err
check 'outputs and messages are written with a password in the URL' test -s secret.html -a -s secret.svg -a -s secret.json -a -s secret.err
check 'no output or message contains the password' sh -c '! grep -l sesame secret.*'
psql -qc 'UPDATE entropy_scan.about SET schema = 2'
exits 'a newer schema is refused' 3 'schema 2 is newer than this program.s 1: upgrade' "$scan" "$postgres_url"
psql -qc 'UPDATE entropy_scan.about SET schema = 1'
psql -qc "UPDATE entropy_scan.sample SET value[1] = 3 WHERE step = 20 AND run_id = (SELECT run_id FROM entropy_scan.run WHERE name = 'SM')"
exits 'a sample that differs from what was pushed is damaged' 3 'damaged' "$scan" export --format jsonl "$(where arch=SM)"
PGOPTIONS='-c idle_in_transaction_session_timeout=1' \
    exits 'a lost connection is reported' 3 'try again' "$scan" export --format npz "$(where layers=64)" -o half.npz
check 'a lost connection leaves no partial output' sh -c '! ls -a | grep -F half.npz'
mkfifo pipe
"$scan" export --format jsonl "$(where layers=64)" >pipe 2>stopped.err &
exporter=$!
exec 9<pipe
read -r -n 100 _ <&9
postgres_stop immediate
cat <&9 >/dev/null
wait $exporter
same_text 'a server that stops during an export: exit code 3' 3 $?
file_has 'a server that stops during an export: one line' stopped.err 'postgresql://es@127.0.0.1:[0-9]+/runs.*: .*(try again|check)'
exec 9<&-
postgres_again

# --- watch
has() { [ "$(grep -cE "$2" "$1")" -ge "${3:-1}" ]; }
"$scan" watch "$(where 'arch=SM layers=2')" --poll 30 --state state.db >alerts 2>notes &
watcher=$!
await 'the watcher listens' sh -c 'psql -qAtc "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '"'LISTEN%' OR query LIKE 'SELECT uuid, revision%'"'" | grep -q 1'
collapsing first
"$scan" push -q first.db --to "$postgres_url"
check 'watch reports an alert that is pushed, long before the next poll' until_true has alerts collapse
postgres_stop immediate
check 'watch reports that the server is gone' until_true has notes '127.0.0.1'
postgres_again
collapsing second
"$scan" push -q second.db --to "$postgres_url"
check 'watch connects again' until_true has alerts collapse 2
same_text 'the lost server was reported once' 1 "$(grep 127.0.0.1 notes | grep -vc 'reachable again$')"
same_text 'no alert is repeated after the reconnection' 2 "$(grep -c . alerts)"
kill $watcher
wait $watcher 2>/dev/null
exits 'watch --once --check finds the alert' 1 '' "$scan" watch --once --check --state other.db "$(where 'arch=SM layers=2')"
exits '--stop is refused for a database' 2 '--stop' "$scan" watch --once --stop --state other.db "$postgres_url"
finish
