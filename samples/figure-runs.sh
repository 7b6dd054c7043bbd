# Trains the runs of figures.sh and paper-figures.sh, which source this file. They set
# `build`, `out` and `steps`, and read these variables:
#
#   FIGURE_STEPS=N     optimiser steps of each run
#   FIGURE_OPTIONS=... additional options for each run
#   FIGURE_CORPUS=...  sources of the training data (default: Python's library)
#   FIGURE_DIR=DIR     folder of the results
read -ra options <<<"${FIGURE_OPTIONS:-}"
read -ra sources <<<"${FIGURE_CORPUS:-}"
mkdir -p "$out/runs"

say() { printf '%s\n' "$*" >&2; }

corpus() {
    [ -e "$out/corpus.tok" ] ||
        "$build/entropy-corpus" -q -o "$out/corpus.tok" "${sources[@]}"
}

# Exit code 1 means that the loss is no longer finite, which is a valid result: one of
# the figures shows it. Existing runs are kept.
train() { # NAME OPTION...
    local db=$out/runs/$1.db
    [ ! -e "$db" ] || return 0
    say "training $1"
    corpus
    "$build/entropy-train" -q "$2" --name "$1" \
        --data "$out/corpus.tok" --out "$db.part" --steps "$steps" \
        --record-every 2 --eval-every 50 --eval-batches 8 "${@:3}" \
        "${options[@]}" || [ $? -eq 1 ]
    mv "$db.part" "$db"
}
