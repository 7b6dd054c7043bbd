#!/usr/bin/env bash
# Tests entropy-scan sweep --slurm with a real Slurm, which
# tests/slurm/cluster.sh starts.
. tests/support/tap.sh
. tests/slurm/cluster.sh
missing=$(cluster_missing)
if [ -n "$missing" ]; then
    skip 'a sweep on Slurm' "$missing"
    finish
    exit
fi
plan_dir
trap 'kill ${watcher:-} 2>/dev/null; cluster_stop; rm -rf "$dir"' EXIT
. tests/sweep/sweeping.sh
export PATH=$bin:$PATH

chmod 711 "$dir" # munged does not run as root and needs access
mkdir cluster
if ! cluster_start "$dir/cluster"; then
    fail 'Slurm starts' "$(tail -n 5 cluster/*.out cluster/*.log 2>&1)"
    finish
    exit
fi

submit() { # SPEC DIR [OPTION]...: submits; sets $job; messages go to DIR.err
    local file=$1 folder=$2
    shift 2
    job=$(entropy-scan sweep "$file" -o "$folder" --slurm "$@" 2>"$folder.err")
}
status() { entropy-scan sweep "$1" --status 2>&1; }
counts() { status "$1" | grep -E '^[0-9]+ runs?: '; }
has_counts() { [ "$(counts "$1" | sed 's/;.*//')" = "$2" ]; }
job_of() { sqlite3 "$1" "SELECT config ->> 'slurm_job' FROM run"; }

# --- a requeued run and a doomed run at the same time
spec doomed.ini SM 1 steps=2000000 after-nan=2000000 lr=1e30 clip=0
spec long.ini SM+LN+G 1 accumulate=$batches steps=400 record-every=1 checkpoint-every=20
healthy=SM+LN+G_seed1 doomed=SM_seed1
folder="a sweep's %j"
submit doomed.ini doomed
doom=$job
submit long.ini "$folder" -j 2
long=$job
same_text 'the id of the job is printed' 1 "$(grep -cE '^[0-9]+$' <<<"$long")"
check 'the number of submitted runs is reported' grep -q "^entropy-scan: $folder: job $long of Slurm: 1 run submitted\$" "$folder.err"
check 'the batch script is kept in the folder' grep -qx '#SBATCH --array=0-0%2' "$folder/slurm-$long.sbatch"
has_checkpoint() { ls "$folder/$healthy.checkpoints/" 2>/dev/null | grep -qE -- '-0*([4-9]|1[0-9])0\.'; }
await 'a checkpoint is written' has_checkpoint
shows() { status "$folder" | grep -qE "$1"; } # samples are recorded with a delay of a second
check '--status shows a task at work' until_true shows "^${healthy//+/.} +running +\[#+-+\] .* ${long}_0 "
output '--status shows the job' "^1 run: 1 running; Slurm job $long\$" entropy-scan sweep "$folder" --status
scontrol requeue "${long}_0"
until_true has_state "$folder" "$healthy" queued && pass 'a task that was requeued waits again' ||
    fail 'a task that was requeued waits again' "$(status "$folder")"
entropy-scan sweep long.ini -o "$folder" --slurm >again 2>again.err
check 'a queued run is not submitted again' sh -c '! [ -s again ] && grep -q "1 queued: nothing to submit" again.err'
# At the same time, the same sweep runs on this machine without interruption.
entropy-scan sweep long.ini -o whole -j 1 >/dev/null 2>&1 &
whole=$!

# --- a small sweep that runs to its end
spec good.ini 'SM+LN+G; SM' '1 2' steps=30 '[slurm]' 'time = 0:10:00' "comment = it's fine #1" mem=0
submit good.ini good
good=$job
check 'a doomed run is stopped by rule' until_true has_state doomed "$doomed" failed
check 'the task of a doomed run reports the stop' grep -q "^$doomed: stop requested: nan .*(critical)" "doomed/slurm-${doom}_0.out"
check 'the doomed run is stopped long before its last step' test "$(sqlite3 "doomed/$doomed.db" 'SELECT last_step < 1999999 FROM run')" = 1
check 'a sweep runs to its end as an array' until_true has_counts good '4 runs: 4 finished'
same_text 'a finished sweep has no job' '4 runs: 4 finished; no sweep is running' "$(counts good)"
same_text 'each task trains one run, which contains the task' \
    "${good}_0 ${good}_1 ${good}_2 ${good}_3" \
    "$(for run in SM+LN+G_seed1 SM+LN+G_seed2 SM_seed1 SM_seed2; do job_of good/$run.db; done | xargs)"
