#!/usr/bin/env bash
# Tests how entropy-scan shows many runs: with folders as inputs, with conditions
# (--where) and sort orders (--sort), and as JSON lines.
. tests/support/tap.sh
. tests/support/background.sh
plan_dir
cd "$dir"

run() { # PATH ARCH FIRST-HEAD: a run of three layers of two heads, at ctx 128
    printf '%s,3.0\n2.0,1.0\n0.5,2.5\n' "$3" |
        "$scan" import - -q --arch "$2" --ctx 128 --name "$(basename "$1" .db)" -o "$1"
}
mkdir -p sweep/a/deep sweep/b other
run sweep/a/one.db SM 0.1 # collapsed
run sweep/a/deep/two.db SM+LN+G 3.5
run sweep/b/three.db SM+R 2.0
run sweep/zero.db SM+LN 3.8
run other/four.db SM 0.25
run sweep/.hidden.db SM 3.9
cp sweep/zero.db sweep/b/copy.bak
ln -s .. sweep/b/up
ln -s ../zero.db sweep/b/link.db

names_in() { awk 'NR > 1 && NF > 8 && $1 != "m" { print $1 }' "$1" | paste -sd' '; }
names_of() { "$scan" "$@" 2>complaints >table; local code=$?; names_in table; return $code; }
shows() { # NAME WANT ARGUMENT...: the names of the runs that are shown, in order
    local name=$1 want=$2 got code
    shift 2
    got=$(names_of "$@")
    code=$?
    if [ "$got" = "$want" ] && [ $code -eq 0 ]; then pass "$name"
    else fail "$name" "exit $code: $got" "$(cat complaints)"; fi
}

shows '-r shows runs below a folder by name, not hidden ones and links' \
    'two one three zero' -r sweep
shows '--recursive accepts folders and files' 'four three' --recursive other/four.db sweep/b
shows '--where selects an architecture' 'two zero' -r sweep --where 'arch=SM+LN*'
shows '--where selects by two conditions' 'zero' -r sweep --where 'arch=*LN* max>3.6'
shows '--sort max sorts by the largest entropy' \
    'one three two zero' -r sweep --sort max
shows '--sort=-max sorts in descending order, ties by path' \
    'zero two one three' -r sweep --sort=-max
shows '--where without a match shows no run' '' -r sweep --where 'arch=EReg*'
exits '--where without a match prints a note' 0 '^entropy-scan: --where: no run matches \(4 runs read\)$' "$scan" -r sweep --where 'arch=EReg*'
check '-q suppresses the note of --where without a match' sh -c '! "$0" -qr sweep --where "arch=EReg*" 2>&1 | grep .' "$scan"
check '--where with a match prints no note' sh -c '! "$0" -r sweep --where "arch=*LN*" 2>&1 >/dev/null | grep such' "$scan"
m_of() { "$scan" "$@" | sed -n 's/^m = \([0-9.]*\) .*/\1/p'; }
check 'm is the largest value of the runs shown' test "$(m_of -r sweep)" = 3.8
check 'm ignores runs that --where excludes' test "$(m_of -r sweep --where 'arch!=SM+LN')" = 3.5

lines_match() {
    "$scan" -r sweep other --jsonl >lines && "$scan" -r sweep other --json --max run >whole &&
        python3 - <<'PY'
import json
lines = [json.loads(line) for line in open("lines")]
assert len(lines) == 5
assert lines == json.load(open("whole"))["runs"]
PY
}
check '--jsonl prints for each run what --json does' lines_match
one_max() { # counts the different values of m in the lines
    "$scan" -r sweep --jsonl "$@" | grep -o '"balanced":[0-9.]*,"max":[0-9.]*' |
        cut -d: -f3 | sort -u | wc -l
}
check 'each line of --jsonl uses the largest value of its run' test "$(one_max)" = 3
check '--jsonl with --max observed uses the largest value of all runs' test "$(one_max --max observed)" = 1
check '--jsonl with a picture has one scale' test "$(one_max --heatmap=x.png)" = 1
first_line() { "$scan" -r sweep --jsonl --sort=-max | sed -n 1p | grep -q '"zero.db"\|zero'; }
check '--jsonl is sorted' first_line

