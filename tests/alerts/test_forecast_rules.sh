#!/usr/bin/env bash
# Tests rules about the series "forecast" in scan and watch, and their invalid
# uses.
. tests/support/tap.sh
. tests/support/background.sh
plan_dir
. tests/support/watching.sh

# Makes a run of two layers with three heads. In a doomed run, from step 3 on
# the entropy of layer 1 halves every 4 steps and the loss becomes unsteady.
make_run() {
    python3 - "$1" "$2" <<'END_OF_RUN'
import math, sys
path, doomed = sys.argv[1], sys.argv[2] == "doomed"
with open(path, "w") as out:
    out.write("# arch: SM\n# ctx: 64\nstep,layer,head,entropy,max_logit,loss,grad_norm\n")
    for step in range(60):
        grown = max(0, step - 3) / 4 if doomed else 0
        wobble = math.sin(12.9898 * step + 1)
        loss = 2 + 3 * math.exp(-step / 30) + 0.05 * wobble + 2 * grown * (1 + wobble)
        out.write(f"{step},,,,,{loss:.5f},{1 + grown:.5f}\n")
        for layer in range(2):
            for head in range(3):
                own = grown * layer
                out.write(f"{step},{layer},{head},{2 * 2 ** -own + 0.01 * head:.5f},{4 * 2 ** own:.5f},,\n")
END_OF_RUN
}
mkdir runs quiet
make_run doomed.csv doomed && make_run quiet.csv quiet || exit 1
"$scan" import -q doomed.csv -o runs/doomed.db || exit 1
"$scan" import -q quiet.csv -o quiet/quiet.db || exit 1
printf '[rule ahead]\nseries = forecast\naggregate = run\nat_least = 0.9\n' >ahead.ini

