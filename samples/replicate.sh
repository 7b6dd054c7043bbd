#!/usr/bin/env bash
# The papers' tables at a size that two cores train in an hour: every line of
# samples/replicate.txt with each seed, one thread a run, then the report.
# A run that ended with the same configuration and data is not trained again,
# so an interrupted replication goes on where it was. `make replicate` calls it.
#
#   BUILD              where the programs lie (build)
#   REPLICATE_DIR      run files (BUILD/replicate)
#   REPLICATE_RESULTS  report and picture (samples/results)
#   REPLICATE_LIST     what to train (samples/replicate.txt)
#   REPLICATE_SEEDS    "1 2 3"
#   REPLICATE_JOBS     runs at a time (2)
#   REPLICATE_OPTIONS  of entropy-train, over those of the configurations
set -euo pipefail
cd "$(dirname "$0")/.."
export BUILD=${BUILD:-build}
export REPLICATE_DIR=${REPLICATE_DIR:-$BUILD/replicate}
export REPLICATE_RESULTS=${REPLICATE_RESULTS:-samples/results}
list=${REPLICATE_LIST:-samples/replicate.txt}
data=$REPLICATE_DIR/corpus.tok

train_one() { # SEED CONFIGURATION [RATE]
    local name=$2-s$1${3:+-lr$3} code=0
    local file=$REPLICATE_DIR/$name
    local options=(--config "samples/configs/$2.conf" --data "$data"
        --seed "$1" --threads 1 --name "$name" ${3:+--lr "$3"}
        ${REPLICATE_OPTIONS:-})
    "$BUILD/entropy-train" "${options[@]}" --dry-run >"$file.wanted"
    cksum <"$data" | sed 's/^/# data: /' >>"$file.wanted"
    if [ -f "$file.db" ] && cmp -s "$file.wanted" "$file.done"; then
        rm "$file.wanted"
        return
    fi
    rm -f "$file.db" "$file.done"
    # 1: the loss is no longer finite, which is a result here.
    nice -n 19 "$BUILD/entropy-train" "${options[@]}" -o "$file.db" \
        2>"$file.log" || code=$?
    [ $code -le 1 ] || { tail -1 "$file.log" >&2 && return 255; }
    mv "$file.wanted" "$file.done"
}

if [ "${1:-}" = one ]; then # by xargs, below
    shift
    train_one "$@"
    exit
fi

mkdir -p "$REPLICATE_DIR" "$REPLICATE_RESULTS"
[ -f "$data" ] || "$BUILD/entropy-corpus" -o "$data"
commit=$(git describe --always --dirty --exclude='*' 2>/dev/null || echo unknown)
grep -qs "^$commit," "$REPLICATE_DIR/programs.txt" ||
    echo "$commit, from $(date -u +%FT%H:%MZ)" >>"$REPLICATE_DIR/programs.txt"
for seed in ${REPLICATE_SEEDS:-1 2 3}; do
    grep -vE '^(#|$)' "$list" | sed "s/^/one $seed /"
done | OPENBLAS_NUM_THREADS=1 xargs -P "${REPLICATE_JOBS:-2}" -L1 "$0"
samples/replicate-report.sh
