#!/usr/bin/env bash
# Draws the figures of the four papers from runs of small models, and writes one page that
# shows them with the papers' numbers. `make paper-figures` calls this script. BUILD is the
# folder of the programs; the page is BUILD/paper-figures/index.html. It takes a minute on two
# idle cores, mostly for training; existing runs are reused. figure-runs.sh describes the
# variables.
#
# The GPT-2 models have the papers' numbers of layers and heads, a width of 48 and 32 tokens.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
out=${FIGURE_DIR:-$build/paper-figures}
steps=${FIGURE_STEPS:-600}
page=$out/index.html
runs=$out/runs
results=samples/results
. samples/figure-runs.sh

# --- runs --------------------------------------------------------------------

jobs=()

# Waits until fewer than N training runs are in progress.
await() { # N
    while [ ${#jobs[@]} -ge "$1" ]; do
        wait "${jobs[0]}"
        jobs=("${jobs[@]:1}")
    done
}

# Trains a model in the background. At most two models are trained at a time.
job() { # NAME OPTION...
    [ ! -e "$runs/$1.db" ] || return 0
    await 2
    train "$@" --threads 1 &
    jobs+=($!)
}

gpt() { # NAME ARCH OPTION...
    job "$1" --config=samples/demo.conf --batch 8 --arch "$2" --lr 5e-3 "${@:3}"
}

power() { # NAME ARCH OPTION...
    job "$1" --arch="$2" --n-layer 3 --n-head 4 --d-model 64 --ctx 64 --batch 8 --lr 1e-3 \
        --record standard --maps 32 "${@:3}"
}

corpus
gpt ln-g SM+LN+G
gpt ln-r SM+LN+R
gpt ln SM+LN
gpt g SM+G
gpt r SM+R
gpt sm SM
gpt broken SM --lr 1e-2 --emulate fp16
gpt wnorm 'SM+WNorm(FFN)'
gpt snorm 'SM+SNorm(FFN)'
gpt scffn SM+ScFFN
gpt scfuffn SM+ScFuFFN
gpt scfuffni6 SM+ScFuFFNi6
gpt scfuffni7 SM+ScFuFFNi7 --lr 2e-2 --emulate fp16
gpt slopes-layer 'SM+LR(layer)'
gpt slopes-global 'SM+LR(global)'
gpt sas SM+ScFFN --family sas
gpt eregi6 'EReg(SM(t)+ScFuFFNi6)' --lambda 6.4e-4
for gamma in 0 0.1 0.2 0.3; do
    gpt gamma$gamma 'EReg(SM(t)+ScFuFFN)' --lambda 6.4e-4 --gamma $gamma
done
for arch in SM+LN+G SM+LN+R SM+ScFFN SM+ScFuFFN; do
    job "pythia-$arch" --preset=pythia-l6-t128-sm-ln-g-tiny --arch "$arch"
done
power softmax SM+LN+G
power relu RA+LN+G
for p in 2 4 12; do
    power p$p "PSM($p)+LN+G"
done
power plain12 'PSM(12,1e-3,plain)+LN+G'
power plain4 'PSM(4,1e-3,plain)+LN+G'
power epsilon-low 'PSM(4,1e-5,plain)+LN+G'
power epsilon-high 'PSM(4,1e-1,plain)+LN+G'
await 1

# --- pictures and their page -------------------------------------------------

begin_page() {
    cat >"$page" <<'HTML'
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8"><title>The papers' figures</title>
<style>
body { font: 15px/1.4 "DejaVu Sans", sans-serif; margin: 2em auto; max-width: 1500px; color: #222 }
figure { margin: 2.5em 0; padding: 0 }
figure img { max-width: 100% }
figcaption b { margin-right: .7em }
.missing { color: #666 }
</style>
<h1>The papers' figures</h1>
<p>Drawn from runs of small models, which show the form of each figure and not its numbers: 12 layers of
12 heads, width 48 and 32 tokens instead of width 768 and 128 tokens, and a few hundred steps on Python's
standard library. Drawings of architectures are not repeated.</p>
<p>AERO: arXiv 2410.13060. EGA: Entropy-Guided Attention for Private LLMs. RR: ReLU's Revival.
PS: Power-Softmax.</p>
HTML
}

escape() { sed 's/&/\&amp;/g; s/</\&lt;/g'; }

# Adds a picture to the page. NUMBERS are the figure numbers that it has in the
# papers.
show() { # NUMBERS CAPTION FILE
    printf '<figure><img alt="" src="data:image/svg+xml;base64,%s">\n' "$(base64 -w0 <"$3")"
    printf '<figcaption><b>%s</b>%s</figcaption></figure>\n' "$1" "$(escape <<<"$2")"
} >>"$page"

# Adds a figure drawn by entropy-scan to the page, or the reason why the figure cannot
# be drawn.
figure() { # NUMBERS CAPTION ARGUMENT...
    local file=$out/$((++n)).svg said
    if said=$("$build/entropy-scan" "${@:3}" -o "$file" 2>&1 >/dev/null); then
        show "$1" "$2" "$file"
    else
        say "$1: $said"
        missing "$1" "$2 $said"
    fi
}

missing() { # NUMBERS REASON
    printf '<figure class="missing"><b>%s</b>%s</figure>\n' "$1" "$(escape <<<"$2")" >>"$page"
}

heading() { printf '<h2>%s</h2>\n' "$1" >>"$page"; }

names() { printf "$runs/%s.db\n" "$@"; }

n=0
say "drawing"
begin_page
mapfile -t six < <(names ln-g ln-r ln g r sm)
mapfile -t norms < <(names wnorm snorm scffn)
mapfile -t ereg < <(names scfuffn scfuffni6 gamma0.2 eregi6)
mapfile -t gammas < <(names gamma0 gamma0.1 gamma0.2 gamma0.3)
mapfile -t pythia < <(names pythia-SM+{LN+G,LN+R,ScFFN,ScFuFFN})

heading 'Softmax, LayerNorm and activations'
figure 'AERO 3a, RR 2a' 'Share of heads in each quarter of the largest entropy.' draw bands "${six[@]}"
figure 'AERO 3b' 'Loss.' draw loss --smooth 20 "${six[@]}"
figure 'AERO 5, EGA 2, RR 1' 'Entropy of each head.' draw heatmap "${six[@]::2}" "${six[@]:3:2}" --letters
figure 'AERO 12, EGA 4, RR 4' 'Mean entropy of each layer.' draw curves "${six[@]}" --letters
figure 'AERO 6, RR 5' 'SM in half precision at twice the rate: NaN in the activations, and the last finite entropies.' \
    draw nans+heatmap "$runs/broken.db" --letters
figure 'AERO 4, RR 3' 'Learnable slopes of the leaky ReLU, by layer and global.' \
    draw slopes "$runs/slopes-layer.db" "$runs/slopes-global.db" --letters

heading 'Normalised and scaled FFNs'
figure 'AERO 7' 'Entropy of each head with weight normalisation, spectral normalisation and scaling.' \
    draw heatmap "${norms[@]}" --letters
figure 'AERO 13' 'Mean entropy of each layer.' draw curves "${norms[@]}" --letters
figure 'AERO 16' 'Share of heads in each quarter.' draw bands "${norms[@]}"
figure 'AERO 11' 'Learnt scales of the FFN.' draw scales "$runs/scffn.db" "$runs/scfuffn.db"
figure 'AERO 17' 'Without its last seven FFNs, in half precision at four times the rate.' \
    draw nans+curves+heatmap "$runs/scfuffni7.db" --letters

heading 'Entropy regularisation'
figure 'AERO 9' 'Share of heads in each quarter.' draw bands "${ereg[@]}"
figure 'AERO 14' 'Mean entropy of each layer.' draw curves "${ereg[@]}" --letters
figure 'AERO 10, EGA 5' 'Learnt thresholds.' draw thresholds "$runs/gamma0.2.db"
figure 'AERO 18, EGA 6' 'Share of heads in each quarter by the tolerance gamma.' \
    draw bands "${gammas[@]}" --sort gamma
figure 'AERO 19, EGA 7' 'Mean entropy of each layer by gamma.' draw curves "${gammas[@]}" --sort gamma --letters

heading 'Cost'
figure 'AERO 1' 'Perplexity, FLOPs and modelled communication of the steps.' \
    cost "$runs"/{ln-g,ln-r,r,scffn,scfuffn,scfuffni6}.db --figure perplexity+flops+communication --for page
figure 'AERO 1' 'Perplexity against the modelled communication.' \
    draw pareto --cost communication "${six[@]::2}" "$runs/scffn.db" "${ereg[@]}" "$runs/sas.db"
figure 'AERO 15' 'The same for Pythia.' draw pareto --cost communication "${pythia[@]}"
figure 'AERO 20' 'FLOPs of FFN and attention by context length: GPT-2.' \
    cost gpt2 gpt2-medium gpt2-large gpt2-xl --figure flops --over ctx --shares
figure 'AERO 21' 'The same for Pythia.' \
    cost pythia-70m pythia-160m pythia-410m pythia-1b pythia-1.4b pythia-2.8b --figure flops --over ctx --shares

heading 'PowerSoftmax'
figure 'PS 1' 'Weights by softmax and PowerSoftmax.' cost --figure weights
show 'PS 3' 'Time of an encrypted layer by operation, measured once (samples/encrypted).' $results/encrypted-time.svg
figure 'PS 4, PS 12' 'Loss of softmax, PowerSoftmax and scaled ReLU.' \
    draw loss --smooth 20 "$runs/softmax.db" "$runs"/p{2,4,12}.db "$runs/relu.db"
show 'PS 5' 'Accuracy on images of digits (samples/digits); the paper has larger images, which are not here.' \
    $results/digits.svg
figure 'PS 6' 'The plain and the stable form, p = 12.' draw loss --smooth 20 "$runs/p12.db" "$runs/plain12.db"
figure 'PS 7' 'Error of a polynomial inverse.' cost --figure inverse
figure 'PS 8' 'Mean attention distance of each layer.' \
    draw curves --series distance --phase eval "$runs/softmax.db" "$runs"/p{2,12}.db --letters
figure 'PS 9, PS 10, PS 11' 'Mean attention maps of each layer.' draw maps "$runs/softmax.db" "$runs/p4.db"
figure 'PS 13' 'Loss by epsilon, plain form, p = 4.' \
    draw loss --smooth 20 "$runs"/{epsilon-low,plain4,epsilon-high}.db
echo '</html>' >>"$page"
say "look at $page"
