#!/usr/bin/env bash
# Simplifies a small model step by step as in AERO (arXiv 2410.13060), from SM+LN+G to
# SM+ScFuFFNi6, and trains it after each step. If --init accepts the weights of the
# previous step for the new architecture, training starts from them; otherwise it starts
# from random weights. entropy-train fuse multiplies the matrices of FFNs and drops FFNs.
# Models that exist in FOLDER are not trained again.
#
#     samples/aero/path.sh FOLDER [STEPS [BRIEF [OPTION...]]]
#
# A model is trained for STEPS steps from random weights and for BRIEF steps from
# earlier weights, with the options in path.conf and OPTION... Prints a table, and
# draws steps.png (perplexity, FLOPs and modelled communication of each step) and
# pareto.png.
set -euo pipefail
config=$(realpath "$(dirname "$0")/path.conf")
folder=${1:?a folder for the corpus, the runs and the checkpoints}
steps=${2:-800}
brief=${3:-100}
options=(--config "$config" "${@:4}")
mkdir -p "$folder"
cd "$folder"
[ -e python.tok ] || entropy-corpus -q -o python.tok

train() { # NAME BEGIN STEPS OPTION...: makes NAME.db and the checkpoint in NAME/; BEGIN is a note
    rm -rf "$1" "$1.db"
    entropy-train "${options[@]}" --data python.tok -o "$1.db" -q --steps "$3" --eval-every "$3" \
        --checkpoint "$1" "${@:4}" >&2
    echo "$2" >"$1/begin"
}
retrain() { # ARCH: from the weights of the last model, or from the beginning
    local weights=("$last"/*.safetensors)
    if [ -e "$1/begin" ]; then
        :
    elif [ -e "${weights[0]}" ] && entropy-train "${options[@]}" --data python.tok --no-record --dry-run \
        --init "${weights[0]}" --arch "$1" >/dev/null 2>refusal.txt; then
        train "$1" "$last" "$brief" --init "${weights[0]}" --arch "$1" --lr 1e-3
    else
        sed "s/^.*: the weights/$1 is another function than the last model: the weights/" refusal.txt >&2
        train "$1" 'random weights' "$steps" --arch "$1"
    fi
    last=$1
}
simplify() { # ARCH OPTION...: from the weights that `fuse` computes from the last model
    if [ ! -e "$1/begin" ]; then
        local begin="fuse ${*:2}"
        rm -f fused.safetensors
        entropy-train fuse "$last" fused.safetensors --data python.tok --batches 32 "${@:2}" >"$1.txt"
        train "$1" "${begin% }" "$brief" --init fused.safetensors --lr 1e-3
    fi
    last=$1
}
last=none
>refusal.txt
for arch in SM+LN+G SM+LN+R SM+R SM+ScFFN; do
    retrain $arch
done
simplify SM+ScFuFFN
simplify SM+ScFuFFNi2 --drop 10-11
simplify SM+ScFuFFNi4 --drop 8-11
simplify SM+ScFuFFNi6 --drop 6-11
# For comparison, SM+ScFFN is trained further, unchanged, for the number of steps that led
# from it to SM+ScFuFFNi6.
[ -e longer/begin ] || train longer SM+ScFFN $((4 * brief)) --init SM+ScFFN/*.safetensors --lr 1e-3

path=(SM+LN+G SM+LN+R SM+R SM+ScFFN SM+ScFuFFN SM+ScFuFFNi2 SM+ScFuFFNi4 SM+ScFuFFNi6)
echo '| model | begins with | perplexity at the beginning | after training | FLOPs, 1e6: FFN | attention | GB |'
echo '| --- | --- | --- | --- | --- | --- | --- |'
for name in "${path[@]}" longer; do
    ppl() { entropy-scan export "$name.db" --series ce --phase eval -o - | awk -F, "$1"' { printf "%.2f", exp($4) }'; }
    entropy-scan cost "$name.db" --json | tr '{,' '\n\n' | awk -F: -v name="$name" -v begin="$(cat "$name/begin")" \
        -v first="$(ppl '$1 == 0')" -v last="$(ppl '$1 ~ /^[1-9]/')" '
        /"ffn"/ { ffn = $2 / 1e6 }
        /"attention"/ { attention = $2 / 1e6 }
        /"modelled"/ && !gb { gb = $2 / 1e9 }
        END { printf "| %s | %s | %s | %s | %.1f | %.1f | %.2f |\n", name, begin, first, last, ffn, attention, gb }'
done
entropy-scan cost "${path[@]/%/.db}" --figure perplexity+flops+communication --size 1120x1300 -o steps.png
entropy-scan draw pareto "${path[@]/%/.db}" --cost communication -o pareto.png
