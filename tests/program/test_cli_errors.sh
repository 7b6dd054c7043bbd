#!/usr/bin/env bash
# Checks that invalid input and invalid command lines result in the right exit
# code, and in an error message of one line that names the object and the
# remedy.
. tests/support/tap.sh
plan_dir
cd "$dir"

# fails NAME CODE REGEX COMMAND...: checks exit code and message like `exits`,
# and that the message is a single line.
fails() {
    local name=$1 text
    exits "$@"
    shift 3
    text=$("$@" 2>&1 >/dev/null </dev/null)
    [ "$(wc -l <<<"$text")" = 1 ] || fail "$name: one line" "$text"
}

printf '2.5,1,0.5\n3,0,0.25\n' >heat.csv
printf 'step,layer,head,entropy,loss\n1,,,,3\n1,1,2,0.5,\n7,,,,2\n7,0,0,1,\n' >long.csv
"$scan" import -q heat.csv --ctx 8 -o good.db || exit 1
"$scan" import -q long.csv --ctx 8 -o long.db || exit 1

# --- run files
fails 'no such file' 3 '^entropy-scan: no.db: no such file' "$scan" no.db
mkdir folder
fails 'a directory without run files' 3 'folder: no run file .* below it' "$scan" ./folder
mkfifo fifo
fails 'a FIFO' 3 'fifo: is a FIFO' timeout 60 "$scan" ./fifo
: >empty.db
fails 'an empty file' 3 'empty.db: .*empty' "$scan" empty.db
echo 'hello, world' >text.db
fails 'text' 3 'text.db: .*not a run file' "$scan" text.db
sqlite3 foreign.db 'create table t(x); insert into t values (1)'
fails 'a foreign SQLite file' 3 'foreign.db: .*not a run file' "$scan" foreign.db
cp good.db future.db
sqlite3 future.db 'pragma user_version = 99'
fails 'a schema from the future' 3 'future.db: schema 99 is newer.*upgrade' "$scan" future.db
head -c 9000 good.db >cut.db
fails 'a truncated run' 3 'cut.db: ' "$scan" cut.db
cp good.db bare.db
sqlite3 bare.db 'delete from sample'
fails 'a run without samples' 3 'bare.db: .*no sample' "$scan" bare.db
ln -s good.db link.db
fails 'a symbolic link' 3 'link.db: is a symbolic link' "$scan" link.db
: >good.db-journal
fails 'a run file next to a journal' 3 'good.db: has a rollback journal' "$scan" good.db
rm good.db-journal
fails 'an unknown series: the message names those that exist' 3 'losss.*entropy.*loss' \
    "$scan" long.db --series losss
fails 'a step out of range: the message names the range' 3 'step 8.*1.*7' "$scan" long.db --step 8
fails 'no eval phase' 3 'long.db: .*entropy' "$scan" long.db --phase eval
fails 'a heatmap of a run series names head series' 3 \
    'long.db: series loss has one value per run, .* entropy$' \
    "$scan" long.db --series loss --heatmap -q
exits 'one missing file of two exits with 4' 4 'no.db: no such' "$scan" good.db no.db
output 'the valid run of several is shown' 'heat' sh -c '"$0" good.db no.db; test $? = 4' "$scan"
exits 'two missing files of two exit with 3' 3 'no.db' "$scan" no.db nor.db
exits '--check with a missing file exits with 4' 4 'no.db' "$scan" good.db no.db --check

# --- secrets
for secret in 'host=x password=hunter2 dbname=y' "host=x password='hunter 2'" \
    mysql://me:hunter2@host/data 'http://me:hunt/er2@host/'; do
    check "no password is printed: ${secret%%hunt*}" \
        sh -c '! "$0" "$1" 2>&1 | grep -q hunt' "$scan" "$secret"
done

# --- outputs
fails 'a missing folder' 3 'nowhere/x.png: ' "$scan" good.db -q --heatmap=nowhere/x.png
fails 'an output that is a folder' 3 'folder: is a directory' "$scan" good.db -q --heatmap=folder --format png
exits 'a full disk, table' 3 'standard output: .*No space left' sh -c '"$0" good.db >/dev/full' "$scan"
exits 'a full disk, JSON' 3 'standard output: .*No space left' sh -c '"$0" good.db --json >/dev/full' "$scan"
exits 'a full disk, JSON lines' 3 'standard output: .*No space left' \
    sh -c '"$0" good.db --jsonl >/dev/full' "$scan"
