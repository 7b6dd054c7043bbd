#!/usr/bin/env bash
# Trains one model with several learning rates and seeds, one run after the other, and
# stops a run with a critical flag (collapsing heads, NaN), to save time for runs that
# can still succeed.
#
#   samples/schedulers/loop.sh DIR --data FILE [OPTION of entropy-train...]
#
#   RATES='1e-3 3e-3 ...' SEEDS='1 2 ...' learning rates and seeds to try, in this order
#   RULES=FILE             file of rules that define flags (see `entropy-scan rules`)
#   EVERY=SECONDS          time between two checks (default 1)
#
# Run files and logs go into DIR; existing runs are skipped. Exit codes: 0 success; 2 a
# program or an argument is missing; 4 a training run failed, but all others were executed.
set -uo pipefail
RATES=${RATES:-1e-3 1e-2 1e-1} SEEDS=${SEEDS:-1 2} EVERY=${EVERY:-1}

say() { echo "loop.sh: $*" >&2; }
for program in entropy-scan entropy-train; do
    command -v "$program" >/dev/null && continue
    say "no $program in PATH: build it with \`make programs\`, then" \
        "export PATH=\$PWD/build:\$PATH"
    exit 2
done
[ $# -gt 0 ] || { say 'no folder for the runs: loop.sh DIR [OPTION...]'; exit 2; }
dir=$1
shift
case $dir in -*) dir=./$dir ;; esac
mkdir -p "$dir" || exit 2

# Prints the flag for which RUN should be stopped, such as "collapse since step 80".
# Fails if no critical flag is active or no sample has been recorded yet. --check exits
# with 1 if a flag of severity error or above is active, and --where selects runs with a
# critical flag.
doomed() { # RUN
    local json
    json=$(entropy-scan --check --json --where severity=critical \
        ${RULES:+--rules "$RULES"} "$1" 2>/dev/null)
    [ $? -eq 1 ] || return 1
    grep -oE '"kind":"[^"]*","severity":"critical","stands":true,"onset":[0-9]+' \
        <<<"$json" | head -n 1 | sed -E 's/"kind":"([^"]*)".*:/\1 since step /'
}

# Requests the stop with the file that the recorder reads, and kills the training process if it
# does not stop. An existing file is replaced, even if it is a link or a FIFO; it is never opened
# for writing.
stop() { # RUN WHY
    local aside
    aside=$(mktemp "$1.stop-XXXXXX") && echo "$2" >"$aside" &&
        mv -fT "$aside" "$1.stop"
    for _ in {1..30}; do
        kill -0 "$training" 2>/dev/null || return 0
        sleep 1
    done
    kill "$training"
}

train() { # NAME OPTION...: fails if the training broke
    local name=$1 run=$dir/$1.db why='' code
    entropy-train -q --name "$name" --out "$run" "${@:2}" 2>"$dir/$name.log" &
    training=$!
    while kill -0 "$training" 2>/dev/null; do
        if why=$(doomed "$run"); then
            stop "$run" "$why"
            break
        fi
        sleep "$EVERY"
    done
    wait "$training"
    code=$?
    rm -f "$run.stop"
    # Check once more, because the loss may have become non-finite (exit code 1) since
    # the last check.
    [ -n "$why" ] || why=$(doomed "$run")
    case $code in
    0 | 1 | 143) say "$name: ${why:+stopped: }${why:-done}" ;;
    *) say "$name: exit code $code: $(tail -1 "$dir/$name.log")"; return 1 ;;
    esac
}

# Stop the training in a trap, because Ctrl-C does not reach the background processes of
# a script.
training=''
trap '[ -z "$training" ] || { kill "$training"; wait "$training"; }; exit 130' INT TERM

broken=0
for seed in $SEEDS; do
    for rate in $RATES; do
        name=lr$rate-seed$seed
        if [ -e "$dir/$name.db" ]; then
            say "$name: already exists"
        else
            train "$name" --lr "$rate" --seed "$seed" "$@" || broken=4
        fi
    done
done
entropy-scan "$dir"/*.db || exit 4
exit $broken
