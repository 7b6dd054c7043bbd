#!/usr/bin/env bash
# Tests `make replicate` end to end with small runs: checks which runs are trained, kept
# and refused. One of the models becomes NaN at one of the learning rates.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
export BUILD=$bin REPLICATE_DIR=$dir/runs REPLICATE_RESULTS=$dir/results
export REPLICATE_RULES=$dir/rules.toml REPLICATE_DIRTY=1 REPLICATE_NICE=0 PYTHONDONTWRITEBYTECODE=1
mkdir "$dir/runs"
write_source "$dir/src"
"$corpus" -q -o "$dir/runs/corpus.tok" "$dir/src" || echo 'Bail out! no corpus'
sha256=$(sha256sum <"$dir/runs/corpus.tok" | cut -d' ' -f1)
cat >"$REPLICATE_RULES" <<END
edition = 7
alpha = 0.05
confidence = 0.95
fewest = 2
[corpus]
sha256 = "$sha256"
[seeds]
tuning = [101]
judged = [1, 2]
[rates]
grid = [1e-3, 1e-2, 1e12]
start = [1e-2, 1e12]
[options]
n-layer = 2
n-head = 3
d-model = 12
ctx = 16
batch = 4
accumulate = 1
steps = 12
record-every = 1
eval-every = 12
eval-batches = 2
after-nan = 2
[quick]
models = ["SM"]
rates = { grid = [1e-2], start = [1e-2] }
[[model]]
name = "SM"
[[model]]
name = "EReg gamma 0.1"
arch = "EReg(SM(t)+ScFuFFN)"
rate = "SM"
options = { gamma = 0.1 }
[[model]]
name = "SM+LR(layer)"
rate = "SM"
options = { slope-decay = true }
[[claim]]
text = "SM is worse"
papers = "P1"
published = "NaN"
measure = "perplexity"
of = "SM"
than = "EReg gamma 0.1"
expect = "above"
[[claim]]
text = "Too large"
papers = "P4"
published = "1.4 B"
expect = "untestable"
why = "size"
END

replicate() { samples/truth/replicate.py "$@" >"$dir/said" 2>"$dir/complaints" || { cat "$dir/complaints"; return 1; }; }
report=$dir/results/truth-claims.md json=$dir/results/truth.json
names() { (cd "$dir/runs" && echo $(printf '%s\n' *.db | LC_ALL=C sort)); }
check 'make replicate runs' replicate
check 'rates beyond the edge are trained too, then the judged seeds at the best rate' test "$(names)" = \
    "$(echo {EReg-gamma-0.1-lr0.01-s1,EReg-gamma-0.1-lr0.01-s2,SM-LR-layer-lr0.01-s1,SM-LR-layer-lr0.01-s2,SM-lr0.001-s101}.db \
        {SM-lr0.01-s1,SM-lr0.01-s101,SM-lr0.01-s2,SM-lr1e+12-s101}.db)"
check 'the page contains the checksum of the rules' grep -q "SHA-256 $(sha256sum <"$REPLICATE_RULES" | cut -d' ' -f1)" "$report"
check 'the page contains the checksum of the corpus' grep -q "SHA-256 $sha256" "$report"
check 'the page names the kernels' grep -qxE '^- kernels: [a-z0-9]+, OpenBLAS .*' "$report"
check 'a claim has its interval and verdict' grep -qE '^\| SM is worse \|.*%\) \| 2 \| [0-9.]+ \| \*\*[a-z]+\*\* ' "$report"
check 'an untestable claim has its reason' grep -qE '^\| Too large \|.*\*\*not testable here\*\*: size' "$report"
check 'the heads are drawn' test "$(head -c 4 "$dir/results/truth-heads.png" | tail -c 3)" = PNG
in_json() { # PYTHON: checks an expression about the results r
    python3 -c "import json, sys; r = json.load(open('$json')); sys.exit(not ($1))"
}
check 'a rate that gives NaN is not chosen' in_json \
    'set(r["rates"].values()) == {0.01} and r["tuning"]["SM"]["1000000000000.0"] == ["infinite"]'
ppl=$("$scan" "$dir/runs/SM-lr0.01-s2.db" --json | grep -o '"eval_ppl":[0-9.]*' | cut -d: -f2)
check 'a run has the perplexity of its file' in_json \
    "[x['perplexity'] for x in r['runs'] if (x['model'], x['seed']) == ('SM', 2)] == [$ppl]"
