#!/usr/bin/env bash
# Checks --group seed on the command line: which figures merge seeds, how merged
# seeds are labelled, and which combinations of options are refused.
. tests/support/tap.sh
plan_dir
cd "$dir"

# Imports a run with one seed of a configuration. It has two layers of three
# heads, all with the same entropy and the same count of NaN activations.
seed() { # FILE SEED RATE ENTROPY COUNT
    cat >run.csv <<END
# arch: SM
# n_layer: 2
# n_head: 3
# ctx: 8
# seed: $2
# config: {"lr":$3}
# series: head nats entropy
# series: layer - nan_activations
# series: layer - slope
# series: run nats loss
step,layer,head,entropy,nan_activations,slope,loss
END
    local step layer head
    for step in 0 10; do
        for layer in 0 1; do
            for head in 0 1 2; do echo "$step,$layer,$head,$4,,,"; done
            echo "$step,$layer,,,$5,0.$5,"
        done
        echo "$step,,,,,,$4"
    done >>run.csv
    "$scan" import -q run.csv -o "$1" || exit 1
}
seed a.db 1 0.1 0.5 2
seed b.db 2 0.1 1.0 6
seed c.db 3 0.1 NaN 4
seed d.db 1 0.2 0.25 1

draw() { "$scan" a.db b.db c.db d.db --group seed -q --figure "$1" -o "$1.svg"; }

draw heatmap
file_has 'a heatmap has the mean of the finite seeds' heatmap.svg '>0\.75<' '>step 10, mean of 3 of 3 seeds, 1 NaN<' '>lr = 0\.1<' '>0\.25<'
exits 'a heatmap does not show the single seeds' 1 '^$' grep -E '>0\.50<|>1\.00<' heatmap.svg
draw nans
file_has 'counts of NaN have mean and range' nans.svg '>lr = 0\.1 \(3 seeds\)<' '>activations, shaded: range over seeds<'
draw slopes
file_has 'slopes have mean and range' slopes.svg '>lr = 0\.1 \(3 seeds\)<' 'shaded: range over seeds<'
draw curves
file_has 'curves say which seeds end in NaN' curves.svg '>lr = 0\.1 \(3 seeds, 1 NaN\)<' '>lr = 0\.2<'
draw loss
file_has 'losses say which seeds end in NaN' loss.svg '>lr = 0\.1 \(3 seeds, 1 NaN\)<' 'mean and range over seeds'
for seed in 1 2; do
    printf '%s\n' '# arch: SM' '# n_layer: 1' '# n_head: 1' '# ctx: 8' "# seed: $seed" \
        step,layer,head,entropy,loss,eval:loss 0,0,0,1,, 0,,,,2,3 9,0,0,1,, "9,,,,1,2.$seed" >both.csv
    "$scan" import -q both.csv -o "both$seed.db" || exit 1
done
"$scan" -q both?.db --group seed --figure loss -o both.svg
file_has 'with held-out data, the range is of held-out data' both.svg 'shaded: range on held-out data'
draw overview
file_has 'an overview has a row for merged seeds' overview.svg '>seeds<' '>0\.1<' '>0\.2<' '>nan<' 'mean and range over seeds'
grep -v '^[0-9]' run.csv >empty.csv
"$scan" import -q empty.csv -o empty.db || exit 1
exits 'a run without samples is reported' 4 'has no sample of entropy yet' \
    "$scan" a.db empty.db d.db -q --sort -loss --figure overview -o empty.svg
file_has 'the overview counts the run and shows the others' empty.svg '1 unreadable, not shown' '>0\.1<' '>0\.2<'
lines() { grep -oE '>(1\.284|NaN)<' "$1" | tr -d '\n'; }
for order in loss -loss; do "$scan" c.db d.db -q --sort $order --figure overview -o order$order.svg; done
same_text 'rows are sorted like the table' '>1.284<>NaN<>1.284<>NaN<' "$(lines orderloss.svg)$(lines order-loss.svg)"
"$scan" a.db b.db d.db --group seed -q --figure heatmap+curves -o page.svg
file_has 'a page groups all of its figures' page.svg 'mean of 2 of 2 seeds<' '>lr = 0\.1 \(2 seeds\)<' '\(d\)'

exits 'a figure that cannot merge seeds is refused' 2 '--group applies only to --figure overview, heatmap, curves' \
    "$scan" a.db b.db --group seed --figure bands -o x.svg
exits 'it is refused among other figures' 2 '--group: pareto cannot show a mean over seeds' \
    "$scan" a.db b.db --group seed --figure curves,pareto -o .
exits 'it is refused on a page' 2 '--group: bands cannot show a mean over seeds' \
    "$scan" a.db b.db --group seed --figure curves+bands -o x.svg
exits 'another key of --group is refused' 2 'none or seed' "$scan" a.db b.db --group lr --curves=x.svg
exits '--spread and --group together are refused' 2 '--spread and --group are mutually exclusive' \
    "$scan" a.db b.db --group seed --spread range --curves=x.svg
check 'a failure leaves no file' test ! -e x.svg
finish
