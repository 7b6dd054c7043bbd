#!/usr/bin/env bash
# Checks that entropy-scan merge joins the fragments of a distributed training
# run: run.db of rank 0 and run.rank1.db of rank 1. The test creates both from
# CSV files.
set -uo pipefail
. tests/support/tap.sh
plan_dir
case $BUILD in /*) bin=$BUILD ;; *) bin=$PWD/$BUILD ;; esac
scan=$bin/entropy-scan
cd "$dir"

a=00000000-89ab-4def-8123-456789abcdef
b=11111111-89ab-4def-8123-456789abcdef
fragment() { # PATH UUID RANK WORLD LAYER ENTROPY ROWS STEP...: 2 layers, 3 heads
    local path=$1 uuid=$2 rank=$3 world=$4 layer=$5 entropy=$6 rows=$7 step head
    shift 7
    {
        printf '# uuid: %s\n# name: run\n# arch: SM\n# ctx: 64\n' "$uuid"
        printf '# config: {"fragment":{"world":%s,"ranks":[%s],"layer":%s,"head":0}}\n' \
            "$world" "$rank" "$layer"
        printf '# series: head rows train:finite_rows\nstep,layer,head,entropy,finite_rows,loss\n'
        for step; do
            printf '%s,,,,,%s\n' "$step" "$rank.5"
            for head in 0 1 2; do
                printf "$step,%s,$head,$entropy,$rows,\n" 0 1
            done
        done
    } >fragment.csv
    "$scan" import -q fragment.csv -o "$path" || exit 1
}
rows() { "$scan" export "$1" --series entropy --series loss | grep -v '^#'; }

fragment run.db $a 0 2 0 1 10 0 5 10
fragment run.rank1.db $a 1 2 0 3 30 0 5
exits 'missing steps of a rank that died early are reported' 0 \
    'run.*db: rank 1: lacks 1 of 3 training steps, from step 10 to step 10' \
    "$scan" merge run.db run.rank1.db -o all.db
same_text 'means are weighted by rows; a step that only one rank has is copied from this rank' \
    '0,0,0,2.5, 10,1,2,1,' "$(rows all.db | sed -n '3p;$p' | paste -sd' ')"
same_text 'the loss is the mean over ranks' '0,,,,1 5,,,,1 10,,,,0.5' \
    "$(rows all.db | grep ',,,,' | paste -sd' ')"
exits 'the number of files is reported' 0 'all.db: 1 run from 2 files' "$scan" merge run.rank1.db run.db -o all.db
check 'merge -q prints nothing' sh -c '! "$0" merge -q run.rank1.db run.db -o all.db 2>&1 | grep .' "$scan"
check 'a joined run has an event for missing steps' \
    test "$(sqlite3 all.db 'SELECT kind, severity, step FROM event')" = 'gap|2|10'
check 'a joined run has a row for plain SQL' \
    test "$(sqlite3 all.db 'SELECT step, heads FROM summary JOIN run USING(run_id)')" = '10|6'
exits 'fragments of a run that is already joined are skipped' 0 'is already joined: its fragments are skipped' \
    "$scan" merge all.db run.db run.rank1.db -o all.db

fragment stage.db $b 0 2 0 1 10 0 5
fragment stage.rank1.db $b 1 2 2 3 10 0 5
check 'stages and replicas of two runs are joined at once' \
    "$scan" merge run.db stage.rank1.db run.rank1.db stage.db -o both.db
output 'each fragment is joined to its run' '^2$' sh -c '"$0" both.db --csv | grep -c "^both.db"' "$scan"
same_text 'pipeline stages are placed side by side' '0,0,2,1, 0,3,0,3,' \
    "$("$scan" export both.db --run $b | grep -E '^0,(0,2|3,0),' | cut -d, -f1-4 | sed 's/$/,/' | paste -sd' ')"

# --- missing ranks, and fragments that do not fit
exits 'a rank without a fragment is reported' 4 'run.db: ranks 1 of 2: no fragment was given' \
    "$scan" merge run.db -o one.db
check 'a run without one of its ranks is written' sh -c '"$0" one.db --csv | grep -q "^one.db"' "$scan"
cp run.rank1.db copy.db
exits 'a run with two fragments of one rank is refused' 3 'copy.db: rank 1 of run .* is also in run.rank1.db|none.db: not written' \
    "$scan" merge run.db run.rank1.db copy.db -o none.db
check 'a merge whose only run is refused writes no file' test ! -e none.db
exits 'if the fragments of one run do not fit, the other runs are written' 4 'rank 1 of run' \
    "$scan" merge run.db run.rank1.db copy.db stage.db stage.rank1.db -o some.db
output 'the merged file omits fragments that do not fit' '^1$' sh -c '"$0" some.db --csv | grep -c "^some.db"' "$scan"
fragment over.db $a 1 2 1 3 30 0 5
exits 'fragments with overlapping heads are refused' 3 'layers 1 to 2, heads 0 to 2 overlap those of run.db, layers 0 to 1' \
    "$scan" merge run.db over.db -o none.db
fragment other.db $b 1 2 0 3 30 0
exits 'fragments of other runs are not joined' 4 'other.db: ranks 0 of 2: no fragment' \
    "$scan" merge run.db other.db -o apart.db
output 'fragments of two runs are not joined to one run' '^2$' sh -c '"$0" apart.db --csv | grep -c "^apart.db"' "$scan"

# --- no rank may be lost
exits 'a fragment is not replaced by other fragments' 3 'run.db: 1 of its runs are missing from the inputs' \
    "$scan" merge run.rank1.db -o run.db
cp all.db kept.db
exits 'a joined run is not replaced by one with fewer ranks' 3 'kept.db: 1 of its runs' \
    "$scan" merge run.db -o kept.db
check 'a refused merge leaves the joined run unchanged' cmp all.db kept.db
cp run.db whole.db
check 'a fragment among the inputs may be replaced by its joined run' \
    "$scan" merge whole.db run.rank1.db -o whole.db
output 'the joined run has the samples of its fragments' '^0,0,0,2.5$' sh -c '"$0" export whole.db --series entropy' "$scan"

# --- no sample may be lost
fragment long.db $a 0 2 0 1 10 0 5 10 15
fragment long.rank1.db $a 1 2 0 3 30 0 5 10 15
exits 'fragments that continue after an already joined run are reported' 4 \
    'long.rank1.db: has steps after the end of run .*: omit that input' \
    "$scan" merge kept.db run.db long.rank1.db -o beyond.db
check 'the fragments are joined again if the joined run is omitted' "$scan" merge long.db long.rank1.db -o kept.db
exits 'a joined run is not replaced by one with fewer samples' 3 'kept.db: 1 of its runs .* or have fewer samples' \
    "$scan" merge run.db run.rank1.db -o kept.db
output 'a refused merge keeps the samples of the joined run' '^15,0,0,2.5$' sh -c '"$0" export kept.db --series entropy' "$scan"
exits 'a fragment is not replaced by an older copy' 3 'long.db: 1 of its runs .* or have fewer samples' \
    "$scan" merge run.db run.rank1.db -o long.db
check 'no file is left behind' sh -c '! ls -A | grep -E "entropy-scan|-wal|-shm|-lock"'
finish
