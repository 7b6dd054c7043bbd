#!/usr/bin/env bash
# Mounts a fuse file system twice to simulate two hosts. The recording that is
# written through one mount is followed through the other. There, locks are
# invisible, file sizes may be two seconds old (attr_timeout), and pages are
# cached separately.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir

own_corpus "$dir/own.tok" || exit 1
cd "$dir" || exit 1
none() { skip 'fragments on fuse' "$1"; finish; exit; }
type -P bindfs >/dev/null || none 'no bindfs: make test-deps'
mkdir disk here there
bindfs disk here 2>/dev/null || none 'a file system cannot be mounted by fuse'
trap 'fusermount -qu here; fusermount -qu there; rm -rf "$dir"' EXIT
bindfs -o attr_timeout=2,entry_timeout=2 disk there || none 'it cannot be mounted twice'

small=(--arch SM+LN+G --data own.tok --n-layer 2 --n-head 2 --d-model 16 --ctx 16
    --batch 2 --threads 1 --eval-every 10 -q)
"$train" "${small[@]}" --steps 30 --out local.db
"$train" "${small[@]}" --steps 30 --out here/run.db 2>note
same_text 'a recording on fuse is a fragment' \
    'entropy-recorder: here/run.db: is on the shared file system fuse: recording into here/run.esf' \
    "$(cat note)"
entropy() { "$scan" export "$1" --series entropy | grep -v '^#'; }
same_text 'the other mount shows the same samples' "$(entropy local.db)" "$(entropy there/run.esf)"

old_sizes() { # true if a stale size is seen in one of twenty attempts, however slow the machine is
    local i
    for i in $(seq 20); do
        printf 1 >here/grows$i
        stat there/grows$i >size
        printf 1 >>here/grows$i
        [ "$(stat -c %s there/grows$i)" = 1 ] && return
    done
    return 1
}
check 'the other mount shows outdated sizes' old_sizes

"$train" "${small[@]}" --steps 100000000 --out here/long.db 2>/dev/null &
trainer=$!
step() { "$scan" there/long.esf --json 2>/dev/null | grep -oE '"step":[0-9]+' | cut -d: -f2; }
has_step() { first=$(step) && [ -n "$first" ]; }
await 'a step is visible through the other mount' has_step
output 'a run is read while another host writes it' '"status":"running"' "$scan" there/long.esf --json
goes_on() { [ "$(step)" -gt "$first" ]; }
check 'later steps become visible through the other mount' until_true goes_on
kill $trainer
wait $trainer
is_over() { "$scan" there/long.esf --json | grep -E '"status":"(stopped|failed)"'; }
check 'the end of the run becomes visible through the other mount' until_true is_over
check 'the run has no damage through the other mount' test "$("$scan" there/long.esf --json | grep -o '"damaged":\[\]')" = '"damaged":[]'

cp local.db disk/logged.db
: >disk/logged.db-wal
exits 'a run file with a write-ahead log on fuse is refused' 3 'there/logged.db: is on fuse and has a log' \
    "$scan" there/logged.db
finish