gamma=$("$scan" sql "$dir/runs/EReg-gamma-0.1-lr0.01-s1.db" "SELECT min(value) - 0.1 AS x
    FROM es_values('theta', 'train') WHERE step = 11" --csv | tail -1)
check 'a run has the smallest threshold of its file' in_json \
    "[abs(x['smallest threshold minus gamma'] - $gamma) < 1e-7 for x in r['runs'] if (x['model'], x['seed']) == ('EReg gamma 0.1', 1)] == [True]"

stamps() { stat -c '%n %y' "$dir"/runs/*.db; }
before=$(stamps)
cp "$json" "$dir/first.json"
check 'a second call succeeds' replicate
check 'the second call trains nothing' test "$(stamps)" = "$before"
check 'the second call writes the same results' cmp "$json" "$dir/first.json"
rm "$dir/runs/SM-lr0.01-s1."{done,db}
check '--report works if a run is missing' replicate --report
check '--report trains nothing' test ! -e "$dir/runs/SM-lr0.01-s1.db"
check 'the report mentions the missing run' grep -q '1 run is missing' "$report"
check 'an incomplete replication can be resumed' replicate
changed() { stamps | grep -vxFf <(echo "$before") | grep -o '[^/]*\.db' | tr '\n' ' '; }
same_text 'only the missing run is trained again' 'SM-lr0.01-s1.db ' "$(changed)"

# Write the rules of a second edition, which extends the first one. It has
# separate runs and results, but both editions share a page.
{
    sed -n '/^\[\[model/,$d; /^\[quick/,$d; p' "$REPLICATE_RULES" | sed 's/^edition = 7/edition = 8\nbeside = "rules.toml"/; s/^judged = .*/judged = [3, 4]/'
    printf '[[model]]\nname = "SM"\nrate = 1e-2\n[[model]]\nname = "SM+LN"\nrate = 1e-2\n'
    printf '[[claim]]\ntext = "Not too large"\ninstead = "Too large"\npapers = "P4"\npublished = "1.4 B"\n'
    printf 'measure = "perplexity"\nof = "SM"\nthan = "SM+LN"\nexpect = "above"\n'
} >"$dir/later.toml"
mkdir "$dir/later" && cp "$dir/runs/corpus.tok" "$dir/later" && cp "$json" "$dir/first.json"
later() { REPLICATE_RULES=$dir/later.toml REPLICATE_DIR=$dir/later replicate "$@"; }
check 'an extending edition runs' later
same_text 'the extending edition trains at the rate in its rules' 'SM-LN-lr0.01-s3.db SM-LN-lr0.01-s4.db SM-lr0.01-s3.db SM-lr0.01-s4.db' \
    "$(cd "$dir/later" && echo $(printf '%s\n' *.db | LC_ALL=C sort))"
check 'the extending edition leaves the first results unchanged' cmp "$json" "$dir/first.json"
check 'the page has the claims of the second edition' grep -qE '^\| 8 \| Not too large \|' "$report"
check 'the page has the claims of the first edition' grep -qE '^\| 7 \| SM is worse \|' "$report"
exits 'the page does not have the replaced claim' 1 '^$' grep 'Too large' "$report"
cp "$report" "$dir/page.md"
check 'the page can be made again without runs' later --page
check 'the page made again is the same' cmp "$report" "$dir/page.md"

refuses() { # NAME REGEX [OPTION...]
    local name=$1 regex=$2
    shift 2
    exits "$name" 1 "^replicate.py: .*$regex" samples/truth/replicate.py "$@"
}
cp "$REPLICATE_RULES" "$dir/rules"
sed -i 's/fewest = 2/fewest = 1/' "$REPLICATE_RULES"
refuses 'existing runs of other rules are refused' 'its runs are of rules .*: check out or restore the earlier one'
cp "$dir/rules" "$REPLICATE_RULES"
REPLICATE_DATA=$dir/runs/corpus.tok refuses 'a corpus that is not that of the rules is refused' 'the rules require another corpus'
REPLICATE_JOBS=none refuses 'a number of jobs that is not a number is refused' "REPLICATE_JOBS: 'none'"
mkdir "$dir/other" && head -c 5000 "$dir/runs/corpus.tok" >"$dir/other/corpus.tok"
REPLICATE_DIR=$dir/other refuses 'a token file that is not the pinned one is refused' 'SHA-256 .* remove the file'
export REPLICATE_DATA=$dir/runs/corpus.tok REPLICATE_DIR=$dir/quick
check 'a quick edition accepts any corpus' replicate --quick
check 'the page of a quick edition says that it is no evidence' grep -q 'The quick edition: .* nothing else' "$report"
stamps() { stat -c '%n %y' "$dir"/quick/*.db; }
before=$(stamps)
sed -i 's/^steps = .*/steps = 11/' "$REPLICATE_RULES"
check 'a quick edition accepts changed settings' replicate --quick
same_text 'changed settings train the runs of a quick edition again' 'SM-lr0.01-s1.db SM-lr0.01-s101.db SM-lr0.01-s2.db ' "$(changed)"
unset REPLICATE_DATA
cp -r samples/truth "$dir/copy" # a folder without commit
REPLICATE_DIRTY='' GIT_CEILING_DIRECTORIES=$dir exits 'sources without a commit are refused' 1 'no git commit' \
    "$dir/copy/replicate.py"
git init -q "$dir/copy" && git -C "$dir/copy" add . && git -C "$dir/copy" -c user.name=n \
    -c user.email=n@localhost commit -qm one && echo '# changed' >>"$dir/copy/judge.py"
REPLICATE_DIRTY='' exits 'sources that differ from the commit are refused' 1 'judge.py: differs from the commit' \
    "$dir/copy/replicate.py"
sed -i 's/^steps = .*/steps = 100000000/' "$REPLICATE_RULES"
export REPLICATE_DIR=$dir/long
mkdir "$dir/long" && cp "$dir/runs/corpus.tok" "$dir/long"
samples/truth/replicate.py 2>"$dir/complaints" &
replicate=$!
await 'a long run begins' test -e "$dir/long/SM-lr0.01-s101.db"
refuses 'a second replication in the folder is refused' 'another process trains there'
kill $replicate
wait $replicate
same_text 'a signal ends the replication' 143 $?
check 'the signal also ends the running training' flock -w 60 "$dir/long/lock" true
check 'the interrupted training does not count as finished' test ! -e "$dir/long/SM-lr0.01-s101.done"
sed -i 's/^n-head = .*/n-head = 5/' "$REPLICATE_RULES"
REPLICATE_DIR=$dir/none
mkdir "$dir/none" && cp "$dir/runs/corpus.tok" "$dir/none"
refuses 'an impossible model is refused' 'SM-lr.*heads|SM-lr.*head'
finish
