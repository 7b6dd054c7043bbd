#!/usr/bin/env bash
# The short form of `make soak`: a few of every attack; with sanitizers only those that
# read damaged files.
#
#   ES_SEED=17  other random numbers
. tests/support/tap.sh
exec python3 tests/soak/soak.py ${SAN:+--only mutated}
