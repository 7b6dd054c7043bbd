#!/usr/bin/env bash
# The statistics and verdicts of `make replicate`, on data whose answer is known.
. tests/support/tap.sh
exec python3 -B tests/samples/truth_cases.py
