#!/usr/bin/env bash
# Fragments with damaged frames: as run files with damaged samples, said in one
# line, exit 3 (4 of several files) unless --salvage; never a false "ok".
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
bytes=$PWD/tests/support/fragment_bytes.py

own_corpus "$dir/own.tok" || exit 1
echo '22 1 0:1 / / rw - nfs4 filer:/ rw' >"$dir/mounts"
cd "$dir" || exit 1
# Three sittings; of the samples of one all frames, however many, are spoilt.
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

# NAME CODE COMMAND...: exit code, and exactly one line, which names the damage
line='damaged frames? \(after step [0-9]+ first\): the samples in (it|them) are missing'
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
    says "$file: watch says so" 3 "$scan" watch --once --check \
        --state $file.state $file.esf
    says "$file: merge" 3 "$scan" merge -q $file.esf -o $file.db
    says "$file: merge --salvage" 0 "$scan" merge -q --salvage $file.esf -o $file.db
    check "$file: what was merged is whole" "$scan" $file.db
done
same_text 'what is damaged is not there, the rest is' \
    "$(echo $(seq 0 19) $(seq 40 59))" "$(steps middle.esf)"
output 'JSON says where' '"damaged":\[{"frames":[0-9]+,"step":19}\]' \
    "$scan" --json --salvage middle.esf
same_text 'what was merged has the event' 'damaged|19' \
    "$("$scan" sql middle.db "SELECT kind || '|' || step FROM event WHERE kind = 'damaged'" |
        tail -n 1)"
output 'a run that ends damaged is not called ok' '"flags_state":"damaged"' \
    "$scan" --salvage --json last.esf
check 'one that goes on behind it may be' \
    test -z "$("$scan" --salvage --json middle.esf 2>/dev/null | grep '"flags_state"')"

# --- a hole that the blocks of another host may still fill
check 'what is before a young hole is old, not damaged' "$scan" young.esf
same_text 'and nothing behind it is shown' "$(echo $(seq 0 19))" "$(steps young.esf)"

output 'a reader that has not seen all of it says so' \
    'young.esf: cannot be read completely: frames are damaged, or not visible to this host yet' \
    bash -c '"$1" young.esf 2>&1' - "$scan"

# --- copies of one run: the one of which most can be read
merged() { sqlite3 "$1" 'SELECT count(DISTINCT step) FROM sample'; }
skipped='middle.esf: 1 of its runs skipped: another file has a copy'
exits 'merge: a damaged copy before a sound one' 0 "$skipped" \
    "$scan" merge middle.esf sound.esf -o keep.db
same_text 'all is there' 60 "$(merged keep.db)"
exits 'merge: and behind it' 0 "$skipped" "$scan" merge sound.esf middle.esf -o behind.db
same_text 'all is there, too' 60 "$(merged behind.db)"
cp keep.db before.db
exits 'merge: no sample gets lost' 3 'keep.db: 1 of its runs are missing from the inputs, or have fewer' \
    "$scan" merge --salvage middle.esf -o keep.db
check 'the file is as it was' cmp keep.db before.db
"$scan" merge -q --salvage middle.esf -o fewer.db && cp fewer.db holes.db || exit 1
check 'merge: a file with fewer samples is replaced' "$scan" merge sound.esf -o fewer.db
same_text 'by all of them' 60 "$(merged fewer.db)"
sqlite3 fewer.db 'UPDATE sample SET crc = crc + 1 WHERE step >= 20' || exit 1
exits 'merge: of as many samples those count that can be read' 0 \
    'fewer.db: 1 of its runs skipped' "$scan" merge fewer.db holes.db -o best.db
same_text 'as in the copy that was taken' "$(merged holes.db)" "$(merged best.db)"
exits 'merge: what other hosts may not have written yet is said' 4 \
    'young.esf: cannot be read completely' "$scan" merge -q young.esf -o young.db
head -c -10 sound.esf >torn.esf
check 'merge: a torn tail was never there' "$scan" merge torn.esf -o torn.db
finish
