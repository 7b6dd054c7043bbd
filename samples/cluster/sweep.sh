#!/bin/sh
# A sweep by Slurm, watched from the login node until this is ended:
#
#     samples/cluster/sweep.sh samples/cluster/sweep.ini runs
#
# Tasks that ended, or did not begin, are submitted again by the same command.
# What comes after FILE and DIR goes to watch: --exec, --webhook, --severity ...
set -eu
spec=$1 runs=$2
shift 2
entropy-scan sweep "$spec" -o "$runs" --slurm
exec entropy-scan watch "$runs" "$@"
