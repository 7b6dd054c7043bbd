#!/usr/bin/env bash
# Tests entropy-scan sweep with a sweep.yaml of Weights & Biases.
. tests/support/tap.sh
plan_dir
. tests/sweep/sweeping.sh
export PATH=$bin:$PATH
plan() { "$scan" sweep "$@" --dry-run; } # prints the command lines
refused() { # NAME REGEX LINE...: a file with these lines is refused
    local name=$1 regex=$2
    shift 2
    printf '%s\n' "$@" >bad.yaml
    exits "$name" 2 "^entropy-scan: bad.yaml:$regex" "$scan" sweep bad.yaml --dry-run
}

cat >grid.yaml <<'END'
program: train.py
method: grid
name: a search
metric: {name: loss, goal: minimize}
early_terminate: {type: hyperband, min_iter: 3}
parameters:
  lr:
    values: [0.01, 1e-3]
  batch_size: {value: 32}
  seed: {values: [1, 2]}
  amp: {values: [true]}
  note: {value: "a {b} 'c'"}
END
same_text 'a grid gives all combinations with the default command' \
    "4 ENTROPY_RUN_CONFIG='{\"seed\":1,\"lr\":0.01,\"amp\":true}' /usr/bin/env python train.py --lr=0.01 --batch_size=32 --seed=1 --amp=True '--note=a {{b}} '\\''c'\\'''" \
    "$(plan grid.yaml 2>err | awk 'NR == 1 { first = $0 } END { print NR, first }')"
check 'early_terminate is ignored with a note' grep -q '^entropy-scan: grid.yaml: early_terminate is ignored' err

cat >random.yaml <<'END'
program: train.sh
method: random
run_cap: 3
command:
  - ${env}
  - sh
  - ${program}
  - "{name}"
  - ${args_no_hyphens}
parameters:
  lr: {distribution: log_uniform_values, min: 1e-4, max: 1e-2}
  width: {min: 2, max: 4}
  drop: {min: 0.0, max: 1}
  step: {distribution: q_uniform, min: 0, max: 1, q: 0.25}
  kind: {distribution: categorical, values: [a b, c]}
END
cat >train.sh <<'END'
printf '%s\n' "$@"
{
    echo step,layer,head,entropy
    for cell in 0,0 0,1 0,2 1,0 1,1 1,2; do echo "0,$cell,0.9"; done
} >"$ENTROPY_RUN.csv"
entropy-scan import "$ENTROPY_RUN.csv" -o "$ENTROPY_RUN" --ctx 16
END
"$scan" sweep random.yaml -o random -j 2 >out 2>err
same_text 'a random search runs to its end' '0 3' "$? $(states random | grep -c finished)"
matches() { # NAME REGEX: each run has a matching argument
    same_text "$1" 3 "$(grep -lxE -- "$2" random/*.log | wc -l | tr -d ' ')"
}
matches 'log_uniform_values draws values in its range' 'lr=(0\.00[0-9]+|0.01|[0-9.]+e-4)'
matches 'whole bounds give whole numbers' 'width=[234]'
matches 'fractional bounds give fractions' 'drop=0(\.[0-9]+)?'
matches 'q_uniform draws multiples of its step' 'step=(0|0.25|0.5|0.75|1)'
matches 'categorical draws one of its values' 'kind=(a b|c)'
check 'the drawn values are in the configuration' sh -c 'sqlite3 "$(ls random/*.db | head -n 1)" "SELECT config FROM run" | grep -q "\"kind\":\"\(a b\|c\)\""'
same_text 'more draws include the same draws' "$(plan random.yaml)" "$(plan random.yaml --draws 5 | head -n 3)"

head='program: x
method: random
run_cap: 2
parameters:'
refused 'method bayes is refused' '2: method: bayes is not supported: use random, or Optuna$' 'program: x' 'method: bayes' 'parameters: {}'
refused 'other methods are refused' '1: method: expected grid or random$' 'method: x' 'parameters: {}'
refused 'a missing method is refused' '1: method: is missing$' 'program: x' 'parameters: {}'
refused 'a distribution in a grid is refused' '3: a: method grid needs values' 'program: x' 'method: grid' 'parameters: {a: {min: 0, max: 1}}'
refused 'other distributions are refused' '5: a: expected value, values, or distribution uniform' "$head" '  a: {distribution: normal, mu: 0, sigma: 1}'
refused 'missing bounds are refused' '5: a: expected min and max$' "$head" '  a: {min: 1}'
refused 'nested parameters are refused' '5: a: expected value.* nested' "$head" '  a: {parameters: {b: {value: 1}}}'
refused 'wrong bounds are refused' ' a: the bounds of log-uniform must be above 0$' "$head" '  a: {distribution: log_uniform_values, min: 0, max: 1}'
refused 'unknown members are refused' '1: launch: not supported in a sweep$' 'launch: x' "$head" '  a: {value: 1}'
refused 'unknown macros are refused' '6: \$\{envvar:HOME\}: expected' "$head" '  a: {values: [1, 2]}' 'command: ["${envvar:HOME}", "${args}"]'
refused 'a missing program is refused' '2: \$\{program\}: the key program is missing' 'method: grid' 'parameters: {a: {values: [1, 2]}}'
refused 'a random search without a number of draws is refused' ' the number of draws is missing: expected run_cap, or --draws N$' 'program: x' 'method: random' 'parameters: {a: {min: 0, max: 1}}'
refused 'a parameter that the command lacks is refused' '5: command: \{a\} is missing' 'program: x' 'method: grid' 'parameters: {a: {values: [1, 2]}}' 'command:' ' - x'
refused 'a file that is not YAML is refused' '[0-9]+: not YAML: ' 'a: [1'
refused 'a list is refused' ' expected method, program and parameters$' '- 1'
exits 'a missing file is reported' 3 'none.yml: cannot read' "$scan" sweep none.yml -o x
mkfifo pipe.yaml
printf 'x: %01000d' 0 | tr 0 '[' >deep.yaml
exits 'deep nesting is refused' 2 'deep.yaml: nested more than 64 levels deep' "$scan" sweep deep.yaml -o x
exits 'a FIFO is refused' 3 'pipe.yaml: not a regular file' "$scan" sweep pipe.yaml -o x
finish
