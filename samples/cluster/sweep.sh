#!/bin/sh
# Runs a sweep with Slurm and watches it from the login node until interrupted:
#
#     samples/cluster/sweep.sh samples/cluster/sweep.ini runs
#
# The same command submits tasks again that were killed or did not start. Arguments
# after FILE and DIR are passed to watch: --exec, --webhook, --severity ...
set -eu
spec=$1 runs=$2
shift 2
entropy-scan sweep "$spec" -o "$runs" --slurm
exec entropy-scan watch "$runs" "$@"
