#!/usr/bin/env bash
# Opens the page of `entropy-scan serve` in a browser, while runs are written,
# damaged and deleted, and while the server restarts.
. tests/support/tap.sh
plan_dir
here=$PWD/tests
export PYTHONDONTWRITEBYTECODE=1 BUILD=$bin PYTHONPATH=$here/report:$here/serve
. tests/support/corpus.sh
cd "$dir"

if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
    python3 "$here/report/make_runs.py" || exit 1
    for name in evil other; do
        "$scan" import -q $name.csv -o $name.db || exit 1
    done
    write_source src 30
    "$bin/entropy-corpus" -q -o x.tok src || exit 1
    TMPDIR=$dir relay page python3 "$here/serve/page.py" "$dir"
else
    skip 'the live page in a browser' 'chromium or chromedriver is not installed'
fi
finish
