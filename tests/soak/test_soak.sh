#!/usr/bin/env bash
# The short form of `make soak`: every attack a few times; under sanitizers what reads
# broken files.
#
#   ES_SEED=17  other random numbers
. tests/support/tap.sh
exec python3 tests/soak/soak.py ${SAN:+--only mutated}
