#!/usr/bin/env bash
# The demo makes a corpus of real source code, trains two models and compares their
# attention heads. `make demo` calls this script. BUILD is the folder of the programs;
# all results go to BUILD/demo.
#
#   DEMO_STEPS=N   optimiser steps of each run (default 600)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
out=$build/demo
steps=${DEMO_STEPS:-600}
mkdir -p "$out"

say() { printf '\n== %s\n' "$*" >&2; }
# Exit code 1 means that the loss is no longer finite, which is a valid result.
train() { # NAME ARCH
    rm -f "$out/$1.db"
    "$build/entropy-train" --config samples/demo.conf --steps "$steps" \
        --data "$out/corpus.tok" --arch "$2" --name "$2" --out "$out/$1.db" ||
        [ $? -eq 1 ]
}

say 'corpus: the Python standard library, byte by byte'
"$build/entropy-corpus" -o "$out/corpus.tok"
say 'SM+LN+G: the usual transformer'
train baseline SM+LN+G
say 'SM: the same without LayerNorm and without activation'
train softmax-only SM

runs=("$out/baseline.db" "$out/softmax-only.db")
say 'their heads at the end'
"$build/entropy-scan" "${runs[@]}" \
    --heatmap="$out/heatmap.png" --curves="$out/curves.png"

# A heatmap after a NaN contains no useful values, so also draw the step before the NaN.
onset=$("$build/entropy-scan" "${runs[1]}" --json | tr -d ' \n' |
    sed -nE 's/.*"kind":"nan"[^}]*"onset":([0-9]+).*/\1/p')
if [ -n "$onset" ] && [ "$onset" -gt 0 ]; then
    say "just before the loss of SM became NaN at step $onset"
    "$build/entropy-scan" "${runs[@]}" --step $((onset - 1)) \
        --heatmap="$out/heatmap-before-nan.png"
fi
say "figures and run files: $out"
