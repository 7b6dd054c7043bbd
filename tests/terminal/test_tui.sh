#!/usr/bin/env bash
# Checks entropy-scan --tui and its live view in a pseudo-terminal.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir

write_source "$dir/source"
"$bin/entropy-corpus" -q -o "$dir/corpus.tok" "$dir/source" || exit 1
PYTHONPATH=tests/support PYTHONDONTWRITEBYTECODE=1 \
    python3 tests/terminal/tui.py "$bin" "$dir"
