#!/usr/bin/env bash
# Records the two runs in this folder again. They train the demo's models five times as
# long as the demo does, at a learning rate at which the model without LayerNorm
# survives. BUILD is the folder of the programs. The corpus is Debian 12's Python
# standard library, which entropy-corpus finds itself. Takes a few minutes.
#
# The script uses one thread, because a run can be repeated bit for bit only with the
# same number of threads (and the same kind of processor).
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
corpus=$build/samples.tok
"$build/entropy-corpus" -o "$corpus"

record() { # ARCH FILE: accepts exit code 1, a loss that is no longer finite
    rm -f "samples/runs/$2"
    "$build/entropy-train" --config samples/demo.conf --arch "$1" --name "$1" \
        --data "$corpus" --out "samples/runs/$2" --threads 1 \
        --lr 3e-3 --steps 3000 --record-every 20 --eval-every 300 || [ $? -eq 1 ]
}
record SM+LN+G sm-ln-g.db
record SM sm.db
"$build/entropy-scan" samples/runs/sm-ln-g.db samples/runs/sm.db \
    --heatmap=samples/runs/heatmap.png
