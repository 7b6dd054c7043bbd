# What the tests of `entropy-scan watch` share: . tests/support/watching.sh, after
# tests/support/tap.sh and tests/support/background.sh. Goes into $dir; $root is where it was.
. tests/support/corpus.sh
case $BUILD in /*) bin=$BUILD ;; *) bin=$PWD/$BUILD ;; esac
scan=$bin/entropy-scan train=$bin/entropy-train root=$PWD
cd "$dir"

# The state of a watcher of folder NAME; nothing if there is none yet.
state_of() {
    for state in "$XDG_STATE_HOME/entropy-scan/watch/$1-"*.state; do
        [ ! -e "$state" ] || echo "$state"
    done
}

# A run that collapses at step 4: NAME.db; NAME [CTX [FIRST_LOW]].
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

corpus() { # x.tok, to train on
    write_source src 30
    "$bin/entropy-corpus" -q -o x.tok src || echo 'Bail out! no corpus'
}

training() { # OPTION...: a small one, in the background
    start --n-layer 2 --n-head 3 --d-model 12 --ctx 16 --batch 4 --threads 1 --eval-batches 2 \
        --data x.tok --arch SM "$@"
}

matches() { # NAME REGEX TEXT
    if [[ $3 =~ $2 ]]; then pass "$1"; else fail "$1" "$3"; fi
}
lines() { wc -l <"$1" | tr -d ' '; }
has_lines() { [ "$(lines "$1" 2>/dev/null || echo 0)" -ge "$2" ]; }
stop_watching() {
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null
}
