#!/usr/bin/env bash
# entropy-scan watch: alerts told once, in time, whatever is killed.
set -uo pipefail
. tests/tap.sh
. tests/background.sh
plan_dir
case $BUILD in /*) bin=$BUILD ;; *) bin=$PWD/$BUILD ;; esac
scan=$bin/entropy-scan
cd "$dir"

# A run that collapses at step 4, 8 times as long as that; NAME CTX.
collapsing() {
    { echo '# arch: SM'; echo "# ctx: ${2:-8}"; echo "# name: $1"
      echo 'step,layer,head,entropy,loss'
      for step in 1 2 3 4 5 6 7 8; do
          echo "$step,,,,2.5"
          for head in 0 1 2; do
              [ $step -lt 4 ] && value=0.7 || value=0.001
              echo "$step,0,$head,0.6,"
              echo "$step,1,$head,$value,"
          done
      done; } >"$1.csv"
    "$scan" import -q "$1.csv" -o "$1.db" && rm "$1.csv"
}

same_text() { # NAME WANT GOT
    if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "$3"; fi
}
lines() { wc -l <"$1" | tr -d ' '; }
has_lines() { [ "$(lines "$1" 2>/dev/null || echo 0)" -ge "$2" ]; }

# --- once
mkdir runs
collapsing a || exit 1
mv a.db runs
want="$PWD/runs/a.db (SM): collapse L1 since step 4 (critical): 1, threshold 0.5"
same_text 'an imported run is judged, its alert told' "$want" "$("$scan" watch --once runs)"
same_text 'and not again' '' "$("$scan" watch --once runs)"
same_text 'but to who keeps another state' "$want" "$("$scan" watch --once runs --state other.db)"
exits '--check goes by what is there' 1 '' "$scan" watch --once --check runs
same_text 'the state is where it is said to be' runs/.entropy-watch.db "$(ls -A runs/.entropy-watch.db)"
"$scan" watch --once --json runs/a.db --state json.db >json 2>&1
same_text '--json is an object' \
    'collapse critical 4 6 1 [1] SM' \
    "$(python3 -c 'import json; a = json.load(open("json"))
print(a["kind"], a["severity"], a["onset"], a["step"], a["value"], a["layers"], a["arch"])')"
same_text 'the run file is not touched' '' "$(ls -A runs | grep -vE '^(a.db|.entropy-watch.db)$')"
exits 'no folder' 3 'nowhere' "$scan" watch --once nowhere --state n.db
exits 'nothing to watch' 2 'name run files' "$scan" watch --once
exits 'a severity that is none' 2 'info, warning' "$scan" watch runs --severity bad
exits 'a command that is none' 2 'a quote is not closed' "$scan" watch runs --exec 'a "b'
exits 'a state that is none' 3 'not a watcher.s state' "$scan" watch --once runs --state runs/a.db
echo text >runs/text.db
exits 'a damaged file costs that file' 4 'text.db: .*not a run file' "$scan" watch --once runs
rm runs/text.db

# --- commands
cat >append <<'END'
#!/bin/sh
exec python3 -c '
import json, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
os.write(fd, (json.load(sys.stdin)["id"] + "\n").encode())' "$1"
END
chmod +x append
"$scan" watch --once runs --state exec.db --exec "'./append' \"told \$HOME\"" >out 2>&1
same_text '--exec takes words as a shell would, and expands nothing' 1 "$(lines 'told $HOME')"
exits 'a command that fails is told of' 0 'exec: .*exit code 3' "$scan" watch --once runs --state fail.db --exec "sh -c 'exit 3'"
exits 'and not run again' 0 '^$' "$scan" watch --once runs --state fail.db --exec "sh -c 'exit 3'"
exits 'one that is not there' 0 'no such command' "$scan" watch --once runs --state none.db --exec ./none
exits 'one that takes too long is ended' 0 'killed after 0.3 s' "$scan" watch --once runs --state slow.db --exec 'sleep 60' --exec-timeout 0.3
exits 'standard output that cannot be written' 3 'still owed: 1' sh -c '"$0" watch --once runs --state full.db >/dev/full' "$scan"
same_text 'is made up for later' "$want" "$("$scan" watch --once runs --state full.db)"

# --- following
mkdir live
"$scan" watch live --poll 60 --exec './append live.ids' --textfile live.prom >live.out 2>live.err &
watcher=$!
until_true test -e live.prom
collapsing b
mv b.db live/.hidden
sleep 0.3
mkdir live/deeper && mv live/.hidden live/deeper/b.db
check 'a new file in a new folder is seen' until_true has_lines live.out 1
head -c 3000 live/deeper/b.db >live/half.db
collapsing c
cat c.db >live/half.db
check 'a file that was half there' until_true has_lines live.out 2
collapsing d
mv d.db live/half.db
check 'a file that was replaced' until_true has_lines live.out 3
rm live/half.db
check 'commands too' until_true has_lines live.ids 3
ended "$watcher" && fail 'it watches on' || pass 'it watches on'
same_text 'without a word of complaint' '' "$(cat live.err)"
kill "$watcher"; wait "$watcher"; code=$?
same_text 'a signal ends it' 143 "$code"
same_text 'metrics are there, and end' '# EOF' "$(tail -1 live.prom)"
output 'with the alerts' 'entropy_scan_alerts{file="live/deeper/b.db",kind="collapse",severity="critical"} 1' cat live.prom
same_text 'a watcher that comes later has nothing to tell' '' "$("$scan" watch --once live)"

finish
