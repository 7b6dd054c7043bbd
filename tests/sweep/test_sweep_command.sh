#!/usr/bin/env bash
# Tests entropy-scan sweep with programs other than entropy-train: a shell
# script that imports a CSV, and programs that fail. tests/python has a test
# with a Python program.
. tests/support/tap.sh
plan_dir
. tests/sweep/sweeping.sh
export PATH=$bin:$PATH

# A script that simulates training with 3 steps, 2 layers and 3 heads. The
# script itself records no configuration.
cat >'a train.sh' <<'END'
#!/bin/sh
lr=$1 seed=$2 run=$3
echo "began with $lr, $seed"
{
    echo step,layer,head,entropy,loss
    for step in 0 1 2; do
        echo "$step,,,,$lr"
        for cell in 0,0 0,1 0,2 1,0 1,1 1,2; do echo "$step,$cell,1.$seed,"; done
    done
} >"$run.csv"
entropy-scan import "$run.csv" -o "$run" --ctx 16
case $lr in 7) exit 7 ;; 9) kill -9 $$ ;; esac
END
chmod +x 'a train.sh'
config_of() { sqlite3 "$1" 'SELECT config FROM run'; }

# --- a sweep that runs to its end
cat >good.ini <<'END'
[sweep]
command = './a train.sh' {lr} {seed}
    {run}
seed = 1 2
[grid]
lr = 1e-3 2e-3
END
same_text '--dry-run prints the command lines' \
    "ENTROPY_RUN_CONFIG='{\"seed\":1,\"lr\":1e-3}' './a train.sh' 1e-3 1 '{run}'" \
    "$("$scan" sweep good.ini --dry-run | head -n 1)"
"$scan" sweep good.ini -o 'go od' -j 2 >out 2>err
same_text 'a sweep of a program ends well' 0 $?
check 'the runs are compared by the swept values' grep -qE '^ *lr +runs ' out
same_text 'each run has the swept values in its configuration' '{"seed":2,"lr":0.001}' "$(config_of 'go od/seed2_lr1e-3.db')"
same_text 'values and the run file are passed as arguments' 'began with 2e-3, 2' "$(head -n 1 'go od/seed2_lr2e-3.log')"
check 'the end of a run is reported' grep -qE '^seed1_lr1e-3: finished at step 2, loss 0.001' err
check 'unknown numbers are not printed' sh -c '! grep -q -- "-92233" err'
output '--status shows the runs' '^4 runs: 4 finished; no sweep is running$' "$scan" sweep 'go od' --status
cp 'go od/seed1_lr1e-3.db' kept
"$scan" sweep good.ini -o 'go od' >out 2>err
check 'nothing is run twice' grep -q '^4 of 4 runs are already done' err
mv 'go od' moved
rm moved/seed1_lr1e-3.db
check 'a moved folder can be resumed, also run by run' "$scan" sweep moved --run seed1_lr1e-3
same_text 'the repeated run has the same numbers' "$(frames kept)" "$(frames moved/seed1_lr1e-3.db)"
sed -i 's/{run}$/{run} more/' good.ini
exits 'a changed command is refused' 3 'had another command line' "$scan" sweep good.ini -o moved

