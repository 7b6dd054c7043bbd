#!/usr/bin/env bash
# Writes samples/configs/*.conf from table.txt: each line at the published size
# and, as -tiny, at one that trains on two cores in minutes.
#
#   make.sh [DIR]   where to (default: this folder)
set -euo pipefail
cd "$(dirname "$0")"
out=${1:-.}

# Options of the published sizes. Steps follow from the tokens of the corpus. GPT-2 has
# the dropout of Hugging Face's configuration, on code; on books it is trained as
# Languini (Stanic et al. 2023) does: no dropout, decay, clipping or warm-up. The
# simplified block, which the trainer has on the CPU alone, is without dropout
# and half precision.
published() { # SIZE
    echo batch=128 accumulate=4 lr=1e-3 lambda=1e-5 t-init=0.01 \
        precision=fp16 record-every=100 eval-every=1000 eval-batches=64
    case $1 in
    gpt2-l12-*) echo family=gpt2 n-layer=12 n-head=12 d-model=768 ;;
    gpt2-l18-*) echo family=gpt2 n-layer=18 n-head=12 d-model=768 ;;
    sas-l12-*) echo family=sas n-layer=12 n-head=12 d-model=768 precision= ;;
    sas-l18-*) echo family=sas n-layer=18 n-head=12 d-model=768 precision= ;;
    pythia-l6-*) echo family=pythia n-layer=6 n-head=8 d-model=512 ;;
    *) echo "table.txt: no model is called $1" >&2 && return 1 ;;
    esac
    case $1 in
    gpt2-*-t512) ;;
    gpt2-*) echo dropout=0.1 ;;
    esac
    case $1 in
    *-t128) echo ctx=128 steps=32000 ;;
    *-t256) echo ctx=256 steps=16000 ;;
    *-t512)
        echo ctx=512 vocab=16384 batch=64 steps=36529 lr=6e-4 lr-min=6e-6 \
            schedule=cosine warm-up=0 beta2=0.95 weight-decay=0 clip=0 \
            t-init=0.1 lambda=5e-5
        ;;
    *) echo "table.txt: no size is called $1" >&2 && return 1 ;;
    esac
}

corpus() { # SIZE
    case $1 in
    *-t512) echo 'books, 4.8 B tokens (2.4 B: steps = 18265; 1.2 B: steps = 9132); a vocabulary of 16,384' ;;
    *) echo 'code, 2.1 B tokens; a vocabulary of 50k' ;;
    esac
}

# The same layers and heads in an eighth of the width or less, a quarter of the
# context, the schedule and optimiser of code, no dropout in so few tokens. lambda times the rows of a micro-batch (B T) stays as it was. Temperatures
# begin at 1: heads of 4 dimensions do not come back from 1e-2.
tiny() { # SIZE
    echo batch=8 accumulate=1 lr=7e-3 lambda=6.4e-4 t-init=1 steps=1600 \
        record-every=5 eval-every=1600 eval-batches=256 after-nan=50 \
        dropout= precision= vocab= lr-min= schedule= beta2= warm-up=0.05 \
        weight-decay=0.1 clip=1
    case $1 in
    gpt2-* | sas-*) echo d-model=48 ;;
    pythia-*) echo d-model=64 ;;
    esac
    case $1 in
    *-t128) echo ctx=32 ;;
    *-t256) echo ctx=64 ;;
    *-t512) echo ctx=128 lambda=0.0032 ;;
    esac
}

# EReg(SM(t)+ScFuFFNi6) gamma=0.3 -> ereg-sm-t-scfuffni6-gamma0.3
name_of() { # ARCH [OPTION=VALUE...]
    local name=${1,,}
    name=${name//[^a-z0-9.]/-}
    while [[ $name == *--* ]]; do name=${name//--/-}; done
    name=${name%-}
    shift
    for option; do name+=-${option/=/}; done
    echo "$name"
}

# Options that only some architectures read.
is_read() { # OPTION ARCH
    case $1 in
    lambda | gamma | theta-init | ereg-reduce) [[ $2 == EReg* ]] ;;
    t-init) [[ $2 == *'SM(t)'* ]] ;;
    slope-decay) [[ $2 == *'LR(layer'* || $2 == *'LR(global'* ]] ;;
    *) true ;;
    esac
}

order=(family n-layer n-head d-model ctx vocab final-norm batch accumulate steps lr
    lr-min schedule warm-up dropout beta2 weight-decay slope-decay clip bias t-init theta-init gamma lambda
    ereg-reduce seed record-every eval-every eval-batches after-nan
    precision)

write() { # ARCH COMMENT OPTION=VALUE...: a file; later options override
    local arch=$1 comment=$2 option
    local -A value=([warm-up]=0.05 [weight-decay]=0.1 [slope-decay]=true
        [clip]=1 [bias]=qk [theta-init]=0.5 [gamma]=0.2 [ereg-reduce]=token
        [seed]=1)
    shift 2
    for option; do value[${option%%=*}]=${option#*=}; done
    printf '%s\n\narch = %s\n' "$comment" "$arch"
    for option in "${order[@]}"; do
        if [ -n "${value[$option]:-}" ] && is_read "$option" "$arch"; then
            echo "$option = ${value[$option]}"
        fi
    done
}

trim() { sed -E 's/^ +| +$//g' <<<"$1"; }

n=0
while IFS='|' read -r size arch figure extra; do
    size=$(trim "$size") arch=$(trim "$arch")
    figure=$(trim "$figure") extra=$(trim "${extra:-}")
    options=$(published "$size")
    small=$(tiny "$size")
    file=$size-$(name_of "$arch" $extra)
    row="# $arch;${extra:+ $extra;} $size"
    made='# Made by make.sh from table.txt.'
    write "$arch" "$row; published: $figure
# Corpus: $(corpus "$size").
$made" $options $extra >"$out/$file.conf"
    write "$arch" "$row, tiny; published at full size: $figure
# Corpus: any of a few MB, as entropy-corpus makes it.
$made" $options $small $extra >"$out/$file-tiny.conf"
    n=$((n + 2))
done < <(grep -vE '^(#|$)' table.txt)
echo "$n configurations" >&2
