#!/usr/bin/env bash
# Tests the statistics and verdicts of `make replicate`, on data with known results.
. tests/support/tap.sh
exec python3 -B tests/samples/truth_cases.py
