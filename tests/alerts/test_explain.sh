#!/usr/bin/env bash
# Tests the advice about flags that entropy-scan explain and other outputs show.
. tests/support/tap.sh
plan_dir
cd "$dir"

explain() { "$scan" explain "$@"; }
kinds=$(explain | awk '/^[a-z]/ { print $1 }')
same_text 'explain lists all flags' 'nan collapse overload logits loss_spike' "$(echo $kinds)"
output 'explain lists the flags with their meanings' '^collapse +critical +in some layer most heads' explain
for kind in $kinds; do
    for title in 'likely causes:' 'what helps:' 'sources:'; do
        output "$kind has $title" "^$title$" explain "$kind"
    done
done
output 'explain says what helps' 'normalise queries and keys' sh -c '"$0" explain logits | tr "[:upper:]" "[:lower:]"' "$scan"
output 'explain lists the thresholds of a flag' '^- share = 0.5: a layer is low if' explain collapse
check 'explain takes several flags' bash -c 'cmp <("$0" explain nan logits) <("$0" explain nan; echo; "$0" explain logits)' "$scan"
exits 'an unknown flag is refused' 2 "^entropy-scan: unknown flag 'nothing': expected one of nan, collapse, overload, logits, loss_spike$" explain nothing
same_text 'an unknown flag prevents all output' '' "$(explain nan nothing 2>&- )"
check 'lines fit a terminal of 80 columns' sh -c '! { "$0" explain; "$0" explain nan collapse overload logits loss_spike; } | grep ".\{81\}"' "$scan"

# --- advice next to the flags of a run
printf '0.01,0.01\n0.9,0.9\n' >low.csv
"$scan" import -q low.csv -o low.db --arch SM --ctx 8192 --step 40 || exit 1
printf '0.9,3.1\n0.9,0.9\n' >fine.csv
"$scan" import -q fine.csv -o fine.db --arch SM --ctx 8192 --step 40 || exit 1
printf '[rule wide]\nseries = entropy\naggregate = layer_max\nabove = 0.5\nseverity = error\n' >own.ini
output 'the table points to explain' '^causes and remedies: entropy-scan explain collapse$' "$scan" low.db
check 'a table without flags does not point to explain' sh -c '! "$0" fine.db | grep explain' "$scan"
check 'a flag of a user rule does not point to explain' sh -c '! "$0" fine.db --rules own.ini | grep explain' "$scan"
check '--json has the advice' python3 -c '
import json, subprocess, sys

def flags(*options):
    text = subprocess.run([sys.argv[1], *options, "--json"], capture_output=True).stdout
    return {flag["kind"]: flag for flag in json.loads(text)["runs"][0]["flags"]}

advice = flags("low.db")["collapse"]["advice"]
assert set(advice) == {"causes", "remedies", "sources"}, advice
assert "learning rate" in advice["remedies"]
assert any("arXiv:2303.06296" in source for source in advice["sources"])
judged = flags("low.db", "--rules", "own.ini")
assert judged["wide"]["advice"] is None and judged["collapse"]["advice"] == advice' "$scan"
finish
