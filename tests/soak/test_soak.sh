#!/usr/bin/env bash
# Runs the short form of `make soak`, with a small count of every attack. A
# build with sanitizers only runs the attacks that read damaged files.
#
#   ES_SEED=17  seed of the random numbers
. tests/support/tap.sh
exec python3 tests/soak/soak.py ${SAN:+--only mutated}
