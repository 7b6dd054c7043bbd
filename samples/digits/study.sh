#!/usr/bin/env bash
# Trains models with softmax and PowerSoftmax on scikit-learn's digits, with three seeds each. Runs
# that already exist in FOLDER are skipped. A run takes a few seconds on one thread.
#
#     study.sh DIGITS.tok FOLDER [ARCH...]      (entropy-train in the PATH)
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: study.sh DIGITS.tok FOLDER [ARCH...]" >&2; exit 2; }
data=$1 folder=$2
shift 2
[ $# -gt 0 ] || set -- SM+LN+G 'PSM(4)+LN+G' 'PSM(2)+LN+G' 'PSM(6)+LN+G'
mkdir -p "$folder"
for arch; do
    for seed in 1 2 3; do
        out=$folder/$(tr -d '()+' <<<"$arch" | tr '[:upper:]' '[:lower:]')-$seed.db
        [ ! -e "$out" ] || continue
        entropy-train --family vit --arch "$arch" --data "$data" --out "$out.part" -q \
            --image-size 8 --patch-size 2 --classes 10 --n-layer 4 --n-head 4 \
            --d-model 64 --mlp-mult 2 --threads 1 --batch 32 --steps "${STEPS:-600}" --lr 1e-3 \
            --eval-every "${EVERY:-50}" --eval-batches 11 --seed "$seed" \
            --name "$arch-$seed"
        mv "$out.part" "$out"
    done
done
