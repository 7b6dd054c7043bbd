#!/usr/bin/env bash
# Tests entropy-scan import with files written by other programs, and its advice
# about files that it cannot read.
. tests/support/tap.sh
plan_dir
cd "$dir" || exit 1

heads() { # RUN.db WANT: compares the entropies of heads, in order of steps
    [ "$("$scan" export "$1" --series entropy | grep -v '^#' | tail -n +2 | tr '\n' ' ')" = "$2 " ]
}

# --- names with an unknown spelling: the printed option reads them
cat >own.jsonl <<'END'
{"step": 1, "loss": 3, "run3/attn_ent_b0_0": 1.5, "run3/attn_ent_b0_1": 1.25, "run3/attn_ent_b1_1": 1}
END
follow_tip() {
    local said
    said=$("$scan" import own.jsonl -o own.db 2>&1 | sed -n "s/.* use \(--tags '.*'\)$/\1/p")
    [ -n "$said" ] && eval '"$scan" import -q own.jsonl -o own.db' "$said" &&
        heads own.db '1,0,0,1.5 1,0,1,1.25 1,1,0,NA 1,1,1,1'
}
check 'unknown names are read by the --tags that import prints' follow_tip

# --- kinds of attention, as llm-internal-medicine names them
cat >kinds.jsonl <<'END'
{"step": 0, "qk_stats/layer_0/swa_entropy_avg": 1.5, "qk_stats/layer_1/full_entropy_avg": 2, "qk_stats/layer_2_mtp/full_entropy_avg": 2.5}
{"step": 10, "qk_stats/layer_0/swa_entropy_avg": 1.25, "qk_stats/layer_1/full_entropy_avg": 2, "qk_stats/layer_2_mtp/full_entropy_avg": 2.5}
END
"$scan" import -q kinds.jsonl -o kinds.db --ctx 128
output 'a table has the kinds of layers' 'kinds: L0 window, ceiling [0-9.]*; L1-2 full' "$scan" kinds.db
output 'JSON has them' '"kind":"window".*"kind":"full".*"name":"layer_2_mtp","kind":"full"' "$scan" --json kinds.db
check 'an export keeps them' sh -c '"$0" export kinds.db >kinds.csv && "$0" import -q kinds.csv -o again.db &&
    "$0" again.db | grep -q "L0 window"' "$scan"

# --- several counters of steps
cat >steps.jsonl <<'END'
{"_step": 0, "trainer/global_step": 0, "entropy/L0H0": 1}
{"_step": 1, "gpu": 9}
{"_step": 2, "trainer/global_step": 10, "entropy/L0H0": 2}
END
output 'a line names the counter that has the steps' \
    "steps.jsonl: steps are taken from 'trainer/global_step', not from '_step': choose with --step-key" \
    sh -c '"$0" import steps.jsonl -o steps.db 2>&1' "$scan"
check 'the steps are those of the training' heads steps.db '0,0,0,1 10,0,0,2'
choose_other() {
    "$scan" import steps.jsonl -o steps.db --step-key _step 2>&1 | grep -q 'steps are' && return 1
    heads steps.db '0,0,0,1 2,0,0,2'
}
check 'another counter is used if it is named' choose_other

# --- one JSON document
cat >trainer_state.json <<'END'
{
  "best_metric": null,
  "global_step": 20,
  "log_history": [
    {
      "epoch": 0.5,
      "grad_norm": NaN,
      "loss": 3.5,
      "step": 10
    },
    {
      "loss": 3.25,
      "step": 20
    }
  ]
}
END
numbers() { "$scan" export "$1" | grep -v '^#' | tr '\n' ' '; } # RUN.db: prints the run as CSV in one line
reads() { # FILE FORMAT NUMBERS
    "$scan" import "$1" -o read.db 2>&1 | grep -q "from $2\$" && [ "$(numbers read.db)" = "$3 " ]
}
check 'trainer_state.json is read' reads trainer_state.json 'a JSON document' \
    'step,layer,head,epoch,grad_norm,loss 10,,,0.5,NaN,3.5 20,,,,,3.25'
