#!/usr/bin/env bash
# Tests samples/analysis: queries the runs of a small sweep in DuckDB, from run files and
# from Parquet.
# needs: PyTorch
. tests/support/tap.sh
. tests/support/venv.sh
plan_dir
python_with 'duckdb, pyarrow, numpy, cffi' || { fail 'runs in DuckDB' "$no_modules"; finish; exit; }
export PYTHONPATH=hooks/python ENTROPYSCAN_HOME=$bin
analysis() { "$python" samples/analysis/analysis.py "$@"; }

mkdir "$dir/texts"
for i in $(seq 40); do
    printf 'def f%d(x):\n    return x * %d\n' $(seq "$i" $((i + 39))) >"$dir/texts/m$i.py"
done
check 'a corpus is made' "$corpus" -q -o "$dir/code.tok" "$dir/texts"
# Run six of the sweep's thousand runs, with learning rates at which heads survive or
# collapse.
sed -e "s|^data = .*|data = $dir/code.tok|" -e 's/^arch = .*/arch = SM; SM+LN+G/' \
    -e 's/^seed = .*/seed = 1/' -e 's/^lr = .*/lr = 1e-4 3e-3 3/' \
    samples/analysis/sweep.ini >"$dir/sweep.ini"
exits 'the runs of the sweep are trained, and two of them collapse' 1 'collapse L0-1' "$scan" sweep "$dir/sweep.ini" -o "$dir/runs"
same_text 'there are six runs' 6 "$(ls "$dir"/runs/*.db | wc -l)"

check 'run files are queried' sh -c "'$python' samples/analysis/analysis.py '$dir/runs' --json >'$dir/files.json'"
check 'Parquet is made and queried' sh -c \
    "'$python' samples/analysis/analysis.py '$dir/runs' --parquet '$dir/p' --json >'$dir/parquet.json'"
check 'queries of Parquet give the same answers as queries of run files' cmp "$dir/files.json" "$dir/parquet.json"
mv "$dir/runs" "$dir/runs.kept"
check 'exported Parquet is queried without the run files' sh -c \
    "'$python' samples/analysis/analysis.py --parquet '$dir/p' --json | cmp - '$dir/parquet.json'"
judge() { # EXPRESSION: checks an expression about the five answers
    "$python" - "$dir/files.json" "$1" <<'END'
import json, sys
count, settings, heads, time, loss = json.load(open(sys.argv[1])).values()
assert eval(sys.argv[2]), (count, settings, heads, time, loss)
END
}
check 'no value is missing in the answers' judge "count == [{'runs': 6, 'entropies': 6 * 31 * 6, 'missing': 0, 'nan': 0}]"
check 'heads collapse at a rate of 3 and not at small rates' judge \
    "[(s['lr'], s['collapsed']) for s in settings] == [(1e-4, 0), (3e-3, 0), (3.0, 1)] * 2"
check 'all heads are listed' judge \
    "{(h['layer'], h['head']) for h in heads} == {(l, h) for l in (0, 1) for h in (0, 1, 2)}"
check 'the step of a collapse is found' judge "all(t['lr'] == 3 and 0 < t['earliest'] < 60 for t in time)"
output 'tables are readable' 'mean_of_ceiling' analysis --parquet "$dir/p"

exits 'a folder without runs is refused' 1 'no run file' analysis "$dir/texts"
exits 'a folder without exports is refused' 1 'no exported run' analysis --parquet "$dir/texts"
exits 'a command without folders is refused' 2 'give a folder' analysis
printf 'no run' >"$dir/runs.kept/broken.db"
exits 'a file that is not a run file is refused' 1 'broken.db' analysis "$dir/runs.kept"
finish
