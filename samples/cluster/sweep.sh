#!/bin/sh
# Runs a sweep with Slurm and watches it from the login node until interrupted:
#
#     samples/cluster/sweep.sh samples/cluster/sweep.ini runs
#
# Running the same command again submits the tasks that were killed or did not start.
# Arguments after FILE and DIR are passed to `entropy-scan watch`: --exec, --webhook,
# --severity ...
set -eu
spec=$1 runs=$2
shift 2
entropy-scan sweep "$spec" -o "$runs" --slurm
exec entropy-scan watch "$runs" "$@"