head -c 5000 sweep/zero.db >sweep/broken.db
damaged() {
    names_of -r sweep >got
    [ $? = 4 ] && [ "$(wc -w <got)" = 4 ] && grep -q '^entropy-scan: sweep/broken.db: ' complaints &&
        [ "$(wc -l <complaints)" = 1 ]
}
check 'a damaged file is reported and skipped, exit 4' damaged
rm sweep/broken.db
mkdir empty
exits 'an empty folder' 3 'empty: no run file .*below it' "$scan" -r empty
shows 'a folder is read without -r' 'four two one three zero' other/four.db sweep
exits 'an unknown field' 2 "colour.*fields are flag, path" "$scan" -r sweep --where colour=red
exits 'an unknown order' 2 "weight.*fields are flag, path" "$scan" -r sweep --sort weight
exits 'an unknown order of pictures' 2 "weight.*fields are flag" "$scan" -r sweep --sort weight --heatmap=w.png
check 'an unknown order draws no picture' test ! -e w.png
exits 'a member that no run has' 0 'config.gama: no run has this member' "$scan" -r sweep --where config.gama=1
exits 'two kinds of JSON' 2 'are mutually exclusive' "$scan" -r sweep --json --jsonl
exits '--check judges the runs shown' 1 '' "$scan" -r sweep -q --check
exits '--check ignores runs that --where excludes' 0 '' "$scan" -r sweep -q --check --where flag=ok

# --- a run that grows after it was read, before m is known

stopped() { grep -q "stopped by SIGSTOP" opened; }
grow() { # COMMAND...: runs the command when the file after growing.db is opened; sets before, after, $code
    local next
    strace -f -o opened -e trace=openat "$scan" growing.db sweep/b/three.db >before || return 1
    next=$(grep -n '/three.db"' opened | head -1 | cut -d: -f1)
    strace -f -qq -o opened -e trace=openat -e inject=openat:signal=SIGSTOP:when="$next" \
        "$scan" growing.db sweep/b/three.db >after 2>complaints &
    tracer=$!
    until_true stopped || { kill $tracer; return 1; }
    "$@"
    pkill -CONT -P $tracer
    wait $tracer
    code=$?
}
# Prints the run as long CSV with an additional step 10, at which each of its
# six heads has 5 nats.
grown() {
    "$scan" export sweep/a/deep/two.db
    for head in 0,0 0,1 1,0 1,1 2,0 2,1; do echo "10,$head,5"; done
}
grown >grown.csv && "$scan" import -q grown.csv -o grown.db
shows_one_moment() {
    cp sweep/a/deep/two.db growing.db
    grow cp grown.db growing.db || return 1
    [ $code = 0 ] && [ "$(m_of growing.db)" = 5 ] && diff before after
}
# A training run records its held-out loss before the first step. Until the
# first step this loss is the run's only sample.
first_samples() { # with or without samples of the training
    echo 'step,layer,head,eval:entropy,entropy'
    for head in 0,0 0,1 1,0 1,1 2,0 2,1; do echo "0,$head,3,${1:-}"; done
}
first_samples >eval.csv && "$scan" import -q eval.csv --name begins -o eval.db &&
    first_samples 2 >both.csv && "$scan" import -q both.csv --name begins -o both.db
keeps_its_phase() {
    cp eval.db growing.db
    grow cp both.db growing.db || return 1
    [ $code = 0 ] && ! diff -q before <("$scan" growing.db sweep/b/three.db) >/dev/null && diff before after
}
stays_as_it_was() {
    cp grown.db growing.db
    grow sqlite3 growing.db 'DELETE FROM sample WHERE step = 10' || return 1
    [ $code = 0 ] && [ "$(m_of growing.db)" = 3.5 ] && diff before after
}
if strace -f -qq -o opened -e trace=none true 2>/dev/null; then
    check 'a run that grows during the scan is shown as it was read' shows_one_moment
    check 'a run whose training begins during the scan is shown as it was read' keeps_its_phase
    check 'a run whose sample is removed during the scan is shown as it was read' stays_as_it_was
