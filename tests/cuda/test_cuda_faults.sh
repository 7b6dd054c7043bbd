#!/usr/bin/env bash
# Tests training runs on a CUDA device that fails. Wherever the device fails, a
# single line must report the failure, the exit code must be 3, and the run
# file must have the status "failed" and contain everything that was recorded
# before. Uses the emulation, which injects faults on request.
# needs: nvcc
set -uo pipefail
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
train=$BUILD/entropy-train
library=$BUILD/tests/libentropytrain_cuda_host.so
export ENTROPY_TRAIN_CUDA=$library

own_corpus "$dir/corpus.tok" || exit 1

# Makes a training run that is long enough for steps to be launched singly, captured as a graph and
# replayed, with evaluations and checkpoints in between.
run() { # FAULT PRECISION: makes a training run in $dir/run and sets $code
    rm -rf "$dir/run"
    mkdir "$dir/run"
    ENTROPY_TRAIN_EMULATION=$1 timeout -k 1 300 "$train" -q --backend cuda \
        --arch 'EReg(SM(t)+ScFuFFNi1)' --lambda 1e-3 --precision "$2" \
        --n-layer 2 --n-head 2 --d-model 16 --ctx 8 --batch 2 --steps 5 \
        --record-every 1 --eval-every 2 --eval-batches 1 --threads 1 --seed 7 \
        --data "$dir/corpus.tok" --name run -o "$dir/run/run.db" \
        --checkpoint "$dir/run/saved" --checkpoint-every 2 --keep 9 \
        >"$dir/run/out" 2>"$dir/run/err" </dev/null
    code=$?
}

# Prints the recorded samples without speeds, which differ between runs.
frames() {
    [ ! -e "$1" ] || sqlite3 "$1" "SELECT phase, name, step,
        CASE name WHEN 'tokens_per_s' THEN '' ELSE hex(value) END FROM sample
        JOIN series USING (series_id) ORDER BY step, 1, 2" | sort
}
status_of() { sqlite3 "$1" 'SELECT status FROM run; PRAGMA quick_check'; }

# Succeeds if the failed run has left the expected files; otherwise prints what
# is wrong. If only the last checkpoint is missing, the run may have the status
# "finished".
ended_well() {
    local file=$dir/run/run.db ended=failed saved
    ! grep -q ' a checkpoint is missing: ' "$dir/run/err" || ended=finished
    [ $code = 3 ] || { echo "exit code $code"; return 1; }
    [ "$(wc -l <"$dir/run/err")" = 1 ] || { echo 'standard error is not a single line'; return 1; }
    grep -qE '^entropy-train: (a checkpoint is missing: )?host emulation: ' \
        "$dir/run/err" ||
        { echo 'the message does not say what failed'; return 1; }
    [ ! -s "$dir/run/out" ] || { echo 'a result is printed'; return 1; }
    for saved in "$dir"/run/saved/*; do
        [[ $saved == *.safetensors || $saved == *'*' ]] ||
            { echo "leftover file: $saved"; return 1; }
    done
    frames "$file" >"$dir/got"
    [ -z "$(comm -23 "$dir/got" "$dir/want")" ] ||
        { echo 'values are recorded that the device has not computed'; return 1; }
    [ ! -e "$file" ] || [ "$(status_of "$file")" = "$ended"$'\nok' ] ||
        { echo "the run is $(status_of "$file")"; return 1; }
    [ "$(wc -l <"$dir/got")" -ge "$n_kept" ] ||
        { echo 'earlier records are missing'; return 1; }
    n_kept=$(wc -l <"$dir/got")
}

# NAME FAULT STRIDE PRECISION: repeats the run and lets one call of the kind
# FAULT fail in each run: the first call, then call number 1 + STRIDE, and so on,
# until the run has no more such calls. A run that fails later must have recorded
# at least as much as a run that fails earlier.
fails_well() {
    local name=$1 fault=$2 stride=$3 precision=$4 k why n_failed=0 n_kept=0
    run '' "$precision"
    if [ $code != 0 ]; then
        fail "$name" "the run without a fault fails: exit code $code: $(cat "$dir/run/err")"
        return
    fi
    frames "$dir/run/run.db" >"$dir/want"
    for ((k = 1; ; k += stride)); do
        run "$fault=$k" "$precision"
        [ $code != 0 ] || break
        ended_well >"$dir/why" || { # not in a subshell, because ended_well sets n_kept
            fail "$name" "$fault=$k: $(cat "$dir/why" "$dir/run/err")"
            return
        }
        n_failed=$((n_failed + 1))
    done
    echo "# $name: $n_failed failures"
    check "$name" [ "$n_failed" -ge 6 -a "$(status_of "$dir/run/run.db")" = $'finished\nok' ]
}

fails_well 'any reservation of memory may fail' reserve 1 fp16
fails_well 'any copy may fail' copy 11 fp32
fails_well 'a failed copy may be reported later' late,copy 37 fp32
fails_well 'any launch may fail' fail 23 fp32
fails_well 'a failed launch may be reported later' late,fail 41 fp32
fails_well 'any launch may fail in fp16' fail 61 fp16
finish
