#!/usr/bin/env bash
# Tests entropy-scan cost: tables, JSON and figures of runs and architectures,
# and refused inputs.
. tests/support/tap.sh
plan_dir
cp samples/runs/sm-ln-g.db samples/runs/sm.db "$dir"
cd "$dir"

# The expected FLOPs, GB, minutes and savings come from table 4 of AERO.
output 'an architecture has the published row' \
    '^SM\+LN\+G +12 +768 +128 +14\.5 +7\.7 +25\.3 +25\.0-25\.7 +8\.31 ' "$scan" cost SM+LN+G
output 'savings are compared with the first model, with intervals' '^SM\+LN\+R .* 2\.68x +2\.62-2\.73 +1\.36x +1\.19-1\.54$' "$scan" cost SM+LN+G SM+LN+R
output 'the table says that numbers are modelled' "modelled from AERO's tables 4 to 7" "$scan" cost SM
output 'the inventory is written as published' \
    '^  SM: 144 x R\^128x128; LN: 24 x R\^128x768; G: 12 x R\^128x3072$' "$scan" cost SM+LN+G --inventory
"$scan" cost 'SM+LN[0-1]+G+ScFFN[2-3]+ScFuFFN[4-11]' --inventory >parts
file_has 'parts of some layers are counted in these layers' parts \
    '^  SM: 144 x R\^128x128; LN: 5 x R\^128x768; G: 2 x R\^128x3072$' \
    'FFN fused: 8 x R\^128x768 R\^768x768; FFN in: 4 x R\^128x768 R\^768x3072; FFN out: 4 x' \
    '^SM\+LN\[0-1\]\+G\+ScFFN\[2-3\]\+ScFuFFN\[4-11\] +12 +768 +128 +6\.0 +7\.7 '
output 'the last norm of such a model can be left out' 'LN: 4 x R\^128x768; G: 12 x' \
    "$scan" cost 'SM+LN[0-1]+G' --final-norm off --inventory
output 'layers without FFN have none of its parts' '^  SM: 144 x R\^128x128; LN: 18 x R\^128x768; G: 6 x R\^128x3072$' \
    "$scan" cost 'SM+LN+G+NoFFN[3-4]+NoFFN[8-11]' --inventory
output 'an attention-only model has no FLOPs of FFNs' '^SM\+LN\+NoFFN +12 +768 +128 +0 +7\.7 ' "$scan" cost SM+LN+NoFFN
output 'SwiGLU in a later layer is not modelled' 'not modelled: no published figures for SwiGLU' \
    "$scan" cost 'SM+G[0]+SwiGLU[3]'
exits 'a part of a layer that the model lacks is refused' 2 'names layers beyond the 12 of the model' \
    "$scan" cost 'SM+LN[12]'
output 'sizes come from the command line' '^SM\+R +5 +96 +7 ' \
    "$scan" cost SM+R --n-layer 5 --d-model 96 --n-head 3 --ctx 7
output 'a shape outside of the published range is reported' '1 of 1 models are outside' "$scan" cost SM --d-model 48
output 'PowerSoftmax is counted, and not modelled' \
    '^PSM\(4\) +12 +768 +128 +14\.5 +7\.7( +-){8}$' "$scan" cost 'PSM(4)'
output 'a model without a cost has a reason' '^PSM\(4\): not modelled: no published' "$scan" cost 'PSM(4)'

output 'RMSNorm and SwiGLU are counted, with three matrices, and not modelled' \
    '^SM\+RN\+SwiGLU +12 +768 +128 +21\.7 +7\.7 +- ' "$scan" cost SM+RN+SwiGLU
output 'by name' 'no published figures for RMSNorm$' "$scan" cost SM+RN+SwiGLU
output 'a run has its shape and perplexity' '^sm-ln-g\.db +SM\+LN\+G +12 +48 +32 +8\.312 ' \
    "$scan" cost sm-ln-g.db sm.db
output 'an architecture next to runs has no perplexity' '^- +SM\+R +12 +768 +128 +- ' "$scan" cost sm.db SM+R
output 'a size replaces the run'\''s' '^sm\.db +SM +12 +48 +256 ' "$scan" cost sm.db --ctx 256