# --- failures are reported with their cause
cat >bad.ini <<'END'
[sweep]
command = './a train.sh' {lr} 1 {run}
[grid]
lr = 7 nan 9 1
END
"$scan" sweep bad.ini -o bad -j 1 >out 2>err
same_text 'broken runs change the exit code' 4 $?
same_text 'the best configuration is the first, NaN the last' '1 7 9 nan' "$(sed -n 3,6p out | cut -d' ' -f1 | xargs)"
same_text 'the unfinished runs are listed with the reason' 'lr7: broken at step 2, exit code 7' "$(sed -n '/^not finished:$/,$p' out | sed -n 2p)"
check 'an exit code other than 0 is reported' grep -qx 'lr7: broken at step 2, loss 7, exit code 7' err
check 'a signal is reported' grep -qx 'lr9: broken at step 2, loss 9, killed by signal 9' err
check 'broken runs are reported with their last lines' grep -q '^    .*: 6 samples of 2 series' err
same_text '--status shows broken runs, whatever their files contain' 'lr1 finished lr7 broken lr9 broken lrnan finished' "$(states bad | xargs)"
"$scan" sweep bad.ini -o bad >out 2>err
same_text 'only broken runs start again' 2 "$(grep -c begins err)"
broken() { # NAME COMMAND REGEX: checks a sweep of one run
    printf '[sweep]\ncommand = %s\n' "$2" >broken.ini
    rm -rf broken
    exits "$1" 4 "$3" "$scan" sweep broken.ini -o broken
}
broken 'a program that writes no run file is broken' '/bin/true {run}' '^run: broken, the training wrote no run file$'
printf '[sweep]\ncommand = sh -c "echo x >{run}"\n' >none.ini
output '--status keeps the reason' '^run: the training wrote no run file$' "$scan" sweep broken --status
exits 'a file that is not a run file is reported' 3 '^run: broken, none/run.db: not a run file' "$scan" sweep none.ini -o none
broken 'a program missing from PATH is broken' 'no-such-program {run}' 'exit code 127'
exits 'a program missing at its path is refused' 2 '/no/such: cannot execute' sh -c 'sed -i "s,no-such-program,/no/such," broken.ini; "$0" sweep broken.ini -o broken' "$scan"
exits 'a swept key that the command lacks is refused' 2 "^entropy-scan: bad.ini:2: command: {lr} is missing" \
    sh -c 'sed -i "s/{lr}/1/" bad.ini; "$0" sweep bad.ini -o nothing' "$scan"
check 'a refused sweep makes no folder' test ! -e nothing

# --- random search
cat >random.ini <<'END'
[sweep]
command = './a train.sh' {lr} {width} {run}
n = 3
[random]
lr = log-uniform 1e-4 1e-2
width = choice 1 2
END
"$scan" sweep random.ini -o random -j 2 >out 2>err
same_text 'a random search has as many runs as draws' '3 finished' "$(states random | cut -d' ' -f2 | sort | uniq -c | xargs)"
"$scan" sweep random.ini -o random --draws 4 >out 2>err
check 'the same draws are made again' grep -q '^3 of 4 runs are already done' err
same_text 'the additional draw is trained' 1 "$(grep -c begins err)"

# --- quoting, and commands that name a shell
cat >shell.ini <<'END'
[sweep]
command = sh -c './a*.sh "{lr}" {seed} {run} && echo {arch} "{arch}" "$0" >&2'
    '$HOME {{name}}'
arch = $(touch pwned)`touch pwned`; it's "x"
seed = 1
[grid]
lr = 1
END
check 'a shell script runs' "$scan" sweep shell.ini -o 'sh ell'
check 'values are not executed by the script' test ! -e pwned
check 'values and braces are passed unchanged' grep -qx "it's \"x\" it's \"x\" \$HOME {name}" "sh ell/it-s-x_seed1_lr1.log"
cat >environment.ini <<'END'
[sweep]
command = sh -c 'cp x.tok /dev/null; echo "$ENTROPY_RUN" {run}'
END
"$scan" sweep environment.ini -o environment >/dev/null 2>&1
same_text 'the environment has the absolute path of the run file' \
    "$dir/environment/run.db $dir/environment/run.db" "$(cat environment/run.log)"

# --- interruption: processes started by a shell end, too
cat >long.ini <<'END'
[sweep]
command = sh -c 'sleep 1000 & echo $! >pid; wait; : {run}'
END
"$scan" sweep long.ini -o long >/dev/null 2>long.err &
sweep=$!
await 'a long run starts' test -s pid
kill $sweep
wait $sweep
same_text 'a signal ends a sweep' 143 $?
gone() { ! kill -0 "$(cat pid)" 2>/dev/null; }
check 'processes started by the shell end, too' until_true gone
check 'the interrupted run is listed as waiting' has_state long run waiting

# --- Slurm
output 'Slurm tasks name the run' '^exec .*/entropy-scan sweep [^ ]*/sub --grace 5 --run "\$run"$' \
    "$scan" sweep good.ini -o sub --slurm --dry-run --grace 5
finish
