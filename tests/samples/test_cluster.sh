#!/usr/bin/env bash
# alone: other tests would take Slurm's processors
# Tests samples/cluster with a real Slurm and, if there is one, a real PostgreSQL.
. tests/support/tap.sh
. tests/slurm/cluster.sh
. tests/support/postgres.sh
. tests/support/venv.sh
missing=$(cluster_missing)
if [ -n "$missing" ]; then
    skip 'the samples for clusters' "$missing"
    finish
    exit
fi
plan_dir
trap 'kill ${watcher:-} 2>/dev/null; cluster_stop; rm -rf "$dir"' EXIT
. tests/sweep/sweeping.sh
export PATH=$bin:$PATH
samples=$root/samples/cluster
chmod 711 "$dir" # munged, which is not root, must be able to enter
mkdir cluster runs
if ! cluster_start "$dir/cluster" 2; then
    fail 'Slurm starts' "$(tail -n 5 cluster/*.out cluster/*.log 2>&1)"
    finish
    exit
fi

# According to this fake table of mounts, the test folder is on nfs, where runs are
# recorded as fragments.
echo "20 1 0:20 / $dir rw - nfs server:/ rw" >mounts
export ENTROPY_MOUNTINFO=$dir/mounts

# --- one training, two tasks
job=$(sbatch --parsable --nodes=2 --output=ranks.out "$samples/ranks.sbatch" --arch SM+LN+G --data x.tok \
    "${model[@]/#/--}" --steps 40 --out runs/big.db)
gone() { [ -z "$(squeue -h -j "$job" 2>/dev/null)" ]; }
await 'the training of two tasks ends' gone
check 'two tasks train one model into a fragment' test -s runs/big.esf
check 'the tasks write no run file, whose log other hosts could not read' test ! -e runs/big.db
alone() { # trains the same steps in one process with twice as many micro-batches
    "$train" --arch SM+LN+G --data x.tok "${model[@]/#/--}" --steps 40 --accumulate 2 --threads 1 --out alone.db >/dev/null 2>&1
}
last_loss() { "$scan" "$1" --jsonl | sed 's/.*"loss":\([0-9.]\{5\}\).*/\1/'; }
alone
same_text 'the loss equals the loss of one process with the data of both tasks' "$(last_loss alone.db || last_loss alone.esf)" "$(last_loss runs/big.esf)"
n_runs=1 # number of runs in the folder that is pushed later
output 'the run ends as usual' '"status":"finished".*"step":39' "$scan" runs/big.esf --jsonl
check 'merge converts the fragment to a run file' "$scan" merge runs/big.esf -o big.db

# --- a PyTorch training on two nodes, each with a separate fragment
tiny=(x.tok --layers 2 --heads 3 --width 24 --ctx 16 --batch 5 --steps 3 --every 1)
ddp() { # NAME ARGUMENT...: runs Python with the arguments
    PYTHON=$python MASTER_PORT=$(cluster_ports 1) sbatch --wait --nodes=2 --time=5 --output="$1.out" \
        "$samples/ddp.sbatch" "runs/$1.db" "${@:2}" >/dev/null
}
loses_one() { ! ddp killed "$root/tests/samples/ddp_killed.py" "$samples" && grep 'task 1: Killed' killed.out; }
if python_with 'torch, numpy, cffi'; then
    export PYTHONPATH=$root/hooks/python ENTROPYSCAN_HOME=$bin OMP_NUM_THREADS=1
    n_runs=$((n_runs + 2))
    check 'two nodes train a PyTorch model' ddp ddp "$samples/ddp.py" "${tiny[@]}"
    same_text 'each rank records into a separate fragment' 'ddp.esf ddp.rank1.esf' "$(cd ranks/ddp && echo *)"
    output 'the fragments become one run at the end' '"n_layer":2.*"n_head":3.*"step":2' "$scan" runs/ddp.db --jsonl
    check 'one process trains with the same sequences' "$python" "$samples/ddp.py" "${tiny[@]}" --run whole.db
    check 'merged means equal the means over all rows' "$python" "$root/tests/samples/ddp_means.py" \
        whole.db runs/ddp.db ranks/ddp/ddp.esf ranks/ddp/ddp.rank1.esf
    check 'a training whose rank is killed fails' loses_one
    output 'and its fragments are joined with a counted gap' 'rank 1: lacks 1 of 3 training steps, from step 2 to step 2' \
        "$scan" sql runs/killed.db "SELECT message FROM event WHERE kind = 'gap'"
else
    skip 'a PyTorch training on two nodes' 'no PyTorch'
fi

# --- a sweep; the login node watches fragments
sed 's/code.tok/x.tok/; s/^n-layer.*/n-layer = 2/; s/^n-head.*/n-head = 3/; s/^d-model.*/d-model = 12/; s/^ctx.*/ctx = 16/
    s/^steps.*/steps = 60/; s/^arch.*/arch = SM/; s/^after-nan.*/after-nan = 50\nlr = 1e30\nclip = 0/' "$samples/sweep.ini" >sweep.ini
"$samples/sweep.sh" sweep.ini runs/sweep --severity critical >watch.out 2>watch.err &
watcher=$!
n_runs=$((n_runs + 2))
all_end() { "$scan" sweep runs/sweep --status 2>/dev/null | grep -qE '^2 runs: 2 failed'; }
check 'the runs of the sweep end' until_true all_end
statuses=$("$scan" sweep runs/sweep --status 2>&1)
same_text 'each run of the sweep is a fragment' "2 $statuses" "$(find runs/sweep -name '*.esf' | wc -l) $statuses"
reported() { [ "$(grep -c 'nan.*critical' watch.out)" -ge 2 ]; }
check 'watch on the login node reports both runs that became NaN' until_true reported
kill "$watcher" && wait "$watcher" 2>/dev/null
watcher=

# --- a push from a cron job
missing=$(postgres_missing)
if [ -n "$missing" ]; then
    skip 'a push from a cron job' "$missing"
    finish
    exit
fi
mkdir postgres
chmod 755 postgres
postgres_start "$dir/postgres" || fail 'PostgreSQL starts' "$(tail -n 5 postgres/log)"
cat >services <<END
[entropy]
host=$PGHOST
port=$PGPORT
user=$PGUSER
password=$PGPASSWORD
dbname=$PGDATABASE
END
count() { psql -qAtc 'SELECT count(*) FROM entropy_scan.run'; }
cron() { env -u PGHOST -u PGPORT -u PGUSER -u PGPASSWORD -u PGDATABASE PGSERVICEFILE=services "$samples/push.sh" runs service=entropy; }
cron >out 2>&1
same_text 'a cron job prints nothing on success' '0 ' "$? $(cat out)"
same_text 'the cron job pushes every run once' $n_runs "$(count)"
exec 9>>runs/.push.lock
flock 9
cp big.db runs/another.db
sqlite3 runs/another.db "UPDATE run SET uuid = '11111111-2222-4333-8444-555555555555'" 2>/dev/null
same_text 'a second push ends at once while the first is running' "0 $n_runs" "$(cron >out 2>&1; echo $?) $(count)"
finish
