#!/usr/bin/env bash
# Tests entropy-scan --compare on the command line: valid and refused
# combinations of options.
. tests/support/tap.sh
plan_dir
cp samples/runs/sm-ln-g.db samples/runs/sm.db "$dir"
cd "$dir"

# Makes the run NAME with two heads, whose entropies are the second and the
# third argument.
make_run() {
    printf '%s,%s\n' "$2" "$3" >run.csv
    "$scan" import -q run.csv -o "$1.db" --name "$1" --ctx 128 || exit 1
}
make_run low 0.5 1
make_run high 1.5 2
make_run flat 3.5 3.75
"$scan" merge -q low.db high.db -o both.db || exit 1

output '--compare has a line for each run' '^SM +SM +10\.77 ' "$scan" sm-ln-g.db sm.db --compare
output 'only settings that differ have a column' '^run +arch +eval ppl ' "$scan" sm-ln-g.db sm.db --compare
output 'costs that differ have a column' 'GB +95% +minutes +95% ' "$scan" sm-ln-g.db sm.db --compare
output 'modelled costs are marked as modelled' '^GB, minutes: modelled cost of a private forward pass' "$scan" sm-ln-g.db sm.db --compare
output 'a run of unknown shape has no cost rather than 0' '^low +.* +- +- ' "$scan" sm.db low.db --compare
output 'equal costs have no column' '^no column$' sh -c '"$0" sm.db sm.db --compare | grep -q minutes || echo no column' "$scan"
output 'a modelled cost is a member of --json' '"modelled_gb":0\.5[0-9]+,.*"modelled_minutes":0\.0[0-9]+,' "$scan" sm.db --json
output 'a modelled cost in --json has an interval' '"modelled_gb_low":0\.[0-9]+,"modelled_gb_high":0\.[0-9]+,' "$scan" sm.db --json
output 'a table of --compare has modelled costs' '^SM .* 0\.5[0-9]* +0\.[0-9]+-0\.[0-9]+ ' "$scan" sm-ln-g.db sm.db --compare
output 'an unknown cost is null in --json' '"modelled_gb":null,"modelled_gb_state":"missing"' "$scan" low.db --json
output '--where compares a modelled cost' '^SM +SM ' "$scan" sm-ln-g.db sm.db --where 'modelled_gb<0.6'
output 'two runs have a distance' 'W1: Kolmogorov-Smirnov and Wasserstein' "$scan" low.db high.db --compare
output 'runs of one file are compared' '^0 +low +\. +1\.000 +1\.000$' "$scan" both.db flat.db --compare
if "$scan" --version | grep -q '^GSL'; then
    output 'one layer gives p = 1' '^low .* 1\.000 +1 +1 +1\.000$' "$scan" low.db --baseline high.db
    output 'several layers give a smaller p' '^SM .* 0\.347 +0\.12 +0\.12 +0\.295$' "$scan" sm.db --baseline sm-ln-g.db
else
    skip 'p by exchanging layers' 'no GSL'
    output 'the missing GSL is reported' '^no intervals, p and g: this program is built without GSL$' "$scan" sm.db --baseline sm-ln-g.db
