#!/usr/bin/env bash
# Tests the script tests/tools/run.sh, which runs all other tests: which tests
# it reports as failed, and which tests it runs at the same time.
. tests/support/tap.sh
plan_dir
runner=$PWD/tests/tools/run.sh
mkdir -p "$dir/build" # a separate build folder, except for the locale, which takes a second to build
ln -s "$(realpath "$BUILD")/locale" "$dir/build/locale"

write_script() { # NAME: a test, from standard input
    { echo '#!/bin/bash'; cat; } >"$dir/$1"
    chmod +x "$dir/$1"
}
# Runs the tests NAME... with run.sh. Sets $outcome to the exit code of run.sh,
# and writes its output, without times, to $dir/out.
run() { # NAME...
    env BUILD="$dir/build" JOBS=2 "${with[@]}" "$runner" "${@/#/$dir/}" \
        >"$dir/all" 2>&1 </dev/null
    outcome=$?
    sed -E 's/( +[0-9]+ s){2}$//' "$dir/all" >"$dir/out"
}
with=()
counts() { # NAME PASSED FAILED SKIPPED
    grep -qxE "$1 +$2 passed +$3 failed +$4 skipped" "$dir/out" ||
        { grep -A5 "^$1 " "$dir/out"; return 1; }
}
closes() { # CODE LINE
    [ "$outcome $(tail -n 1 "$dir/out")" = "$1 $2" ] ||
        { echo "$outcome $(tail -n 1 "$dir/out")"; return 1; }
}

# --- passed, failed and skipped tests
write_script passes.sh <<<'printf "ok %d - it\n" 1 2 3; echo 1..3'
write_script skips.sh <<<'printf "ok 1 - it\n# skipped: no GPU\nnot ok 2 # SKIP that\n1..2\n"'
write_script fails.sh <<<'printf "ok 1 - it\nnot ok 2 - that\n# the reason\n1..2\n"'
write_script exits.sh <<<'printf "ok 1 - it\n1..1\n"; exit 3'
write_script dies.sh <<<'printf "ok 1 - it\n1..1\n"; kill -SEGV $$'
write_script hangs.sh <<<'echo ok 1 - it; echo 1..1; sleep 1000'
write_script is_silent.sh <<<'exit 0'
write_script stops_short.sh <<<'echo 1..2; echo ok 1 - it'
write_script ends_early.sh <<<'echo ok 1 - it; exit 0; echo 1..1'
write_script is_interrupted.sh <<<'echo ok 1 - it; echo 1..1; kill -INT $$; sleep 1'
write_script is_bytes.sh <<<'printf "\0\377\nok 1 - it\n1..1\n"'
run passes.sh skips.sh is_bytes.sh
check 'passing and skipped tests are counted' closes 0 '5 passed, 0 failed, 1 skipped'
check 'a skipped test is listed with its reason' grep -qx '    no GPU: skips.sh: that' "$dir/out"
check 'passing tests print one line each' test "$(wc -l <"$dir/out")" = 7
with=(TEST_SECONDS=2)
run passes.sh hangs.sh skips.sh fails.sh exits.sh dies.sh is_silent.sh \
    stops_short.sh ends_early.sh is_interrupted.sh none.sh
with=()
check 'every other end of a test is a failure' closes 1 '11 passed, 9 failed, 1 skipped'
check 'a failing test is counted' counts fails.sh 1 1 0
check 'the output of a failing test follows its line' sh -c "grep -A4 '^fails.sh' '$dir/out' |
    tail -n 4 | tr '\n' ';' |
    grep -qx '    ok 1 - it;    not ok 2 - that;    # the reason;    1..2;'"
check 'a test that exits with an error is a failure' counts exits.sh 1 1 0
check 'a test that dies of a signal is a failure' counts dies.sh 1 1 0
check 'a test that dies of a signal is listed with its exit code' grep -qx '    not ok - dies.sh ended with exit code 139' "$dir/out"
check 'a test that hangs is ended and counted as a failure' counts hangs.sh 1 1 0
check 'a test without results is a failure' counts is_silent.sh 0 1 0
check 'a test with fewer results than planned is a failure' counts stops_short.sh 1 1 0
check 'a test that exits before its plan is a failure' counts ends_early.sh 1 1 0
check 'a test that interrupts itself is a failure' counts is_interrupted.sh 1 1 0
check 'a missing test is a failure' counts none.sh 0 1 0
check 'the other tests of the run still pass' counts passes.sh 3 0 0
run skips.sh
check 'a test that is skipped in part passes' closes 0 '1 passed, 0 failed, 1 skipped'
write_script all_skipped.sh <<<'printf "ok 1 - it # SKIP no PyTorch\n1..1\n"'
run all_skipped.sh
check 'a run in which no test passes is a failure' closes 1 '0 passed, 0 failed, 1 skipped'
check "the reason of a script's skipped test is listed" grep -qx '    no PyTorch: all_skipped.sh: it' "$dir/out"
for name in kernels.sh more_kernels.sh; do
    write_script $name <<<'# needs: nvcc
