#!/usr/bin/env bash
# usage: samples/gpu-results.sh   (make gpu-results)
# Copies the tables that `make gpu-check` has written to TABLES into the results of this
# project: samples/results/gpu-STAGE.md, each with the GPU, date and command. Also draws
# a heatmap of the training run. Tables that were made by the emulation are refused.
#
#   OUT      folder with results from another machine: its gpu.tar.gz is first unpacked
#            into TABLES, and the next gpu-check continues from there
#   TABLES   folder of gpu-check's tables (build/gpu)
#   RESULTS  folder of the results (samples/results)
set -euo pipefail
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
TABLES=${TABLES:-build/gpu}
RESULTS=${RESULTS:-samples/results}
if [ -n "${OUT:-}" ]; then
    mkdir -p "$TABLES"
    tar -xzf "$OUT/gpu.tar.gz" -C "$TABLES" ||
        { echo "gpu-results: $OUT: no gpu.tar.gz of a gpu-check in this folder" >&2; exit 3; }
fi
[ -s "$TABLES/summary.md" ] ||
    { echo "gpu-results: $TABLES: no tables of a complete gpu-check" >&2; exit 3; }
! grep -lF 'host emulation' "$TABLES"/*.md >&2 ||
    { echo 'gpu-results: these tables are from the emulation, not from a GPU' >&2; exit 3; }
mkdir -p "$RESULTS"
for table in "$TABLES"/*.md; do
    name=$(basename "$table" .md)
    rm -f "$RESULTS/gpu-${name%-failed}.md"
    cp "$table" "$RESULTS/gpu-${name%-failed}.md"
done
for run in "$TABLES"/*.db; do
    [ -f "$run" ] || continue
    "$BUILD/entropy-scan" "$run" -q \
        --heatmap="$RESULTS/gpu-$(basename "$run" .db)-heatmap.png"
done
ls "$RESULTS"/gpu-*
