#!/usr/bin/env bash
# Tests that the default rules are printed as a rules file, that an edited rules file is accepted,
# and that runs are evaluated with it.
. tests/support/tap.sh
plan_dir
golden=$PWD/tests/golden
cd "$dir"

rules() { "$scan" rules "$@"; }
printf '3.1,3.2\n1.5,0.9\n2,2\n' >heat.csv
"$scan" import -q heat.csv -o heat.db --arch SM --ctx 8192 --step 40 || exit 1

# --- the verb
rules >printed
[ "${ES_GOLDEN_UPDATE:-}" != 1 ] || cp printed "$golden/rules.ini"
check 'entropy-scan rules prints the defaults' cmp "$golden/rules.ini" printed
check 'the printed rules read back as the same values' bash -c 'cmp <(grep "^[a-z[]" printed) <("$0" rules printed | grep "^[a-z[]")' "$scan"
sed 's/^;//' printed >examples
output 'the examples are rules' '^6$' sh -c '"$0" rules examples | grep -c "^\[rule "' "$scan"
check 'the examples are printed unchanged' bash -c '"$0" rules examples >1 && "$0" rules 1 >2 && cmp 1 2' "$scan"
exits 'two rules files are refused' 2 'one file at a time' "$scan" rules printed printed

# --- messages name file, line, and the expected contents
printf '[collapse]\nrows = 1\n' >wrong.ini
exits 'an unknown key is named' 2 '^entropy-scan: wrong.ini:2: \[collapse\] has no key' "$scan" heat.db --rules wrong.ini
exits 'a missing file is named' 3 'none.ini: No such file' "$scan" heat.db --rules none.ini
mkfifo fifo.ini
exits 'a FIFO without a writer is refused' 3 'fifo.ini: a FIFO without a writer' timeout 60 "$scan" heat.db --rules fifo.ini
exits 'an endless device is refused' 2 '/dev/zero: larger than the 64 KiB' "$scan" heat.db --rules /dev/zero
check 'rules are read from a pipe' "$scan" heat.db --rules <(sleep 0.1; "$scan" rules)
exits 'a binary file is refused' 2 'printed.db:[0-9]+: ' sh -c 'cp heat.db printed.db; "$0" heat.db --rules printed.db' "$scan"

# --- judging
cat >own.ini <<END
[rule wide]
series = entropy
aggregate = layer_max
above = 3
severity = error
[rule low]
series = entropy
below = 1
severity = info
END
output 'the table has the flags of rules' 'wide L0 \(error\); low L1 \(info\)$' "$scan" heat.db --rules own.ini
output 'CSV has the flags of rules' 'wide L0 \(error\); low L1 \(info\)' "$scan" heat.db --rules own.ini --csv
check '--check without rules finds no flag' "$scan" -q heat.db --check
exits '--check fails for a rule of severity error' 1 '^$' "$scan" -q heat.db --check --rules own.ini
sed 's/severity = error/severity = warning/' own.ini >mild.ini
check '--check ignores a warning' "$scan" -q heat.db --check --rules mild.ini
exits '--check=warning fails for a warning' 1 '^$' "$scan" -q heat.db --check=warning --rules mild.ini
check '--check=critical ignores an error' "$scan" -q heat.db --check=critical --rules own.ini
exits 'no severity' 2 "--check: unknown value 'bad': expected info, warning, error or critical" "$scan" heat.db --check=bad
cp heat.db 'x,y:50%.db'
annotations() { "$scan" --check-format github "$@"; }
same_text 'annotations name file, run and flags' \
    '::error file=x%2Cy%3A50%25.db,title=heat::wide L0 (error); low L1 (info), at step 40' \
    "$(annotations 'x,y:50%.db' --check --rules own.ini)"
cp heat.db $'bad\xff\x1b[1m\n.db'
same_text 'control bytes and bad UTF-8 are escaped' \
    '::error file=bad\xff\x1b[1m\x0a.db,title=heat::wide L0 (error); low L1 (info), at step 40' \
    "$(annotations $'bad\xff\x1b[1m\n.db' --check --rules own.ini)"
