#!/usr/bin/env bash
# usage: samples/gpu-results.sh   (make gpu-results)
# The tables that `make gpu-check` left in OUT become results of this project:
# samples/results/gpu-STAGE.md, each with its card, date and command; and a
# heatmap of the training. Tables of the emulation are none.
#
#   OUT      of gpu-check (BUILD/gpu)
#   RESULTS  where they go (samples/results)
set -euo pipefail
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
OUT=${OUT:-$BUILD/gpu}
RESULTS=${RESULTS:-samples/results}
[ -s "$OUT/require.md" ] ||
    { echo "gpu-results: $OUT: no tables of a whole gpu-check" >&2; exit 3; }
! grep -lF 'host emulation' "$OUT"/*.md >&2 ||
    { echo 'gpu-results: tables of the emulation are no results' >&2; exit 3; }
mkdir -p "$RESULTS"
for table in "$OUT"/*.md; do
    name=$(basename "$table" .md)
    rm -f "$RESULTS/gpu-${name%-failed}.md"
    cp "$table" "$RESULTS/gpu-${name%-failed}.md"
done
for run in "$OUT"/*.db; do
    [ -f "$run" ] || continue
    "$BUILD/entropy-scan" "$run" -q \
        --heatmap="$RESULTS/gpu-$(basename "$run" .db)-heatmap.png"
done
ls "$RESULTS"/gpu-*
