#!/usr/bin/env bash
# usage: ranks.sh DATA [PAIRS] [OPTION...]
# Compares the speed of two ranks with one thread each with that of one process with two
# threads that makes the same steps (with twice the micro-batches). Runs both alternately;
# prints the tokens/s of each pair and the median ratio. Also compares two ranks with one
# process of one thread, which shows the gain from the second rank.
set -euo pipefail
data=$1 pairs=${2:-7}
shift $(($# < 2 ? $# : 2))
train=${BUILD:-build}/entropy-train
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
options=(--arch SM+LN+G --n-layer 6 --n-head 8 --d-model 256 --ctx 128 --batch 8 --steps 20
    --eval-every 0 --record-every 10 --data "$data" "$@")

speed() { # OPTION...: prints tokens/s of the training steps
    rm -f "$dir"/run.db*
    "$train" "${options[@]}" -o "$dir/run.db" "$@" 2>/dev/null |
        grep -oE '[0-9]+ tokens/s' | cut -d' ' -f1
}
ranks() {
    speed --world 2 --rank 1 --threads 1 --rendezvous "$dir/ranks" "$@" &
    speed --world 2 --rank 0 --threads 1 --rendezvous "$dir/ranks" "$@"
    wait
}
median() { sort -g | awk '{ x[NR] = $1 } END { print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'; }

echo 'two ranks, one process of two threads, one of one thread; ratios to both (tokens/s)'
for ((i = 0; i < pairs; i++)); do
    a=$(ranks --accumulate 1) b=$(speed --accumulate 2 --threads 2) c=$(speed --accumulate 2 --threads 1)
    echo "$a $b $c $(awk -v a="$a" -v b="$b" -v c="$c" 'BEGIN { printf "%.3f %.3f", a / b, a / c }')" |
        tee -a "$dir/pairs"
done
echo "median $(cut -d' ' -f4 "$dir/pairs" | median) $(cut -d' ' -f5 "$dir/pairs" | median)"