exits 'a full disk, help' 3 'standard output: .*No space left' sh -c '"$0" --help >/dev/full' "$scan"
exits 'a full disk, picture' 3 '/dev/full: .*No space left' "$scan" good.db -q --format svg --heatmap=/dev/full
exits 'a full disk, export' 3 '/dev/full: .*No space left' "$scan" export good.db -o /dev/full

awk 'BEGIN { for (s = 0; s < 20000; s++) for (l = 0; l < 3; l++)
    printf "Step %d - Layer %d: %.3f\n", s, l, (s * 7 + l) % 31 / 8 }' >big.log
# A limit on file sizes simulates a full disk.
limited() { (ulimit -f "${MOST-100}"; "$@"); }
MOST=0 exits 'a full disk, export' 3 '^entropy-scan: good.npz: cannot write: File too large' \
    limited "$scan" export good.db -o good.npz
MOST=0 exits 'a full disk, merge' 3 '^entropy-scan: m.db: .*: cannot write: File too large' \
    limited "$scan" merge good.db -o m.db
exits 'a full disk, import' 3 '^entropy-scan: big.db: .*(File too large|disk I/O error)' \
    limited "$scan" import -q big.log -o big.db
check 'an import on a full disk leaves nothing behind' test -z "$(ls -A | grep -E 'big.db|entropy-scan')"
few_open_files() { # limits so low that one operation of an import after another fails
    local n code failed=0
    for n in $(seq 4 12); do
        (ulimit -n "$n"; "$scan" import -q heat.csv -o few.db)
        code=$?
        [ $code = 0 ] && rm few.db
        [ $code = 3 ] && failed=$((failed + 1))
        [ -z "$(ls -A | grep -E 'few.db|entropy-scan')" ] && [ $code = 0 -o $code = 3 ] ||
            { echo "$n open files, exit $code:"; ls -A; return 1; }
    done
    [ $failed -ge 3 ]
}
check 'an import with too few open files leaves nothing behind' few_open_files
full_disk() {
    mkdir -p small
    unshare -rm sh -c 'mount -t tmpfs -o size=256k none small &&
        "$0" import -q big.log -o small/big.db; code=$?
        ls -A small >&2; exit $code' "$scan"
}
if unshare -rm true 2>/dev/null; then
    text=$(full_disk 2>&1)
    code=$?
    if [ $code = 3 ] && [ "$(wc -l <<<"$text")" = 1 ] && grep -q 'small/big.db: .*No space left' <<<"$text"; then
        pass 'an import to a full disk fails and leaves no file'
    else
        fail 'an import to a full disk fails and leaves no file' "exit $code: $text"
    fi
else
    skip 'an import to a full disk fails and leaves no file' 'mounting one is not permitted'
fi
"$scan" import -q big.log -o big.db || exit 1
"$scan" export big.db 2>messages | head -1 >/dev/null
code=${PIPESTATUS[0]}
if [ "$code" = 141 ] && [ ! -s messages ]; then pass 'a closed pipe ends quietly'
else fail 'a closed pipe ends quietly' "exit $code: $(cat messages)"; fi

# A signal during an import removes the temporary file.
awk '{ print; print "other words, many of them, that take their time to be read" }' big.log big.log big.log big.log big.log >slow.log
"$scan" import -q slow.log -o slow.db 2>/dev/null &
pid=$!
has_begun() { compgen -G '.entropy-scan.*'; }
await 'an import is running' has_begun
kill -TERM $pid 2>/dev/null
wait $pid 2>/dev/null
code=$?
if [ $code = 143 ] && [ -z "$(ls -A | grep -E 'slow.db|entropy-scan')" ]; then
    pass 'a signal during an import leaves no file'
else
    fail 'a signal during an import leaves no file' "exit $code: $(ls -A)"
fi

