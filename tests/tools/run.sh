#!/usr/bin/env bash
# Runs test programs and scripts, JOBS at a time (by default two more than there
# are processors, because some sleep). Prints one line for each test, with its
# duration and CPU time in seconds, and the output of failed tests. Ends with a
# list of the skipped tests and their reasons, and "N passed, N failed, N
# skipped".
#
# Cmocka programs and scripts print TAP. "# SKIP" counts as skipped. A program
# that dies, runs no test or fewer than it announces, or is still running after
# TEST_SECONDS (1200) counts as one failure. A test whose source has a comment
# line "alone: WHY" runs after the others, by itself. Tests whose source says
# "needs: nvcc" or "needs: PyTorch" are left out if the program or package is
# missing; all tests that lack the same program or package count as one skipped
# test.
set -uo pipefail
set -m # without it, jobs and so the tests ignore SIGINT
cd "$(dirname "$0")/../.."
export CMOCKA_MESSAGE_OUTPUT=tap BUILD=${BUILD:-build}
export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-2}
# Waiting threads of OpenMP yield the processor: tests run in parallel, and
# spinning threads would use a third of a training run's CPU time.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
# Up to GCC 13, AddressSanitizer mistakes the thread-local memory of a library loaded at
# run time, such as oneDNN, for that of an old C library if it is at a certain position
# in its page, and LeakSanitizer then crashes (issue 1322 of google/sanitizers).
export ASAN_OPTIONS=intercept_tls_get_addr=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
# libp11-kit, which libpq loads, creates a locale when it is loaded, and glibc then
# leaks a copy of LOCPATH, which is set below.
export LSAN_OPTIONS=suppressions=$PWD/tests/tools/leaks.txt:print_suppressions=0
# With this variable, OpenBLAS uses the kernels of another processor, which are
# slower, give other digits and cause a warning.
unset OPENBLAS_CORETYPE
jobs=${JOBS:-$(($(nproc) + 2))}

# Create a locale with a decimal comma, in which the format of numbers must not
# change.
if command -v localedef >/dev/null && [ ! -d "$BUILD/locale/de_DE.UTF-8" ]; then
    mkdir -p "$BUILD/locale"
    localedef -i de_DE -f UTF-8 "$BUILD/locale/de_DE.UTF-8" 2>/dev/null
fi
export LOCPATH=$PWD/$BUILD/locale
case $BUILD in /*) LOCPATH=$BUILD/locale ;; esac

logs=$(mktemp -d) && : >"$logs/times" || exit 1
trap 'rm -rf "$logs"' EXIT
TIMEFORMAT='%U %S' # the format of a test's times
declare -A test_of=() log_of=() start_of=() # indexed by process
n_begun=0
stop() { # EXIT-CODE: ends all running tests; timeout passes the signal on to a test's processes
    trap '' HUP INT TERM
    [ ${#test_of[@]} -eq 0 ] || pkill -P "$(IFS=,; echo "${!test_of[*]}")"
    wait
    exit "$1"
}
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM

# Runs the longest tests first, because one that starts last would delay the end. The
# order follows the durations of the last run; if there was none, scripts and a
# few programs come first.
times=$BUILD/test-times
by_time() { # TEST...
    local -A last
    local seconds name test
    [ ! -e "$times" ] || while read -r seconds name; do
        last[$name]=$seconds
    done <"$times"
    for test in "$@"; do
        name=$(basename "$test")
        case $name in
        test_soak.sh | test_readme.sh | test_slurm.sh | test_cuda_faults.sh | \
            test_cuda_planted.sh | test_watch*.sh) seconds=90 ;;
        *.sh | test_cuda_step | test_cuda_attention | test_recorder_* | \
            test_resume | test_gradients | test_figures_extreme) seconds=60 ;;
        *) seconds=1 ;;
        esac
        printf '%s\t%s\n' "${last[$name]:-$seconds}" "$test"
    done | sort -snrk 1,1 | cut -f2
}

says() { # TEST WORDS: true if its source has a comment line that begins with the words
    local source
    source=$(echo tests/*/"$(basename "$1").c")
    [ -e "$source" ] || source=$1
    grep -qaE "^(#|/\\*) $2" "$source"
}

# Maps each missing program or package to the tests that are left out because of it.
declare -A left_out=()
[ "${CUDA:-1}" != 0 ] || left_out[nvcc]=
[ -n "${PYTHON:-}" ] || compgen -G "$BUILD/venv-python-*/bin/python" >/dev/null ||
    left_out[PyTorch]=
n_left_out=0
lacks_something() { # TEST: true if a need is missing; the test is then left out
    local need
    for need in "${!left_out[@]}"; do
        says "$1" "needs: $need" || continue
        left_out[$need]+=" $(basename "$1")"
        n_left_out=$((n_left_out + 1))
        return
    done
    return 1
}

