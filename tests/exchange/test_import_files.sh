#!/usr/bin/env bash
# entropy-scan import of what people have: files of other programs as they are,
# and lines that say how to read what it does not recognise.
. tests/support/tap.sh
plan_dir
cd "$dir" || exit 1

heads() { # RUN.db WANT: the entropies of heads, in order of steps
    [ "$("$scan" export "$1" --series entropy | grep -v '^#' | tail -n +2 | tr '\n' ' ')" = "$2 " ]
}

# --- names that nobody knows: the line that is printed is the one that reads them
cat >own.jsonl <<'END'
{"step": 1, "loss": 3, "run3/attn_ent_b0_0": 1.5, "run3/attn_ent_b0_1": 1.25, "run3/attn_ent_b1_1": 1}
END
follow_tip() {
    local said
    said=$("$scan" import own.jsonl -o own.db 2>&1 | sed -n "s/.* give \(--tags '.*'\)$/\1/p")
    [ -n "$said" ] && eval '"$scan" import -q own.jsonl -o own.db' "$said" &&
        heads own.db '1,0,0,1.5 1,0,1,1.25 1,1,0,NA 1,1,1,1'
}
check 'unknown names are read by the --tags that import prints' follow_tip

# --- several counters of steps
cat >steps.jsonl <<'END'
{"_step": 0, "trainer/global_step": 0, "entropy/L0H0": 1}
{"_step": 1, "gpu": 9}
{"_step": 2, "trainer/global_step": 10, "entropy/L0H0": 2}
END
output 'one line says which counter has the steps' \
    "steps.jsonl: the steps are those of 'trainer/global_step', not '_step': choose with --step-key" \
    sh -c '"$0" import steps.jsonl -o steps.db 2>&1' "$scan"
check 'the steps are those of the training' heads steps.db '0,0,0,1 10,0,0,2'
choose_other() {
    "$scan" import steps.jsonl -o steps.db --step-key _step 2>&1 | grep -q 'steps are' && return 1
    heads steps.db '0,0,0,1 2,0,0,2'
}
check 'another counter is taken where it is named' choose_other

finish