# --- command lines
usage() { # NAME REGEX ARGUMENT...
    local name=$1 regex=$2
    shift 2
    fails "$name" 2 "$regex" "$scan" "$@"
}
usage 'a command line without arguments' 'no run file: .*--help'
usage 'a misspelled verb' 'wacth: is neither a file nor a verb: did you mean watch' wacth good.db
usage 'an unknown verb' 'frobnicate: is neither a file nor a verb: see .*--help' frobnicate good.db
usage 'a verb of another program' 'diff: .*did you mean entropy-scan compare A.db B.db' diff good.db
usage 'an unknown option' 'heatmpa.*--heatmap' good.db --heatmpa
usage 'an option of another program' '--cmap: .*did you mean --colormap' good.db --cmap=magma
fails 'an option of another trainer' 2 '--learning_rate: .*did you mean --lr\?' "$train" --learning_rate=1e-3
fails 'a name that is not an option' 2 '--lerning: no such option: see' "$train" --lerning=1
usage 'a picture where an input is expected' 'x.png: no such file: did you mean --heatmap=x.png\?' good.db --heatmap x.png
usage 'a page of several figures where an input is expected' 'x.pdf: .*did you mean -o x.pdf\?' x.pdf good.db --figure curves,bands
check 'a refused command line writes no picture' sh -c '! ls *.png *.pdf 2>/dev/null | grep .'
usage 'an unknown value of --color' "--color: unknown value 'often': expected auto, always or never" good.db --color=often
usage '--json with --csv' '--json, --jsonl and --csv are mutually exclusive' good.db --json --csv
fails '--tui without a terminal' 2 'standard output is not one: try --heatmap' "$scan" good.db --tui
fails '--follow without --tui' 2 '--follow needs --tui' "$scan" good.db --follow
fails '--follow without a terminal' 2 'standard output is not one' "$scan" good.db --tui --follow
fails '--tui with --where' 2 'omit --where' "$scan" good.db --tui --where 'loss>1'
fails '--tui with --json' 2 'omit the other outputs' "$scan" good.db --tui --json
fails '--tui with a figure' 2 'omit the other outputs' "$scan" good.db --tui --curves
usage 'a format that contradicts the file name' '--format svg contradicts the file name x.png' good.db --heatmap=x.png --format svg
usage 'a file name whose extension is no format' 'x.jpg: unknown picture format: end the name in .png' good.db --heatmap=x.jpg
usage 'two pictures with the same file name' 'x.png: two outputs' good.db --heatmap=x.png --curves=x.png
usage 'two results on standard output' 'standard output: two outputs' good.db --json --heatmap=-
usage 'a picture over its own run' 'good.db: is both input and output' good.db --format png --heatmap=good.db
usage 'JSON over its own run' './good.db: is both input and output' good.db --json -o ./good.db
usage 'a table over its own run' 'good.db: is both input and output' good.db -o good.db
usage 'JSON over another run' 'long.db: is a database' good.db --json -o long.db
usage 'an export over another run' 'long.db: is a database' export good.db -o long.db
usage '--quiet without another output' '-o x.txt: with --quiet there is no output' good.db -q -o x.txt
usage 'a title without a picture' '--title applies only to pictures' good.db --title x
usage 'a step that is not a number' "--step 'x1': expected a number, first or last" good.db --step x1
usage 'a step below 0' "--step '-1'" good.db --step -1
usage 'a size without a valid form' "--size '12': expected width and height" good.db --heatmap --size 12
usage 'a picture with too many pixels' '--size: a PNG of 30000x30000 pixels: .*100 million' good.db --heatmap --size 30000x30000
usage 'a picture with infinitely many points' '--size: a picture of 1e\+300x1 points' good.db --heatmap --format svg --size 1e300x1
usage 'one of two pictures is too large' '--size: a PNG of 15000x15000' good.db -q --curves=a.svg --heatmap=b.png --size 15000x15000
check 'if one of two pictures is too large, neither is drawn' test ! -e a.svg -a ! -e b.png
usage 'a size too small for the plot' 'size|small' good.db -q --heatmap --size 20x20
usage 'an unknown colour map' 'jet' good.db --heatmap --colormap jet
usage 'an unknown policy' 'most' good.db --max most
usage 'a policy that does not fit the series' 'ceiling' long.db --series loss --max ceiling
usage 'an unknown phase' "--phase: unknown value 'x': expected train or eval" good.db --phase x
usage 'an unknown format' 'gif' good.db --heatmap --format gif
usage 'help for an unknown verb' 'walk: unknown verb: expected one of draw, compare' help walk
usage 'import without a file' 'no file to import' import
usage 'import without an output' 'no run file to write: add -o' import heat.csv
usage 'import of two files' 'one file at a time' import heat.csv long.csv -o x.db
usage 'import over its own input' 'heat.csv: is both input and output' import heat.csv -o heat.csv
usage 'import to standard output' 'a run file cannot be a stream' import heat.csv -o -
usage 'an unknown format of import' "unknown format 'x'" import heat.csv --from x -o x.db
usage 'a context of 0' '--ctx: 0 is not in' import heat.csv --ctx 0 -o x.db
usage 'export without a file' 'no run file to export' export
usage 'export in an unknown format' "--format 'xml': expected csv, jsonl, npz or tensorboard" export good.db --format xml
usage 'merge without a file' 'no run files to merge' merge -o x.db
usage 'merge without an output' 'no run file to write: add -o' merge good.db

