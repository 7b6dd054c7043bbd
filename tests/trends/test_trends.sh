#!/usr/bin/env bash
# Tests entropy-scan --trends with layers of two heads that fall linearly, stay
# constant, or oscillate.
. tests/support/tap.sh
plan_dir
cd "$dir"

if "$scan" --version | grep -q '^no GSL'; then
    cp "$root/samples/runs/sm.db" .
    exits '--trends needs GSL' 2 'built without GSL' "$scan" sm.db --trends
    skip 'trends' 'no GSL'
    finish
    exit
fi

awk 'BEGIN {
    print "# name: falls\n# ctx: 128\nstep,layer,head,entropy,loss"
    for (s = 0; s <= 100; s += 2) {
        for (h = 0; h < 2; h++) {
            printf "%d,0,%d,%.6f,\n", s, h, 3 - 0.02 * s + (h ? 0.5 : -0.5)
            printf "%d,1,%d,2,\n", s, h
            printf "%d,2,%d,%s,\n", s, h, s == 90 ? "NaN" : 2 + (s % 4 ? 0.1 : -0.1)
        }
        printf "%d,,,,%.4f\n", s, 5 - 0.01 * s
    }
}' >falls.csv
"$scan" import -q falls.csv -o falls.db || exit 1
printf '2,1,3\n1,2,3\n' >one.csv
"$scan" import -q one.csv -o one.db --ctx 128 --name one || exit 1

"$scan" falls.db --trends >table.txt
# The threshold is 5 % of ln(128!)/128 = 3.878, that is 0.1939. The line 3 -
# 0.02 * step reaches it at step 140.3.
file_has 'a trend is extended to its threshold' table.txt \
    '^  layer 0 falls 0\.02 nats a step \(0\.02 to 0\.02, p [0-9.]+e-[0-9]+; robust fit 0\.02, 0\.02 to 0\.02\), below 5% of the ceiling at step 140 \(140 to 140\)$'
file_has 'constant and oscillating layers have no trend' table.txt '^  no trend: 2 of 3$'
file_has 'the range of steps is printed' table.txt '^falls, trends over steps 50 to 100$'
check '--trends does not change the table' sh -c '"$0" falls.db >plain.txt; head -n 2 plain.txt >a; head -n 2 table.txt | cmp - a' "$scan"
"$scan" falls.db --trends --json >x.json
check '--json prints valid JSON' sh -c 'test "$(sqlite3 :memory: "select json_valid(readfile(\"x.json\"))")" = 1'
file_has '--json has the numbers of the trends' x.json '"layer":0,"n":26,"slope":-0\.0(2|19999|20000)[0-9]*,' \
    '"passes":\{"threshold":0\.193[0-9]*,"step":140\.[0-9]*,' '"robust":\{"slope":-0\.0(2|19999|20000)[0-9]*,"low":-0\.0[0-9]*,"high":-0\.0[0-9]*,"reason":null\}' \
    '"layer":1,"n":26,"slope":null,"slope_state":"missing".*"reason":"equal values","robust":\{"slope":null,"slope_state":"missing",.*"reason":"equal values"\}'
output 'a series of the run gives one trend' '^  loss falls 0\.01 nats a step ' "$scan" falls.db --trends --series loss
output 'one sample gives no trend' '^  fewer than 8 points: 2 of 2$' "$scan" one.db --trends
awk 'BEGIN {
    print "# name: planned\n# ctx: 128\n# config: {\"steps\":121}\nstep,layer,head,entropy"
    for (s = 0; s <= 100; s += 2)
        printf "%d,0,0,%.6f\n%d,1,0,%.6f\n", s, 3 - 0.02 * s, s, 3 - 0.026 * s
}' >planned.csv
"$scan" import -q planned.csv -o planned.db || exit 1
"$scan" planned.db --trends >table.txt
file_has 'a threshold beyond the planned steps is not passed' table.txt 'layer 0 falls .* 0\.02 to 0\.02\)$' \
    'layer 1 falls .*, below 5% of the ceiling at step 108 '
output 'rules move the threshold' 'below 20% of the ceiling at step 111 ' sh -c '
    "$0" rules | sed "/^\[collapse\]/,/^\[/s/^head *=.*/head = 0.2/" >rules.ini && "$0" falls.db --trends --rules rules.ini' "$scan"
output 'trends end at the step shown' '^falls, trends over steps 30 to 60$' "$scan" falls.db --trends --step 60
output 'each run has separate trends' '^one, trends over steps 0 to 0$' "$scan" falls.db one.db --trends
output 'trends are printed with a comparison' '^falls, trends over' "$scan" falls.db one.db --trends --compare
"$scan" -q falls.db --trends --curves=trends.svg
"$scan" -q falls.db --curves=plain.svg
check 'curves have the trend as a dashed line with its area' sh -c 'test "$(grep -c stroke-dasharray trends.svg)" -gt "$(grep -c stroke-dasharray plain.svg)" &&
    grep -q "dashed: trends" trends.svg && ! grep -q "dashed: trends" plain.svg'
check 'the step axis of curves extends to the threshold' sh -c 'grep -q ">140<" trends.svg && ! grep -q ">140<" plain.svg'
"$scan" -q planned.db --trends --curves=planned.svg --step 60 && "$scan" -q planned.db --heads 0 --trends --curves=heads.svg
check 'heads have no trends' sh -c '! grep -q "dashed: trends" heads.svg && grep -q "dashed: trends" planned.svg'
exits '--trends is refused with CSV' 2 '^entropy-scan: --trends needs the table, --json or --curves' "$scan" falls.db --trends --csv
finish
