#!/usr/bin/env bash
# entropy-scan --tui and its live view, in a pseudo-terminal.
set -uo pipefail
. tests/tap.sh
plan_dir
case $BUILD in /*) bin=$BUILD ;; *) bin=$PWD/$BUILD ;; esac

mkdir "$dir/source"
for i in $(seq 40); do
    seq $((i * 7)) $((i * 13)) | sed 's/.*/x = &/' >"$dir/source/m$i.py"
done
"$bin/entropy-corpus" -q -o "$dir/corpus.tok" "$dir/source" || exit 1
PYTHONDONTWRITEBYTECODE=1 python3 tests/tui.py "$bin" "$dir"
