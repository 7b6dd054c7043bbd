#!/usr/bin/env bash
# Tests entropy-scan import with files written by other programs, and the advice that it prints
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
output 'the table shows the kinds of layers of an import' 'kinds: L0 window, ceiling [0-9.]*; L1-2 full' "$scan" kinds.db
output 'JSON has the kinds of imported layers' '"kind":"window".*"kind":"full".*"name":"layer_2_mtp","kind":"full"' "$scan" --json kinds.db
check 'export and import keep the kinds of layers' sh -c '"$0" export kinds.db >kinds.csv && "$0" import -q kinds.csv -o again.db &&
    "$0" again.db | grep -q "L0 window"' "$scan"

# --- several counters of steps
cat >steps.jsonl <<'END'
{"_step": 0, "trainer/global_step": 0, "entropy/L0H0": 1}
{"_step": 1, "gpu": 9}
{"_step": 2, "trainer/global_step": 10, "entropy/L0H0": 2}
END
output 'a note names the counter chosen for the steps' \
    "steps.jsonl: the steps come from 'trainer/global_step', not from '_step'; to choose another counter, use --step-key" \
    sh -c '"$0" import steps.jsonl -o steps.db 2>&1' "$scan"
check 'the steps come from the counter of the training run' heads steps.db '0,0,0,1 10,0,0,2'
choose_other() {
    "$scan" import steps.jsonl -o steps.db --step-key _step 2>&1 | grep -q 'the steps come' && return 1
    heads steps.db '0,0,0,1 2,0,0,2'
}
check '--step-key selects another counter' choose_other

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
check 'trainer_state.json is imported' reads trainer_state.json 'a JSON document' \
    'step,layer,head,epoch,grad_norm,loss 10,,,0.5,NaN,3.5 20,,,,,3.25'
tr -d '\n' <trainer_state.json >line.json
check 'trainer_state.json on one line is imported' reads line.json 'a JSON document' \
    'step,layer,head,epoch,grad_norm,loss 10,,,0.5,NaN,3.5 20,,,,,3.25'
output 'a JSON document is imported from standard input' 'from a JSON document' sh -c '"$0" import - -o read.db <line.json 2>&1' "$scan"
printf '\n[ {"step": 1, "entropy/L0H0": 1},\n  {"step": 2, "entropy/L0H0": 1.5} ]\n' >array.json
check 'a JSON array of objects is imported' reads array.json 'a JSON document' \
    'step,layer,head,entropy 1,0,0,1 2,0,0,1.5'
printf '{\n "step": 1,\n "loss": 2\n}\n' >object.json
check 'a JSON object over several lines is one row' reads object.json 'a JSON document' 'step,layer,head,loss 1,,,2'
printf '[{"step": 1, "loss": 2},\n 3]' >element.json
exits 'a JSON array with other elements is refused' 3 'element.json: element 1 of the array is not a JSON object' \
    "$scan" import element.json -o no.db
printf '[{"step": 1, "loss": 2},\n' >cut.json
exits 'a truncated JSON array is refused with its line' 3 'cut.json: line 2: not JSON: ' "$scan" import cut.json -o no.db
printf '[12:00] Step 1 - Layer 0: 2\n' >time.log
check 'a log whose lines begin with brackets is not JSON' reads time.log 'a log' 'step,layer,head,entropy 1,0,,2'

# --- MLflow
mkdir -p mlruns/0/abc/metrics/attn/layer_0/head_1
printf '1700000000000 3.5 0\n1700000001000 3.25 10\n1700' >mlruns/0/abc/metrics/loss
printf '1700000000000 1.5 0\n1700000001000 nan 10\n1700000002000 7 -1\n' \
    >mlruns/0/abc/metrics/attn/layer_0/head_1/entropy
mlflow='step,layer,head,entropy,loss 0,,,,3.5 0,0,0,NA, 0,0,1,1.5, 10,,,,3.25 10,0,0,NA, 10,0,1,NaN,'
check 'the folder of an MLflow run is imported' reads mlruns/0/abc/ 'an MLflow folder' "$mlflow"
check 'the metrics folder of an MLflow run is imported' reads mlruns/0/abc/metrics 'an MLflow folder' "$mlflow"
check 'the run is named after the MLflow folder' sh -c '"$0" import -q mlruns/0/abc/ -o read.db && "$0" export read.db |
    grep -q "^# name: abc$"' "$scan"
exits 'any other folder is refused, and the message says which folder to name' 3 \
    "mlruns: is a folder; for MLflow, name the folder of a run, mlruns/EXPERIMENT/RUN, .* cat mlruns/\*tfevents\*" \
    "$scan" import mlruns -o no.db
printf '1700000000000 x 0\n' >mlruns/0/abc/metrics/bad
exits 'an invalid line of an MLflow metric is reported with its position' 3 'abc/metrics/bad: line 1: expected time, value and step of MLflow' \
    "$scan" import mlruns/0/abc -o no.db

# --- unsupported files: the message names the format and a remedy
refused() { # NAME REGEX TEXT: the file is what printf makes of TEXT
    printf "$3" >other.file
    exits "import refuses $1" 3 "other.file: $2" "$scan" import other.file -o no.db
}
refused "W&B's own log" "is W&B's own log of a run \(.wandb\): run wandb sync, then .* import --help" \
    ':W&B\xe1\xbe\0\x01\x02\x03\x04'
pointer='version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n'
refused 'a pointer of Git LFS' 'a Git LFS pointer, not the file: run git lfs pull' "$pointer"
exits 'import refuses a pointer of Git LFS on standard input' 3 'standard input: a Git LFS pointer' \
    sh -c '"$0" import - -o no.db <other.file' "$scan"
exits 'entropy-train recognises a Git LFS pointer as weights' 3 'other.file: a Git LFS pointer' \
    "$train" probe --init other.file --data none.tok -o no.db
exits 'a Git LFS pointer is refused as a run file' 3 'other.file: a Git LFS pointer' "$scan" other.file
refused 'a Parquet file' 'is a Parquet file: convert it to CSV' 'PAR1\x15\x04\x15'
refused 'a compressed file' 'is compressed: decompress it with gunzip' '\x1f\x8b\x08\0'
check 'a refused file writes no run file' test ! -e no.db

finish
