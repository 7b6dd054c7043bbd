#!/usr/bin/env bash
# Tests checkpoints under faults. After a training run was stopped in any way or its
# disk has failed, the run must continue from the last valid checkpoint with the same
# bits. An invalid checkpoint must be refused with a one-line message.
#
#   ES_SEED=17  repeats the test with the same random moments
. tests/support/tap.sh
. tests/support/background.sh
. tests/support/corpus.sh
plan_dir
ES_SEED=${ES_SEED:-$RANDOM}
RANDOM=$ES_SEED
echo "# ES_SEED=$ES_SEED"
steps=60

write_source "$dir/source"
"$BUILD/entropy-corpus" -q -o "$dir/corpus.tok" "$dir/source" || exit 1
# Each step processes many batches and therefore lasts long enough for a signal
# to arrive before it ends.
batches=40
model=(--arch 'EReg(SM(t)+LN+ScFFN)' --n-layer 2 --n-head 3 --d-model 12
    --ctx 16 --batch 4 --accumulate $batches --steps $steps --eval-every 20 --eval-batches 2
    --record-every 1 --threads 1 --log-every 1 --data "$dir/corpus.tok")

runs() { # OPTION...: runs a training to its end
    start "$@"
    finish_training
}

frames() { # prints all samples, without speeds, which differ from run to run
    sqlite3 "$1" "SELECT phase, name, step,
        CASE name WHEN 'tokens_per_s' THEN '' ELSE hex(value) END
        FROM sample JOIN series USING (series_id)
        ORDER BY name, phase, step"
}
same_record() { # RUN.db
    frames "$1" >"$dir/frames"
    local run
    run=$(sqlite3 "$1" 'SELECT count(*), status FROM run')
    cmp "$dir/frames" "$dir/all-frames" || return 1
    [ "$run" = '1|finished' ] || { echo "runs: $run"; return 1; }
}
temporaries() { compgen -G "$1/.entropy-scan.*" | wc -l; }
no_temporaries() { # FOLDER
    [ "$(temporaries "$1")" = 0 ] || { ls -a "$1"; return 1; }
}
newest() { # FOLDER
    compgen -G "$1/*.safetensors" | sort | tail -n 1
}
tensors() { # FILE: prints the data after its header
    local n
    n=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    tail -c "+$((n + 9))" "$1"
}
# Resumes a training run until its end and compares the resulting bits with
# those of an uninterrupted run.
goes_on() { # FOLDER RUN.db
    runs --resume "$1" --out "$2" --steps $steps --log-every 1
    exited 0 && said '^resuming .* at step [0-9]+$' && same_result &&
        same_record "$2" && no_temporaries "$1" &&
        cmp <(tensors "$(newest "$1")") <(tensors "$(newest "$dir/whole")")
}

runs "${model[@]}" -o "$dir/whole.db" --checkpoint "$dir/whole"
reference=$(result)
frames "$dir/whole.db" >"$dir/all-frames"
undisturbed() {
    exited 0 && [ "$(newest "$dir/whole")" = "$dir/whole/whole-00000060.safetensors" ] &&
        [ "$(wc -l <"$dir/all-frames")" -gt 1000 ] &&
        grep -qE 'finished after 60 steps, loss [0-9.]+, held-out' <<<"$reference"
}
check 'a run without faults gives the reference bits' undisturbed

