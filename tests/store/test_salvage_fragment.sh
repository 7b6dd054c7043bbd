#!/usr/bin/env bash
# Fragments with damaged frames are reported like run files with damaged samples: in one
# line, with exit code 3 (4 for one of several files) unless --salvage is given. They are
# never called "ok" by mistake.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
bytes=$PWD/tests/support/fragment_bytes.py

own_corpus "$dir/own.tok" || exit 1
echo '22 1 0:1 / / rw - nfs4 filer:/ rw' >"$dir/mounts"
cd "$dir" || exit 1
# Three attempts; all frames with samples of one attempt are damaged.
go=(--threads 1 -q --checkpoint ck --out sound.db)
on_nfs() { ENTROPY_MOUNTINFO=$dir/mounts "$train" "$@" "${go[@]}" 2>/dev/null; }
on_nfs --arch SM+LN+G --data own.tok --n-layer 3 --n-head 2 --d-model 16 --ctx 16 \
    --batch 2 --eval-every 0 --record-every 1 --steps 20 || exit 1
on_nfs --resume ck --steps 40 && on_nfs --resume ck --steps 60 || exit 1
python3 "$bytes" age sound.esf 3600
cp sound.esf middle.esf
python3 "$bytes" spoil middle.esf 2
cp sound.esf last.esf
python3 "$bytes" spoil last.esf 3
cp middle.esf young.esf
python3 "$bytes" age young.esf -3600

# says NAME CODE COMMAND...: checks the exit code, and that one line reports the damage
line='damaged frames? \(after step [0-9]+ first\): the data that (it|they) held is missing'
says() {
    local name=$1 want=$2 text code
    shift 2
    text=$("$@" 2>&1 >/dev/null </dev/null)
    code=$?
    if [ $code -eq "$want" ] && [ "$(grep -cE "$line" <<<"$text")" = 1 ]; then
        pass "$name"
    else
        fail "$name" "exit $code, not $want: $text"
    fi
}

steps() { "$scan" export "$1" --series loss --format jsonl --salvage 2>/dev/null |
    grep -o '"step":[0-9]*' | cut -d: -f2 | xargs; }

check 'a sound fragment is fine' "$scan" sound.esf
for file in middle last; do
    says "$file: the table" 3 "$scan" $file.esf
    says "$file: --salvage" 0 "$scan" --salvage $file.esf
    says "$file: JSON" 3 "$scan" --json $file.esf
    says "$file: one of several" 4 "$scan" sound.esf $file.esf
    says "$file: export" 3 "$scan" export $file.esf
    says "$file: export --salvage" 0 "$scan" export --salvage $file.esf
    says "$file: report" 3 "$scan" report -q $file.esf -o $file.html
    says "$file: a figure" 3 "$scan" -q --figure timeline,loss $file.esf -o "$dir"
    says "$file: watch reports it" 3 "$scan" watch --once --check \
        --state $file.state $file.esf
    says "$file: merge" 3 "$scan" merge -q $file.esf -o $file.db
    says "$file: merge --salvage" 0 "$scan" merge -q --salvage $file.esf -o $file.db
    check "$file: the merged file is intact" "$scan" $file.db
done
same_text 'damaged samples are absent, the others are there' \
    "$(echo $(seq 0 19) $(seq 40 59))" "$(steps middle.esf)"
output 'JSON gives the place' '"damaged":\[{"frames":[0-9]+,"step":19}\]' \
    "$scan" --json --salvage middle.esf
same_text 'the merged file has the event' 'damaged|19' \
    "$("$scan" sql middle.db "SELECT kind || '|' || step FROM event WHERE kind = 'damaged'" |
        tail -n 1)"
output 'a run that ends damaged is not called ok' '"flags_state":"damaged"' \
    "$scan" --salvage --json last.esf
check 'a run that continues after the damage may be ok' \
    test -z "$("$scan" --salvage --json middle.esf 2>/dev/null | grep '"flags_state"')"

# --- a gap that late blocks of another host may still fill
check 'a recent gap is not reported as damage' "$scan" young.esf
same_text 'and no sample after it is shown' "$(echo $(seq 0 19))" "$(steps young.esf)"

output 'a reader reports that the file is incomplete' \
    'young.esf: not all of it can be read: frames are damaged, or not seen by this host yet' \
    bash -c '"$1" young.esf 2>&1' - "$scan"

# --- of several copies of a run, merge takes the one with most readable samples
merged() { sqlite3 "$1" 'SELECT count(DISTINCT step) FROM sample'; }
skipped='middle.esf: 1 of its runs skipped: another file has a copy'
exits 'merge: a damaged copy before a sound one' 0 "$skipped" \
    "$scan" merge middle.esf sound.esf -o keep.db
same_text 'all samples are there' 60 "$(merged keep.db)"
exits 'merge: a damaged copy after a sound one' 0 "$skipped" "$scan" merge sound.esf middle.esf -o behind.db
same_text 'all samples are there, too' 60 "$(merged behind.db)"
cp keep.db before.db
exits 'merge: no sample is lost' 3 'keep.db: 1 of its runs are in none of the inputs, or with fewer' \
    "$scan" merge --salvage middle.esf -o keep.db
check 'the file is unchanged' cmp keep.db before.db
"$scan" merge -q --salvage middle.esf -o fewer.db && cp fewer.db holes.db || exit 1
check 'merge: a file with fewer samples is replaced' "$scan" merge sound.esf -o fewer.db
same_text 'and has all samples' 60 "$(merged fewer.db)"
sqlite3 fewer.db 'UPDATE sample SET crc = crc + 1 WHERE step >= 20' || exit 1
exits 'merge: of copies with equally many samples, the more readable one is taken' 0 \
    'fewer.db: 1 of its runs skipped' "$scan" merge fewer.db holes.db -o best.db
same_text 'the merged file has the samples of that copy' "$(merged holes.db)" "$(merged best.db)"
exits 'merge: a fragment that may be incomplete is reported' 4 \
    'young.esf: not all of it can be read' "$scan" merge -q young.esf -o young.db
head -c -10 sound.esf >torn.esf
check 'merge: a torn tail is ignored' "$scan" merge torn.esf -o torn.db
finish
