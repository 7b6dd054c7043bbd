#!/usr/bin/env bash
# Tests that entropy-scan watch delivers every alert once and in time, even if
# processes are killed.
. tests/support/tap.sh
. tests/support/background.sh
plan_dir
. tests/support/watching.sh

# --- once
mkdir runs
collapsing a || exit 1
mv a.db runs
want="$PWD/runs/a.db (SM): collapse L1 since step 4 (critical): 1, threshold 0.5"
same_text 'an imported run is judged and its alert delivered' "$want" "$("$scan" watch --once runs)"
same_text 'a delivered alert is not delivered again' '' "$("$scan" watch --once runs)"
same_text 'a watcher with another state delivers the alert again' "$want" "$("$scan" watch --once runs --state other.db)"
exits '--check counts alerts that were delivered before' 1 '' "$scan" watch --once --check runs
exits '--check=critical also counts alerts delivered before' 1 '' "$scan" watch --once --check=critical runs
check 'the state file is in its documented place, and private' sh -c '[ "$(stat -c %a:%u "$0" "$1")" = "700:$(id -u)
644:$(id -u)" ]' "$XDG_STATE_HOME/entropy-scan/watch" "$(state_of runs)"
"$scan" watch --once --json runs/a.db --state json.db >json 2>&1
same_text '--json prints an object' \
    'collapse critical 4 6 1 [1] SM' \
    "$(python3 -c 'import json; a = json.load(open("json"))
print(a["kind"], a["severity"], a["onset"], a["step"], a["value"], a["layers"], a["arch"])')"
same_text 'the run file is not touched' '' "$(ls -A runs | grep -v '^a.db$')"
exits 'a missing folder is refused' 3 'nowhere' "$scan" watch --once nowhere --state n.db
exits 'a watch without files is refused' 2 'name run files' "$scan" watch --once
exits 'an unknown severity is refused' 2 'info, warning' "$scan" watch runs --severity bad
exits 'a command with an open quote is refused' 2 'a quote is not closed' "$scan" watch runs --exec 'a "b'
exits 'a file that is not a state file is refused' 3 'not a watcher.s state' "$scan" watch --once runs --state runs/a.db
echo text >runs/text.db
exits 'a damaged file does not affect the others' 4 'text.db: .*not a run file' "$scan" watch --once runs
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
"$scan" watch --once runs --state exec.db --exec "'./append' \"alerts \$HOME\"" >out 2>&1
same_text '--exec splits words as a shell would, and expands nothing' 1 "$(lines 'alerts $HOME')"
exits 'a command that fails is given up' 3 'given.db: deliveries given up: 1, still owed: 0' "$scan" watch --once runs --state given.db --exec false
exits 'failed attempts are counted' 3 'exec: .*exit code 3' "$scan" watch --once runs --state fail.db --exec "sh -c 'exit 3'"
exits 'a command that has failed is not run again' 0 '^$' "$scan" watch --once runs --state fail.db --exec "sh -c 'exit 3'"
exits 'a command ended by a signal is reported' 3 'exec: .*killed by signal 9' "$scan" watch --once runs --state signal.db --exec "sh -c 'kill -9 \$\$'"
exits 'a missing command is reported' 3 'no such command' "$scan" watch --once runs --state none.db --exec ./none
exits 'a command that takes too long is killed' 3 'killed after 0.3 s' "$scan" watch --once runs --state slow.db --exec 'sleep 60' --exec-timeout 0.3
# Damages the state file only after the alert has been printed, because the
# order of two simultaneous deliveries is random.
cat >spoil <<'END'
#!/bin/sh
until [ "$(sqlite3 "$2" "SELECT state FROM delivery WHERE action = 'print'" 2>/dev/null)" = delivered ]; do sleep 0.02; done
cat "$1" >"$2"
END
chmod +x spoil
mkdir empty
"$scan" watch --once empty --state fresh.db >/dev/null 2>&1
exits 'a state damaged during the watch is reported' 3 "noise.db: not a watcher's state" "$scan" watch --once runs --state noise.db --exec './spoil append noise.db'
exits 'a state replaced during the watch is reported' 3 'replaced.db: alerts are missing' "$scan" watch --once runs --state replaced.db --exec './spoil fresh.db replaced.db'
exits 'a line that cannot be printed is still owed' 3 'still owed: 1' sh -c '"$0" watch --once runs --state full.db >/dev/full' "$scan"
same_text 'an owed line is delivered later' "$want" "$("$scan" watch --once runs --state full.db)"

