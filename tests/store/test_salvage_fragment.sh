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
line='damaged frames? \(after step [0-9]+ first\): what (it|they) held is missing'
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
finish
