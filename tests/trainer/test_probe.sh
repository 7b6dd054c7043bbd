#!/usr/bin/env bash
# Tests probes of an existing model, which must give the same results as the
# evaluation in training, and further training from the model's weights.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir

write_source "$dir/src" 90
"$BUILD/entropy-corpus" -q -o "$dir/x.tok" "$dir/src" || echo 'Bail out! no corpus'
data=(--data "$dir/x.tok" --threads 1)
model=(--n-layer 2 --n-head 3 --d-model 12 --ctx 16 --batch 4 --lr 0.03)

# --- a model and its own evaluation
trained() {
    "$train" "${data[@]}" "${model[@]}" --arch 'EReg(SM(t)+LN+G)' --steps 12 \
        --eval-every 12 --checkpoint "$dir/saved" -o "$dir/run.db" -q
}
check 'a model is trained' trained
saved=$(echo "$dir"/saved/*-00000012.safetensors)
probe() { "$train" probe "$saved" "${data[@]}" "$@"; }
export_of() { "$scan" export "$1" --series "$2" --phase eval -o - | grep '^12,'; }

check 'a checkpoint is probed' probe -o "$dir/probe.db"
for series in loss ce ereg entropy entropy_min entropy_max nonfinite_rows \
    nonfinite_weights max_logit sink distance top nan_activations act_rms; do
    same() {
        [ -n "$(export_of "$dir/run.db" $series)" ] &&
            [ "$(export_of "$dir/run.db" $series)" = "$(export_of "$dir/probe.db" $series)" ]
    }
    check "$series of a probe has the same bits as in the evaluation in training" same
done
theta() {
    [ "$(export_of "$dir/probe.db" theta | wc -l)" = 6 ] &&
        [ "$(export_of "$dir/probe.db" t_max | wc -l)" = 6 ]
}
check 'thresholds and temperatures are recorded' theta
output 'the run is recorded as a probe' '"config":\{"verb":"probe","arch":"EReg' \
    "$scan" "$dir/probe.db" --json
output 'the run names its weights' '"init":"[^"]*-00000012.safetensors"' "$scan" "$dir/probe.db" --json
output 'a probe finishes at the checkpoint'"'"'s step, in phase eval' \
    '"status":"finished".*"step":12,"phase":"eval"' "$scan" "$dir/probe.db" --json
no_plan() {
    "$scan" "$dir/probe.db" --json >"$dir/json"
    grep -q '"batch":4' "$dir/json" && ! grep -q '"steps"' "$dir/json"
}
check 'a probe plans no steps' no_plan
no_train() {
    "$scan" export "$dir/probe.db" -o - | grep -v '^#' >"$dir/all"
    "$scan" export "$dir/probe.db" --phase train -o - | grep -v '^#' >"$dir/train"
    grep -q '^step,.*,eval:entropy' "$dir/all" && [ "$(cat "$dir/train")" = step,layer,head ]
}
check 'a probe has no series of training' no_train

# --- output
output 'a probe prints loss and perplexity' '^loss \(cross-entropy\) [0-9.]+ \+- [0-9.]+, perplexity [0-9.]+' \
    probe --no-record
output 'a probe prints each layer' '^1 +[0-9.]+ +[0-9.e-]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +0\.[0-9]+ +0$' probe --no-record
output 'a probe prints the ceiling' 'ceiling at T=16 is 1\.9170' probe --no-record
output 'a probe prints the origin of the weights and their steps' 'EReg\(SM\(t\)\+LN\+G\) of entropy-train, L=2 H=3 .*after 12 steps' \
    probe --no-record
output 'with one micro-batch no standard deviation is printed' '^loss \(cross-entropy\) [0-9.]+, perplexity' \
    probe --no-record --batches 1
quiet() { [ -z "$(probe --no-record -q 2>&1)" ]; }
check '--quiet prints nothing' quiet
output 'probe --help prints the usage' 'usage: entropy-train probe CHECKPOINT' "$train" probe --help

# --- half precision
probe -q -o "$dir/half.db" --emulate fp16
half() {
    paste -d, <(export_of "$dir/probe.db" ce) <(export_of "$dir/half.db" ce) |
        awk -F, '{ d = $4 / $8 - 1; ok = d != 0 && d > -0.01 && d < 0.01 } END { exit !ok }'
}
check 'results with emulated half precision are nearly the same' half
output 'the run records the emulation' '"emulate":"fp16"' "$scan" "$dir/half.db" --json

emulated() { # a probe emulates half precision as the training did
    "$train" "${data[@]}" "${model[@]}" --arch 'SM+SNorm(FFN)+R' --family pythia \
        --emulate fp16 --steps 12 --eval-every 12 --checkpoint "$dir/other" \
        -o "$dir/other.db" -q
    "$train" probe "$dir"/other/*.safetensors "${data[@]}" -o "$dir/seen.db" -q
    [ -n "$(export_of "$dir/other.db" entropy)" ] &&
        [ "$(export_of "$dir/other.db" entropy)" = "$(export_of "$dir/seen.db" entropy)" ]
}
check 'a probe emulates fp16 like training' emulated

# --- standard deviation, which for two micro-batches is sqrt(2) times the
# --- distance of one value from the mean
probe -q -o "$dir/one.db" --batches 1
probe -q -o "$dir/two.db" --batches 2
spread() {
    paste -d, <(export_of "$dir/one.db" entropy) <(export_of "$dir/two.db" entropy) \
        <(export_of "$dir/two.db" entropy_std) |
        awk -F, '{ d = $4 - $8; if (d < 0) d = -d; want = sqrt(2) * d
                   if ($12 > 0 && $12 < 1.01 * want + 1e-6 && $12 > 0.99 * want - 1e-6) n++ }
                 END { exit n != 6 }'
}
check 'entropy_std is the standard deviation' spread
check 'ce_std is recorded' [ "$(export_of "$dir/two.db" ce_std | wc -l)" = 1 ]
check 'one micro-batch has no entropy_std' [ -z "$(export_of "$dir/one.db" entropy_std 2>/dev/null)" ]
loss() { probe --no-record "$@" 2>/dev/null | grep ^loss; }
differs() { [ -n "$1" ] && [ -n "$2" ] && [ "$1" != "$2" ]; }
check '--random uses other parts of the data' differs "$(loss)" "$(loss --random --seed 3)"
check '--random depends on the seed' differs "$(loss --random --seed 4)" "$(loss --random --seed 3)"
check '--random with the same seed uses the same parts of the data' [ "$(loss --random --seed 3)" = "$(loss --random --seed 3)" ]
repeats() {
    probe --no-record --batches 3000 2>"$dir/messages" >/dev/null
    grep -q 'warning: .*read more than once' "$dir/messages"
}
check 'data that are read twice cause a warning' repeats
output '--ctx shortens the context' 'micro-batches of 4 x 7$' probe --no-record --ctx 7

# --- a stop
"$train" probe "$saved" "${data[@]}" --batches 1000000000 -o "$dir/stopped.db" \
    >"$dir/printed" 2>/dev/null &
pid=$!
await 'the probe has a file' test -e "$dir/stopped.db"
await 'the probe has recorded a micro-batch' has_used 50 $pid # it has finished a batch long before
kill -INT $pid
wait $pid
code=$?
check 'SIGINT ends with 130' [ $code = 130 ]
check 'an interrupted probe prints its results so far' grep -q '^all ' "$dir/printed"
output 'the run of an interrupted probe is stopped' '"status":"stopped"' "$scan" "$dir/stopped.db" --json
mean() { # the recorded loss is the mean over the finished batches
    local loss
    loss=$(export_of "$dir/stopped.db" ce | cut -d, -f4)
    awk -v a="$loss" -v b="$(grep -oE '^loss[^0-9]*[0-9.]+' "$dir/printed" | grep -oE '[0-9.]+$')" \
        'BEGIN { d = a - b; exit !(a > 1 && d < 1e-4 && d > -1e-4) }'
}
check 'an interrupted probe records the mean of its batches' mean

# --- further training
go_on() { "$train" "${data[@]}" --init "$saved" --steps 2 --eval-every 2 "$@"; }
check '--init starts with these weights' go_on -q -o "$dir/more.db"
first_eval() { "$scan" export "$1" --series ce --phase eval -o - | grep "^$2," | cut -d, -f4; }
check 'the first evaluation after --init equals the last one of the weights' [ "$(first_eval "$dir/more.db" 0)" = "$(first_eval "$dir/run.db" 12)" ]
check 'training from --init reduces the loss' [ "$(first_eval "$dir/more.db" 2)" != "$(first_eval "$dir/more.db" 0)" ]
output 'sizes and architecture after --init are the file'"'"'s' '^EReg\(SM\(t\)\+LN\+G\) finished after 2 steps' \
    go_on --no-record
output 'a dry run shows the sizes of --init' '^n-head = 3$' go_on --dry-run --no-record
output '--init accepts sizes equal to those of the weights' 'finished after 2' go_on --no-record --n-head 3 --d-model 12 --ctx 9
plain=$dir/plain/plain-00000001.safetensors
"$train" "${data[@]}" "${model[@]}" --arch SM+LN+G --steps 1 --eval-every 0 \
    --no-record --name plain --checkpoint "$dir/plain" -q
regularised() {
    "$train" "${data[@]}" --init "$plain" --arch 'EReg(SM+LN+G)' --steps 1 \
        --no-record 2>&1
}
output 'regularisation may be added' '^EReg\(SM\+LN\+G\) finished' regularised
output 'added regularisation gives a warning' 'warning: .*h\.0\.attn\.theta' regularised
exits 'another activation is refused' 2 'the weights have the architecture SM\+LN\+G, not SM\+LN\+R' \
    "$train" "${data[@]}" --init "$plain" --arch SM+LN+R --steps 1 --no-record
exits 'a contradiction names the option' 2 'the weights have --d-model 12, not 24' \
    go_on --no-record --d-model 24
exits 'more positions than those of the weights are refused' 2 '--ctx 17: ' go_on --no-record --ctx 17
exits '--resume and --init are mutually exclusive' 2 'are mutually exclusive' go_on --no-record --resume "$saved"

# --- errors
bad() { # NAME CODE REGEX WORD...
    local name=$1 code=$2 regex=$3
    shift 3
    exits "$name" "$code" "$regex" "$train" probe "$@"
    check "$name: one line" [ "$(wc -l <<<"$errors")" = 1 ]
}
bad 'no checkpoint' 2 'no checkpoint: name a safetensors file' "${data[@]}" --no-record
bad 'two checkpoints' 2 'only one checkpoint can be given' a b "${data[@]}" --no-record
bad 'no data' 2 'no data' "$saved" --no-record
bad 'no output' 2 'no output' "$saved" "${data[@]}"
bad 'no such file' 3 'absent: ' "$dir/absent" "${data[@]}" --no-record
bad 'not a file of weights' 3 'x.tok' "$dir/x.tok" "${data[@]}" --no-record
head -c 2000 "$saved" >"$dir/cut.safetensors"
bad 'a truncated file of weights' 3 'cut.safetensors' "$dir/cut.safetensors" "${data[@]}" --no-record
sed 's/h\.1\.ln_2\.bias/h.1.ln_2.boas/' "$plain" >"$dir/renamed.safetensors"
bad 'a damaged file of weights' 3 'renamed.safetensors' "$dir/renamed.safetensors" "${data[@]}" --no-record
seq 0 99 | "$BUILD/entropy-corpus" -q --ids - --vocab 100 -o "$dir/ids.tok"
bad 'tokens of another vocabulary' 2 'the vocabulary has 100 tokens, but the vocabulary of the weights .* has 256' \
    "$saved" --data "$dir/ids.tok" --no-record
seq 0 40 | "$BUILD/entropy-corpus" -q --ids - --vocab 256 -o "$dir/few.tok"
bad 'too few held-out tokens' 2 'held-out tokens are too few' \
    "$saved" --data "$dir/few.tok" --no-record
bad 'an output that cannot be written' 3 'absent' "$saved" "${data[@]}" -o "$dir/absent/run.db"
bad 'a number of heads that differs from the weights' 2 '--n-head 3, not 4' "$saved" "${data[@]}" --no-record --n-head 4
bad 'an option of training' 2 '--lr' "$saved" "${data[@]}" --no-record --lr 1
finish
