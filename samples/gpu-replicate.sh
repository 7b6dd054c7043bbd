#!/usr/bin/env bash
# usage: samples/gpu-replicate.sh ARCH MINUTES
#        make gpu-replicate ARCH=... MINUTES=...
# Trains GPT-2 small (12 layers, 12 heads, width 768, context 128) with the published settings
# and an effective batch of 512, in bf16 on the GPU for about MINUTES. The number of steps is
# chosen to fit this time, so that the learning rate schedule ends with the run.
# The run file is kept in OUT; no checkpoint is written.
#
#   OUT    folder of the run file (BUILD/gpu)
#   BUILD  folder of the programs (build)
#   DATA   a token file (BUILD/debian.tok of `make corpus-debian` if it exists,
#          else BUILD/corpus.tok, which is made if needed)
#   MODEL  options of entropy-train that replace the published sizes
#   ACCUMULATE  micro-batches of a step (4), PRECISION (bf16), BACKEND (cuda)
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 2 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
arch=$1 minutes=$2
BUILD=${BUILD:-build}
OUT=${OUT:-$BUILD/gpu}
train=$BUILD/entropy-train
options=(--arch "$arch" --backend "${BACKEND:-cuda}"
    --precision "${PRECISION:-bf16}")
read -ra sizes <<<"${MODEL:---n-layer 12 --n-head 12 --d-model 768 --ctx 128 --batch 128}"
accumulate=${ACCUMULATE:-4}
[[ $minutes =~ ^[0-9]+(\.[0-9]+)?$ ]] ||
    { echo "gpu-replicate: MINUTES: not a number: '$minutes'" >&2; exit 2; }

data=${DATA:-$BUILD/debian.tok}
if [ ! -f "$data" ]; then
    data=$BUILD/corpus.tok
    [ -f "$data" ] || "$BUILD/entropy-corpus" -q -o "$data"
fi
mkdir -p "$OUT"
name=$(tr -cs 'A-Za-z0-9.\n' '-' <<<"$arch" | tr A-Z a-z | sed 's/-*$//')

# Record in a temporary folder, so that OUT does not get log and lock files.
work=$(mktemp -d)
keep() {
    [ ! -f "$work/$name.db" ] || mv -f "$work/$name.db" "$OUT/$name.db"
    rm -rf "$work"
}
trap keep EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# Measure the speed with the vocabulary size of the token file.
planned=$("$train" "${options[@]}" "${sizes[@]}" --data "$data" --dry-run)
vocab=$(sed -nE 's/^vocab *= *([0-9]+).*/\1/p' <<<"$planned")
speed=$("$train" bench "${options[@]}" "${sizes[@]}" --vocab "$vocab" \
    --pairs "${PAIRS:-10}" | tee "$work/bench.txt" |
    sed -nE 's/^tokens\/s: ([0-9]+) .*/\1/p')
head -1 "$work/bench.txt"
[ -n "$speed" ] || { echo 'gpu-replicate: no speed was measured' >&2; exit 3; }
tokens=$(awk -v a="$accumulate" \
    '$1 == "ctx" { t = $3 } $1 == "batch" { b = $3 } END { print t * b * a }' \
    <<<"$planned")
steps=$(awk -v s="$speed" -v m="$minutes" -v t="$tokens" \
    'BEGIN { n = int(60 * m * s / t); print (n > 0 ? n : 1) }')
every=$((steps / 100 + 1))
echo "$speed tokens/s by bench, so $steps steps of $tokens tokens of" \
    "$(basename "$data") in $minutes minutes"

code=0
"$train" "${options[@]}" "${sizes[@]}" --accumulate "$accumulate" \
    --data "$data" --steps "$steps" --lr 1e-3 --warm-up 0.05 \
    --weight-decay 0.1 --clip 1 --record-every "$every" \
    --eval-every $((10 * every)) --eval-batches 16 --name "gpu-$name" \
    -o "$work/$name.db" || code=$?
[ $code -le 1 ] || exit $code # 1 means that the loss is no longer finite, a valid result
[ ! -x "$BUILD/entropy-scan" ] || "$BUILD/entropy-scan" "$work/$name.db"
