#!/bin/sh
# What is new below a folder, into PostgreSQL, out of a cron job:
#
#     */5 * * * *  samples/cluster/push.sh /shared/runs service=entropy
#
# A push that takes longer than the time between two is not joined by another:
# the second ends at once. Where one is killed, or the server is down, the next
# goes on. Errors alone are printed, which cron sends by mail. The service, with
# its password, is in ~/.pg_service.conf.
set -eu
exec flock --nonblock --conflict-exit-code 0 "$1/.push.lock" \
    entropy-scan push --quiet "$1" --to "$2"