onset() { "$scan" "$1" --rules ahead.ini --json | python3 -c '
import json, sys
print(min([f["onset"] for f in json.load(sys.stdin)["runs"][0]["flags"]
           if f["kind"] == sys.argv[1]], default="never"))' "$2"; }
warned=$(onset runs/doomed.db ahead) collapsed=$(onset runs/doomed.db collapse)
check "a collapse is forecast (step $warned) before it comes ($collapsed)" [ "$warned" -lt "$collapsed" ]
same_text 'a healthy run has no forecast' never "$(onset quiet/quiet.db ahead)"
line=$("$scan" watch --once runs --rules ahead.ini --severity warning | grep ahead)
same_text 'watch gives the reason' 'typical entropy of layer 1 halves every N steps; collapse expected near step N' \
    "$(sed -E 's/.*: typical/typical/; s/(every|step) [0-9]+/\1 N/g' <<<"$line")"
same_text 'watch reports a forecast once' '' "$("$scan" watch --once runs --rules ahead.ini --severity warning)"

same_text 'without a rule there is no forecast' '' "$("$scan" runs/doomed.db --json | grep -o forecast)"
printf '[rule ahead]\nseries = forecast\nat_least = 0.9\n' >heads.ini
same_text 'a forecast with the aggregate head is refused' 'entropy-scan: rule ahead: aggregate head does not fit forecast, which has 1 value per step: choose another' \
    "$("$scan" runs/doomed.db --rules heads.ini 2>&1 >/dev/null)"
printf '[rule ahead]\nseries = forecast\naggregate = run\nat_least = 0.9 baseline\n[baseline]\nrun = quiet/quiet.db\n' >base.ini
same_text 'a forecast cannot be compared with a baseline' 'entropy-scan: rule ahead: a baseline has no forecast: compare it with a number' \
    "$("$scan" runs/doomed.db --rules base.ini 2>&1 >/dev/null)"
# --- --forecast
stops() { "$scan" "$@" 2>&1 | grep -cE '^(series = forecast|action = stop)'; }
same_text 'rules --forecast prints the rule' 1 "$(stops rules --forecast)"
same_text 'rules --forecast=stop prints the rule with its action' 2 "$(stops rules --forecast=stop)"
"$scan" rules --forecast=stop >stop.ini
check 'the printed rule reads back unchanged' cmp <("$scan" rules stop.ini) <("$scan" rules ahead.ini --forecast=stop | sed '/^\[rule ahead\]/,/^$/d')
same_text 'rules --forecast refuses a second forecast rule' 'entropy-scan: --forecast: the rules file has a rule forecast already: leave one of them out' \
    "$("$scan" rules stop.ini --forecast 2>&1 >/dev/null)"
same_text 'watch --forecast needs --severity warning' 'entropy-scan: --forecast: a forecast is a warning: add --severity warning' \
    "$("$scan" watch --once runs --forecast 2>&1)"
same_text 'watch --forecast reports a forecast' 1 "$("$scan" watch --once runs --forecast --severity warning --state f.db | grep -c ': forecast since step')"
# --- existing runs: table, JSON, timeline and page
same_text 'a scan reports a forecast as a flag' 1 "$("$scan" runs/doomed.db --json --forecast | grep -c '"kind":"forecast","severity":"warning"')"
same_text 'the flag of a forecast has advice' 'True' "$("$scan" runs/doomed.db --json --forecast | python3 -c '
import json, sys
flags = json.load(sys.stdin)["runs"][0]["flags"]
print("Keep a checkpoint" in next(f for f in flags if f["kind"] == "forecast")["advice"]["remedies"])')"
same_text 'without --forecast there is no forecast flag' 0 "$("$scan" runs/doomed.db --json | grep -c '"kind":"forecast"')"
same_text 'a scan refuses a second forecast rule' 'entropy-scan: --forecast: the rules file has a rule forecast already: leave one of them out' \
    "$("$scan" runs/doomed.db --rules stop.ini --forecast 2>&1 >/dev/null)"
"$scan" -q runs/doomed.db --forecast --figure timeline -o ahead.svg && "$scan" -q runs/doomed.db --figure timeline -o plain.svg
check 'a timeline has a lane for the forecast' sh -c 'grep -q ">forecast</text>" ahead.svg && ! grep -q ">forecast</text>" plain.svg'
same_text 'other flags do not change with --forecast' 'collapse 18' "$("$scan" runs/doomed.db --json --forecast | python3 -c '
import json, sys
flag = next(f for f in json.load(sys.stdin)["runs"][0]["flags"] if f["kind"] == "collapse")
print(flag["kind"], flag["onset"])')"
check 'the timeline lists events in their order' grep -qE '>[^<]*forecast [0-9]+ → [^<]*collapse [0-9]+[^<]*</text>' ahead.svg
"$scan" report -q runs/doomed.db --forecast -o ahead.html && "$scan" report -q runs/doomed.db -o plain.html
of_page() { PYTHONDONTWRITEBYTECODE=1 python3 - "$root/tests/report" "$1" <<'END_OF_PAGE'
import sys
sys.path.insert(0, sys.argv[1])
from page import Page
print(sum(flag["kind"] == "forecast" for flag in Page(sys.argv[2]).summary()["runs"][0]["flags"]))
END_OF_PAGE
}
same_text 'a page shows the flag of a forecast' '1 0' "$(of_page ahead.html) $(of_page plain.html)"
# --- a sweep, for runs that end before the collapse
awk -F, '/^[#s]/ || $1 <= 16' doomed.csv >cut.csv && mv cut.csv doomed.csv
printf '[sweep]\ncommand = %s import -q %s/{which}.csv -o {run}\n[grid]\nwhich = doomed quiet\n' "$scan" "$PWD" >sweep.ini
forecasts() { grep -oE '(doomed|quiet).*finished.*forecast' | grep -oE 'doomed|quiet' | sort -u; }
"$scan" sweep sweep.ini -o swept -j 1 --forecast >out 2>err
same_text 'sweep --forecast reports forecasts' doomed "$(forecasts <err)"
same_text 'sweep --status --forecast reports forecasts' doomed "$("$scan" sweep swept --status --forecast 2>/dev/null | forecasts)"
"$scan" sweep sweep.ini -o plain -j 1 >out 2>err
same_text 'sweep without --forecast reports no forecast' '' "$(forecasts <err)"
output 'Slurm tasks get --forecast' '--forecast=stop --run' "$scan" sweep sweep.ini -o swept --slurm --forecast=stop --dry-run
finish
