#!/usr/bin/env bash
# Runs test programs and scripts, prints what failed in full and one line for
# the rest, and closes with "N passed, N failed, N skipped".
#
# A cmocka program prints TAP here; so does a script. "# SKIP" counts as
# skipped. A program that dies, runs no test, or has not ended after TEST_SECONDS
# (1200) counts as one failure.
set -uo pipefail
cd "$(dirname "$0")/../.."
export CMOCKA_MESSAGE_OUTPUT=tap ES_SHARED=${ES_SHARED:-../shared} BUILD=${BUILD:-build}
export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-2}

# A locale that writes 1,5: our numbers have to be the same in it.
if command -v localedef >/dev/null && [ ! -d "$BUILD/locale/de_DE.UTF-8" ]; then
    mkdir -p "$BUILD/locale"
    localedef -i de_DE -f UTF-8 "$BUILD/locale/de_DE.UTF-8" 2>/dev/null
fi
export LOCPATH=$PWD/$BUILD/locale
case $BUILD in /*) LOCPATH=$BUILD/locale ;; esac

# cmocka's own skip() prints "not ok N # SKIP name".
skipped_line='^(not )?ok .*# SKIP'
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for test in "$@"; do
    name=$(basename "$test")
    start=$SECONDS
    timeout -k 10 "${TEST_SECONDS:-1200}" "$test" >"$log" 2>&1 </dev/null
    code=$?
    skip=$(grep -acE "$skipped_line" "$log")
    pass=$(grep -avE "$skipped_line" "$log" | grep -acE '^ok ')
    fail=$(grep -avE "$skipped_line" "$log" | grep -acE '^not ok ')
    if [ $fail -eq 0 ] && { [ $code -ne 0 ] || [ $((pass + skip)) -eq 0 ]; }; then
        echo "not ok - $name ended with exit code $code" >>"$log"
        fail=1
    fi
    printf '%-36s %4d passed %3d failed %3d skipped %4d s\n' \
        "$name" $pass $fail $skip $((SECONDS - start))
    grep -aE "$skipped_line" "$log" | sed -E 's/^(not )?ok /    skipped: /'
    [ $fail -eq 0 ] || sed 's/^/    /' "$log"
    passed=$((passed + pass)) failed=$((failed + fail)) skipped=$((skipped + skip))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