# The Slurm task named in a run file must reach scancel as an argument, never as
# an option.
mkdir tasks slurm
printf '#!/bin/sh\nprintf "%%s\\n" "$*" >>"%s/cancelled"\n' "$dir" >slurm/scancel
# No process writes the run, so entropy-scan reports the status "interrupted".
# This wrapper replaces the status by "running", as if the run were live.
printf '#!/bin/sh\n"%s" "$@" | sed s/interrupted/running/\n' "$scan" >slurm/entropy-scan
chmod +x slurm/*
collapsing t 8 && mv t.db tasks
cancel() { # JOB (as JSON): prints the output of cancel.py and its exit code
    : >cancelled
    sqlite3 tasks/t.db "UPDATE run SET status = 'running', config = '{\"slurm_job\":$1}'; DELETE FROM row_checksum"
    "$scan" watch --once tasks --json --state "task-$RANDOM$RANDOM.db" |
        PATH=$dir/slurm:$PATH python3 "$root/samples/schedulers/cancel.py" 2>&1
    echo "exit $?: $(cat cancelled)"
}
matches 'a task is cancelled' '^scancel 4711_3: .*t.db .SM.: collapse.*exit 0: -- 4711_3$' "$(cancel '"4711_3"')"
matches 'a job is cancelled' 'exit 0: -- 4711$' "$(cancel '"4711"')"
for job in '"--me"' '"-u root"' '"4711 --me"' '"4711\n"' '"4711_"' '""' '"\u0664"' 4711 '["--me"]' '{"a":1}'; do
    matches "$job is not accepted as a task" '^cancel.py: slurm_job is not a task number: .*exit 1: $' "$(cancel "$job")"
done
same_text 'a run without a task is left alone' 'exit 0: ' "$(cancel null)"
printf '#!/bin/sh\necho "Invalid job id" >&2; exit 1\n' >slurm/scancel
matches 'a failure of scancel is one line' 'cancel.py: scancel: Invalid job id
exit 1: $' "$(cancel '"4711"')"

# --- following
mkdir live
start_watching live --poll 60 --exec './append live.ids' --textfile live.prom
await 'the watcher has started' test -s live.prom
collapsing b
mv b.db live/.hidden
mkdir live/deeper && mv live/.hidden live/deeper/b.db
check 'a new file in a new folder is noticed' until_true has_lines live.out 1
head -c 3000 live/deeper/b.db >live/half.db
collapsing c
cat c.db >live/half.db
check 'a file that was incomplete is read when it is complete' until_true has_lines live.out 2
collapsing d
mv d.db live/half.db
check 'a replaced file is read again' until_true has_lines live.out 3
rm live/half.db
check 'commands are run for all new alerts' until_true has_lines live.ids 3
ended "$watcher" && fail 'the watcher still runs' || pass 'the watcher still runs'
same_text 'the watcher prints no complaint' '' "$(cat live.err)"
kill "$watcher"; wait "$watcher"; code=$?
same_text 'a signal ends the watcher' 143 "$code"
same_text 'the metrics file is complete' '# EOF' "$(tail -1 live.prom)"
output 'the metrics have the alerts' 'entropy_scan_alerts{file="live/deeper/b.db",kind="collapse",severity="critical"} 1' cat live.prom
same_text 'a later watcher has nothing to deliver' '' "$("$scan" watch --once live)"

# --- webhooks
mkdir server
python3 "$root/tests/support/webhook.py" server & server=$!
await 'the server listens' test -s server/port
export HOOK="http://127.0.0.1:$(cat server/port)/secret-path"
echo "http://127.0.0.1:1/secret-path" >refused
once_to() { # STATE ANSWERS OPTION...: prints a watcher's errors and exit code
    local state=$1
    echo "$2" >server/answers
    shift 2
    "$scan" watch --once runs --state "$state.db" --webhook-timeout 60 "$@" 2>&1 >/dev/null
    echo "exit $?"
    until_true is_answered
}
is_answered() { ! grep -q . server/answers; } # the server has sent all answers
same_text 'an alert is posted' 'exit 0' "$(once_to hook '' --webhook-env HOOK)"
same_text 'the post has the id of the alert' '/alert:collapse@4:critical collapse' \
    "$(python3 -c 'import json
id, body = open("server/posts").read().split(" ", 1)
body = json.loads(body)
assert body["id"] == id
print(id[36:], body["kind"])')"
: >server/posts
once_to slack '' --webhook-env HOOK --webhook-format slack >/dev/null
same_text '--webhook-format slack posts text for Slack' "{'text': '$want'}" \
    "$(python3 -c 'import json; print(json.loads(open("server/posts").read().split(" ", 1)[1]))')"
matches 'a 4xx is given up' 'answers 404.*given up: 1, still owed: 0.*exit 3' "$(once_to gone 404 --webhook-env HOOK)"
same_text 'an alert that was given up is not posted again' 'exit 0' "$(once_to gone '' --webhook-env HOOK)"
matches 'a redirection is not followed' 'answers 301: redir.*given up: 1.*exit 3' "$(once_to moved 301 --webhook-env HOOK)"
printf 'http://127.0.0.1:port/\n' >malformed
matches 'a malformed URL is given up' 'webhook: .*given up: 1.*exit 3' "$(once_to malformed '' --webhook-file malformed)"
owed=(500 408 425 429 302 reset close garbage old began stall)
for answer in "${owed[@]}"; do
    patience=() # the server stalls until the client gives up
    [ "$answer" != stall ] || patience=(--webhook-timeout 0.4)
    matches "a post with the answer $answer is still owed" 'still owed: 1.*exit 3' "$(once_to $answer $answer --webhook-env HOOK "${patience[@]}")"
done
mkfifo fifo
exits 'a FIFO in place of a URL is refused' 3 'fifo: a FIFO without a writer' \
    timeout 60 "$scan" watch . --once --webhook-file fifo
refused=$(once_to refused '' --webhook-file refused)
matches 'a post to a closed port is still owed' 'still owed: 1.*exit 3' "$refused"
check 'the URL stays a secret' sh -c '! echo "$0" | grep secret' "$refused"
: >server/posts
for answer in "${owed[@]}" refused; do
    once_to $answer '' --webhook-env HOOK >>later 2>&1
done
same_text 'all owed posts are made later' '12 exit 0' "$(grep exit later | sort | uniq -c | xargs)"
same_text 'failed attempts are counted' 12 "$(grep -c 'webhook: .*: delivered .failed attempts: 1' later)"
same_text 'each post is made once' 12 "$(lines server/posts)"
exits 'a missing environment variable is refused' 2 'no such environment variable' "$scan" watch runs --webhook-env NOT_THERE
: >server/posts
echo '500 old' >server/answers
"$scan" watch runs --state again.db --webhook-env HOOK >again.out 2>again.err &
watcher=$!
check 'a watcher retries a post by itself' until_true has_lines server/posts 1
same_text 'a retry is reported once' 1 "$(grep -c 'webhook: .*answers 500' again.err)"
check 'a delivery after failed attempts is reported' until_true grep -q 'webhook: .*: delivered .failed attempts: 2' again.err
stop_watching
kill $server

# --- kills
mkdir killed
for ((i = 0; i < 40; i++)); do
    collapsing "k$i"
    mv "k$i.db" killed/
    sleep 0.1
done &
n_kills=200 # at random moments
kill_watchers $n_kills $! --severity info
same_text 'no delivery failed' 0 "$(owed "= 'failed'")"
same_text 'every alert is printed' 40 "$(sort -u killed.out | grep -c collapse)"
same_text 'no alert is printed twice' '' "$(sort killed.out | uniq -d)"
ids() { grep -oE '"id":"[^"]*"' killed.alerts; }
same_text 'the command gets every alert' 40 "$(ids | sort -u | grep -c collapse)"
same_text 'the command gets no alert twice' '' "$(ids | sort | uniq -d)"

# --- a live training
corpus
mkdir training
start_watching training --poll 60 --stop
training --lr 1e12 --clip 0 --steps 1000000000 --after-nan 1000000000 --record-every 10 -o training/nan.db
check 'an alert of a live training is delivered' until_true grep -q 'nan .*since step' training.out
check 'the alert stops the training' until_true ended $trainer
ended $trainer || kill $trainer
stop_watching
same_text 'the stop names its alert' "$(grep 'nan .*since' training.out)" \
    "$(sqlite3 training/nan.db "SELECT message FROM event WHERE kind = 'stop'")"
"$scan" watch --once training --state after.db >/dev/null
reported() { sqlite3 "$1" "SELECT id FROM alert WHERE id LIKE '%/alert:%' ORDER BY id"; }
same_text 'the ended run has the alerts that it had while it was written' \
    "$(reported "$(state_of training)")" "$(reported after.db)"
same_text 'the recorder stores no judgement' 'nan stop' \
    "$(echo $(sqlite3 training/nan.db 'SELECT DISTINCT kind FROM event ORDER BY kind'))"

# --- hostile names, metrics, several watchers
mkdir odd
collapsing $'o\tdd'
mv $'o\tdd.db' $'odd/o\e[31m\n"dd.db'
"$scan" watch --once odd --json >odd.json 2>&1
check 'a hostile file name is escaped' sh -c '! grep -q "$(printf "\033")" odd.json &&
    python3 -c "import json; a = json.load(open(\"odd.json\")); assert a[\"path\"].endswith(chr(27) + \"[31m\n\\\"dd.db\"), a"'
sqlite3 odd/*.db "UPDATE run SET arch = char(27) || '[2J' || char(10) || 'x'"
same_text 'a hostile name in the file stays on one line' 1 "$("$scan" watch --once odd --state odd.db | tee odd.out | wc -l)"
check 'a hostile name in the file is escaped' sh -c '! grep -q "$(printf "\033")" odd.out'

exits 'metrics that cannot be written are reported' 3 'nowhere/m.prom: cannot' "$scan" watch --once odd --state metrics.db --textfile nowhere/m.prom
mkfifo fifo.prom
exits 'metrics are not written into a FIFO' 3 'fifo.prom: .*regular' timeout 60 "$scan" watch --once odd --state metrics.db --textfile fifo.prom
"$scan" watch --once odd --state command.db --exec "sh -c 'cat >odd.alerts; echo \$# >odd.args; env >odd.env'" >/dev/null
same_text 'a command gets the alert only on its standard input, as one line' '1 0 0' \
    "$(lines odd.alerts) $(cat odd.args) $(grep -c '\[2J\|odd/o' odd.env)"

"$scan" watch --once odd --state metrics.db --textfile odd.prom >/dev/null
check 'metrics follow the OpenMetrics grammar' python3 -c '
import re
label = r"[a-z]+=\"(?:[^\"\\\n]|\\[n\"\\])*\""
sample = re.compile(rf"(\w+)(?:\{{{label}(?:,{label})*\}})? -?[0-9.]+(?:e[+-]?[0-9]+)?")
kinds = {"TYPE": "gauge", "UNIT": "seconds"}
*lines, last = open("odd.prom", encoding="utf-8").read().removesuffix("\n").split("\n")
assert last == "# EOF", last
family, seen, before = None, set(), set()
for line in lines:
    if line.startswith("# "):
        word, name, text = line[2:].split(" ", 2)
        assert text.startswith(kinds.get(word, "")) and word in ("TYPE", "UNIT", "HELP"), line
        assert (name != family) == (word == "TYPE") and name not in before, line
        assert word != "UNIT" or name.endswith("_" + text), line
        before |= {family} - {name}
        family = name
    else:
        assert sample.fullmatch(line).group(1) == family and line.rsplit(" ", 1)[0] not in seen, line
        seen.add(line.rsplit(" ", 1)[0])
assert any("alerts" in line for line in seen)'

mkdir shared
for ((i = 0; i < 12; i++)); do collapsing "s$i"; mv "s$i.db" shared/; done
watchers=()
for ((i = 0; i < 4; i++)); do
    "$scan" watch --once shared --exec 'sh -c "sleep 0.05; cat >>shared.alerts"' >>shared.out 2>>shared.err &
    watchers+=($!)
done
codes=
for watcher in "${watchers[@]}"; do wait $watcher; codes+=$?; done
same_text 'four watchers at once share the lines' '12 12' "$(lines shared.out) $(sort -u shared.out | wc -l)"
same_text 'a delivery claimed by another watcher is not owed' 0000 "$codes"
same_text 'four watchers at once share slow commands' '12 12' "$(lines shared.alerts) $(sort -u shared.alerts | wc -l)"

# A limit on the size of files simulates a full disk.
small_disk=(bash -c 'ulimit -S -f $0; trap "" XFSZ; exec "$@"')
"$scan" watch --once runs --state tight.db >/dev/null
for ((i = 0; i < 12; i++)); do
    sqlite3 tight.db "INSERT INTO alert SELECT NULL, 'x' || $i, printf('%.*c', 4000, 'x'), 1, '' FROM alert LIMIT 1"
done
exits 'a full disk is reported' 3 'tight.db: cannot write|tight.db: .*(full|disk|I/O|large)' \
    "${small_disk[@]}" $(($(stat -c %s tight.db) / 1024)) "$scan" watch --once shared --state tight.db
"$scan" watch --once runs --state tighter.db >/dev/null
"${small_disk[@]}" $(($(stat -c %s tighter.db) / 1024)) "$scan" watch shared --poll 0.2 --severity info \
    --state tighter.db --textfile tighter.prom >tighter.out 2>tighter.err &
watcher=$!
check 'the watcher continues on a full disk' until_true test -s tighter.err
look_again tighter
same_text 'the watcher reports the full disk once' 1 "$(lines tighter.err)"
prlimit --pid $watcher --fsize=unlimited
check 'owed alerts are delivered when the disk has space again' until_true has_lines tighter.out 12
same_text 'each alert is delivered once' '12 12' "$(lines tighter.out) $(sort -u tighter.out | wc -l)"
stop_watching
same_text 'only alerts in the state are delivered' 12 "$("$scan" watch --once shared --state tight.db | wc -l)"

finish
