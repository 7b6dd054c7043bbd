#!/usr/bin/env bash
# Tests that entropy-scan sweep trains every run once, even if runs are
# interrupted, stopped because of their flags, or broken.
. tests/support/tap.sh
plan_dir
. tests/sweep/sweeping.sh
shopt -s extglob

begin() { # SPEC DIR [OPTION]...: starts a sweep in the background; sets $sweep
    local file=$1 folder=$2
    shift 2
    : >"$folder.err" # clears the messages of the previous sweep
    "$scan" sweep "$file" -o "$folder" -j 1 "$@" >"$folder.out" 2>"$folder.err" &
    sweep=$!
}
ends() { wait "$sweep" 2>/dev/null; code=$?; } # sets $code to its exit code

# --- a folder prepared by another user
spec links.ini SM '1 2' 'steps = 2'
mkdir links
echo precious >precious
ln precious links/.sweep.lock
exits 'a lock that is a hard link is refused' 3 'links/.sweep.lock: not a lock file: remove it' "$scan" sweep links.ini -o links
rm links/.sweep.lock
ln -s ../precious links/SM_seed1.cmd
ln -s ../precious links/SM_seed1.end
mkfifo links/SM_seed2.{cmd,end,log}
exits 'links and FIFOs in place of its files are replaced' 0 'SM_seed2: finished' timeout -s KILL 60 "$scan" sweep links.ini -o links
same_text 'the targets of links are left alone' precious "$(cat precious)"
same_text 'all runs are finished' 'SM_seed1 finished SM_seed2 finished' "$(states links | xargs)"

# --- a sweep without trouble
spec good.ini 'SM+LN+G; SM' '1 2' 'steps = 20' '[grid]' 'lr = 1e-3 3e-3'
same_text '--dry-run prints the command lines' \
    '8 entropy-train --data x.tok --n-layer 2 --n-head 3 --d-model 12 --ctx 16 --batch 4 --eval-batches 2 --steps 20 --threads 1 --arch SM+LN+G --seed 1 --lr 1e-3 --name SM+LN+G_seed1_lr1e-3 --out SM+LN+G_seed1_lr1e-3.db' \
    "$("$scan" sweep good.ini --dry-run | awk 'NR == 1 { first = $0 } END { print NR, first }')"
