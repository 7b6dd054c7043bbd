#!/usr/bin/env bash
# Tests runs whose file describes their layers (names, kinds, ceilings), and
# training runs of unknown length.
. tests/support/tap.sh
plan_dir
cd "$dir"

# Writes a run of a model with two window layers, whose ceiling is 2 nats, and a
# full layer, whose ceiling is 4.5 nats. The heads of the window layers attend
# uniformly, so their entropy is at their ceiling; relative to a single ceiling
# of the whole run it would not be high.
run() { # PATH STEPS-APART CONFIG [PROGRAM]
    {
        printf '# name: gemma\n# arch: SM\n# ctx: 256\n# config: %s\n' "$3"
        printf '# program: %s\n' "${4:-entropyscan 1}"
        echo step,layer,head,entropy
        for i in $(seq 0 14); do
            for layer in 0 1; do
                printf "$((i * $2)),$layer,%d,2.0\n" 0 1 2
            done
            printf "$((i * $2)),2,%d,2.2\n" 0 1 2
        done
    } >run.csv
    "$scan" import -q run.csv -o "$1"
}
window='{"name": "model.layers.0.self_attn", "kind": "window", "ceiling": 2.0}'
full='{"name": "model.layers.2.self_attn", "kind": "full", "ceiling": [4.5, 4.5, 4.4]}'
layers="\"layers\": [$window, ${window/0/1}, $full]"
run gemma.db 100 "{$layers}"
run plain.db 100 '{"ceiling": 4.5}'
run short.db 1 "{$layers}"
run planned.db 1 "{\"steps\": 15, $layers}"
run imported.db 1 "{$layers}" 'entropy-scan import 1'
run odd.db 100 '{"ceiling": 4.5, "layers": [{"kind": "window", "ceiling": -1}, null]}'

says() { # FILE TEXT: the table contains TEXT
    "$scan" "$1" >said 2>&1 && grep -qF -- "$2" said
}
not() { ! "$@"; }
check 'uniform window layers cause an overload' says gemma.db 'overload L0-1 window (error)'
check 'a single ceiling hides the overload' says plain.db ' ok'
check 'the table lists the layers' says gemma.db 'gemma: L0-1 window, ceiling 2; L2 full, ceiling 4.467'
check "the table notes that bands refer to each head's ceiling" says gemma.db 'bands: each head relative to its own ceiling'
check 'a run without described layers has no list of layers' not says plain.db 'L2'
exits '--check fails for overloaded window layers' 1 '' "$scan" gemma.db --check -q

# In this run only the window layer is overloaded; its name contains a control
# sequence.
run named.db 100 '{"ceiling": 9, "layers": [{"name": "a"}, {"name": "b\x5cu001b[31m", "kind": "window", "ceiling": 2}, null]}'
check "a flag of one layer has the layer's name, escaped" says named.db 'overload L1 window b\x1b[31m (warning)'
check 'the name of a layer sends no control sequence to a terminal' not says named.db $'\033[31m'

json() { "$scan" "$1" --json 2>/dev/null | python3 -c "
import json, sys
run = json.load(sys.stdin)['runs'][0]
print($2)"; }
same_text '--json has the name, kind and ceiling of each layer' \
    "[('model.layers.0.self_attn', 'window', 2), ('model.layers.1.self_attn', 'window', 2), ('model.layers.2.self_attn', 'full', [4.5, 4.5, 4.4])]" \
    "$(json gemma.db "[(l['name'], l['kind'], l['ceiling']) for l in run['layers']]")"
same_text '--json has no kinds if the file describes no layers' "['layer', 'max', 'mean', 'min', 'nonfinite', 'std']" \
    "$(json plain.db "sorted(run['layers'][0])")"
same_text "bands count shares of each head's ceiling" '[0, 2, 1, 6]' "$(json gemma.db "run['bands']['counts']")"
same_text '--max ceiling counts the same shares' '[0, 2, 1, 6]' \
    "$("$scan" gemma.db --max ceiling --json | python3 -c "
import json, sys
print(json.load(sys.stdin)['runs'][0]['bands']['counts'])")"
same_text 'a number for --max is in nats' '[0, 0, 9, 0]' \
    "$("$scan" gemma.db --max 4 --json | python3 -c "
import json, sys
print(json.load(sys.stdin)['runs'][0]['bands']['counts'])")"

# --- figures
draws() { # TEXT FILE OPTION...: the heatmap contains TEXT, possibly with line breaks
    local wanted=$1
    shift
    "$scan" "$@" -q --heatmap=heat.svg >/dev/null &&
        grep -o '>[^<]*<' heat.svg >texts && tr -d '<>' <texts | tr '\n' ' ' >>texts &&
        grep -qF -- "$wanted" texts
}
check 'rows of a heatmap are marked by kind' draws '>1 w<' gemma.db
check 'the note of a heatmap explains the marks' draws 'f full, w window' gemma.db
check 'the note of a heatmap names shares under --max ceiling' draws 'each head as a fraction of its ceiling' gemma.db --max ceiling
check 'the colour bar of --max ceiling is a fraction' draws 'fraction of the ceiling' gemma.db --max ceiling
check 'cells of --max ceiling show fractions' draws '>1.00<' gemma.db --max ceiling
check 'cells show nats by default' draws '>2.00<' gemma.db
check 'a heatmap without described layers has no marks' not draws '>1 w<' plain.db

# --- many files, read by several processes
mkdir many
for i in $(seq 40); do cp gemma.db "many/$i.db"; done
"$scan" many -j 2 >several 2>&1
same_text 'several processes read the same layers' '40 8' \
    "$(grep -c 'overload L0-1 window (error)' several) $(grep -c 'L2 full, ceiling 4.467' several)"

# --- malformed descriptions
"$scan" odd.db >out 2>err
check 'a malformed description is reported once' test "$(grep -c 'config' err)" = 1
check 'a malformed description is replaced by the ceiling of the run' says odd.db ' ok'

# --- trainings of unknown length
check 'a short run of unknown length is too short to judge' says short.db 'overload L0-1 window (too short to judge)'
exits 'a run that is too short to judge passes --check' 0 '' "$scan" short.db --check -q
same_text '--json has the verdict too short to judge' 'too short to judge info' \
    "$(json short.db "run['flags'][0]['verdict'], run['flags'][0]['severity']" | tr -d "(),'")"
exits 'a finished import is judged' 1 '' "$scan" imported.db --check -q
exits 'a run with planned steps is judged by them' 1 '' "$scan" planned.db --check -q

# --- other readers of a ceiling
mkdir state
"$scan" watch --once gemma.db >alerts 2>&1
check 'watch names the kinds of layers' grep -qF 'overload L0-1 window since step 0 (error)' alerts
"$scan" export gemma.db -o again.csv && "$scan" import -q again.csv -o again.db
check 'export and import keep the description of layers' says again.db 'L2 full, ceiling 4.467'
finish