else
    skip 'a run that grows during the scan is shown as it was read' 'no strace, or it may not trace here'
fi

# --- one file with many runs

exits 'merge -r merges the runs below a folder' 0 'all.db: 4 runs from 4 files' "$scan" merge -r sweep -o all.db
sql() { sqlite3 -batch -readonly all.db "$1"; }
rows() { # compares the rows of the table summary with --csv
    [ "$(sql "SELECT name || ' ' || heads || ' ' || highest || ' ' || severity || ' ' || flags
        FROM summary JOIN run USING(run_id) ORDER BY name" | paste -sd'/')" = \
        'one 6 1 4 collapse L0 (critical)/three 6 1 0 ok/two 6 2 2 overload L0 (warning)/zero 6 2 2 overload L0 (warning)' ] ||
        { sql 'SELECT * FROM summary'; return 1; }
}
check 'a merged file has a row for each run, for plain SQL' rows
check 'a merged file is a run file' test "$(names_of all.db)" = 'two one three zero'
same_bytes() { # COMMAND...: a folder gives the same output without and with -r
    "$@" sweep >plain.txt 2>&1 && [ -s plain.txt ] && "$@" -r sweep 2>&1 | cmp - plain.txt
}
sql_of() { "$scan" sql --csv "$@" 'SELECT run, step FROM es_values() LIMIT 9999'; }
exits 'merge of a folder without -r is the same' 0 'all.db: 4 runs from 4 files' "$scan" merge sweep -o all.db
check 'sql accepts a folder, with and without -r' same_bytes sql_of
check 'sql of a folder has the rows of its files' \
    test "$(sql_of sweep | sort -u | cut -d, -f1 | sort -u | paste -sd' ')" = 'one run three two zero'
check 'export accepts a folder, with and without -r' same_bytes "$scan" export --format jsonl
check 'export of a folder has the runs of its files' \
    test "$("$scan" export --format jsonl sweep | grep -c '"run":')" = 4
exits 'a format for one run refuses a folder with several' 2 'sweep: 4 run files, but format csv needs exactly one' "$scan" export sweep
exits 'export of a folder with a broken file exports the others' 4 'none.db' \
    sh -c 'mkdir -p mixed && cp sweep/zero.db mixed && echo x >mixed/none.db && "$0" export --format jsonl mixed -o mixed.jsonl' "$scan"
check 'the exported runs of such a folder are complete' sh -c '"$0" export --format jsonl sweep/zero.db | cmp - mixed.jsonl' "$scan"
exits 'watch accepts -r' 0 '' "$scan" watch --once -r sweep
exits 'a merged file is merged with others' 0 'all.db: 5 runs' sh -c '"$0" merge -r sweep other all.db -o all.db' "$scan"
check 'a file merged again has a row for each run' test "$(sql 'SELECT count(*) FROM summary')" = 5

for i in $(seq 300); do
    mkdir -p "many/$((i % 7))"
    cp sweep/zero.db "many/$((i % 7))/r$i.db"
done
memory() { # DIR: prints the peak memory of the table of a folder, in KiB
    python3 - "$scan" "$1" <<'PY'
import resource, subprocess, sys
subprocess.run([sys.argv[1], "-r", sys.argv[2]], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
PY
}
# With each run, memory may grow only by the text of one table row: for 300
# runs, by 300 KiB and some tolerance.
flat() {
    local few many
    few=$(memory many/0) many=$(memory many)
    [ "$many" -lt $((few + 2048)) ] || { echo "$few KiB, then $many KiB"; return 1; }
}
check 'memory does not grow with the number of runs' flat
finish