fi
output '--baseline implies --compare' '^compared with the baseline: ' "$scan" low.db --baseline high.db
output 'an added baseline is shown as a run' '^high \(baseline\) ' "$scan" low.db --baseline high.db
output 'a baseline that is an input is not added twice' '^2$' sh -c '"$0" low.db high.db --baseline ./high.db --json | grep -c "^{\"path\""' "$scan"
output 'a baseline is recognised as an input by any path' '"baseline":1' sh -c 'ln low.db other.db && "$0" high.db low.db --baseline other.db --json' "$scan"
output '--check does not judge an added baseline' '^low' "$scan" low.db --baseline flat.db --check
exits '--check judges a baseline that is an input' 1 '^$' "$scan" low.db flat.db --baseline low.db --check
exits 'a missing baseline is an error' 3 'none\.db: no such file' "$scan" low.db --baseline none.db
exits 'a comparison without its baseline is not printed' 3 'none\.db: no baseline was read' "$scan" low.db --baseline none.db
exits 'a baseline of two runs is refused' 3 'both\.db: a baseline is a single run, but this file has 2 runs' "$scan" flat.db --baseline both.db
exits 'a baseline without a run is refused' 2 'no run file' "$scan" --baseline low.db
exits '--compare refuses --csv' 2 'prints only tables or --json' "$scan" low.db high.db --compare --csv
exits '--compare refuses --jsonl' 2 'prints only tables or --json' "$scan" low.db high.db --compare --jsonl
output '--sort puts the runs in order' '^low high flat $' sh -c '"$0" low.db flat.db high.db --compare --sort -run |
    awk "/^(low|high|flat) /{ printf \"%s \", \$1 }"' "$scan"
output '--sort moves the baseline as well' '"baseline":1' "$scan" high.db flat.db low.db --baseline high.db --sort -run --json
mkdir -p tree/below
cp low.db flat.db tree
cp high.db tree/below
output 'runs below a folder are compared' '^[0-9] +high ' "$scan" -r tree --compare
output 'a baseline found below a folder is one of its runs' '"baseline":2' sh -c '"$0" -r tree --baseline tree/low.db --json' "$scan"
output 'a baseline found below a folder is listed once' '^3$' sh -c '"$0" -r tree --baseline tree/below/high.db --json | grep -c "^{\"path\""' "$scan"
exits '--check judges a baseline found below a folder' 1 '^$' "$scan" -r tree --baseline tree/flat.db --check --where run=none
output 'a baseline outside of the folder is shown as a run' '"baseline":3' sh -c '"$0" -r tree --baseline sm.db --json' "$scan"
output '--where leaves the baseline in' '^high \(baseline\) ' "$scan" low.db high.db --baseline high.db --where run=low
exits 'a run that cannot be read is reported' 4 'none\.db: no such file' "$scan" low.db none.db high.db --compare
output 'a run that cannot be read is left out' '^{"schema":2' sh -c '"$0" low.db none.db high.db --compare --json || [ $? -eq 4 ]' "$scan"
exits 'no readable run is an error' 3 'none\.db: no such file' "$scan" none.db --compare
output '-o FILE writes the tables to a file' '^high ' sh -c '"$0" low.db high.db --compare -o table.txt && cat table.txt' "$scan"
output '-q prints nothing' '^0$' sh -c '"$0" -q low.db high.db --compare | wc -c' "$scan"
output '--series compares another series' 'of max_logit over heads' "$scan" sm-ln-g.db sm.db --compare --series max_logit
output 'm is described by its policy' '^m in nats \(run: ' "$scan" low.db high.db --compare --max run
check 'a picture shows the runs that are compared' sh -c '"$0" low.db --baseline high.db --heatmap=x.svg >table.txt &&
    grep -q low x.svg && grep -q high x.svg && grep -q "^high (baseline)" table.txt' "$scan"
check '--json with a comparison is valid JSON' sh -c '"$0" sm-ln-g.db sm.db low.db --compare --json >x.json &&
    test "$(sqlite3 :memory: "select json_valid(readfile(\"x.json\"))")" = 1' "$scan"
check 'the runs of JSON are the same without a comparison' sh -c '"$0" sm-ln-g.db sm.db --json | sed "/^\]}/d" >plain.json &&
    "$0" sm-ln-g.db sm.db --json --compare | sed "/^\],\"comparison\"/,\$d" | cmp - plain.json' "$scan"
check 'a comparison is reproducible' sh -c '"$0" sm.db low.db both.db --compare --json >1.json &&
    "$0" sm.db low.db both.db --compare --json | cmp - 1.json' "$scan"
finish
