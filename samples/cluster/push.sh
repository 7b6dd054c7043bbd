#!/bin/sh
# Pushes the new samples of all runs in a folder to PostgreSQL, from a cron job:
#
#     */5 * * * *  samples/cluster/push.sh /shared/runs service=entropy
#
# If the previous push is still running, a new push ends at once. If a push was killed
# or the server was down, the next push sends the rest. The script prints only errors,
# which cron sends by mail. ~/.pg_service.conf defines the service and its
# password.
set -eu
exec flock --nonblock --conflict-exit-code 0 "$1/.push.lock" \
    entropy-scan push --quiet "$1" --to "$2"
