#!/usr/bin/env bash
# Runs every fuzz target in $BUILD with the libFuzzer options given, one after
# another. What they learn stays in $BUILD/corpus, inputs that break something
# in $BUILD/broken. Prints a line for each; exit 1 if any broke.
#
#   BUILD=build/fuzz tests/fuzz/run.sh -max_total_time=60
#   BUILD=build/fuzz ONLY=reader tests/fuzz/run.sh -max_total_time=600
set -uo pipefail
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log
mkdir -p "$BUILD/broken" "$scratch/files"
bad=0 run=0
for target in tests/fuzz/fuzz_*.c; do
    name=$(basename "$target" .c)
    name=${name#fuzz_}
    [ -z "${ONLY:-}" ] || [ "$ONLY" = "$name" ] || continue
    run=$((run + 1))
    corpus=${CORPUS:-$BUILD/corpus}/$name
    mkdir -p "$corpus"
    options=(-rss_limit_mb=2048 -timeout=60 -verbosity=0 -print_final_stats=1
        "-artifact_prefix=$BUILD/broken/$name-")
    [ ! -e "tests/fuzz/$name.dict" ] || options+=("-dict=tests/fuzz/$name.dict")
    folders=("$corpus")
    [ ! -d "tests/fuzz/seeds/$name" ] || folders+=("tests/fuzz/seeds/$name")
    if TMPDIR=$scratch/files ASAN_OPTIONS=detect_leaks=1:intercept_tls_get_addr=0 \
        "$BUILD/fuzz_$name" "${options[@]}" "$@" "${folders[@]}" \
        >"$log" 2>&1 </dev/null; then
        echo "$name: $(awk '/number_of_executed_units/ { print $2 }' "$log") inputs, nothing broken"
    elif grep -q 'libFuzzer: run interrupted' "$log"; then
        echo "$name: interrupted"
        exit 130
    else
        bad=1
        echo "$name: broken"
        grep -vE '^stat::|^INFO' "$log" | head -n 60 | sed 's/^/    /'
    fi
done
[ $run -gt 0 ] || { echo "no such target: ${ONLY:-}"; exit 2; }
exit $bad
