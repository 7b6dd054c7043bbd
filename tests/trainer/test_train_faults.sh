#!/usr/bin/env bash
# Disturbs complete training runs. Whatever happens to the recorder or its file, the
# training ends with the same bits as without recording and reports which records
# are lost. Whatever happens to the training process, a valid run file has the records
# before that moment.
#
#   ES_SEED=17  seed of the random moments at which runs are disturbed
. tests/support/tap.sh
. tests/support/corpus.sh
. tests/support/background.sh
plan_dir
ES_SEED=${ES_SEED:-$RANDOM}
RANDOM=$ES_SEED
echo "# ES_SEED=$ES_SEED"
steps=500 batch=8 moments='1 2 3' sizes='300k 350k 400k'

own_corpus "$dir/corpus.tok" || exit 1
model=(--arch SM+LN+G --n-layer 3 --n-head 2 --d-model 32 --ctx 24 --batch $batch
    --steps $steps --record-every 1 --eval-every 80 --eval-batches 2
    --threads 1 --seed 7 --log-every 1 --data "$dir/corpus.tok")

# --- a training run in the background ---------------------------------------

# Sets $moment to a random moment of the run, which may be in the middle of a step.
# Must be called outside of `check`, whose subshell would repeat the same random
# numbers.
draw() {
    moment=$((RANDOM % (steps / 2) + 1))
    pause=0.00$((RANDOM % 10))
}
await_moment() { await_step "$moment" "$pause"; }

find_recorder() { # sets $recorder: the child of $trainer that records
    local pid
    recorder=
    for pid in $(cat "/proc/$trainer/task/$trainer/children" 2>/dev/null); do
        grep -q entropy-recorde "/proc/$pid/comm" && recorder=$pid
    done
    [ -n "$recorder" ]
}

# --- checks of a run ---------------------------------------------------------

# Prints the recorded samples in the order in which the trainer sends them, without
# the speeds, which differ between runs.
frames() {
    sqlite3 "$1" "SELECT phase, name, step,
        CASE name WHEN 'tokens_per_s' THEN '' ELSE hex(value) END
        FROM sample JOIN series USING (series_id)
        ORDER BY step, phase = 'train',
        CASE shape WHEN 'run' THEN 0 WHEN 'head' THEN 1 ELSE 2 END, series_id"
}
count() { # RUN.db WHERE: prints the number of samples
    sqlite3 "$1" "SELECT count(*) FROM sample JOIN series USING (series_id)
        WHERE $2"
}
losses() { # RUN.db: prints nothing if the recording ended before the first loss
    "$scan" export "$1" --series loss --phase train -o "$dir/export" \
        2>"$dir/complaint" && grep -v '^#' "$dir/export" && return
    [ "$(count "$1" 1)" = 0 ] || { cat "$dir/complaint"; return 1; }
}

is_beginning() { # FILE WHOLE
    cmp -s -n "$(stat -c %s "$1")" "$1" "$2" ||
        { echo "$(basename "$1") is no beginning of $(basename "$2")"; return 1; }
}

sound() { # RUN.db: valid, and a beginning of the undisturbed run
    losses "$1" >"$dir/losses" && is_beginning "$dir/losses" "$dir/all-losses" &&
        [ "$(sqlite3 "$1" 'PRAGMA integrity_check')" = ok ] &&
        frames "$1" >"$dir/frames" && is_beginning "$dir/frames" "$dir/all-frames"
}

holds() { # RUN.db N: has the losses of at least N steps
    local n
    n=$(count "$1" "name = 'loss' AND phase = 'train'")
    [ "$n" -ge "$2" ] || { echo "$n steps, not $2"; return 1; }
}

plain() { # RUN.db: a single file, without a log or an index
    [ "$(cd "$(dirname "$1")" && echo "$(basename "$1")"*)" = "$(basename "$1")" ] ||
        { ls "$1"*; return 1; }
}

status_is() {
    local status
    status=$(sqlite3 "$1" 'SELECT status FROM run')
    [ "$status" = "$2" ] || { echo "status $status"; return 1; }
}

# --- undisturbed ------------------------------------------------------------

start "${model[@]}" --no-record
finish_training
reference=$(result)
finishes() { exited 0 && grep -qE 'loss [0-9.]+, held-out' <<<"$reference"; }
check 'training without recording finishes' finishes

start "${model[@]}" -o "$dir/whole.db"
finish_training
frames "$dir/whole.db" >"$dir/all-frames"
losses "$dir/whole.db" >"$dir/all-losses"
whole() {
    exited 0 && same_result && plain "$dir/whole.db" &&
        status_is "$dir/whole.db" finished && holds "$dir/whole.db" $steps
}
check 'recording changes no bit of the result' whole

