#!/usr/bin/env bash
# usage: under_load.sh N COMMAND...
# Runs a command while N other processes keep the CPU busy; exits with the
# command's exit code.
set -euo pipefail
n=$1
shift
busy=()
trap 'kill "${busy[@]}" 2>/dev/null' EXIT
for ((i = 0; i < n; i++)); do
    (while :; do :; done) &
    busy+=($!)
done
"$@"
