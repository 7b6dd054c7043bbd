#!/usr/bin/env bash
# The statistics and verdicts of `make replicate`, on data whose answer is known.
. tests/support/tap.sh
without_sanitizers 'it is Python alone'
exec python3 -B tests/samples/truth_cases.py