same_text 'a warning is annotated as a warning' '::warning file=heat.db,title=heat::wide L0 (warning); low L1 (info), at step 40' \
    "$(annotations heat.db --check=info --rules mild.ini)"
same_text 'flags below the severity of --check are not annotated' '' "$(annotations heat.db --check --rules mild.ini)"
exits 'the exit code is that of --check' 1 '^$' annotations heat.db --check --rules own.ini
exits 'annotations without --check are refused' 2 'needs --check' "$scan" heat.db --check-format github
exits 'annotations with JSON are refused' 2 'omit the other outputs' "$scan" heat.db --check --check-format github --json
exits 'annotations with --tui are refused' 2 'excludes --tui' "$scan" heat.db --check --check-format github --tui
output '--where names a rule' 'heat' "$scan" heat.db --rules own.ini --where flag=wide
printed_json() { "$scan" heat.db --json "$@"; }
output 'JSON has the name of the rule as the kind of flag' \
    '"kind":"wide","severity":"error","stands":true,"onset":40,"last":40,"reported":40,"layers":\[0\],"heads":\[\],"value":3.2,"threshold":3,"advice":null}' \
    printed_json --rules own.ini
output 'the flag of a rule has its heads' '"kind":"low".*"heads":\[\[1,1\]\]' printed_json --rules own.ini
output 'JSON has the rules' '"rules":\{"collapse":\{"head":0.05,.*"further":\[\{"name":"wide","series":"entropy"' printed_json --rules own.ini
check 'JSON has no rules if they are the defaults' sh -c '"$0" heat.db --json --rules printed >with && "$0" heat.db --json >without && cmp with without' "$scan"
printf '[overload]\nerror = 0.9\n' >more.ini
cat own.ini more.ini >both.ini
check '--json prints valid JSON' python3 -c '
import json, subprocess, sys
args = [sys.argv[1], "heat.db", "--json", "--rules", "both.ini"]
text = subprocess.run(args, capture_output=True, text=True).stdout
rules = json.loads(text)["rules"]
assert set(rules) == {"collapse", "overload", "logits", "loss_spike", "further", "baseline"}
assert rules["overload"]["error"] == 0.9
assert [rule["name"] for rule in rules["further"]] == ["wide", "low"]' "$scan"
printf '[overload]\nhead = 0.3\nwarning = 0.3\nerror = 0.3\n' >sharp.ini
exits '--check judges by changed thresholds of flags' 1 '^$' "$scan" -q heat.db --check --rules sharp.ini
output 'the table judges by changed thresholds of flags' 'overload L0 \(error\)' "$scan" heat.db --rules sharp.ini
printf '[rule a]\nseries = entropy\naggregate = run\nabove = 1\n' >misfit.ini
printf '[rule a]\nseries = entrpy\nbelow = 1\n[rule b]\nseries = entropy\nbelow = 0\n' >unheard.ini
exits 'a rule without a matching series is named' 0 '^entropy-scan: rule a not applied: no run has a sample of entrpy \(train\)$' "$scan" heat.db --rules unheard.ini
check 'only the rule without a matching series is named' test "$("$scan" heat.db --rules unheard.ini 2>&1 | grep -c 'not applied')" = 1
printf 'step,layer,head,grad_norm,entropy\n1,,,3,\n1,0,0,,1\n2,,,NaN,\n3,,,inf,\n' >broken.csv
"$scan" import broken.csv -q --from long -o broken.db
printf '[rule a]\nseries = grad_norm\naggregate = run\nabove = 9\n' >norm.ini
exits 'values that a rule cannot compare are counted' 0 '^entropy-scan: rule a: 2 values of grad_norm \(train\) not compared: NaN or infinite$' "$scan" broken.db --rules norm.ini
exits 'a rule whose aggregate does not fit is refused' 3 'rule a: aggregate run does not fit entropy' "$scan" heat.db --rules misfit.ini
finish
