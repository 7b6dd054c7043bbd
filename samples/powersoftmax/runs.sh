#!/bin/sh
# Trains small models with PowerSoftmax and other kinds of attention, each into a
# separate run file:
#
#   runs.sh continual|study|scratch TOKENS FOLDER [OPTION...]
#
#   continual  trains a softmax model, then continues from its checkpoint with softmax, with
#              scaled ReLU, with PowerSoftmax, and with PowerSoftmax and, after a tenth of the
#              steps, range losses; this is the paper's recipe, scaled down
#   study      trains from scratch with several values of p and epsilon, and the stable and
#              plain form in fp32 and emulated fp16
#   scratch    trains PowerSoftmax and scaled ReLU from scratch, for the total number of steps of
#              `continual`
#
# Existing runs are skipped. Environment: SEEDS="1 2 3"; BASE and MORE, the steps before and after
# the checkpoint; STEPS, the steps of the study; ONLY='p*', a pattern of the names of the runs to
# train. The options are passed to every training run.
set -eu
[ $# -ge 3 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
what=$1 tokens=$2 to=$3
shift 3
train=${ENTROPY_TRAIN:-entropy-train}
size='--n-layer 3 --n-head 4 --d-model 64 --ctx 64 --batch 16 --threads 1'
seen='--record standard --record-every 25 --eval-every 150 --eval-batches 20'
base=${BASE:-1500} more=${MORE:-300} steps=${STEPS:-300}
short=$((more / 10))
mkdir -p "$to"

# Usage: run NAME SEED OPTION... Trains a model. A non-finite loss, which makes the
# training fail, is a valid result.
run() {
    name=$1-s$2 seed=$2
    shift 2
    case ${name%-s*} in ${ONLY:-*}) ;; *) return ;; esac
    [ -s "$to/$name.db" ] && return
    echo "$name"
    "$train" --data "$tokens" --out "$to/$name.db" --seed "$seed" $size $seen --quiet "$@" ||
        [ -s "$to/$name.db" ]
}

# Usage: on NAME SEED CHECKPOINT ITS_STEPS ARCH STEPS OPTION... Continues from a
# checkpoint in this folder, with batches on which the checkpoint has not been trained.
on() {
    name=$1 seed=$2 from=$to/$3-s$2/$3-s$2-$(printf %08d "$4").safetensors arch=$5 n=$6
    shift 6
    run "$name" "$seed" --seed $((seed + 100)) --init "$from" --arch "$arch" --steps "$n" --lr 3e-4 "$@"
}

keep() { echo "--checkpoint $to/$1-s$2"; }

case $what in
continual)
    for s in ${SEEDS:-1 2}; do
        run sm "$s" --arch SM+LN+G --steps "$base" $(keep sm "$s") "$@"
        on on-sm "$s" sm "$base" SM+LN+G "$more" "$@"
        on on-ra "$s" sm "$base" RA+LN+G "$more" $(keep on-ra "$s") "$@"
        on on-psm "$s" sm "$base" 'PSM(4)+LN+G' "$more" $(keep on-psm "$s") "$@"
        on on-psm-first "$s" sm "$base" 'PSM(4)+LN+G' "$short" $(keep on-psm-first "$s") "$@"
        # First weight the range losses as the paper does for a model of 70M parameters, then use
        # larger weights and range losses for norms, too.
        on on-psm-range "$s" on-psm-first "$short" 'PSM(4)+LN+G' $((more - short)) \
            --range-attn 1e-4 --range-act 1e-4 $(keep on-psm-range "$s") "$@"
        on on-psm-large "$s" on-psm-first "$short" 'PSM(4)+LN+G' $((more - short)) \
            --range-attn 1e-2 --range-act 1e-2 --range-norm 1e-3 $(keep on-psm-large "$s") "$@"
    done ;;
study)
    for s in ${SEEDS:-1 2}; do
        for p in 2 4 6 8 12 16; do
            run p$p "$s" --arch "PSM($p)+LN+G" --steps "$steps" "$@"
        done
        run softmax "$s" --arch SM+LN+G --steps "$steps" "$@"
        run relu "$s" --arch RA+LN+G --steps "$steps" "$@"
    done
    for s in ${SEEDS:-1 2}; do
        for e in 1e-5 1e-4 1e-2 1e-1 1; do
            run eps$e "$s" --arch "PSM(4,$e)+LN+G" --steps "$steps" "$@"
        done
        for e in 1e-5 1e-4 1e-3 1e-2 1e-1 1; do
            run plain$e "$s" --arch "PSM(4,$e,plain)+LN+G" --steps "$steps" "$@"
        done
        for p in 4 12; do
            for how in none fp16; do
                run forms-$p-$how-plain "$s" --arch "PSM($p,plain)+LN+G" --emulate $how --steps "$steps" "$@"
                run forms-$p-$how-epsilon "$s" --arch "PSM($p,1e-3,plain)+LN+G" --emulate $how --steps "$steps" "$@"
                run forms-$p-$how-stable "$s" --arch "PSM($p)+LN+G" --emulate $how --steps "$steps" "$@"
                run forms-$p-$how-length "$s" --arch "PSM($p,length)+LN+G" --emulate $how --steps "$steps" "$@"
            done
        done
    done ;;
scratch)
    for s in ${SEEDS:-1 2}; do
        run psm "$s" --arch 'PSM(4)+LN+G' --steps $((base + more)) "$@"
        run ra "$s" --arch RA+LN+G --steps $((base + more)) "$@"
    done ;;
*) echo "runs.sh: unknown study '$what': expected continual, study or scratch" >&2; exit 2 ;;
esac
