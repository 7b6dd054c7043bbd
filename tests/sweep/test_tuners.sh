#!/usr/bin/env bash
# Tests samples/schedulers: a shell loop and an Optuna study must stop only
# training runs whose heads collapse or become NaN.
. tests/support/tap.sh
. tests/support/optuna.sh
plan_dir
. tests/sweep/sweeping.sh
samples=$root/samples runs=$root/samples/runs
export PYTHONDONTWRITEBYTECODE=1
nothing=$PATH PATH=$bin:$PATH

healthy=300 # steps of a healthy training
# Training with a learning rate of 1 or more collapses. Such a run would take
# hours, so even on a slow machine it is stopped before its end.
mkdir tools
cat >tools/entropy-train <<END
#!/bin/sh
case " \$* " in
*' --lr 1 '* | *' --lr 1.0 '* | *' --lr 30.0 '* | *' --lr 1e30 '*)
    set -- "\$@" --steps 100000000 --after-nan 100000000 --warm-up 0.000001 ;;
esac
exec "$bin/entropy-train" "\$@"
END
chmod +x tools/entropy-train
PATH=$dir/tools:$PATH
small=(--data x.tok --batch 4 --n-layer 4 --n-head 4 --d-model 32 --ctx 32 --threads 1)
long=("${small[@]}" --record-every 20 --steps 40000 --after-nan 40000)

status() { entropy-scan "$1" --json | grep -o '"status":"[a-z]*"' | cut -d'"' -f4; }
steps() { sqlite3 "$1" 'select last_step from run'; }
reason() { sqlite3 "$1" "select message from event where kind = 'stop'"; }
loop() { # DIR [OPTION...]: runs the loop with RATES and SEEDS; sets $code; writes out, err
    EVERY=0.1 "$samples/schedulers/loop.sh" "$@" >out 2>err
    code=$?
}

# --- a loop of the shell
mkdir loop
echo precious >precious
ln -s ../precious loop/lr1-seed1.db.stop # another user may have left a link
RATES='1 1e-3' SEEDS=1 loop loop "${small[@]}" --record-every 5 --steps $healthy
same_text 'a link in place of the request is replaced' precious "$(cat precious)"
same_text 'a loop ends well' 0 $code
check 'a training that collapses is stopped' \
    grep -qE '^loop.sh: lr1-seed1: stopped: collapse since step [0-9]+$' err
same_text 'a run is stopped on request' stopped "$(status loop/lr1-seed1.db)"
check 'the run is stopped before its last step' test "$(steps loop/lr1-seed1.db)" -lt 99999999
same_text 'the run contains the reason' "$(sed -n 's/^loop.sh: lr1-seed1: stopped: //p' err)" \
    "$(reason loop/lr1-seed1.db)"
check 'the loop continues' grep -qx 'loop.sh: lr1e-3-seed1: done' err
same_text 'a healthy run is not stopped' "finished $healthy" \
    "$(status loop/lr1e-3-seed1.db) $(steps loop/lr1e-3-seed1.db)"
same_text 'no stop request is left over' '' "$(ls loop/*.stop 2>/dev/null)"
check 'a table shows both runs' test "$(grep -c '^lr1' out)" = 2
cp loop/lr1-seed1.db kept
RATES='1 1e-3' SEEDS=1 loop loop "${small[@]}"
same_text 'existing runs are left alone' 2 "$(grep -c 'already exists' err)"
check 'existing run files are unchanged' cmp -s kept loop/lr1-seed1.db

RATES=1e30 SEEDS='1 2' loop nan "${long[@]}" --arch SM --clip 0
same_text 'trainings that turn NaN are stopped' 2 \
    "$(grep -c 'stopped: nan since step' err)"

cat >own.ini <<'INI'
[rule loss-there]
series = loss
aggregate = run
above = 0
severity = critical
INI
RULES=own.ini RATES=1e-3 SEEDS=1 loop own "${long[@]}"
check 'rules of the user stop a training' grep -q 'stopped: loss-there since step' err

RATES=1e-3 SEEDS='1 2' loop broken "${small[@]}" --arch XX
same_text 'a training that breaks gives exit code 4' 4 $code
same_text 'broken trainings are named, and the loop continues' 2 "$(grep -c "exit code 2: .*'XX'" err)"
exits 'a missing entropy-scan is reported' 2 'no entropy-scan in PATH: build it with `make programs`' \
    env PATH="$nothing" "$samples/schedulers/loop.sh" none
exits 'a missing folder argument is refused' 2 'no folder' "$samples/schedulers/loop.sh"

RATES=1e-3 SEEDS=1 "$samples/schedulers/loop.sh" cut "${long[@]}" >/dev/null 2>&1 &
cut=$!
await 'a training starts' entropy-scan -q cut/lr1e-3-seed1.db
kill $cut
wait $cut
same_text 'ending the loop stops the training' stopped "$(status cut/lr1e-3-seed1.db)"

