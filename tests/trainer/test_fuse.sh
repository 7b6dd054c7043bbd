#!/usr/bin/env bash
# Tests entropy-train fuse: the simplified model has the same results on held-out data,
# --init continues from it, and no output is overwritten.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir

write_source "$dir/src" 90
"$BUILD/entropy-corpus" -q -o "$dir/x.tok" "$dir/src" || echo 'Bail out! no corpus'
data=(--data "$dir/x.tok")
model=(--n-layer 3 --n-head 2 --d-model 12 --ctx 16 --batch 4 --lr 0.03 --threads 1)
trained() { # NAME OPTION...: a checkpoint in $dir/NAME
    "$train" "${data[@]}" "${model[@]}" --steps 30 --eval-every 30 --eval-batches 4 --checkpoint "$dir/$1" \
        -o "$dir/$1.db" -q "${@:2}"
}
fuse() { "$train" fuse "$1" "$2" "${data[@]}" --threads 1 "${@:3}"; }
last_eval() { "$scan" export "$1" --series ce --phase eval -o - | tail -1 | cut -d, -f4; }
first_eval() { "$scan" export "$1" --series ce --phase eval -o - | grep '^0,' | cut -d, -f4; }
equal() { # within 3e-6
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a > 0 && b > 0 && d < 3e-6 && d > -3e-6) }'
}

# --- an exact step
check 'SM+ScFFN is trained' trained scaled --arch SM+ScFFN --bias all
check 'a folder of checkpoints is fused' sh -c '"$@" >"$0"' "$dir/table" \
    "$train" fuse "$dir/scaled" "$dir/fused.safetensors" "${data[@]}" --threads 1
output 'the new architecture is named' '^SM\+ScFFN becomes SM\+ScFuFFN: FFNs fused: 3; the same function, except for rounding$' cat "$dir/table"
output 'the steps of the weights are named' 'scaled-00000030.safetensors: weights of entropy-train, L=3 H=2 .*after 30 steps' cat "$dir/table"
output 'the results are equal' '^equal except for rounding \(tolerance 0\.0001\)$' cat "$dir/table"
rows() { # loss and the entropy of three layers, before and after, within 3e-6
    awk '/^loss|^all|^entropy/ { d = $(NF - 1) - $(NF - 2); n += d < 3e-6 && d > -3e-6 && $(NF - 1) > 0 }
         END { exit n != 5 }' "$dir/table"
}
check 'loss and entropies are printed before and after' rows
more() { "$train" "${data[@]}" --init "$1" --steps 2 --eval-every 2 --eval-batches 4 -q "${@:2}"; }
check '--init continues from it' more "$dir/fused.safetensors" -o "$dir/more.db" --threads 1
output 'as the fused architecture' '"arch":"SM\+ScFuFFN".*' "$scan" "$dir/more.db" --json
check 'the first evaluation equals the last one before' equal "$(first_eval "$dir/more.db")" "$(last_eval "$dir/scaled.db")"
output 'a probe reads it as a model of step 0' 'SM\+ScFuFFN of entropy-train, L=3 H=2 d=12 V=256$' \
    "$train" probe "$dir/fused.safetensors" "${data[@]}" --no-record
check 'a training resumes from it as a new run' "$train" --resume "$dir/fused.safetensors" --steps 3 --no-record -q

