#!/usr/bin/env bash
# Tests fragments with damaged frames. They must be reported like run files with
# damaged samples: in one line, with exit code 3 (4 if other files are readable)
# unless --salvage is given. A fragment whose last frames are damaged must never
# be called "ok".
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
bytes=$PWD/tests/support/fragment_bytes.py

own_corpus "$dir/own.tok" || exit 1
echo '22 1 0:1 / / rw - nfs4 filer:/ rw' >"$dir/mounts"
cd "$dir" || exit 1
# Records a run in three attempts. Then damages all frames with samples of one
# attempt: of the middle attempt in middle.esf, and of the last attempt in
# last.esf.
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

# says NAME CODE COMMAND...: checks that the command exits with CODE, and that one line
# of its output matches $line, which reports the damage
line='damaged frames? \(after step [0-9]+ first\): the samples in (it|they|them) are missing'
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

check 'a fragment without damage is accepted' "$scan" sound.esf
for file in middle last; do
    says "$file: the table reports the damage" 3 "$scan" $file.esf
    says "$file: --salvage changes the exit code to 0" 0 "$scan" --salvage $file.esf
    says "$file: --json reports the damage" 3 "$scan" --json $file.esf
    says "$file: one damaged file of several gives exit code 4" 4 "$scan" sound.esf $file.esf
    says "$file: export reports the damage" 3 "$scan" export $file.esf
    says "$file: export --salvage exits with 0" 0 "$scan" export --salvage $file.esf
    says "$file: report reports the damage" 3 "$scan" report -q $file.esf -o $file.html
    says "$file: --figure reports the damage" 3 "$scan" -q --figure timeline,loss $file.esf -o "$dir"
    says "$file: watch reports the damage" 3 "$scan" watch --once --check \
        --state $file.state $file.esf
    says "$file: merge reports the damage" 3 "$scan" merge -q $file.esf -o $file.db
    says "$file: merge --salvage exits with 0" 0 "$scan" merge -q --salvage $file.esf -o $file.db
    check "$file: the merged file is intact" "$scan" $file.db
done
same_text 'export omits the damaged samples and has all others' \
    "$(echo $(seq 0 19) $(seq 40 59))" "$(steps middle.esf)"
output 'JSON lists the place of the damage' '"damaged":\[{"frames":[0-9]+,"step":19}\]' \
    "$scan" --json --salvage middle.esf
same_text 'the merged file has an event for the damage' 'damaged|19' \
    "$("$scan" sql middle.db "SELECT kind || '|' || step FROM event WHERE kind = 'damaged'" |
        tail -n 1)"
output 'a run that ends damaged is not called ok' '"flags_state":"damaged"' \
    "$scan" --salvage --json last.esf
check 'a run that continues after the damage may be ok' \
    test -z "$("$scan" --salvage --json middle.esf 2>/dev/null | grep '"flags_state"')"

# --- a gap that late blocks of another host may still fill
check 'a recent gap is not reported as damage' "$scan" young.esf
same_text 'no sample after a recent gap is shown' "$(echo $(seq 0 19))" "$(steps young.esf)"

output 'a reader reports that the file is incomplete' \
    'young.esf: cannot be read completely: frames are damaged, or not visible to this host yet' \
    bash -c '"$1" young.esf 2>&1' - "$scan"

# --- of several copies of a run, merge takes the one with most readable samples
merged() { sqlite3 "$1" 'SELECT count(DISTINCT step) FROM sample'; }
skipped='middle.esf: 1 of its runs skipped: another file has a copy'
exits 'merge skips a damaged copy before a complete one' 0 "$skipped" \
    "$scan" merge middle.esf sound.esf -o keep.db
same_text 'the merged file has all samples' 60 "$(merged keep.db)"
exits 'merge skips a damaged copy after a complete one' 0 "$skipped" "$scan" merge sound.esf middle.esf -o behind.db
same_text 'the merged file has all samples, too' 60 "$(merged behind.db)"
cp keep.db before.db
exits 'merge does not replace a file by one with fewer samples' 3 'keep.db: 1 of its runs are missing from the inputs, or have' \
    "$scan" merge --salvage middle.esf -o keep.db
check 'a refused merge leaves the file unchanged' cmp keep.db before.db
"$scan" merge -q --salvage middle.esf -o fewer.db && cp fewer.db holes.db || exit 1
check 'merge replaces a file with fewer samples' "$scan" merge sound.esf -o fewer.db
same_text 'the replaced file has all samples' 60 "$(merged fewer.db)"
sqlite3 fewer.db 'UPDATE sample SET crc = crc + 1 WHERE step >= 20' || exit 1
exits 'merge takes the copy with the most readable samples' 0 \
    'fewer.db: 1 of its runs skipped' "$scan" merge fewer.db holes.db -o best.db
same_text 'the merged file has the samples of the most readable copy' "$(merged holes.db)" "$(merged best.db)"
exits 'merge reports a fragment that may be incomplete' 4 \
    'young.esf: cannot be read completely' "$scan" merge -q young.esf -o young.db
head -c -10 sound.esf >torn.esf
check 'merge ignores a torn tail' "$scan" merge torn.esf -o torn.db
finish