"$scan" sweep good.ini -o good -j 2 >out 2>err
code=$?
"$scan" good/*.db --check -q
same_text 'the exit code is that of --check' $? $code
check 'the runs are compared' grep -q '^4 configurations, best first, seeds combined' out
check 'without --all no distances are printed' sh -c '! grep -q "^distances" out'
check '--all shows the runs and distances, too' sh -c '"$0" sweep good.ini -o good --all 2>/dev/null | grep -q "^distances between"' "$scan"
check 'the picture of bands is drawn' test -s good/bands.png
written='entropy-scan: good/bands.png written'
if "$scan" --version | grep -q '^no GSL'; then
    check 'without GSL the settings are not ranked' sh -c '! grep -q "^which settings" out'
else
    written+=$'\nentropy-scan: good/importance.png written'
    same_text 'the table of settings is that of entropy-scan importance' "$("$scan" importance good)" \
        "$(sed '1,/^which settings are associated with how the runs ended$/d' out)"
    check 'the picture of settings is drawn' test -s good/importance.png
fi
same_text 'the end of every run is reported' 8 "$(grep -c ': finished at step 20 of 20, loss' err)"
output '--status counts the runs' '^8 runs: 8 finished; no sweep is running$' "$scan" sweep good --status
output '--status shows the progress of the runs' '^SM_seed2_lr1e-3 +finished +\[#{16}\] 100% +20 +[0-9.]+ +[0-9/]+ ' "$scan" sweep good --status
cp good/SM_seed1_lr1e-3.db kept
"$scan" sweep good.ini -o good >out 2>err
same_text 'nothing is run twice' "$written" \
    "$(grep -v 'already done' err)"
check 'a finished run is not touched' cmp -s kept good/SM_seed1_lr1e-3.db
echo 'exit code 3' >good/SM_seed1_lr1e-3.end # as after a recording on a full disk
check 'a run that finished but failed is broken' has_state good SM_seed1_lr1e-3 broken
rm good/SM_seed1_lr1e-3.end
: >good/SM_seed1_lr1e-3.db-journal
exits 'a run that cannot be read for now is not started again' 3 'SM_seed1_lr1e-3.db: has a rollback journal' \
    "$scan" sweep good.ini -o good
check 'a run of another sweep is kept' cmp -s kept good/SM_seed1_lr1e-3.db
exits '--status reports the broken run' 4 'SM_seed1_lr1e-3.db: has a rollback journal' "$scan" sweep good --status
rm good/SM_seed1_lr1e-3.db-journal
"$scan" sweep good.ini -o new -j 2 --no-stop >/dev/null 2>&1
spec good.ini 'SM+LN+G; SM' '1 2 3' 'steps = 20' '[grid]' 'lr = 1e-3 3e-3'
"$scan" sweep good.ini -o new -j 2 >/dev/null 2>err
same_text 'a spec that has grown trains only the new runs' 4 "$(grep -c 'finished at' err)"

# --- a broken run
spec broken.ini 'SM+XX; SM' 1 'steps = 20'
exits 'a broken run is named with its last lines' 4 "^    entropy-train: .*part 'XX'" \
    "$scan" sweep broken.ini -o broken -j 1
check 'the other runs are trained' has_state broken SM_seed1 finished
check 'a run that fails is reported as broken' has_state broken SM+XX_seed1 broken
exits 'only the broken run starts again the next time' 4 'SM.XX_seed1: begins' \
    "$scan" sweep broken.ini -o broken
spec none.ini SM 1 'steps = 20'
sed -i '/^data/i program = /no/such/program' none.ini
exits 'a missing program is refused' 2 '/no/such/program: cannot execute' "$scan" sweep none.ini -o none
sed -i 's,^program.*,program = no-such-program,' none.ini
exits 'a program missing from PATH is reported' 4 'exit code 127' "$scan" sweep none.ini -o none
sed -i 's,^program.*,program = /bin/true,' none.ini
exits 'a program that records nothing is reported' 4 'the training wrote no run file' "$scan" sweep none.ini -o true

# --- doomed runs
spec doomed.ini 'SM; SM+LN+G' 1 'steps = 20000000' 'after-nan = 20000000' 'lr = 1e30' 'clip = 0' 'record-every = 50'
begin doomed.ini doomed -j 2
ends
same_text 'a sweep of doomed runs ends' 1 $code
check 'each doomed run is requested to stop' test "$(grep -c 'stop requested: .*(critical)' doomed.err)" = 2
check 'each doomed run is stopped long before its last step' test "$(grep -c ': failed at step [0-9]* of 20000000, loss NaN, nan ' doomed.err)" = 2
check 'no stop request is left over' sh -c '! ls doomed/*.stop 2>/dev/null | grep .'
check 'a doomed run is not run again' sh -c '! "$0" sweep doomed.ini -o doomed 2>&1 | grep begins' "$scan"
output 'NaN heads are counted separately' ' NaN .* 0/0/0/0 NaN 6 ' "$scan" sweep doomed --status
printf '[rule trained]\nseries = loss\naggregate = run\nabove = 0\nseverity = error\naction = %s\n' stop >own.rules
sed 's/stop/none/' own.rules >idle.rules
spec ruled.ini SM+LN+G 1 'steps = 20000000' 'record-every = 50'
begin ruled.ini ruled --rules own.rules
ends
same_text 'a rule of the user stops a run' 'SM+LN+G_seed1 stopped' "$(states ruled)"
check 'the stop message names the rule' grep -q 'stop requested: .*trained (error)' ruled.err
same_text 'the rule determines the exit code' 1 $code
output '--status --rules shows the rule' ' trained \(error\)' "$scan" sweep ruled --status --rules own.rules
check '--status uses rules only if they are given' sh -c '! "$0" sweep ruled --status | grep trained' "$scan"
spec idle.ini SM+LN+G 1 'steps = 60'
"$scan" sweep idle.ini -o idle --rules idle.rules >/dev/null 2>&1
same_text 'a rule without an action stops no run' 'SM+LN+G_seed1 finished' "$(states idle)"
output 'Slurm tasks get --rules' "^exec .*/entropy-scan sweep [^ ]*/sub --rules [^ ]*/own.rules --run" "$scan" sweep idle.ini -o sub --slurm --dry-run --rules own.rules
exits 'a wrong rules file is refused' 2 'wrong.rules:1: unknown section' sh -c 'echo "[x]" >wrong.rules; "$0" sweep good.ini -o x --rules wrong.rules' "$scan"
spec left.ini SM 1 'steps = 400' 'after-nan = 60' 'lr = 1e30' 'clip = 0'
"$scan" sweep left.ini -o left --no-stop >/dev/null 2>&1
check '--no-stop lets doomed runs continue' has_state left SM_seed1 failed

# --- interruption
spec long.ini SM+LN+G 1 '[grid]' 'steps = 20 20000000'
short=SM+LN+G_seed1_steps20 long=SM+LN+G_seed1_steps20000000
begin long.ini long
await 'the long run starts' has_state long $long running
check 'the short run is finished' has_state long $short finished
output '--status shows the running sweep' "^2 runs: 1 finished, 1 running; process $sweep on " "$scan" sweep long --status
exits 'a second sweep is refused and names the first' 3 "^entropy-scan: long: process $sweep on .*is running a sweep in this folder" \
    "$scan" sweep long.ini -o long
