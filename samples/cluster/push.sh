#!/bin/sh
# Pushes the new samples of all runs in a folder to PostgreSQL, from a cron job:
#
#     */5 * * * *  samples/cluster/push.sh /shared/runs service=entropy
#
# If a push is still running when the next one starts, the second ends at once. After
# a push that was killed, or while the server was down, the next one continues. Only
# errors are printed, which cron sends by mail. The service, with its password, is in
# ~/.pg_service.conf.
set -eu
exec flock --nonblock --conflict-exit-code 0 "$1/.push.lock" \
    entropy-scan push --quiet "$1" --to "$2"