json() { "$scan" cost "$@" --json | python3 -c "import json, sys
models = json.load(sys.stdin)['models']
$program"; }
program='
gelu, relu, power = models
assert gelu["inventory"][0] == {"kind": "SM", "n": 144, "rows": 128, "columns": 128}
assert gelu["counts"]["GELU"] == 12 * 128 * 3072 and gelu["counts"]["ReLU"] == 0
cost = gelu["communication_bytes"]
assert cost["low"] < cost["modelled"] < cost["high"]
assert abs(sum(cost["parts"].values()) / cost["modelled"] - 1) < 1e-12
saving = relu["saving"]["communication"]["modelled"]
assert abs(saving - cost["modelled"] / relu["communication_bytes"]["modelled"]) < 1e-12
assert gelu["saving"]["latency"] == {"modelled": 1, "low": 1, "high": 1}
assert gelu["eval_ppl"] is None and gelu["eval_ppl_state"] == "missing"
assert power["unmodelled"].endswith("PowerSoftmax")
assert power["latency_seconds"]["modelled"] is None
assert power["latency_seconds"]["modelled_state"] == "missing"
assert power["counts"]["softmax"] == 144 * 128 * 128'
check '--json has counts, parts, intervals and states' json SM+LN+G SM+LN+R 'PSM(4)+LN+G'
program='assert models[0]["counts"]["LayerNorm"] == 128 * 768 and models[0]["counts"]["linear"] == \
    128 * 12 * (4 + 2) * 768, models'
check 'the simplified block has two matrices and a last norm' json SM+ScFuFFN --simplified --final-norm on

# For simplified blocks, the published 6.83 and 6.30 GB include only one of the two
# LayerNorms.
output 'a simplified block has its own name and LayerNorms' '^SAS:SM\+ScFFN +12 +768 +128 +14\.5 +3\.9 +6\.89 ' \
    "$scan" cost SM+LN+G SAS:SM+ScFFN SM+ScFFN
output 'a normal block beside it has none' '^SM\+ScFFN +12 +768 +128 +14\.5 +7\.7 +6\.99 ' "$scan" cost SAS:SM+ScFFN SM+ScFFN
output 'the cost as AERO counts it is shown beside' '^SAS:SM\+ScFuFFNi1: AERO counts one of its two LayerNorms: 6\.26 GB' \
    "$scan" cost SAS:SM+ScFuFFNi1
output 'the inventory has both LayerNorms' '^  SM: 144 x R\^128x128; LN: 2 x R\^128x768$' "$scan" cost SAS:SM+ScFFN --inventory
without_note() { ! "$scan" cost "$@" | grep -q 'AERO counts'; }
check 'the note on two LayerNorms is left out with LN' without_note SAS:SM+LN+G
check 'and if there is one' without_note SAS:SM+ScFFN --final-norm off
exits 'an unknown architecture of simplified blocks is refused' 2 'SAS:X: neither a file' "$scan" cost SAS:X
printf '0.5,1\n1.5,2\n' >sas.csv
"$scan" import -q sas.csv -o sas.db --arch SM+ScFFN --ctx 16 &&
    sqlite3 sas.db "UPDATE run SET family = 'sas', d_model = 8, vocab = 30" || exit 1
output 'a run of simplified blocks is recognised' '^ +SM: 4 x R\^16x16; LN: 2 x R\^16x8$' "$scan" cost sas.db --inventory --salvage
output 'its row has the name of the block' 'SAS:SM\+ScFFN' "$scan" cost sas.db --salvage

# Makes a run without a vocabulary, a run without a shape, and a run whose
# architecture has another notation.
printf '0.5,1\n1.5,2\n' >run.csv
"$scan" import -q run.csv -o bare.db --arch SM --ctx 16 || exit 1
"$scan" import -q run.csv -o other.db --arch LlamaForCausalLM --ctx 16 || exit 1
exits 'a run without a width is reported' 3 'bare\.db: a cost needs the run.s d_model' "$scan" cost bare.db
exits 'an architecture of another notation is reported' 3 'other\.db: a cost needs' "$scan" cost other.db
exits 'the other inputs are shown' 4 'bare\.db: a cost needs' "$scan" cost bare.db SM
exits 'the reason why an architecture is refused is given' 2 "SM\+X: neither a file nor a model; architecture part 'X': unknown" "$scan" cost SM+X
output 'a published model has its size' '^Pythia-1\.4B +24 +2048 +128 ' "$scan" cost gpt2 pythia-1.4b
output 'a given size replaces it' '^GPT-2 XL +48 +1600 +512 ' "$scan" cost gpt2-xl --ctx 512
"$scan" cost gpt2 gpt2-medium pythia-70m --figure flops --over ctx --shares -o sizes.svg
check 'the figure has a panel for each size' sh -c '
    for text in "GPT-2 small" "GPT-2 medium" "Pythia-70M" "L = 24, d = 1024" "L = 6, d = 512"; do
        grep -q ">$text<" sizes.svg || exit 1
    done'
exits 'an unknown model is refused' 2 'gpt3: neither a file nor an architecture' "$scan" cost gpt3
exits 'a file that is not a run file is reported' 3 'run\.csv' "$scan" cost run.csv
exits 'a command without inputs is refused' 2 'needs run files or architectures' "$scan" cost
exits 'heads that do not share the width are refused' 2 'd_model 100 is not a multiple' \
    "$scan" cost SM --d-model 100
exits 'layers beyond the model are refused' 2 'names layers beyond the 3 of the model' "$scan" cost SM+ScFuFFNi4 --n-layer 3
exits 'spans beyond the model are refused' 2 'names layers beyond the 12 of the model' "$scan" cost 'SM+G[0-12]'
mkdir -p tree/below && cp sm.db tree/below/
output 'a folder stands for the run files below it' '^(.*/)?sm(\.db)? +SM +12 +48 ' "$scan" cost tree SM+R
exits '--font-size needs --figure' 2 '--font-size: needs --figure' "$scan" cost SM --font-size 7
exits '--shares needs --figure' 2 '--shares: needs --figure' "$scan" cost SM --shares
exits 'an unknown figure is refused' 2 'flops, communication, latency, perplexity, inverse or weights' "$scan" cost SM --figure pie -o a.png
exits 'a figure needs a format' 2 'end the name in \.png, \.svg, \.pdf or \.txt' "$scan" cost SM --figure flops -o a
exits 'a format may not contradict a name' 2 '--format pdf contradicts the file name a\.png' "$scan" cost SM --figure flops -o a.png --format pdf
exits 'a picture has a size that its format can have' 2 '--size: ' \
    "$scan" cost SM --figure flops -o a.png --size 99999x99999
exits 'a figure without modelled costs is refused' 3 'no model has a modelled cost' "$scan" cost 'PSM(4)' --figure latency -o a.png
exits 'an input is not overwritten' 2 'sm\.db' "$scan" cost sm.db -o sm.db
check 'a failure leaves no file' test ! -e a.png

# Makes measurements of a layer with two heads, where softmax processes 2 x 4 x
# 4 values.
cat >layer.csv <<'END'
# name: two parties
# arch: SM+LN+G
# n_layer: 1
# n_head: 2
# d_model: 6
# ctx: 4
# series: run bytes cost.softmax.bytes
# series: run rounds cost.softmax.rounds
# series: run seconds cost.softmax.seconds
# series: run bytes cost.GELU.bytes
# series: run bytes cost.scores.bytes
# series: run bytes cost.FFN.bytes
step,layer,head,cost.softmax.bytes,cost.softmax.rounds,cost.softmax.seconds,cost.GELU.bytes,cost.scores.bytes,cost.FFN.bytes
4,,,3200000,7,1.5,NaN,1000000,2400000
END
"$scan" import -q layer.csv -o layer.db || exit 1
output 'measured costs are shown next to modelled ones' \
    '^softmax +32 +3\.20 +100000 +7 +1\.500 +0\.05 +0\.05-0\.06$' "$scan" cost layer.db
output 'the run of a measurement is named' '^layer\.db: two parties: measured costs of one layer' "$scan" cost layer.db
output 'products of shares have no modelled cost' '^scores +- +1\.00 +- +- +- +- +-$' "$scan" cost layer.db
output 'a measurement that failed is missing' '^GELU +96 +- +- +- +- +0\.33 +0\.28-0\.38$' "$scan" cost layer.db
output 'an FFN is charged for its inputs and outputs' '^FFN +240 +2\.40 +10000 ' "$scan" cost layer.db
program='ffn, gelu, scores, softmax = models[0]["measured"]
assert softmax["bytes"] == 3200000 and softmax["rounds"] == 7 and softmax["seconds"] == 1.5
modelled = softmax["modelled_bytes"]
assert 32 * 1700 < modelled["modelled"] < 32 * 1740 and modelled["low"] < modelled["modelled"] < modelled["high"]
assert gelu["bytes"] is None and gelu["bytes_state"] == "missing"
assert scores["numbers"] is None and scores["modelled_bytes"]["modelled"] is None
assert ffn["numbers"] == 2 * 5 * 4 * 6 and ffn["seconds"] is None'
check '--json has measured and modelled costs' json layer.db
output 'the measurement in the samples is shown' 'CHEETAH d=256 H=4 T=128: measured costs of one layer' "$scan" cost "$root/samples/results/private-inference.db"
output 'an architecture has no measurements' '"measured":\[\]' "$scan" cost SM --json

output 'polynomials have factors and levels' '^ *512 +11 +11 +11 +11 +12 +12 +12 +12$' "$scan" cost --polynomial
output '--polynomial prints the errors of a GELU' '^ *63 +7 +4\.5e-11 +8\.5e-6 +0\.0044$' "$scan" cost --polynomial
"$scan" cost --figure inverse -o inverse.svg
file_has 'the error of an inverse is drawn by its number of factors' inverse.svg '>factors of the division<'
file_has 'the figure of an inverse has a line for each epsilon' inverse.svg '>ε = 10⁻⁴<'
"$scan" cost --figure weights -o weights.svg
check 'weights by softmax and PowerSoftmax are drawn for three vectors' sh -c '
    for text in normal uniform "evenly spaced" softmax "p = 8"; do grep -q ">$text<" weights.svg || exit 1; done'
exits '--figure weights takes no model' 2 '--figure weights: takes no model' "$scan" cost SM --figure weights -o a.svg
exits '--figure inverse takes no model' 2 '--figure inverse: takes no model' "$scan" cost SM --figure inverse -o a.svg
exits '--figure inverse has no shares' 2 '--figure inverse: takes no model' "$scan" cost --shares --figure inverse -o a.svg
exits '--polynomial takes no model' 2 'takes no model' "$scan" cost --polynomial SM

"$scan" cost SM+LN+G SM+R 'PSM(4)' --figure communication -o bars.svg
file_has 'bars show parts, intervals and unknown costs' bars.svg '25\.3±0\.3' '>GELU<' '>ReLU<' '>unknown<' \
    'communication, modelled \(GB\)'
"$scan" cost SM+R --figure latency --format svg >relu.svg
file_has 'a figure is written to a pipe' relu.svg '>ReLU<'
exits 'parts that no model has are left out' 1 '^$' grep LayerNorm relu.svg
"$scan" cost SM+LN+G SM+ScFuFFN --figure flops --over ctx --shares -o lengths.svg
file_has 'FLOPs are drawn over context lengths' lengths.svg '>65%<' '>FFN<' '>8K<' 'L = 12, d = 768'
"$scan" cost SM+LN+G --figure latency --over ctx -o lengths.svg
file_has 'latency is drawn over context lengths' lengths.svg 'latency, modelled \(minutes\)' '>8\.3<' 'at most ±12' 'outside of'
"$scan" cost SM+LN+G 'PSM(4)' --figure latency --shares --for column -o shares.svg
file_has 'the note of bars of shares explains totals and missing bars' shares.svg \
    'Above the' 'minutes\.' '>\?<' 'Without a bar'
printf '# %s\n' 'arch: SM+R' 'n_layer: 2' 'n_head: 2' 'd_model: 8' 'ctx: 8' 'vocab: 9' 'series: run nats eval:ce' >nan.csv
printf 'step,layer,head,eval:ce\n1,,,nan\n' >>nan.csv
"$scan" import -q nan.csv -o nan.db || exit 1
"$scan" cost sm-ln-g.db nan.db SM+LN+R --figure perplexity+flops+communication -o page.svg
file_has 'perplexity, FLOPs and communication are drawn on one page' page.svg \
    '\(a\)' '\(b\)' '\(c\)' '>perplexity, eval<' '>FLOPs \(billions\)<' '>communication, modelled \(GB\)<' '>attention<' '>GELU<'
ppl=$("$scan" cost sm-ln-g.db --json | sed -nE 's/.*"eval_ppl":([0-9.]+).*/\1/p')
file_has 'a perplexity is written above its bar, and NaN and unknown ones differ' page.svg \
    ">$(printf %.2f "$ppl")<" '>NaN<' '>unknown<'
"$scan" cost sm-ln-g.db SM --figure perplexity --for column -o column.svg
file_has 'a narrow figure explains runs without a perplexity' column.svg '>\?<' '\?: not evaluated\.'
exits 'a figure of perplexity needs an evaluated run' 3 'none of the models is a run with a perplexity on held-out data' \
    "$scan" cost SM nan.db --figure perplexity -o a.svg
exits 'perplexity has no shares' 2 'neither shares nor context lengths: leave out --shares' \
    "$scan" cost sm.db --figure flops+perplexity --shares -o a.svg
exits 'perplexity has no context lengths' 2 'leave out --over ctx' "$scan" cost sm.db --figure perplexity --over ctx -o a.svg
exits 'a figure without models is drawn alone' 2 'draw inverse and weights separately' "$scan" cost SM --figure flops+inverse -o a.svg
exits 'an unknown figure of a page is refused' 2 "'flops\+': expected flops" "$scan" cost SM --figure flops+ -o a.svg
exits 'a page holds at most eight figures' 2 'a page holds at most 8 figures' \
    "$scan" cost SM --figure flops+flops+flops+flops+flops+flops+flops+flops+flops -o a.svg
"$scan" cost SM SM+LN SM+R SM+G SM+LN+R SM+LN+G SM+ScFuFFN SM+ScFuFFNi6 --for page --figure flops -o edge.svg
file_has "a small part of the last bar is labelled at the page's edge" edge.svg '>906M<'
# A profile as SecretFlow prints it. Only the second run of each operation may be counted.
cat >profile.txt <<'END'
operation softmax 0
[info] [Profiling] SPU execution softmax completed, execution took 9.5s, total
[info] Link details: total send bytes 900, recv bytes 700, send actions 80, recv actions 80
operation softmax 1
[info] [Profiling] SPU execution softmax completed, execution took 1.5e-01s, total
[info] Link details: total send bytes 90, recv bytes 7, send actions 8, recv actions 6
END
output 'a measurement counts both parties of the second run' "^\{'softmax': \(97, 8, 0.15\)\}$" \
    python3 -c 'import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import measure
print(measure.profile(open("profile.txt").read()))' "$root/samples/private-inference"
# Makes a file that contains only the header of a checkpoint, from which measure.py reads the size
# of the vocabulary.
python3 -c 'import json, struct, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import argparse, measure
header = json.dumps({"__metadata__": {}, "transformer.wte.weight":
    {"dtype": "F32", "shape": [321, 6], "data_offsets": [0, 7704]}}).encode()
open("model.safetensors", "wb").write(struct.pack("<Q", len(header)) + header)
class Matrix: shape = 6, 18
given = argparse.Namespace(protocol="SEMI2K", n_head=2, ctx=4, activation=None)
for line in measure.about({"attn.c_attn.weight": Matrix},
                          measure.read_vocab("model.safetensors"), given):
    print("#", line)
print("# series: run bytes cost.softmax.bytes\nstep,layer,head,cost.softmax.bytes\n4,,,3200000")
' "$root/samples/private-inference" >measured.csv
"$scan" import -q measured.csv -o measured.db || exit 1
output 'a measured run has the vocabulary of its checkpoint' '"vocab":321,' \
    "$scan" export measured.db --format jsonl
"$scan" cost SM SM+R --ctx 64 --figure flops -o sizes.svg
file_has 'a figure states T, L and d' sizes.svg 'T.{1,2}=.{1,2}64 tokens' 'L.{1,2}=.{1,2}12' 'd.{1,2}=.{1,2}768'
finish