kill "$sweep"
ends
same_text 'a signal ends the sweep' 143 $code
check 'the interrupted sweep explains how to resume it' grep -q 'long: interrupted; the same command resumes the sweep' long.err
check 'the training was stopped' has_state long $long interrupted
check 'the interrupted file is intact' "$scan" long/$long.db
begin long.ini long
await 'the long run starts again' has_state long $long running
check 'the finished run is not run again' sh -c 'grep -q "1 of 2 runs are already done" "$0" && ! grep -q "steps20: begins" "$0"' long.err
kill -9 "$sweep"
ends
await 'the recorder of the killed run ends' has_state long $long interrupted
begin long.ini long
await 'the long run starts a third time' grep -q "$long: begins" long.err
await 'the long run is running' has_state long $long running
check 'the trainings of a killed sweep end, too' ps -p "$sweep"
trains_once() { [[ $(pgrep -cP "$sweep") == 1 ]]; }
await 'one training is running' trains_once
echo stop >long/$long.db.stop
ends
same_text 'another user may stop a run' stopped "$(states long | sed -n "s/^$long //p")"

# --- checkpoints
newest() { ls "$1/$saved.checkpoints" 2>/dev/null | tail -n 1 | tr -dc '0-9' | sed 's/^1//'; }
has_later() { [[ $(newest "$1") > $2 ]]; }
spec saved.ini SM+LN+G 1 "accumulate = $batches" 'steps = 300' 'checkpoint-every = 20' 'record-every = 1'
saved=SM+LN+G_seed1
"$scan" sweep saved.ini -o whole >/dev/null 2>&1
# Kills the training and, once it has resumed, the sweep. Fails if the training, which
# takes about a second, ends before it is killed, as it may on a busy machine.
is_killed_twice() {
    rm -rf saved
    begin saved.ini saved
    until_true has_later saved 00000040
    kill -9 $(pgrep -P "$sweep") 2>/dev/null
    ends
    grep -q "^$saved: broken.*killed by signal 9" saved.err || return 1
    from=$(newest saved)
    begin saved.ini saved
    until_true has_later saved "$from"
    kill -9 "$sweep"
    ends
    until_true is_closed
    has_state saved $saved interrupted
}
is_closed() { ! has_state saved $saved running; }
for try in {1..20}; do is_killed_twice && break; done
check 'the training is killed, and then the sweep' has_state saved $saved interrupted
check 'the run resumes from its checkpoint' grep -q "resuming saved/.*-$from.safetensors at step ${from##*(0)}" saved/$saved.log
begin saved.ini saved
ends
check 'the run also resumes after the sweep was killed' grep -q "^$saved: resumes from its checkpoint, 1 of 1" saved.err
check 'the resumed run finishes' has_state saved $saved finished
same_text 'a resumed run equals an uninterrupted one bit by bit' "$(frames whole/$saved.db)" "$(frames saved/$saved.db)"
same_text 'the run was resumed twice' 2 "$(sqlite3 saved/$saved.db "SELECT count(*) FROM event WHERE kind = 'resumed'")"
begin saved.ini again
await 'a checkpoint is written' has_later again 00000040
kill -9 $(pgrep -P "$sweep")
ends
rm again/$saved.db
exits 'checkpoints without their run file are refused' 4 'again/.*: belongs to another run' "$scan" sweep saved.ini -o again

# --- hostile input
exits 'a command without a spec is refused' 2 'no spec' "$scan" sweep
cp good.ini unnamed
exits 'a spec without an ending needs -o' 2 'unnamed: no folder for the runs' "$scan" sweep unnamed
exits 'a missing spec is reported' 3 'nowhere' "$scan" sweep nowhere -o x
exits 'a wrong line is named' 2 '^entropy-scan: bad.ini:2: .*expected' sh -c 'printf "[sweep]\nfoo = 1\n" >bad.ini; "$0" sweep bad.ini -o x' "$scan"
exits 'a wrong number is refused' 2 'from 1 to 1024' "$scan" sweep good.ini -o x -j 0
exits '--status refuses a folder without a sweep' 3 'not the folder of a sweep' "$scan" sweep src --status
exits 'a folder that cannot be made is reported' 3 'x.tok.*: ' "$scan" sweep good.ini -o x.tok
spec good.ini SM 1 'steps = 30'
mkdir own && cp kept own/SM_seed1.db
exits 'a run file that does not belong to the sweep is refused' 3 'does not belong to a sweep' "$scan" sweep good.ini -o own
check 'the foreign run file is unchanged' cmp -s kept own/SM_seed1.db
"$scan" sweep good.ini -o changed >/dev/null 2>&1
spec good.ini SM 1 'steps = 40'
exits 'a run with another command line is refused' 3 'had another command line' "$scan" sweep good.ini -o changed
spec bytes.ini "$(printf 'SM;\033[2J')" 1 'steps = 20'
check 'a dry run prints no control bytes' sh -c '"$0" sweep bytes.ini --dry-run | grep -q "x1b" &&
    ! "$0" sweep bytes.ini --dry-run | LC_ALL=C grep -q "[[:cntrl:]]"' "$scan"
spec shell.ini 'SM; $(touch pwned)`touch pwned`' 1 'steps = 20'
"$scan" sweep shell.ini >/dev/null 2>&1
check 'without -o the folder is named after the spec' test -n "$(ls shell/*.db)"
check 'values are not read by a shell' test ! -e pwned
finish