printf "ok 1 - it\n1..1\n"'
done
with=(CUDA=0)
run passes.sh kernels.sh more_kernels.sh
check 'tests that need nvcc are one skipped test without it' closes 0 '3 passed, 0 failed, 1 skipped'
check 'tests that need nvcc are listed' grep -qE '^    no nvcc: (kernels.sh more_kernels.sh|more_kernels.sh kernels.sh)$' "$dir/out"
with=(CUDA=1)
run passes.sh kernels.sh more_kernels.sh
check 'tests that need nvcc run with nvcc' closes 0 '5 passed, 0 failed, 0 skipped'
with=()
run
check 'a run without tests fails' closes 1 '0 passed, 0 failed, 0 skipped'

# --- tests that run at the same time
meets() { # NAME OTHER: a test that passes if the other one runs at the same time
    write_script "$1" <<END
touch "$dir/$1.here"
for i in {1..400}; do
    [ ! -e "$dir/$2.here" ] || { echo ok 1 - met; break; }
    sleep 0.025
done
echo 1..1
END
}
meets one.sh other.sh
meets other.sh one.sh
run one.sh other.sh
check 'two tests run at the same time' closes 0 '2 passed, 0 failed, 0 skipped'
rm "$dir"/*.here
with=(JOBS=1)
sed -i 's/400/4/' "$dir/one.sh" "$dir/other.sh"
run one.sh other.sh
with=()
check 'with JOBS=1 tests run one after another' closes 1 '1 passed, 1 failed, 0 skipped'
for name in early.sh late.sh; do
    write_script $name <<END
touch "$dir/$name.runs"; sleep 0.3; rm "$dir/$name.runs"
echo ok 1; echo 1..1
END
done
for name in first.sh second.sh; do
    write_script $name <<END
# alone: it checks that no other test is running
touch "$dir/$name.runs"; sleep 0.1
[ "\$(echo "$dir"/*.runs)" = "$dir/$name.runs" ] && echo ok 1
rm "$dir/$name.runs"; echo 1..1
END
done
run first.sh early.sh second.sh late.sh
check 'a test marked as alone runs alone' closes 0 '4 passed, 0 failed, 0 skipped'
same_text 'the times of a run are stored' 'early.sh first.sh late.sh second.sh' \
    "$(cut -d' ' -f2 "$dir/build/test-times" | sort | xargs)"
printf '1 passes.sh\n9 skips.sh\n' >"$dir/build/test-times"
with=(JOBS=1)
run passes.sh skips.sh
same_text 'the longest test of the last run starts first' 'skips.sh passes.sh' \
    "$(grep -oE '^[a-z]+\.sh' "$dir/out" | xargs)"
with=()

# --- interrupted
for name in sleeper.sh dreamer.sh; do
    write_script $name <<END
sleep 1000 & echo \$! >"$dir/$name.child"; wait
END
done
began() { [ -s "$dir/sleeper.sh.child" ] && [ -s "$dir/dreamer.sh.child" ]; }
gone() { # the children have ended
    ended "$(cat "$dir/sleeper.sh.child")" && ended "$(cat "$dir/dreamer.sh.child")"
}
for signal in INT:130 TERM:143; do
    rm -f "$dir"/*.child
    set -m # otherwise it would ignore SIGINT
    BUILD=$dir/build JOBS=2 TMPDIR=$dir "$runner" "$dir"/{sleeper,dreamer}.sh \
        >"$dir/out" 2>&1 &
    runner_process=$!
    set +m
    until_true began
    kill -${signal%:*} $runner_process
    wait $runner_process
    same_text "SIG${signal%:*} ends the runner" ${signal#*:} $?
    check 'the interrupted runner ends all processes of its tests' until_true gone
done
finish