tr -d '\n' <trainer_state.json >line.json
check 'also on one line' reads line.json 'a JSON document' \
    'step,layer,head,epoch,grad_norm,loss 10,,,0.5,NaN,3.5 20,,,,,3.25'
output 'also from standard input' 'from a JSON document' sh -c '"$0" import - -o read.db <line.json 2>&1' "$scan"
printf '\n[ {"step": 1, "entropy/L0H0": 1},\n  {"step": 2, "entropy/L0H0": 1.5} ]\n' >array.json
check 'an array of objects is read' reads array.json 'a JSON document' \
    'step,layer,head,entropy 1,0,0,1 2,0,0,1.5'
printf '{\n "step": 1,\n "loss": 2\n}\n' >object.json
check 'an object over several lines is a row' reads object.json 'a JSON document' 'step,layer,head,loss 1,,,2'
printf '[{"step": 1, "loss": 2},\n 3]' >element.json
exits 'an array of other values is refused' 3 'element.json: element 1 of its array is not a JSON object' \
    "$scan" import element.json -o no.db
printf '[{"step": 1, "loss": 2},\n' >cut.json
exits 'a truncated array is refused with its line' 3 'cut.json: line 2: not JSON: ' "$scan" import cut.json -o no.db
printf '[12:00] Step 1 - Layer 0: 2\n' >time.log
check 'a log whose lines begin with brackets is a log' reads time.log 'a log' 'step,layer,head,entropy 1,0,,2'

# --- MLflow
mkdir -p mlruns/0/abc/metrics/attn/layer_0/head_1
printf '1700000000000 3.5 0\n1700000001000 3.25 10\n1700' >mlruns/0/abc/metrics/loss
printf '1700000000000 1.5 0\n1700000001000 nan 10\n1700000002000 7 -1\n' \
    >mlruns/0/abc/metrics/attn/layer_0/head_1/entropy
mlflow='step,layer,head,entropy,loss 0,,,,3.5 0,0,0,NA, 0,0,1,1.5, 10,,,,3.25 10,0,0,NA, 10,0,1,NaN,'
check "a run's folder of MLflow is read" reads mlruns/0/abc/ 'an MLflow folder' "$mlflow"
check 'its folder metrics, too' reads mlruns/0/abc/metrics 'an MLflow folder' "$mlflow"
check 'and is the name of the run' sh -c '"$0" import -q mlruns/0/abc/ -o read.db && "$0" export read.db |
    grep -q "^# name: abc$"' "$scan"
exits 'another folder is refused with the folder to name' 3 \
    "mlruns: is a folder: for MLflow name the folder of a run, mlruns/EXPERIMENT/RUN, .* cat mlruns/\*tfevents\*" \
    "$scan" import mlruns -o no.db
printf '1700000000000 x 0\n' >mlruns/0/abc/metrics/bad
exits 'a wrong line of a metric is named' 3 'abc/metrics/bad: line 1: expected time, value and step of MLflow' \
    "$scan" import mlruns/0/abc -o no.db

# --- unsupported files: the message names the format and a remedy
refused() { # NAME REGEX TEXT: the file is what printf makes of TEXT
    printf "$3" >other.file
    exits "$1" 3 "other.file: $2" "$scan" import other.file -o no.db
}
refused "W&B's own log" "is W&B's own log of a run \(.wandb\): wandb sync it, .* import --help shows" \
    ':W&B\xe1\xbe\0\x01\x02\x03\x04'
pointer='version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n'
refused 'a pointer of Git LFS' 'a Git LFS pointer, not the file: run git lfs pull' "$pointer"
exits 'also from standard input' 3 'standard input: a Git LFS pointer' \
    sh -c '"$0" import - -o no.db <other.file' "$scan"
exits 'also as weights' 3 'other.file: a Git LFS pointer' \
    "$train" probe --init other.file --data none.tok -o no.db
exits 'also as a run' 3 'other.file: a Git LFS pointer' "$scan" other.file
refused 'a Parquet file' 'is a Parquet file: convert it to CSV' 'PAR1\x15\x04\x15'
refused 'a compressed file' 'is compressed: gunzip it' '\x1f\x8b\x08\0'
check 'nothing was written' test ! -e no.db

finish