# --- import
bad() { # NAME REGEX TEXT...: the file is what printf makes of TEXT
    local name=$1 regex=$2
    printf "$3" >bad.csv
    fails "import: $name" 3 "$regex" "$scan" import bad.csv -o bad.db
    [ ! -e bad.db ] || fail "import: $name leaves no file"
}
bad 'a short line' '^entropy-scan: bad.csv: line 2, column 3: ' '1,2,3\n4,5\n'
bad 'a letter' "^entropy-scan: bad.csv: line 2, column 2: '5x' is not a number" '1,2\n4,5x\n'
bad 'an empty file' 'bad.csv: empty' ''
bad 'a NUL byte' 'line 1, column 2: contains a NUL byte' '1,\0002\n'
bad 'text that is not data' 'choose with --from' 'Once upon a time\n'
bad 'a short row' 'line 3, column 4: the line is too short' 'step,layer,head,e,f\n1,0,0,1,2\n2,0,0,1\n'
bad 'a letter in a row' "line 2, column 4: 'l' is not" 'step,layer,head,e\n1,0,0,l\n'
bad 'a cell given twice' 'line 3, column 4: e already has a value here at step 1' \
    'step,layer,head,e\n1,0,0,1\n1,0,0,1\n'
bad 'steps that go back' 'line 3, .*sort the rows by step' 'step,layer,head,e\n2,0,0,1\n1,0,0,1\n'
exits 'import: a pipe that does not end, on a full disk' 3 'copy of standard input' \
    timeout 60 bash -c 'ulimit -f 100; trap "" XFSZ; yes 1,2 | "$0" import - -o bad.db' "$scan"
bad 'the write-ahead log of another file' 'choose with --from' 'Epoch 3: loss 2\n'
fails 'import: a run file' 3 'good.db: is an SQLite file, not text' "$scan" import good.db -o bad.db
fails 'import: no such file' 3 'no.csv: No such file' "$scan" import no.csv -o bad.db
fails 'import: a directory' 3 'folder: is a folder; for MLflow, name' "$scan" import folder -o bad.db
fails 'import: a FIFO' 3 'fifo: not a regular file' timeout 60 "$scan" import fifo -o bad.db
fails 'import: the output is another kind of file' 3 'text.db: exists already, and is not a run file' \
    "$scan" import heat.csv -o text.db
check 'an import leaves a foreign file alone' grep -q hello text.db
: >x.db-wal
fails 'import: the output has the log of an interrupted run' 3 'x.db-wal: ' "$scan" import heat.csv -o x.db
rm x.db-wal
check 'import replaces a run file' "$scan" import -q heat.csv -o long.db
check 'import replaces an empty file' sh -c ': >new.db; "$0" import -q heat.csv -o new.db' "$scan"

# --- merge and export
"$scan" import -q heat.csv --name other -o other.db || exit 1
exits 'merge: some of several inputs fail' 4 'no.db: no such' "$scan" merge good.db no.db -o all.db
output 'a merge with a missing input has the other runs' 'heat' "$scan" all.db
exits 'merge: all inputs fail' 3 'none.db: not written: there is no run' "$scan" merge no.db -o none.db
fails 'merge: an output whose run would be lost' 3 'all.db: 1 of its runs are missing from the inputs' \
    "$scan" merge -q other.db -o all.db
exits 'merge: the same run twice' 0 'all.db: 1 of its runs skipped: another file has a copy' \
    "$scan" merge other.db all.db all.db -o all.db
fails 'export: a merged file needs --run' 2 'all.db: contains 2 runs: choose one with --run=1' "$scan" export all.db
fails 'export: an unknown run' 3 "no run 'x' \\(2 runs\\)" "$scan" export all.db --run x
fails 'export: an unknown series' 3 'x.*entropy' "$scan" export good.db --series x
finish