# --- kill -9 ----------------------------------------------------------------

interrupted() { # RUN.db: reported as interrupted, because no process writes it
    [ "$(count "$1" 1)" = 0 ] ||
        "$scan" "$1" --json | grep -q '"status":"interrupted"'
}

recorder_killed() { # RUN.db
    start "${model[@]}" -o "$1"
    await_moment || return
    find_recorder || return 1
    kill -9 "$recorder"
    finish_training && exited 3 && same_result &&
        said 'warning: .*entropy-recorder .* has ended: recording stopped' &&
        said '[1-9][0-9]* of [0-9]+ frames are not known to be in the file' &&
        interrupted "$1" && sound "$1"
}
for i in $moments; do
    draw
    check "kill -9 of the recorder in step $moment" in_time recorder_killed "$dir/recorder-$i.db"
done
again() {
    start "${model[@]}" -o "$1"
    finish_training && exited 0 && same_result && plain "$1" &&
        [ "$(sqlite3 "$1" 'SELECT count(*) FROM run')" = 2 ]
}
check 'a file left by a killed recorder accepts the next run' \
    again "$dir/recorder-1.db"

trainer_killed() { # RUN.db
    start "${model[@]}" -o "$1"
    await_moment || return
    find_recorder || return 1
    kill -9 "$trainer"
    finish_training && exited 137 && until_true ended "$recorder" &&
        plain "$1" && status_is "$1" failed && sound "$1" &&
        holds "$1" "$(done_steps)"
}
for i in $moments; do
    draw
    check "kill -9 of the trainer in step $moment" in_time trainer_killed "$dir/trainer-$i.db"
done

# --- stop requested ----------------------------------------------------------

signalled() { # RUN.db SIGNAL CODE
    start "${model[@]}" -o "$1"
    await_moment || return
    kill "-$2" "$trainer"
    finish_training && exited "$3" && plain "$1" && status_is "$1" stopped &&
        sound "$1" && holds "$1" "$(done_steps)"
}
draw
check 'SIGINT: stopped, exit code 130' in_time signalled "$dir/int.db" INT 130
draw
check 'SIGTERM: stopped, exit code 143' in_time signalled "$dir/term.db" TERM 143

stop_file() { # RUN.db
    local steps=1000000
    start "${model[@]}" -o "$1" --steps $steps
    await_step 20 || return
    echo 'enough of it' >"$1.stop"
    finish_training && exited 0 && grep -q ' stopped after ' "$dir/result" &&
        plain "$1" && status_is "$1" stopped && holds "$1" "$(done_steps)" &&
        [ "$(sqlite3 "$1" "SELECT message FROM event WHERE kind = 'stop'")" = 'enough of it' ]
}
check 'a file RUN.db.stop stops training' in_time stop_file "$dir/stop.db"

# --- a recorder that hangs ---------------------------------------------------

standstill() { # RUN.db
    local before
    start "${model[@]}" -o "$1"
    await_step 20 || return
    find_recorder || return 1
    kill -STOP "$recorder"
    before=$(done_steps)
    kill -CONT "$trainer"
    until_true reached $((before + 20)) || return 1
    kill -CONT "$recorder"
    finish_training && exited 0 && same_result && plain "$1" &&
        status_is "$1" finished && sound "$1" && holds "$1" $steps
}
check 'SIGSTOP of the recorder: training continues and nothing is lost' \
    in_time standstill "$dir/still.db"

# --- a run file that is moved or removed ------------------------------------

removed() { # RUN.db
    start "${model[@]}" -o "$1"
    await_step 20 || return
    rm "$1"
    finish_training && exited 3 && same_result &&
        said 'recording is incomplete: .*removed.db: removed, moved or' &&
        [ -z "$(compgen -G "$1*")" ]
}
check 'a removed run file is reported at the end' in_time removed "$dir/removed.db"

moved() { # RUN.db
    start "${model[@]}" -o "$1"
    await_step 20 || return
    mv "$1" "$1-elsewhere"
    finish_training && exited 3 && same_result && said 'moved.db: removed, moved' &&
        plain "$1-elsewhere" && sound "$1-elsewhere" && holds "$1-elsewhere" $steps
}
check 'a moved run file is reported, and nothing is lost' in_time moved "$dir/moved.db"