# --- Optuna
if [ -z "$python" ]; then
    skip 'a study of Optuna' "$no_optuna"
    finish
    exit
fi
study() { "$python" "$samples/schedulers/study.py" "$@"; }
study trials --data x.tok --steps $healthy --trials 2 --try 1e-3 1 -- --batch 4 >out 2>err
same_text 'a study ends well' '0 ' "$? $(cat err)"
check 'a healthy trial is complete' grep -qE '^trial 0 .* complete +eval loss [0-9.]+$' out
same_text 'the healthy trial runs to its end' "finished $healthy" "$(status trials/trial-0.db) $(steps trials/trial-0.db)"
check 'a trial that collapses is pruned, with the reason' \
    grep -qE '^trial 1 .* pruned +collapse since step [0-9]+ \(critical\)$' out
same_text 'the training of the pruned trial is stopped' stopped "$(status trials/trial-1.db)"
check 'the run is stopped before its last step' test "$(steps trials/trial-1.db)" -lt 99999999
same_text 'the run of the pruned trial contains the reason' "$(sed -n 's/^trial 1 .* pruned *//p' out)" \
    "$(reason trials/trial-1.db)"
same_text 'no stop request is left over' '' "$(ls trials/*.stop 2>/dev/null)"
exits 'a run of another study is refused' 1 'trial-0.db: already exists' \
    study trials --data x.tok
# The loss becomes NaN at the first step, so no collapse precedes the NaN.
study nans --data x.tok --steps $healthy --trials 1 --arch SM --try 1 -- --lr 1e30 --clip 0 >out 2>err
check 'a trial that turns NaN is pruned' grep -qE '^trial 0 .* pruned +nan since step' out
check 'the run is stopped before its last step' test "$(steps nans/trial-0.db)" -lt 99999999
exits 'a trial that breaks is reported with its last words' 1 "study.py: .*part 'XX'" \
    study bad --data x.tok --arch XX
exits 'a missing entropy-scan is reported' 1 'study.py: entropy-scan: program not found: build it with' \
    env PATH="$nothing" "$python" "$samples/schedulers/study.py" none --data x.tok

cat >callback.py <<'PY'
import os, sys
import optuna
sys.path.insert(0, sys.argv[1])
from entropy_pruning import EntropyPruning, train

optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study()
run = sys.argv[2] + "/sm.db"

def raised(error, do):
    try:
        do()
    except error as reason:
        return str(reason)
    return None

def test(name, ok):
    print(name if ok else name + ": WRONG")

trial = study.ask()
prune = EntropyPruning(trial, run, every=0)
test("critical", prune() is None and prune.look(last=True)["name"] == "SM")
test("warning", raised(optuna.TrialPruned, EntropyPruning(
    trial, run, severity="warning")) == "overload since step 160 (warning)")
test("attributes", trial.user_attrs == {
    "entropy_alert": "overload since step 160 (warning)",
    "entropy_onset": 160, "entropy_step": 2999, "entropy_run": run})
test("rules", raised(optuna.TrialPruned, EntropyPruning(
    trial, run, rules="own.ini")) == "loss-there since step 0 (critical)")
open("wrong.ini", "w").write("[rule x]\nabove = often\n")
test("wrong rules", "wrong.ini:2" in str(raised(
    RuntimeError, EntropyPruning(trial, run, rules="wrong.ini"))))
none = EntropyPruning(trial, "nowhere.db", every=0)
test("no run yet", none() is None)
test("no run at all", "nowhere.db" in raised(
    RuntimeError, lambda: none.look(last=True)))
calls = EntropyPruning(trial, run, every=1000)
calls.look = lambda: looks.append(1)
looks = []
calls(), calls()
test("seldom", looks == [1])

# A training process that ignores signals is killed, even if it has recorded
# almost nothing.
open("precious", "w").write("precious")
os.symlink("precious", "deaf.db.stop")
deaf = [sys.executable, "-c", "import os, shutil, signal, time;"
        "open('deaf.pid', 'w').write(str(os.getpid()));"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"shutil.copy({run!r}, 'deaf.db'); time.sleep(1000)"]
test("deaf", "overload" in str(raised(optuna.TrialPruned, lambda: train(
    trial, deaf, "deaf.db", grace=0.2, severity="warning"))))
test("ended", raised(ProcessLookupError, lambda: os.kill(
    int(open("deaf.pid").read()), 0)) and not os.path.exists("deaf.db.stop"))
test("no link followed", open("precious").read() == "precious")
test("its last words", raised(RuntimeError, lambda: train(
    trial, ["sh", "-c", "echo what; exit 1"], "words.db")) == "what")
PY
"$python" callback.py "$samples/schedulers" "$runs" >out 2>&1 </dev/null
while read -r line; do
    case $line in *[a-z]) pass "callback: $line" ;; *) fail "callback" "$line" ;; esac
done <out
same_text 'all cases of the callback are tested' 12 "$(wc -l <out)"
finish
