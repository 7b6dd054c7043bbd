#!/usr/bin/env bash
# Tests entropy-scan watch --rules with additional rules, which are applied to runs
# while they grow.
. tests/support/tap.sh
. tests/support/background.sh
plan_dir
. tests/support/watching.sh

# Makes a run of 12 steps whose loss rises and falls.
mkdir runs
{ echo '# arch: SM'; echo '# ctx: 8'; echo 'step,layer,head,entropy,loss'
  for loss in 2 2 2 3 3 2 4 nan 4 2 2 5; do
      step=$((${step:-0} + 1))
      echo "$step,,,,$loss"
      for head in 0 1 2; do echo "$step,0,$head,0.$((head + 4)),"; done
  done; } >a.csv
"$scan" import -q a.csv -o runs/a.db || exit 1

cat >high.ini <<'END_OF_RULES'
[rule high]
series = loss
aggregate = run
above = 2.5
samples = 2
[rule one-head]
series = entropy
below = 0.45
severity = error
END_OF_RULES

# --- once
watch() { "$scan" watch --once runs "$@"; }
reported() { grep -oE '[a-z-]+( L[0-9,-]+)? since step [0-9]+ \([a-z]+\)' | sort | tr '\n' ';'; }
same_text 'without --rules the flags are reported' 'nan since step 8 (critical);' "$(watch --state none.db | reported)"
same_text 'with --rules the alerts of rules are reported too' 'nan since step 8 (critical);one-head L0 since step 1 (error);' "$(watch --rules high.ini | reported)"
same_text 'an alert of a rule is not delivered again' '' "$(watch --rules high.ini)"
same_text '--severity applies to rules' 'high since step 4 (warning);high since step 7 (warning);' "$(watch --rules high.ini --severity warning | reported)"
sed 's/samples = 2/&\ncool_down = 5/' high.ini >cool.ini
same_text 'a cool-down opens no second episode' 'high since step 4 (warning);' "$(watch --rules cool.ini --severity warning --state cool.db | reported | grep -o 'high[^;]*;' | tr -d '\n')"
same_text 'watch reports what the scan reports' "$("$scan" runs/a.db --rules high.ini --json | python3 -c '
import json, sys
flags = json.load(sys.stdin)["runs"][0]["flags"]
print(sorted((flag["kind"], flag["severity"], flag["onset"]) for flag in flags))')" \
    "$(watch --rules high.ini --severity info --state json.db --json | python3 -c '
import json, sys
alerts = map(json.loads, sys.stdin)
print(sorted((alert["kind"], alert["severity"], alert["onset"]) for alert in alerts))')"
same_text 'alerts of rules have ids like other alerts' "$(sqlite3 runs/a.db 'SELECT uuid FROM run')/alert:one-head@1:error" \
    "$(sqlite3 "$(state_of runs)" "SELECT id FROM alert WHERE id LIKE '%one-head%'")"
printf '[rule loud]\nseries = loss\naggregate = run\nabove = 4.5\nseverity = error\n' >loud.ini
mkdir quiet && sqlite3 runs/a.db "VACUUM INTO 'quiet/q.db'"
sed -i s/,nan/,4/ a.csv; rm quiet/q.db; "$scan" import -q a.csv -o quiet/q.db
check '--check without rules finds nothing' "$scan" watch --once --check quiet --state q.db
exits '--check counts alerts of rules' 1 '^$' "$scan" watch --once --check quiet --state q.db --rules loud.ini
sed 's/severity = .*/severity = warning/' loud.ini >mild.ini
exits '--check=warning counts warnings of rules' 1 '^$' "$scan" watch --once --check=warning quiet --state q.db --rules mild.ini
check '--check ignores warnings of rules' "$scan" watch --once --check quiet --state q.db --rules mild.ini
printf '[logits]\nerror = 900\n[overload]\nhead = 0.3\nwarning = 0.3\nerror = 0.3\n' >sharp.ini
same_text 'watch judges by changed thresholds of flags' 'overload L0 since step 1 (error);' "$("$scan" watch --once quiet --state s.db --rules sharp.ini | reported)"
"$scan" watch --once quiet --state m.db --rules high.ini --textfile m.prom >/dev/null 2>&1
output 'the metrics count alerts of rules' '^entropy_scan_alerts\{file="quiet/q.db",kind="high",severity="warning"\} 2$' cat m.prom