# The training process runs as a user without write permission, even if root
# runs the test.
closed_folder() { # RUN.db
    local folder=${1%/*} as=()
    mkdir -p "$folder"
    if [ "$(id -u)" = 0 ]; then
        as=("${other_user[@]}")
        chown 65534 "$folder"
        chmod 755 "$dir" "$folder"
    fi
    start "${model[@]}" -o "$1"
    await_step 20 || return
    chmod 555 "$folder"
    finish_training
    chmod 755 "$folder"
    exited 0 && same_result && sound "$1" && holds "$1" $steps && status_is "$1" finished
}
if [ "$(id -u)" = 0 ] && ! other_user_can_run "$train"; then
    skip 'a folder that becomes read-only' 'another user cannot run the programs here'
else
    check 'a folder that becomes read-only: nothing is lost' in_time closed_folder "$dir/closed/run.db"
fi

# --- no space ---------------------------------------------------------------

no_space() { # RUN.db REGEX: the recording ends early, the training does not
    finish_training && exited 3 && same_result && said "$2" &&
        said 'is incomplete: .*\([1-9][0-9]* of [0-9]+ frames are lost\)' &&
        sound "$1"
}
full_disk() {
    start "${model[@]}" -o "$1"
    no_space "$1" 'No space left on device'
}
# If the disk has space for the write-ahead log but not for the run file, no frame is lost. The
# reported number of lost frames must equal the number of missing frames.
nearly_full_disk() { # RUN.db
    local frames lost=0 held
    start "${model[@]}" -o "$1"
    finish_training && same_result && sound "$1" || return 1
    frames=$(wc -l <"$dir/all-frames")
    said 'frames are lost' >/dev/null &&
        lost=$(sed -n 's/.*(\([0-9]*\) of [0-9]* frames are lost).*/\1/p' "$dir/progress")
    held=$(count "$1" 1)
    [ $((held + lost)) = "$frames" ] ||
        { echo "$held of $frames frames are there, $lost said to be lost"; return 1; }
}
on_disk_of() { # SIZE NAME FUNCTION
    mkdir "$dir/small-$1"
    if ! mount -t tmpfs -o size="$1" none "$dir/small-$1" 2>/dev/null; then
        skip "$2" 'no file system can be mounted here'
        return
    fi
    trap 'umount -l "$dir"/small-*; rm -rf "$dir"' EXIT
    check "$2" "$3" "$dir/small-$1/run.db"
}
on_disk_of 180k 'a full disk: the lost frames are reported' full_disk
for size in $sizes; do
    on_disk_of $size "a disk of $size: the number of lost frames is reported" nearly_full_disk
done
limited() { # RUN.db
    start "${model[@]}" -o "$1"
    await_step 20 || return
    find_recorder || return 1
    prlimit --pid "$recorder" --fsize=150000 || return 1
    no_space "$1" 'limited.db: '
}
if command -v prlimit >/dev/null; then
    check 'a limit on file sizes: the lost frames are reported' in_time limited "$dir/limited.db"
else
    skip 'a limit on file sizes: the lost frames are reported' 'no prlimit on this machine'
fi

# --- other processes that use the same file ----------------------------------

two_trainers() { # RUN.db
    start "${model[@]}" -o "$1"
    await_step 20 || return
    find_recorder || return 1
    "$train" "${model[@]}" -o "$1" >"$dir/second" 2>&1 # the first one is stopped
    local second=$?
    finish_training && exited 0 && same_result && plain "$1" && sound "$1" &&
        [ $second = 3 ] && grep -q "two.db: process $recorder is writing" \
        "$dir/second" && ! grep -q '^step ' "$dir/second"
}
check 'a second trainer is refused with the name of the writer' in_time two_trainers "$dir/two.db"

readers() { # RUN.db
    local n=0
    start "${model[@]}" -o "$1"
    until_true "$scan" "$1" >/dev/null 2>&1 # until something is committed
    kill -STOP "$trainer" # otherwise it could end before the fifth reader starts
    while [ $n -lt 5 ] || ! ended "$trainer"; do
        [ $n -ne 5 ] || kill -CONT "$trainer"
        "$scan" "$1" >/dev/null 2>"$dir/complaint" ||
            { cat "$dir/complaint"; return 1; }
        for file in "$dir/read"/*; do
            case $file in
            "$1" | "$1-wal" | "$1-shm" | "$1-lock") ;;
            *) [ ! -e "$file" ] || { echo "$file"; return 1; } ;;
            esac
        done
        n=$((n + 1))
    done
    # The write-ahead log may remain, because a reader that is active at the end of the run may keep
    # it open.
    finish_training && exited 0 && same_result && [ ! -e "$1-lock" ] &&
        status_is "$1" finished && sound "$1" && holds "$1" $steps
}
mkdir "$dir/read"
check 'readers neither fail nor disturb' readers "$dir/read/run.db"
finish
