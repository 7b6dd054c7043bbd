#!/usr/bin/env bash
# Trains the same small model on real Python source with softmax, PowerSoftmax, and
# PowerSoftmax with range losses, then evaluates the PowerSoftmax models with
# polynomials in place of nonlinear functions. Models that already exist in FOLDER are
# not trained again.
#
#     samples/polynomial/study.sh FOLDER [STEPS [BATCHES]]    (a table on standard output)
set -euo pipefail
folder=${1:?a folder for the corpus, the runs and the checkpoints}
steps=${2:-1000}
batches=${3:-64} # batches of a probe
mkdir -p "$folder"
cd "$folder"
[ -e python.tok ] || entropy-corpus -q -o python.tok

size=(--n-layer 3 --n-head 4 --d-model 48 --ctx 48 --batch 8 --lr 3e-3 --seed 1 --threads 2)
polynomial=(--inference polynomial --poly-batches $((batches < 16 ? batches : 16)))
ranges=(--range-attn 1e-3 --range-act 1e-3 --range-norm 1e-3)

train() { # NAME ARCH OPTION...: makes the run NAME.db and its checkpoint
    local name=$1 arch=$2
    [ -e "$name/done" ] && return
    rm -rf "$name" "$name.db"
    entropy-train --arch "$arch" --data python.tok -o "$name.db" --name "$name" --record standard -q \
        --steps "$steps" --eval-every $((steps / 10)) --eval-batches 8 --checkpoint "$name" "${size[@]}" "${@:3}" >&2
    touch "$name/done"
}
train softmax SM+LN+GS
train plain 'PSM(4,0.01,plain)+LN+GS' "${polynomial[@]}"
train ranges 'PSM(4,0.01,plain)+LN+GS' "${polynomial[@]}" "${ranges[@]}"
train stable 'PSM(4)+LN+GS' "${polynomial[@]}"

probe() { # NAME OPTION...
    entropy-train probe "$1"/*.safetensors --data python.tok --no-record --batches "$batches" --threads 2 "${@:2}" ||
        [ $? = 1 ] # the loss is not finite, which is a valid result
}
perplexity() { sed -nE "s/^$1.*perplexity ([^ ,]+).*/\1/p" probe.txt; }

echo '| model | exact | polynomial | factors | outside: rows, GELU, norms | error of a weight | levels |'
echo '| --- | --- | --- | --- | --- | --- | --- |'
probe softmax >probe.txt
echo "| softmax | $(perplexity 'loss \(cross') | - | - | - | - | - |"
row() { # NAME LABEL OPTION...
    probe "$1" "${polynomial[@]}" "${@:3}" >probe.txt
    awk -v label="$2" -v exact="$(perplexity exact)" -v found="$(perplexity polynomial)" '
        $2 == "inverse" {
            factors = factors (factors ? " " : "") $(NF - 1)
            rows += $6
            if ($8 ~ /n/ || $8 + 0 > error + 0 && error !~ /n/) error = $8 # inf, NaN
        }
        $2 == "gate" { act += $6 }
        $2 == "norm" { norms += $(NF - 5) }
        /^levels of a layer/ { levels = $NF }
        END { print "| " label " | " exact " | " found " | " factors " | " rows + 0 ", " act + 0 ", " norms + 0 " | " error " | " levels " |" }
    ' probe.txt
}
for name in plain ranges stable; do
    row $name "$name"
    for factors in 8 12 16; do
        row $name "$name, $factors factors" --poly-factors $factors
    done
done
row ranges 'ranges, GELU of degree 7' --poly-degree 7
row ranges 'ranges, intervals as calibrated' --poly-margin 1