# Simulates a run that was killed between its last checkpoint and its last
# evaluation, resumes the run, and checks its files.
nothing_left() {
    local before
    mkdir "$dir/last" && cp "$dir/whole.db" "$dir/last/" &&
        sqlite3 "$dir/last/whole.db" "UPDATE run SET status = 'running';
            DELETE FROM sample WHERE step = 60" || return 1
    before=$(stat -c %i "$dir/whole"/*)
    runs --resume "$dir/whole" --out "$dir/last/whole.db"
    exited 0 && said ' at step 60, the last step: nothing left to do' &&
        same_result && same_record "$dir/last/whole.db" &&
        [ "$before" = "$(stat -c %i "$dir/whole"/*)" ]
}
check 'a run that was killed after its last checkpoint ends as finished' nothing_left

# --- a requested stop -------------------------------------------------------

signalled() { # PATH SIGNAL CODE
    start "${model[@]}" -o "$1.db" --checkpoint "$1"
    await_step 5 || return
    kill "-$2" "$trainer"
    finish_training && exited "$3" && [ -f "$(newest "$1")" ] &&
        grep -q 'stopped after' "$dir/result" &&
        said "^checkpoint of step [0-9]+: continue with --resume $1$" && goes_on "$1" "$1.db"
}
check 'SIGINT writes a checkpoint, exits with 130, and the run resumes with the same bits' \
    in_time signalled "$dir/int" INT 130
check 'SIGTERM writes a checkpoint, exits with 143, and the run resumes with the same bits' \
    in_time signalled "$dir/term" TERM 143

stop_file() {
    local steps=1000000
    start "${model[@]}" --steps $steps -o "$dir/stop.db" \
        --checkpoint "$dir/stop"
    await_step 3 || return
    echo 'enough' >"$dir/stop.db.stop"
    finish_training && exited 0 && [ -f "$(newest "$dir/stop")" ] &&
        runs --resume "$dir/stop" --dry-run && exited 0 &&
        grep -q '^steps = 1000000$' "$dir/result"
}
check 'a file RUN.db.stop ends the run with a checkpoint and exit code 0' stop_file

# Returns false while the first signal is still pending. The second signal must
# not be sent until then, because the kernel would merge the two signals.
none_pends() { ended "$trainer" || grep -q '^ShdPnd:[[:space:]]*0*$' "/proc/$trainer/status"; }
in_the_step() { # SIGNAL TICKS
    start "${model[@]}" --accumulate 65536 --checkpoint-every 1 --no-record \
        --eval-every 0 --resume "$dir/early" --checkpoint "$dir/second"
    until_true said '^resuming' >/dev/null
    until_true has_used "$2" "$trainer"
    kill "-$1" "$trainer"
    until_true none_pends
    ! ended "$trainer"
}
second_signal() { # FIRST SECOND CODE
    in_the_step "$1" 50 || in_the_step "$1" 300 || in_the_step "$1" 1000 ||
        { echo 'ended by the first'; return 1; }
    kill "-$2" "$trainer"
    finish_training && exited "$3" && [ ! -s "$dir/result" ] &&
        runs --resume "$dir/early" --dry-run && exited 0
}
runs "${model[@]}" --steps 5 --no-record --checkpoint "$dir/early"
check 'a second SIGINT ends the training at once' second_signal INT INT 130
check 'SIGTERM after SIGINT ends the training at once' second_signal INT TERM 143

# --- kill -9 ----------------------------------------------------------------

killed() { # PATH
    start "${model[@]}" -o "$1.db" --checkpoint "$1" \
        --checkpoint-every 1 --keep 2
    await_step "$moment" "$pause" || return
    kill -9 "$trainer"
    finish_training && exited 137 || return 1
    # After the kill there may be one temporary file that was not yet renamed,
    # and two checkpoints, or three if the oldest was not yet removed.
    [ "$(temporaries "$1")" -le 1 ] &&
        [ "$(compgen -G "$1/*.safetensors" | wc -l)" -le 3 ] ||
        { ls -a "$1"; return 1; }
    goes_on "$1" "$1.db" && ! grep warning "$dir/progress"
}
for i in 1 2 3 4; do
    moment=$((RANDOM % 40 + 3)) pause=0.0$((RANDOM % 30 + 10))
    check "after kill -9 in step $moment the last checkpoint is resumed" in_time killed "$dir/killed-$i"
done
half_written() { # the state after kill -9 in the middle of writing
    cp -r "$dir/early" "$dir/half"
    head -c 1000 "$(newest "$dir/early")" >"$dir/half/.entropy-scan.abcdef"
    head -c 15 "$(newest "$dir/early")" >"$dir/half/.entropy-scan.beguna"
    : >"$dir/half/.entropy-scan.emptya"
    : >"$dir/half/.entropy-scan.openaa"
    exec 8>>"$dir/half/.entropy-scan.openaa" # another process begins to write a picture there
    runs --resume "$dir/half" --steps 7 --no-record
    exec 8>&-
    exited 0 && [ "$(compgen -G "$dir/half/.entropy-scan.*")" = \
        "$dir/half/.entropy-scan.openaa" ] || { ls -a "$dir/half"; return 1; }
}
check 'a checkpoint that a killed process has not completed is removed' half_written

# --- a full disk -------------------------------------------------------------

# Checks a run whose disk became full after some checkpoints. Later checkpoints
# failed, but the run must have continued to its end.
no_space() { # FOLDER REGEX
    exited 3 && same_result && said "warning: $1/.*: $2" &&
        said "a checkpoint is missing: $1/.*: $2" &&
        [ "$(temporaries "$1")" = 0 ] && [ -f "$(newest "$1")" ]
}
full_disk() {
    runs "${model[@]}" -o "$dir/full.db" --checkpoint "$dir/small/full" \
        --checkpoint-every 5 --keep 0
    no_space "$dir/small/full" '.*No space left on device' &&
        sqlite3 "$dir/full.db" 'SELECT message FROM event' | grep -q 'No space' &&
        goes_on_elsewhere "$dir/small/full"
}
goes_on_elsewhere() { # FOLDER: its disk stays full
    runs --resume "$1" --out "$dir/full.db" --checkpoint "$dir/roomy" --log-every 1
    exited 0 && same_result && same_record "$dir/full.db"
}
mkdir "$dir/small"
if mount -t tmpfs -o size=400k none "$dir/small" 2>/dev/null; then
    trap 'umount -l "$dir/small"; rm -rf "$dir"' EXIT
    check 'earlier checkpoints stay valid on a full disk' full_disk
else
    skip 'a full disk' 'no file system of our own can be mounted'
fi
limited() {
    mkdir "$dir/limited"
    cp "$dir/early"/*.safetensors "$dir/limited"
    (
        ulimit -f 20 # KiB
        exec "$train" --resume "$dir/limited" --steps 12 --no-record \
            --checkpoint-every 3
    ) >"$dir/result" 2>"$dir/progress"
    outcome=$?
    exited 3 && grep -q 'finished after 12 steps' "$dir/result" &&
        said 'warning: .*limited.*: cannot write: File too large' &&
        [ "$(grep -c warning "$dir/progress")" = 3 ] &&
        [ "$(ls -A "$dir/limited")" = "$(ls -A "$dir/early")" ] &&
        runs --resume "$dir/limited" --dry-run && exited 0
}
check 'earlier checkpoints stay valid if a limit on file sizes makes later ones fail' limited

# --- refused before the first step ------------------------------------------

quick=("${model[@]}" --no-record --steps 6 --accumulate 1)
refused() { # NAME CODE REGEX OPTION...: one line, no step
    local name=$1 code=$2 regex=$3 text
    shift 3
    exits "$name" "$code" "$regex" "$train" "$@"
    text=$(grep -v '^resuming ' <<<"$errors")
    [ "$(wc -l <<<"$text")" = 1 ] || fail "$name: one line" "$text"
}
refused 'a checkpoint folder that cannot be created' 3 "nowhere/ck.*: cannot create" \
    "${quick[@]}" --checkpoint "$dir/nowhere/ck"
refused 'a checkpoint folder that is a file' 3 'corpus.tok.*: Not a directory' \
    "${quick[@]}" --checkpoint "$dir/corpus.tok"
refused 'a checkpoint folder that is not writable' 3 '/proc.*: cannot create' \
    "${quick[@]}" --checkpoint /proc
refused '--checkpoint-every without --checkpoint' 2 'needs --checkpoint' \
    "${quick[@]}" --checkpoint-every 5
refused 'a checkpoint folder that contains another run of the same name' 2 'belongs to another run' \
    "${quick[@]}" --checkpoint "$dir/early"

good=$(newest "$dir/early")
resume=(--resume "$good" --no-record --steps 12)
refused 'resuming with another number of layers' 2 '--n-layer is 4, the checkpoint .* has 2' \
    "${resume[@]}" --n-layer 4
refused 'resuming with another architecture' 2 '--arch is SM\+G, the checkpoint .* has EReg' \
    "${resume[@]}" --arch SM+G
refused 'resuming with another vocabulary' 2 '--vocab is 300, the checkpoint .* has 256' \
    "${resume[@]}" --vocab 300
refused 'resuming with another seed' 2 '--seed is 5, the checkpoint' \
    "${resume[@]}" --seed 5
refused 'resuming a run that has trained more than --steps' 2 'has already trained 5 steps of 4: give more --steps' \
    --resume "$good" --no-record --steps 4
echo 'y = 17' >"$dir/source/more.py"
"$BUILD/entropy-corpus" -q -o "$dir/other.tok" "$dir/source"
refused 'resuming with other data' 2 'other.tok: the checksum is [0-9a-f]{16}, but the checkpoint' \
    "${resume[@]}" --data "$dir/other.tok"
refused 'a checkpoint that does not exist' 3 'absent: No such file' --resume "$dir/absent" --no-record
mkdir "$dir/empty"
refused 'a folder without checkpoints' 3 'empty: no checkpoint in this folder' \
    --resume "$dir/empty" --no-record
head -c -1 "$good" >"$dir/cut.safetensors"
refused 'a truncated checkpoint is refused' 3 'cut.safetensors: .*cut short' \
    --resume "$dir/cut.safetensors" --no-record
size=$(stat -c %s "$good")
{ head -c $((size / 2)) "$good"; printf '\377'; tail -c +$((size / 2 + 2)) "$good"; } \
    >"$dir/flipped.safetensors"
refused 'a checkpoint with a changed byte' 3 'flipped.safetensors: damaged: the checksum' \
    --resume "$dir/flipped.safetensors" --no-record
printf '\x50\0\0\0\0\0\0\0%-80s%s' \
    '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' abcd >"$dir/foreign.safetensors"
refused 'a safetensors file of another program' 3 'foreign.safetensors: not a checkpoint of entropy-train' \
    --resume "$dir/foreign.safetensors" --no-record
refused 'a token file instead of a checkpoint' 3 'corpus.tok: not a safetensors file' \
    --resume "$dir/corpus.tok" --no-record
: >"$dir/nothing.safetensors"
refused 'an empty file instead of a checkpoint' 3 'nothing.safetensors: not a safetensors' \
    --resume "$dir/nothing.safetensors" --no-record

falls_back() {
    mkdir "$dir/fallback"
    runs "${quick[@]}" --checkpoint "$dir/fallback" --checkpoint-every 2
    truncate -s -3 "$dir/fallback/run-00000006.safetensors"
    runs --resume "$dir/fallback" --no-record --lr 0.01
    exited 0 && said 'warning: .*run-00000006.safetensors: .*cut short' &&
        said 'resuming .*/run-00000004.safetensors at step 4' &&
        runs --resume "$dir/fallback" --steps 9 --no-record && exited 0 &&
        said 'resuming .*/run-00000006.safetensors at step 6'
}
check 'if the newest checkpoint is damaged, the checkpoint before it is resumed' falls_back
finish