# --- norms, families
check 'norms are trained' trained normed --arch 'SM+LN+SNorm(QK,FFN)' --emulate fp16
output 'norms are folded' 'becomes SM\+LN\+ScFuFFN: norms of weights folded; FFNs fused: 3; the same' \
    fuse "$dir"/normed/*.safetensors "$dir/normed.safetensors"
kept() { more "$dir/normed.safetensors" -o "$dir/half.db" && "$scan" "$dir/half.db" --json | grep -q '"emulate":"fp16"'; }
check 'the emulation of half precision is kept' kept
check 'nonlinear FFNs are trained' trained relu --arch 'SM+R+WNorm(QKV,FFN)' --family pythia
output 'a nonlinear FFN remains' 'becomes SM\+R: norms of weights folded; the same' \
    fuse "$dir/relu" "$dir/relu.safetensors"
for family in pythia sas; do
    check "family $family is trained" trained $family --arch SM+ScFFN --family $family
    output "family $family is fused" '^equal except for rounding' fuse "$dir/$family" "$dir/$family.safetensors"
done

# --- dropped FFNs
output '--drop names another function' '^SM\+ScFFN becomes SM\+ScFuFFNi2: FFNs fused: 1; FFNs dropped: 2; another function$' \
    fuse "$dir/scaled" "$dir/i2.safetensors" --drop 1-2
more_layers() { # LAYERS REGEX: the first line of the table after --drop
    output "--drop $1 removes these layers" "$2" fuse "$dir/scaled" "$dir/drop-$1" --drop "$1"
}
more_layers 1 '^SM\+ScFFN becomes SM\+ScFuFFN\+NoFFN\[1\]: FFNs fused: 2; FFNs dropped: 1; another function$'
more_layers 0,2 '^SM\+ScFFN becomes SM\+ScFuFFN\+NoFFN\[0\]\+NoFFN\[2\]: FFNs fused: 1; FFNs dropped: 2;'
more_layers 2,1-2 '^SM\+ScFFN becomes SM\+ScFuFFNi2: '
check '--init continues without an FFN in the middle' more "$dir/drop-1" -o "$dir/middle.db"
output 'as the architecture with NoFFN' '"arch":"SM\+ScFuFFN\+NoFFN\[1\]"' "$scan" "$dir/middle.db" --json
output 'a further FFN is dropped from it' 'SM\+ScFuFFN\+NoFFN\[1\] becomes SM\+ScFuFFNe2: FFNs dropped: 1;' \
    fuse "$dir/drop-1" "$dir/e2.safetensors" --drop 0
output 'a nonlinear FFN is dropped' 'becomes SM\+R\+NoFFN\[1\]: norms of weights folded; FFNs dropped: 1; another' \
    fuse "$dir/relu" "$dir/relu-1.safetensors" --drop 1
check 'an attention-only model is trained' trained bare --arch SM+LN+NoFFN
check '--init continues without these FFNs' more "$dir/i2.safetensors" -o "$dir/i2.db"
output 'further FFNs are dropped from a file' '^SM\+ScFuFFNi2 becomes SM\+ScFuFFNi3: FFNs dropped: 1; another function$' \
    fuse "$dir/i2.safetensors" "$dir/i3.safetensors" --drop 0
not_equal() { fuse "$dir/scaled" "$dir/e1.safetensors" --drop 0 | grep -q 'equal except for rounding'; }
check 'dropping does not claim equal results' sh -c '! "$@"' - not_equal
quiet() { [ -z "$(fuse "$dir/scaled" "$dir/quiet.safetensors" -q 2>&1)" ] && [ -s "$dir/quiet.safetensors" ]; }
check '--quiet prints nothing' quiet

# --- errors: one line, and no output
bad() { # NAME CODE REGEX WORD...
    local name=$1 code=$2 regex=$3
    shift 3
    exits "$name" "$code" "$regex" "$train" fuse "$@"
    check "$name: one line" [ "$(wc -l <<<"$errors")" = 1 ]
    check "$name: no file" [ ! -e "$dir/new" ]
}
scaled=$(echo "$dir"/scaled/*.safetensors)
new=$dir/new
bad 'no arguments' 2 'entropy-train fuse IN OUT' "${data[@]}"
bad 'no output' 2 'entropy-train fuse IN OUT' "$scaled" "${data[@]}"
bad 'three arguments' 2 'fuse takes only IN and OUT' a b c "${data[@]}"
bad 'no data' 2 'no data: give --data' "$scaled" "$new"
bad 'no such input' 3 'absent: ' "$dir/absent" "$new" "${data[@]}"
bad 'an empty folder' 3 'no checkpoint in this folder' "$dir/src" "$new" "${data[@]}"
bad 'not weights' 3 'x.tok' "$dir/x.tok" "$new" "${data[@]}"
head -c 3000 "$scaled" >"$dir/cut"
bad 'a truncated checkpoint' 3 '/cut: ' "$dir/cut" "$new" "${data[@]}"
bad 'a nonlinear FFN' 2 'the FFN of SM\+R is not linear, so it cannot be fused' "$dir/relu.safetensors" "$new" "${data[@]}"
bad 'a model without FFN' 2 'SM\+LN\+NoFFN has no FFN that could be fused' "$dir/bare" "$new" "${data[@]}"
bad 'an FFN dropped before' 2 '\-\-drop 1-1: these layers have no FFN' "$dir/drop-1" "$new" "${data[@]}" --drop 0,1
bad 'too many ranges' 2 'more than 16 ranges' "$scaled" "$new" "${data[@]}" --drop "$(seq -s, 0 16)"
bad 'a fused model' 2 'SM\+ScFuFFN is fused already' "$dir/fused.safetensors" "$new" "${data[@]}"
bad 'layers beyond the last one' 2 '\-\-drop 2-3: the model has layers 0 to 2' "$scaled" "$new" "${data[@]}" --drop 2-3
for layers in x 2-1 -1 1- 1-2-3 99999999999 1, ,1 1,,2 '' 0-1,2-1 "$(printf %040d 1)"; do
    bad "--drop $layers" 2 'expected layers, as in 8-11 or 1,3-4' "$scaled" "$new" "${data[@]}" "--drop=$layers"
done
bad 'no folder for the output' 3 'none/new' "$scaled" "$dir/none/new" "${data[@]}"
before=$(cksum <"$dir/i2.safetensors")
bad 'an output that exists' 3 'i2.safetensors: exists already: choose another name' "$scaled" "$dir/i2.safetensors" "${data[@]}"
check 'is unchanged' [ "$before" = "$(cksum <"$dir/i2.safetensors")" ]
bad 'the input as the output' 3 'exists already' "$scaled" "$scaled" "${data[@]}"
ln -s nowhere "$dir/link"
bad 'a link as the output' 3 'link: exists already' "$scaled" "$dir/link" "${data[@]}"
seq 0 99 | "$BUILD/entropy-corpus" -q --ids - --vocab 100 -o "$dir/ids.tok"
bad 'tokens of another vocabulary' 2 'the vocabulary has 100 tokens' "$scaled" "$new" --data "$dir/ids.tok"
bad 'an option of training' 2 '\-\-lr' "$scaled" "$new" "${data[@]}" --lr 1

# --- results that cannot be compared
check 'a model is trained until its loss is not finite' trained wild --arch SM+ScFFN --steps 1 --lr 1e30 --warm-up 0 --eval-every 0
bad 'a loss that is not finite' 1 'new: not written, because the loss of the weights is not finite' \
    "$dir/wild" "$new" "${data[@]}" -q

# --- a stop
"$train" fuse "$scaled" "$new" "${data[@]}" --threads 1 --batches 1000000000 >"$dir/printed" 2>&1 &
pid=$!
await 'the evaluation runs' has_used 50 $pid
kill -INT $pid
wait $pid
check 'SIGINT ends with 130' [ $? = 130 ]
check 'nothing is written or printed' [ ! -e "$new" -a ! -s "$dir/printed" ]
finish
