#!/usr/bin/env bash
# Tests that a loss which rises and does not recover is reported by every output
# that shows flags.
. tests/support/tap.sh
plan_dir
cd "$dir"

run() { # NAME LOSS: 100 samples, 50 steps apart; LOSS from sample 80 on
    awk -v high="$2" 'BEGIN {
        print "step,layer,head,loss,entropy"
        for (i = 0; i < 100; i++) {
            printf "%d,,,%s,\n", 50 * i, i < 80 ? 2 + i % 7 / 50 : high
            for (h = 0; h < 2; h++) printf "%d,0,%d,,1.5\n", 50 * i, h
        }
    }' >"$1.csv"
    "$scan" import "$1.csv" -q --from long --ctx 128 -o "$1.db" || exit 1
}
run up 6
run same 2.05
spikes_of() {
    "$scan" "$1" --json | python3 -c 'import json, sys
for flag in json.load(sys.stdin)["runs"][0]["flags"]:
    print(flag["kind"], flag["severity"], flag["stands"], flag["onset"], flag["last"],
          flag["layers"], flag["heads"], flag["value"], round(flag["threshold"], 2),
          "learning rate" in flag["advice"]["remedies"])'
}
same_text '--json contains a loss spike' 'loss_spike warning True 4000 4950 [] [] 6 2.52 True' "$(spikes_of up.db)"
same_text 'a loss that does not rise has no flag' '' "$(spikes_of same.db)"
output 'the table shows a loss spike' 'loss_spike \(warning\)$' "$scan" up.db
output 'the table points to explain' '^causes and remedies: entropy-scan explain loss_spike$' "$scan" up.db
check '--check ignores a loss spike' "$scan" -q up.db --check
exits '--check=warning fails for a loss spike' 1 '^$' "$scan" -q up.db --check=warning
output '--where selects runs with a loss spike' '^up ' "$scan" up.db same.db --where flag=loss_spike
output 'watch reports a loss spike on request' 'up.db.*loss_spike since step 4000 \(warning\): 6, threshold 2.515' "$scan" watch up.db --once --severity warning --state state.db
same_text 'watch reports only errors by default' '' "$("$scan" watch up.db --once --state other.db)"
output 'the timeline has a lane for loss spikes' '>loss_spike<' sh -c '"$0" -q up.db --figure timeline -o up.svg && cat up.svg' "$scan"
check 'the timeline omits an empty lane' sh -c '"$0" -q same.db --figure timeline -o same.svg && ! grep loss_spike same.svg' "$scan"
printf '[loss_spike]\nrise = 3\n' >own.ini
output 'a rules file sets the thresholds of loss spikes' 'ok$' "$scan" up.db --rules own.ini
finish
