#!/usr/bin/env bash
# Compares alerts with the true state of runs: of the published heatmaps, of small
# training runs that an independent check labels, and of synthetic histories that are
# labelled when they are made. `make alerts` calls this script, which takes a few
# minutes on two cores. Runs and histories of an earlier call are reused.
#
#   BUILD           folder of the programs (build)
#   ALERTS_DIR      folder of the run files (BUILD/alerts)
#   ALERTS_RESULTS  folder of the report (samples/results)
#   ALERTS_JOBS     number of training runs at a time (2)
#   ALERTS_RUNS     list of the training runs (samples/alerts/runs.txt)
#   ALERTS_N        number of synthetic histories (3000)
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
dir=${ALERTS_DIR:-$build/alerts}
results=${ALERTS_RESULTS:-samples/results}
n=${ALERTS_N:-3000}
seed=7 # the rules were not developed with the histories of this seed
scan=$build/entropy-scan
data=$dir/corpus.tok

train_one() { # LAYERS HEADS WIDTH CONTEXT ARCH RATE SEED STEPS
    local name="L$1 H$2 T$4 $5 $6 seed $7" code=0
    local file=$dir/runs/${name// /_}
    [ ! -f "$file.db" ] || return 0
    nice "$build/entropy-train" --data "$data" --threads 1 --batch 8 \
        --record-every 1 --eval-every 0 --after-nan 10 --warm-up 0.25 \
        --n-layer "$1" --n-head "$2" --d-model "$3" --ctx "$4" --arch "$5" \
        --lr "$6" --seed "$7" --steps "$8" --name "$name" \
        --out "$file.part" 2>"$file.log" || code=$?
    # Exit code 1 means that the loss is no longer finite, which is a valid result.
    [ $code -le 1 ] || { tail -1 "$file.log" >&2 && return 255; }
    mv "$file.part" "$file.db"
}

if [ "${1:-}" = one ]; then # called by xargs, below
    shift
    train_one "$@"
    exit
fi

said() { # NAME: keeps what the programs report of the files in dir/NAME
    rm -f "$dir/$1.state.db"
    "$scan" --recursive "$dir/$1" --jsonl >"$dir/$1.scan"
    # Exit codes 1 and 4 of watch are valid results too.
    "$scan" watch "$dir/$1" --once --json --severity error \
        --state "$dir/$1.state.db" >"$dir/$1.watch"
}

mkdir -p "$dir/runs" "$results"
[ -f "$data" ] || "$build/entropy-corpus" -o "$data"
grep -vE '^(#|$)' "${ALERTS_RUNS:-samples/alerts/runs.txt}" | sed 's/^/one /' |
    OPENBLAS_NUM_THREADS=1 xargs -P "${ALERTS_JOBS:-2}" -L1 "$0"
said runs
for file in "$dir"/runs/*.db; do
    code=0
    "$scan" "$file" --check --quiet || code=$?
    printf '%s\t%d\n' "$file" $code
done >"$dir/runs.check"

rm -rf "$dir/heatmaps"
mkdir "$dir/heatmaps"
for csv in samples/published/*.csv; do
    "$scan" import "$csv" --quiet --ctx 128 --step 32000 \
        --arch "$(basename "$csv" .csv)" \
        -o "$dir/heatmaps/$(basename "$csv" .csv).db"
done
said heatmaps

if [ ! -f "$dir/histories.tsv" ] ||
    [ "$(wc -l <"$dir/histories.tsv")" -ne $((n + 1)) ]; then
    rm -rf "$dir/histories"
    mkdir "$dir/histories"
    "$build/entropy-histories" "$n" $seed "$dir/histories" \
        >"$dir/histories.new"
    mv "$dir/histories.new" "$dir/histories.tsv"
fi
said histories

code=0
samples/alerts/report.py "$dir" "$results" || code=$?
echo "$results/alerts.md" >&2
exit $code