output 'the task is not compared as a setting' '2 configurations' entropy-scan good/*.db --compare
same_text 'options of sbatch are passed on' "it's fine #1" \
    "$(scontrol show job "${good}_0" | sed -n 's/^ *Comment=\(.*[^ ]\) *$/\1/p')"
entropy-scan sweep good.ini -o good >out 2>err
entropy-scan good/*.db --check -q
same_text 'the same sweep on this machine has the same exit code' $? \
    "$(entropy-scan sweep good.ini -o good >/dev/null 2>&1; echo $?)"
check 'the picture is drawn' test -s good/bands.png
entropy-scan sweep good.ini -o good --slurm >out 2>err
check 'nothing is submitted twice' sh -c '! [ -s out ] && grep -q "4 already done, .*: nothing to submit" err'

# --- end of the requeued run. It would otherwise wait; an update while the task
# is still ending is lost.
goes_on() {
    scontrol update JobId="${long}_0" StartTime=now >/dev/null 2>&1
    grep -q '^resuming ' "$folder/$healthy.log"
}
await 'the requeued run continues' goes_on
check 'the requeued run ends' until_true has_state "$folder" "$healthy" finished
check 'the requeued run resumes from its checkpoint' grep -q 'resuming .*-0000[0-9]*\.safetensors at step' "$folder/$healthy.log"
same_text 'the requeued run resumes once, in the same task' "1 ${long}_0" \
    "$(sqlite3 "$folder/$healthy.db" "SELECT count(*) FROM event WHERE kind = 'resumed'") $(job_of "$folder/$healthy.db")"
wait "$whole"
same_text 'a requeued run equals an uninterrupted one bit by bit' "$(frames whole/$healthy.db)" "$(frames "$folder/$healthy.db")"

# --- broken runs, lost tasks
spec bad.ini 'SM+XX; SM' 1 accumulate=40 steps=2000000 checkpoint-every=20
submit bad.ini bad
check 'a run that fails is reported as broken' until_true has_state bad SM+XX_seed1 broken
output '--status shows the last lines of the broken run' "^    entropy-train: .*part 'XX'" entropy-scan sweep bad --status
check 'the other runs continue' until_true has_state bad SM_seed1 running
saved() { ls bad/SM_seed1.checkpoints/*.safetensors >/dev/null 2>&1; }
await 'a checkpoint is written' saved
exits 'a run in training is not trained twice' 3 'SM_seed1: another process is training this run' entropy-scan sweep bad --run SM_seed1
scancel "$job"
check 'a cancelled run is interrupted' until_true has_state bad SM_seed1 interrupted
lost() { status bad | grep -q "^SM_seed1: left Slurm's queue"; }
check "a cancelled task has left the queue" until_true lost
output 'the output of a lost task is shown' '^    slurmstepd.*CANCELLED AT' entropy-scan sweep bad --status
old=$job
sed -i 's/XX/G/' bad/SM+XX_seed1.cmd # a different command line
exits 'a changed sweep is not submitted' 3 'another command line' entropy-scan sweep bad.ini -o bad --slurm
sed -i 's/SM+G/SM+XX/' bad/SM+XX_seed1.cmd
submit bad.ini bad
same_text 'unfinished runs are submitted again' 2 "$(grep -c '_seed1$' "bad/slurm-$job.sbatch")"
check 'the second submission is another job' test "$job" -gt "$old"
check 'the run resumes' until_true grep -q '^resuming ' bad/SM_seed1.log
scancel "$job"

# --- the sample: a watcher cancels a task
mkdir runs
entropy-scan watch runs --exec "$root/samples/schedulers/cancel.py" >watch.out 2>watch.err &
watcher=$!
sample=$(sbatch --parsable --array=0,2 "$root/samples/schedulers/array.sbatch" --arch SM+LN+G \
    --data x.tok "${model[@]/#/--}" --steps 2000000 --warm-up 0.00004 --accumulate 4 --clip 0 --threads 1)
in_queue() { squeue -hrj "$sample" -o '%i %T' 2>/dev/null | grep -v COMPLETING | sort | xargs; }
only_healthy() { [ "$(in_queue)" = "${sample}_0 RUNNING" ]; }
check 'the task whose run collapsed is cancelled, no other' until_true only_healthy
check 'the sample reports the cancellation' grep -q "^scancel ${sample}_2: .*: collapse" watch.err
has_status() { [ "$(sqlite3 "runs/lr$1.db" 'SELECT status FROM run')" = "$2" ]; }
check 'the run of the cancelled task is closed' until_true has_status 3e-1 stopped
check 'the healthy run continues' has_status 1e-3 running
scancel "$sample"
kill "$watcher" && wait "$watcher" 2>/dev/null
watcher=

# --- no Slurm, or a refusal
spec refused.ini SM 1 steps=30 '[slurm]' 'partition = nowhere'
exits 'a refusal of sbatch is reported in its words' 3 '^entropy-scan: refused/slurm.sbatch: sbatch failed: .*[Ii]nvalid partition' \
    entropy-scan sweep refused.ini -o refused --slurm
mkdir few
for program in entropy-scan entropy-train entropy-recorder; do ln -s "$bin/$program" few; done
exits 'no sbatch' 3 '^entropy-scan: sbatch: cannot run: No such file' env PATH=few few/entropy-scan sweep good.ini -o none --slurm
rm -f none/*.db
queued() { env PATH=few few/entropy-scan sweep "$1" --status; }
scontrol update PartitionName=all State=DOWN
submit good.ini later
same_text 'without squeue the folder shows what was submitted' \
    "4 runs: 4 queued; Slurm job $job, according to the folder: Slurm did not answer" \
    "$(queued later | grep '^4 runs')"
exits 'without squeue nothing is submitted, to avoid submitting runs twice' 3 'squeue: cannot run' \
    env PATH=few few/entropy-scan sweep good.ini -o later --slurm
spec many.ini 'SM+LN+G; SM' "$(seq 501 | xargs)" steps=30
submit many.ini many
same_text 'more runs than an array may have become two arrays' '1002 2' \
    "$(squeue -hr -j "$(tr '\n' , <<<"$job")" -o %i | wc -l) $(wc -l <<<"$job")"
same_text 'each array has its runs' "1002 runs: 1002 queued; Slurm job $(xargs <<<"$job" | sed 's/ /, /')" "$(counts many)"
cp good.ini unnamed
exits 'a spec without an ending needs -o' 2 'unnamed: no folder' entropy-scan sweep unnamed --slurm
exits 'an unknown run is refused' 2 "no run 'x'" entropy-scan sweep good --run x
exits 'a path instead of the name of a run is refused' 2 "no run '../good/SM_seed1'" entropy-scan sweep bad --run ../good/SM_seed1
finish