# --- mistakes
printf '[rule a]\nseries = loss\n' >wrong.ini
exits 'a wrong line is named' 2 'wrong.ini:1: rule a' watch --rules wrong.ini
exits 'a missing rules file is named' 3 'none.ini: No such file' watch --rules none.ini
printf '[rule a]\nseries = entropy\naggregate = run\nabove = 1\n' >misfit.ini
exits 'a rule that does not fit the run is reported' 3 'rule a: aggregate run does not fit entropy' watch --rules misfit.ini
printf '[rule a]\nseries = entropy\nabove = 1 baseline\n[baseline]\nrun = none.db\n' >absent.ini
exits 'a missing baseline is reported' 3 'none.db' watch --rules absent.ini
printf '[rule lower]\nseries = loss\naggregate = run\nabove = 1.1 baseline\nseverity = error\n[baseline]\nrun = quiet/q.db\n' >base.ini
sed s/^10,,,,2/10,,,,3/ a.csv >b.csv; "$scan" import -q b.csv -o runs/b.db
same_text 'a rule compares with a baseline' 'lower since step 10 (error);' "$("$scan" watch --once runs/b.db --state b.db --rules base.ini | reported)"

# --- a live training
corpus
mkdir live
cat >stop.ini <<'END_OF_RULES'
[rule learns]
series = loss
aggregate = run
below = 0.995 history
samples = 3
severity = info
action = stop
END_OF_RULES
start_watching live --rules stop.ini --poll 60
training --lr 0.02 --steps 1000000000 --record-every 5 -o live/stop.db
check 'a rule stops the training' until_true ended $trainer
ended $trainer || kill $trainer
stop_watching
output 'the request to stop names its alert' 'stop.db \(SM\): learns since step [0-9]+ \(info\): 0.9[0-9]*, threshold 0.995' \
    sqlite3 live/stop.db "SELECT message FROM event WHERE kind = 'stop'"
same_text 'an alert below --severity is not reported' '' "$(cat live.out live.err)"
same_text 'the run is closed as stopped' stopped "$(sqlite3 live/stop.db 'SELECT status FROM run')"
check 'a run that has ended gets no request to stop' sh -c '"$0" watch --once live --rules stop.ini --state late.db && test ! -e live/stop.db.stop' "$scan"

cat >flap.ini <<'END_OF_RULES'
[rule flaps]
series = loss
aggregate = run
above = 1 history
severity = error
[rule heads]
series = max_logit
above = 1.2 history
end = 1.1
cool_down = 3
severity = error
END_OF_RULES
mkdir killed
steps=3000
[ -z "${SAN:-}" ] || steps=1000 # with sanitizers they take as long
training --steps $steps --record-every 2 --lr 0.0003 -o killed/k.db
kill_watchers 40 $trainer --rules flap.ini
"$scan" watch --once killed --rules flap.ini --state fresh.db >all.out 2>/dev/null
check 'the run has many alerts' has_lines all.out 20
known() { grep -oE 'k\.db.* since step [0-9]+' "$1" | sort; }
check 'no alert is missed' cmp <(known all.out | sort -u) <(known killed.out | sort -u)
same_text 'no alert is delivered twice' '' "$(known killed.out | uniq -d)"
same_text 'no command is run twice' '' "$(grep -oE '"id":"[^"]*"' killed.alerts | sort | uniq -d)"
same_text 'there are as many commands as lines' "$(lines all.out)" "$(lines killed.alerts)"
finish
