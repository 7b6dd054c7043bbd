#!/usr/bin/env bash
# Tests samples/schedulers/ray_study.py, which runs a study of Ray Tune. Only
# the trial that collapses may be stopped. RAY_PYTHON is the path of a Python
# interpreter that has Ray.
. tests/support/tap.sh
plan_dir
. tests/sweep/sweeping.sh
export PYTHONDONTWRITEBYTECODE=1 RAY_USAGE_STATS_ENABLED=0 PATH=$bin:$PATH
python=${RAY_PYTHON:-python3}
if ! "$python" -c 'import ray.tune' 2>/dev/null; then
    skip 'a study of Ray Tune' "no Ray: pip install 'ray[tune]', RAY_PYTHON=its python"
    finish
    exit
fi
"$python" "$root/samples/schedulers/ray_study.py" trials --data x.tok --steps 3000 --lr 1e-3 1 >out 2>err
same_text 'a study ends well' 0 $?
check 'a healthy trial is finished' grep -qE '^lr 1\.00e-03  finished  step +2999  eval loss [0-9.]+  ' out
check 'a trial that collapses is stopped, with the reason' \
    grep -qE '^lr 1\.00e\+00  stopped +step +[0-9]+  .*(collapse|nan) since step [0-9]+' out
same_text 'both run files exist' 2 "$(entropy-scan trials --json | grep -c '/run\.db"')"
finish
