# Functions for the tests of `entropy-scan watch`. Source this file after tests/support/tap.sh and
# tests/support/background.sh. Changes the current folder to $dir; $root is the previous folder.
. tests/support/corpus.sh
cd "$dir"

# Prints the path of the state file that the watcher of folder NAME uses, or nothing if this file
# does not exist yet.
state_of() {
    for state in "$XDG_STATE_HOME/entropy-scan/watch/$1-"*.state; do
        [ ! -e "$state" ] || echo "$state"
    done
}

# Usage: collapsing NAME [CTX [FIRST_LOW]]. Makes NAME.db, a run with context length CTX (default 8)
# in which a layer collapses at step FIRST_LOW (default 4).
collapsing() {
    { echo '# arch: SM'; echo "# ctx: ${2:-8}"; echo "# name: $1"
      echo 'step,layer,head,entropy,loss'
      for step in 1 2 3 4 5 6 7 8; do
          echo "$step,,,,2.5"
          for head in 0 1 2; do
              [ $step -lt "${3:-4}" ] && value=0.7 || value=0.001
              echo "$step,0,$head,0.6,"
              echo "$step,1,$head,$value,"
          done
      done; } >"$1.csv"
    "$scan" import -q "$1.csv" -o "$1.db" && rm "$1.csv"
}

corpus() { # makes x.tok, the training data
    write_source src 30
    "$bin/entropy-corpus" -q -o x.tok src || echo 'Bail out! no corpus'
}

training() { # OPTION...: starts a small training in the background
    start --n-layer 2 --n-head 3 --d-model 12 --ctx 16 --batch 4 --threads 1 --eval-batches 2 \
        --data x.tok --arch SM "$@"
}

matches() { # NAME REGEX TEXT
    if [[ $3 =~ $2 ]]; then pass "$1"; else fail "$1" "$3"; fi
}
lines() { wc -l <"$1" | tr -d ' '; }
has_lines() { [ "$(lines "$1" 2>/dev/null || echo 0)" -ge "$2" ]; }
around=() # prefix of the watcher's command line, such as env NAME=VALUE
start_watching() { # NAME OPTION...: watches folder NAME; output in NAME.out, NAME.err
    local name=$1
    shift
    "${around[@]}" "$scan" watch "$name" "$@" >"$name.out" 2>"$name.err" &
    watcher=$!
}
# Waits until watcher NAME, started with --textfile NAME.prom, has begun and
# finished a check of its files. It waits until NAME.prom has changed twice, because
# the first change may belong to an earlier check.
differs() { [ -s "$1" ] && [ "$(cat "$1")" != "$2" ]; }
look_again() { # NAME
    local before i
    for i in 1 2; do
        before=$(cat "$1.prom" 2>/dev/null)
        await "the watcher of $1 looks at its files" differs "$1.prom" "$before"
    done
}
stop_watching() {
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null
}

owed() { sqlite3 "$(state_of killed)" "SELECT count(*) FROM delivery WHERE state $1"; }
nothing_owed() { [ "$(owed "IN ('owed', 'claimed')")" = 0 ]; }
# Starts watchers of the folder `killed` one after the other and kills each of them, until at least
# N have been killed and process PID has ended. Then runs a last watcher, which is not killed. The
# watchers' output is in killed.out and killed.alerts. Sets $kills to the number of killed watchers.
kill_watchers() { # N PID OPTION...
    local least=$1 feeder=$2
    shift 2
    local watch=("$scan" watch killed "$@" --exec 'sh -c "cat >>killed.alerts"')
    kills=0
    while [ $kills -lt "$least" ] || ! ended "$feeder"; do
        "${watch[@]}" >>killed.out 2>>killed.err &
        watcher=$!
        sleep 0.0$((RANDOM % 9 + 1))
        kill -9 $watcher 2>/dev/null
        wait $watcher 2>/dev/null
        kills=$((kills + 1))
    done
    "${watch[@]}" --once >>killed.out 2>>killed.err
    check "after $kills kills everything is delivered" until_true nothing_owed
}
