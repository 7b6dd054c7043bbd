#!/usr/bin/env bash
# Tests --preset on the command line: the list of presets, the printed configuration,
# errors, and training with some presets.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir

# --- the list
"$train" --preset list >"$dir/list"
check 'list prints every preset and a heading' [ "$(wc -l <"$dir/list")" = 211 ]
file_has 'the list has architectures and the results in the papers' "$dir/list" \
    '^preset +architecture +published' \
    '^gpt2-l12-t128-sm-ln-g +SM\+LN\+G +perplexity 2\.688$' \
    '^gpt2-l12-t128-sm-final-normon-tiny +SM +no figure$'
aligned() { # all architectures begin in the same column
    [ "$(awk 'NR > 1 { print index($0, " " $2 " ") }' "$dir/list" | sort -u | wc -l)" = 1 ]
}
check 'the list is aligned' aligned
check 'the list needs no other option and prints nothing else' \
    [ -z "$("$train" --preset list 2>&1 >/dev/null)" ]
list_of_bench() { "$train" bench --preset list | diff - "$dir/list"; }
check 'bench prints the same list' list_of_bench

# --- a dry run
dry() { "$train" --dry-run "$@" 2>"$dir/messages"; }
name=gpt2-l12-t128-ereg-sm-t-scfuffn-gamma0.3
dry --preset $name >"$dir/printed"
file_has 'a dry run prints the whole configuration' "$dir/printed" \
    '^arch = EReg\(SM\(t\)\+ScFuFFN\)$' '^n-layer = 12$' '^gamma = 0\.3$' '^lambda = 1e-5$' \
    '^precision = fp16$' '^backend = cuda$' '^beta1 = 0\.9$' '^inference = exact$'
again() { dry --config "$dir/printed" | diff - "$dir/printed"; }
check '--config reads a printed configuration back' again
dry --preset gpt2-l12-t128-sm-ln-g-tiny --lr 0.5 >"$dir/printed"
file_has 'an option overrides a preset' "$dir/printed" '^lr = 0\.5$' '^d-model = 48$'
check 'a dry run without data reports that it has not checked them' \
    grep -qx 'entropy-train: not checked: data and run file: --data and --out are not given' "$dir/messages"

# --- errors
exits 'an unknown preset: the most similar one is suggested' 2 \
    "^entropy-train: --preset 'gpt2-l12-t128-smlng': .* did you mean gpt2-l12-t128-sm-ln-g\?$" \
    "$train" --preset gpt2-l12-t128-smlng
exits 'a name unlike any preset: the list is suggested' 2 "'papers': no such preset: --preset list prints them$" \
    "$train" --preset papers
echo 'preset = papers' >"$dir/wrong.conf"
exits 'an unknown preset in a configuration: its line is named' 2 "wrong.conf:1: preset 'papers': no such preset" \
    "$train" --config "$dir/wrong.conf"
for backend in cpu auto; do
    exits "half precision is refused on the CPU, by $backend" 2 'cpu has no precision fp16: use fp32 or bf16$' \
        env ENTROPY_TRAIN_CUDA=/nonexistent.so \
        "$train" --dry-run --preset gpt2-l12-t128-sm-ln-g --backend $backend
done

# --- training
write_source "$dir/src"
"$BUILD/entropy-corpus" -q -o "$dir/x.tok" "$dir/src" || echo 'Bail out! no corpus'
for name in gpt2-l12-t128-sm-ln-g pythia-l6-t128-sm-ln-r gpt2-l18-t128-sm-scfuffni4 sas-l12-t128-sm-scfuffni1 \
    pythia-l24-t512-psm-4-1e-4-ln-g roberta-l12-t512-psm-6-1e-4-ln-g; do
    output "$name-tiny trains" 'finished after 1 steps' "$train" --preset "$name-tiny" \
        --data "$dir/x.tok" --no-record --steps 1 --eval-batches 1 --threads 1
done
finish