# A script prints "ok N - NAME # SKIP WHY"; a program prints "# skipped: WHY" and then,
# through cmocka, "not ok N # SKIP NAME".
skipped_line='^(not )?ok .*# SKIP'
list_skipped() { # LOG TEST: "    WHY: TEST: NAME", a line each
    LC_ALL=C awk -v skipped="$skipped_line" -v test="$2" '
        /^# skipped: / { why = substr($0, 12) }
        $0 !~ skipped { next }
        /^not ok/ { sub(/.*# SKIP /, ""); print "    " why ": " test ": " $0; next }
        { name = $0; sub(/^ok [0-9]+ (- )?/, "", name); sub(/ *# SKIP.*/, "", name)
          sub(/.*# SKIP ?/, ""); print "    " $0 ": " test ": " name }' "$1"
}
passed=0 failed=0 skipped=0 n_reported=0 processor_seconds=0
report() { # LOG NAME EXIT-CODE SECONDS
    local log=$1 name=$2 code=$3 pass fail skip announced processor why=
    read -r pass fail skip announced < <(LC_ALL=C awk -v skipped="$skipped_line" '
        $0 ~ skipped { skip++; next }
        /^ok / { pass++ }
        /^not ok / { fail++ }
        /^1\.\.[0-9]+$/ { announced += substr($0, 4) }
        END { print pass + 0, fail + 0, skip + 0, announced + 0 }' "$log") ||
        pass=0 fail=0 skip=0 announced=0
    if [ "$code" -ne 0 ] || [ $((pass + skip)) -eq 0 ]; then
        why="ended with exit code $code"
    elif [ $((pass + fail + skip)) -ne "$announced" ]; then
        why="announced $announced tests, ran $((pass + fail + skip))"
    fi
    if [ "$fail" -eq 0 ] && [ -n "$why" ]; then
        echo "not ok - $name $why" >>"$log"
        fail=1
    fi
    processor=$(awk '{ sum += $1 + $2 } END { printf "%.0f", sum }' "$log.times")
    printf '%-36s %4d passed %3d failed %3d skipped %4d s %4d s\n' \
        "$name" "$pass" "$fail" "$skip" "$4" "$processor"
    list_skipped "$log" "$name" >>"$logs/skipped"
    [ "$fail" -eq 0 ] || sed 's/^/    /' "$log"
    printf '%d %s\n' "$4" "$name" >>"$logs/times"
    processor_seconds=$((processor_seconds + processor))
    passed=$((passed + pass)) failed=$((failed + fail)) skipped=$((skipped + skip))
    n_reported=$((n_reported + 1))
}

begin() { # TEST
    local log=$logs/$n_begun
    { time timeout -k 10 "${TEST_SECONDS:-1200}" "$1" >"$log" 2>&1 </dev/null; } \
        2>"$log.times" &
    test_of[$!]=$(basename "$1") log_of[$!]=$log start_of[$!]=$SECONDS
    n_begun=$((n_begun + 1))
}

await() { # waits until one of them has ended
    local process= code
    wait -n -p process "${!test_of[@]}"
    code=$?
    [ -n "$process" ] || { test_of=(); return; } # lost: counted at the end
    report "${log_of[$process]}" "${test_of[$process]}" $code \
        $((SECONDS - start_of[$process]))
    unset "test_of[$process]" "log_of[$process]" "start_of[$process]"
}

run() { # JOBS TEST...
    local jobs=$1 test
    shift
    for test in "$@"; do
        begin "$test"
        while [ ${#test_of[@]} -ge "$jobs" ]; do await; done
    done
    while [ ${#test_of[@]} -gt 0 ]; do await; done
}

together=() alone=()
while read -r test; do
    if lacks_something "$test"; then
        continue
    elif says "$test" 'alone: '; then
        alone+=("$test")
    else
        together+=("$test")
    fi
done < <(by_time "$@")
run "$jobs" "${together[@]}"
run 1 "${alone[@]}"
if [ $((n_reported + n_left_out)) -ne $# ]; then
    echo "not ok - $n_reported of $# tests were run"
    failed=$((failed + 1))
fi
for need in "${!left_out[@]}"; do
    [ -n "${left_out[$need]}" ] || continue
    echo "    no $need:${left_out[$need]}" >>"$logs/skipped"
    skipped=$((skipped + 1))
done
if [ -s "$logs/skipped" ]; then
    echo "skipped:"
    sort "$logs/skipped"
fi
echo "$SECONDS s, $processor_seconds s of processors"
echo "$passed passed, $failed failed, $skipped skipped"
mkdir -p "$BUILD" && cp "$logs/times" "$times"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
