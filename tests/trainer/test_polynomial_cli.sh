#!/usr/bin/env bash
# Tests --inference polynomial in evaluations of a training run and in a probe: the
# recorded series, the printed output, and refused settings.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir

write_source "$dir/src" 90
"$BUILD/entropy-corpus" -q -o "$dir/x.tok" "$dir/src" || echo 'Bail out! no corpus'
data=(--data "$dir/x.tok" --threads 1)
model=(--n-layer 2 --n-head 3 --d-model 12 --ctx 16 --batch 4 --lr 0.03)
arch='PSM(4,0.1,plain)+LN+GS'
poly=(--inference polynomial)

trained() {
    "$train" "${data[@]}" "${model[@]}" --arch "$arch" --steps 12 --eval-every 6 "${poly[@]}" \
        --checkpoint "$dir/saved" -o "$dir/run.db" -q
}
check 'a model is trained with polynomial evaluations' trained
saved=$(echo "$dir"/saved/*-00000012.safetensors)
probe() { "$train" probe "$saved" "${data[@]}" "$@"; }
values_of() { "$scan" export "$1" --series "$2" --phase "${3:-eval}" -o - | grep '^12,'; }

check 'a checkpoint is probed with polynomials' probe "${poly[@]}" -o "$dir/probe.db"
for series in range_attn range_act range_norm clipped_attn clipped_act clipped_norm \
    approx_error_attn approx_error_act approx_error_norm loss entropy ce_exact; do
    same() {
        [ -n "$(values_of "$dir/run.db" $series)" ] &&
            [ "$(values_of "$dir/run.db" $series)" = "$(values_of "$dir/probe.db" $series)" ]
    }
    check "$series of a probe has the same bits as in the evaluation in training" same
done
check 'a checkpoint is probed with exact inference' probe -o "$dir/exact.db"
exact() { [ "$(values_of "$dir/exact.db" ce)" = "$(values_of "$dir/probe.db" ce_exact)" ]; }
check 'the two exact losses have the same bits' exact
close() {
    local a b
    a=$(values_of "$dir/probe.db" ce | cut -d, -f4) b=$(values_of "$dir/probe.db" ce_exact | cut -d, -f4)
    awk -v a="$a" -v b="$b" 'BEGIN { d = a - b; exit !(a != "" && d < 1e-3 && d > -1e-3) }'
}
check 'the polynomial loss is within 1e-3 of the exact loss' close
without() {
    "$scan" export "$dir/exact.db" -o - | head -30 | grep -q act_rms &&
        ! "$scan" export "$dir/exact.db" -o - | grep -q 'clipped_\|ce_exact'
}
check 'an exact probe records no polynomial series' without
untouched() {
    "$train" "${data[@]}" "${model[@]}" --arch "$arch" --steps 12 --eval-every 6 -o "$dir/plain.db" -q &&
        [ "$("$scan" export "$dir/plain.db" --series loss --phase train -o - | grep -v '^#')" = \
            "$("$scan" export "$dir/run.db" --series loss --phase train -o - | grep -v '^#')" ]
}
check 'polynomial evaluations change no bit of training' untouched

# --- output
probe "${poly[@]}" --no-record >"$dir/out"
line() { grep -qE "$1" "$dir/out" || { sed 's/^/# /' "$dir/out"; false; }; }
check 'the exact loss is printed' line '^exact +loss [0-9.]+, perplexity [0-9.]+$'
check 'the polynomial loss is printed' line '^polynomial +loss [0-9.]+, perplexity [0-9.]+$'
check 'the calibration is printed' line '^intervals: the inputs of 8 other micro-batches, widened by a factor of 1.5$'
check 'the polynomial of the division is printed' line '^1 +inverse +[0-9.]+ +[0-9.e-]+ +[0-9.]+ +[0-9]+ +1536 '
check 'the polynomial of the last norm is printed' line '^ +last norm '
check 'the depth is printed' line '^levels of a layer: [0-9]+ [0-9]+; of the model: [0-9]+$'
chosen() { # OPTION PATTERN
    probe "${poly[@]}" --no-record "${@:1:$#-1}" | grep -qE "${!#}"
}
check '--poly-factors sets the number of factors' chosen --poly-factors 9 '^0 +inverse .* 9 +15$'
check '--poly-steps sets the number of steps' chosen --poly-steps 5 '^1 +norm 2 .* 5 +13$'
check '--poly-degree sets the degree' chosen --poly-degree 63 '^1 +gate .* 63 +9$'
check '--poly-margin sets the margin' chosen --poly-margin 3 --poly-batches 2 \
    '^intervals: the inputs of 2 other micro-batches, widened by a factor of 3$'
few() {
    local a b
    a=$(probe "${poly[@]}" --no-record --poly-factors 1 | awk '$1 == "polynomial" { print $3 + 0 }')
    b=$(awk '$1 == "polynomial" { print $3 + 0 }' "$dir/out")
    awk -v a="$a" -v b="$b" 'BEGIN { d = a - b; exit !(d > 1e-5 || d < -1e-5) }'
}
check 'too few factors increase the loss' few

# --- refusals
refuses() { # PATTERN COMMAND...
    local pattern=$1 code=0
    shift
    "$@" >"$dir/refused" 2>&1 || code=$?
    [ $code = 2 ] && [ "$(wc -l <"$dir/refused")" = 1 ] && grep -qE "$pattern" "$dir/refused" ||
        { sed 's/^/# /' "$dir/refused"; false; }
}
trains() { "$train" "${data[@]}" "${model[@]}" --steps 2 "${poly[@]}" --no-record -q "$@"; }
check 'softmax is refused by name' refuses "'SM': softmax is not a polynomial" trains --arch SM+LN+GS
check 'ReLU is refused by name' refuses "'R' has a kink" trains --arch 'PSM(4)+LN+R'
check 'a dry run refuses softmax, too' refuses "'SM': softmax" trains --arch SM+LN+GS --dry-run
check 'bf16 is refused' refuses 'use --precision fp32' trains --arch "$arch" --precision bf16
check 'training without evaluations is refused' refuses 'give --eval-every' trains --arch "$arch" --eval-every 0
check 'maps are refused' refuses '^entropy-train: --maps needs --inference exact' trains --arch "$arch" --maps 8
check 'an unknown inference is refused' refuses 'exact' probe --no-record --inference cubic
check 'a margin below 1 is refused' refuses 'poly-margin' probe --no-record --poly-margin 0.5
check 'a degree beyond the limit is refused' refuses 'poly-degree' probe --no-record --poly-degree 128

# Tests that the evaluation of a diverged model completes.
lost() {
    local code=0
    "$train" "${data[@]}" "${model[@]}" --arch 'PSM(4,plain)' --lr 1e30 --clip 0 --steps 12 --eval-every 4 \
        "${poly[@]}" -o "$dir/lost.db" -q 2>/dev/null || code=$?
    [ $code = 1 ] && values_of "$dir/lost.db" clipped_attn | grep -q '^12,0,,[1-9]' &&
        values_of "$dir/lost.db" ce | grep -qi nan
}
check 'all inputs of a diverged model are outside the intervals' lost
finish
