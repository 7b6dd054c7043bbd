#!/usr/bin/env bash
# Tests entropy-scan importance on constructed runs: lr determines the
# perplexity, act determines the overload, and drop and note have no effect.
. tests/support/tap.sh
plan_dir
cd "$dir"

if "$scan" --version | grep -q '^no GSL'; then
    exits 'importance needs GSL' 2 'built without GSL: build it with libgsl-dev' "$scan" importance .
    skip 'importance' 'no GSL'
    finish
    exit
fi

# Makes the run NAME with the configuration CONFIG, two layers of three heads,
# one head with the entropy HEAD, and the final evaluation LOSS.
make_run() {
    {
        printf '# name: %s\n# arch: SM\n# ctx: 128\n# config: %s\n' "$1" "$2"
        printf 'step,layer,head,entropy,loss,eval:ce\n'
        for step in 0 10; do
            printf '%s,%s,%s,2,,\n' $step 0 0 $step 0 1 $step 0 2 $step 1 0
            printf '%s,%s,%s,%s,,\n' $step 1 1 "$4" $step 1 2 2
            printf '%s,,,,%s,%s\n' $step "$3" "${5-$3}"
        done
    } >run.csv
    "$scan" import -q run.csv -o "tree/$1.db" || exit 1
}
mkdir tree
i=0
for lr in 1e-4 3e-4 1e-3 1e-2; do
    for drop in 0 0.1 0.2; do
        for act in G R; do
            i=$((i + 1))
            loss=$(awk -v lr=$lr -v i=$i 'BEGIN { print 3 + log(lr) / 10 + (i * 7 % 5) / 100 }')
            head=2
            [ $act = G ] || head=3.5
            make_run run$i "{\"lr\":$lr,\"drop\":$drop,\"act\":\"$act\",\"seed\":$i,\"note\":\"x\"}" "$loss" $head
        done
    done
done

"$scan" importance tree >table.txt
file_has 'the setting that matters is found' table.txt '^lr +4 +\+0\.9[0-9] +0\.00[0-9]+ '
file_has 'a setting that does not matter is weak' table.txt '^drop +3 +[-+]0\.[0-2][0-9]* +1 '
file_has 'a category has no sign' table.txt '^act +2 +0\.0[0-9]* +1 +1\.00 +0\.00[0-9]+ '
file_has 'an outcome that never varies is reported' table.txt '^NaN at -: no run has a NaN$' '^collapsed -: the outcome or the setting is the same in all runs that have it$'
file_has 'runs are counted' table.txt '^24 runs; eval ppl: final value of the 24 runs whose last loss is finite$'
check 'seeds and constant settings have no row' sh -c '! grep -qE "^(seed|note|ctx) " table.txt'
check 'the strongest setting comes first' sh -c 'sed -n 2p table.txt | grep -q "^act "'

# The expected correlation is spearmanr of scipy 1.17.1 for the 24 values of lr
# and loss in the loop above.
"$scan" importance tree --json >x.json
check '--json prints valid JSON' sh -c 'test "$(sqlite3 :memory: "select json_valid(readfile(\"x.json\"))")" = 1'
number() { sqlite3 :memory: "select printf('%.$2f', json_extract(value, '\$.outcomes.$3')) from
    json_each(readfile('x.json'), '\$.settings') where json_extract(value, '\$.name') = '$1'"; }
same_text 'a rank correlation is that of scipy' 0.96993 "$(number lr 5 quality.strength)"
same_text 'a category explains all of the overload' 1.0000 "$(number act 4 overloaded.strength)"
file_has 'unknown values are null with a reason' x.json \
    '"nan_step":\{"n":24,"strength":null,"strength_state":"missing","p":null,"p_state":"missing","p_holm":null,"p_holm_state":"missing","reason":"equal values"\}'
check 'the result is reproducible' sh -c '"$0" importance tree --json | cmp - x.json' "$scan"

# Runs that end in NaN have no perplexity, but the step of their first NaN is an
# outcome whose causes can be ranked.
make_run nan1 '{"lr":1,"drop":0,"act":"G"}' NaN 2 3
make_run nan2 '{"lr":1,"drop":0.1,"act":"R"}' NaN 2 3
make_run nan3 '{"lr":1,"drop":0.2,"act":"R"}' NaN 2 3
"$scan" importance tree >table.txt
file_has 'a run that ended NaN has no perplexity' table.txt '^27 runs; eval ppl: final value of the 24 runs whose last loss is finite$'
file_has 'the setting that causes NaN is found' table.txt '^lr +5 .* -0\.5[0-9] +0\.0[0-9]+ *$'

exits 'a command without inputs is refused' 2 'importance needs a folder' "$scan" importance
exits 'two runs are too few' 3 'needs at least three runs that differ in a setting, and there are 2' \
    "$scan" importance tree/run1.db tree/run2.db
mkdir same
cp tree/run1.db same/1.db && cp tree/run1.db same/2.db && cp tree/run1.db same/3.db
exits 'runs of one configuration are refused' 3 'the 3 runs have equal settings except the seed' "$scan" importance same
echo broken >tree/broken.db
exits 'a file that is not a run file is reported, and the others are shown' 4 'broken\.db: ' "$scan" importance tree
rm tree/broken.db
exits '--json and --figure are mutually exclusive' 2 'choose one' "$scan" importance tree --json --figure importance
exits '--theme needs --figure' 2 '^entropy-scan: --theme: needs --figure' "$scan" importance tree --theme dark
check 'a figure is drawn' sh -c '"$0" importance tree --figure importance -o bars.svg && grep -q "eval ppl" bars.svg && grep -q ">lr<" bars.svg' "$scan"
check 'a figure is drawn as PNG' sh -c '"$0" importance tree --figure importance -o bars.png && test -s bars.png' "$scan"
[ -z "${KEEP-}" ] || cp bars.png table.txt "$KEEP"
finish
