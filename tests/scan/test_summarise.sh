#!/usr/bin/env bash
# Tests entropy-scan summarise --slurm with a real Slurm, which tests/slurm
# starts.
. tests/support/tap.sh
. tests/slurm/cluster.sh
. tests/support/background.sh
plan_dir
root=$PWD
cd "$dir"
run() { # PATH FIRST-HEAD: a run of three layers of two heads, at ctx 128
    printf '%s,3.0\n2.0,1.0\n0.5,2.5\n' "$2" | "$scan" import - -q --arch SM --ctx 128 -o "$1"
}
mkdir -p tree/a/b
for i in $(seq 40); do run "tree/a/run$i.db" "1.$i"; done
run tree/a/b/collapsed.db 0.01
echo broken >"tree/a/b/no run.db"
run "tree/%j of a 'name'.db" 3.5
"$scan" tree >here 2>here.err
code=$?

# --- without Slurm
"$scan" summarise tree -j 3 >out 2>err
same_text 'summarise has the exit code of a scan of the folder' "$code" "$?"
same_text 'summarise prints the same as a scan of the folder' "$(cat here here.err)" "$(cat out err)"
exits '--tasks without --slurm' 2 '\-\-tasks needs --slurm' "$scan" summarise tree --tasks 4
exits '--slurm refuses pictures' 2 'omit the other outputs' "$scan" tree --slurm --heatmap
exits 'summarise has no option for pictures' 2 "heatmap" "$scan" summarise tree --heatmap
exits 'a missing sbatch is reported' 3 '^entropy-scan: sbatch: cannot run: No such file' env PATH=/none "$scan" summarise tree --slurm -o table
check 'without sbatch no output is written' test ! -e table
rm -r summary.parts

missing=$(cluster_missing)
if [ -n "$missing" ]; then
    skip 'a summary by Slurm' "$missing"
    finish
    exit
fi
trap 'kill ${front:-} 2>/dev/null; cluster_stop; rm -rf "$dir"' EXIT
chmod 711 "$dir" # munged, which does not run as root, must be able to pass
mkdir cluster
if ! cluster_start "$dir/cluster"; then
    fail 'Slurm starts' "$(tail -n 5 cluster/*.out cluster/*.log 2>&1)"
    finish
    exit
fi

# --- eight tasks
"$scan" summarise tree --slurm >out 2>err
same_text 'eight tasks give the exit code of one process' "$code" "$?"
same_text 'eight tasks print the same as one process' "$(cat here)" "$(cat out)"
same_text 'eight tasks report the file that failed' "$(cat here.err)" "$(grep -v 'job [0-9]* of Slurm: 8 of 8 parts submitted$' err)"
file_has 'the job is reported' err '^entropy-scan: summary.parts: job [0-9]* of Slurm: 8 of 8 parts submitted$'
check 'the work folder is removed' test ! -e summary.parts
for kind in --json --csv --jsonl '--sort=-max --max ceiling' "--where max>3 --csv"; do
    # shellcheck disable=SC2086
    "$scan" tree $kind >one 2>/dev/null
    # shellcheck disable=SC2086
    "$scan" summarise tree --slurm --tasks 5 $kind -o many 2>/dev/null
    check "the same bytes: $kind" cmp one many
done
printf '[rule falls]\nseries=entropy\naggregate=layer_min\nbelow=1.3\nseverity=error\n' >r.ini
"$scan" tree --rules r.ini --check >one 2>/dev/null
code=$?
"$scan" summarise tree --rules r.ini --check --slurm >many 2>/dev/null
same_text 'tasks use the rules file of --check' "$code" "$?"
check 'the table shows the flags of rules' cmp one many
"$scan" summarise tree/a/run1.db tree/a/run2.db --slurm >many 2>err
file_has 'no more tasks than files are submitted' err ' 2 of 2 parts submitted$'

# --- failures
exits 'a failure of sbatch is reported with the message of sbatch' 3 'summary.parts/task.sbatch: sbatch failed: .*[Ii]nvalid partition' \
    "$scan" summarise tree --slurm -o table -- --partition=nowhere
parts() { find summary.parts -name 'part-*' | wc -l; }
front() { # OPTION...: starts a summary in the background
    "$scan" summarise tree --slurm --csv -o table "$@" >out 2>err &
    front=$!
}
joined() { wait "$front"; code=$?; front=; }
job_of() { cat summary.parts/job; }

# All tasks are pending because the partition is down; one of them is cancelled,
# the others run later.
scontrol update PartitionName=all State=DOWN
front
await 'a job is submitted' test -s summary.parts/job
job=$(job_of)
exits 'repeating the command does not submit twice' 3 "summary.parts: job $job is still running: wait until it ends, or scancel $job" \
    "$scan" summarise tree --slurm --csv -o table
scancel "${job}_3"
scontrol update PartitionName=all State=UP
joined
same_text 'a cancelled task is a failure' 3 "$code"
check 'a cancelled task is reported with its log and a remedy' \
    grep -q "^entropy-scan: task ${job}_3 of Slurm left the queue before it began: there is no summary.parts/slurm-${job}_3.out: repeat the command$" err
file_has 'the number of kept parts is reported' err 'summary.parts: 1 of 8 parts are missing, so no output is written; the other 7 parts are kept'
check 'a failed attempt writes no output' test ! -e table
same_text 'a failed attempt keeps seven parts' 7 "$(parts)"
"$scan" tree --csv >one 2>/dev/null
"$scan" summarise tree --slurm --csv -o table 2>err
file_has 'repeating the command submits the missing parts' err ' 1 of 8 parts submitted$'
check 'the second attempt has the output of one process' cmp one table
rm -f table

# The process that waits to join the parts is killed while tasks are pending.
# The job continues.
scontrol update PartitionName=all State=DOWN
front
await 'a job is submitted' test -s summary.parts/job
kill "$front"
joined
scontrol update PartitionName=all State=UP
all_there() { [ "$(parts)" = 8 ]; }
check 'the job continues without the joining process' until_true all_there
"$scan" summarise tree --slurm --csv -o table 2>err
check 'repeating the command submits nothing' sh -c '! grep "of Slurm" err'
check 'repeating the command joins the existing parts' cmp one table

# The parts of a table that tasks have written are not reused for other files or
# another command line, and a modified part is refused.
with_parts() { # leaves a failed attempt in which all parts but one exist
    rm -rf summary.parts
    scontrol update PartitionName=all State=DOWN
    front
    await 'a job is submitted' test -s summary.parts/job
    scancel "$(cat summary.parts/job)_5"
    scontrol update PartitionName=all State=UP
    joined
}
with_parts
run tree/z.db 2
"$scan" tree --csv >one 2>/dev/null
"$scan" summarise tree --slurm --csv -o table 2>err
file_has 'parts are not reused after a file was added' err ' 8 of 8 parts submitted$'
check 'the output includes the added file' cmp one table
with_parts
rm -f table
printf '\377' | dd of=summary.parts/part-2 bs=1 seek=200 conv=notrunc status=none
exits 'a modified part is refused' 3 'summary.parts/part-2: belongs to another summary or version of entropy-scan: remove it' \
    "$scan" summarise tree --slurm --csv -o table
check 'a modified part writes no output' test ! -e table
rm summary.parts/part-2
# A task that has written its part of the table may stay in the queue for a
# while, and may even write it before sbatch returns.
mkdir fake
printf '#!/bin/sh\necho 5\nexec %s "$@"\n' "$(command -v squeue)" >fake/squeue
printf '#!/bin/sh\n%s "$@" || exit\nuntil test -e summary.parts/part-2; do sleep 0.1; done\n' \
    "$(command -v sbatch)" >fake/sbatch
chmod +x fake/*
PATH=$PWD/fake:$PATH "$scan" summarise tree --slurm --csv -o table 2>err
file_has 'only the removed part is read again' err ' 1 of 8 parts submitted$'
check 'the repeated attempt has the output of one process' cmp one table

# Real Slurm limits are minutes long, so scripts replace Slurm's programs and
# report that a task has exceeded its limit.
says() { # STATE
    printf '#!/bin/sh\necho 7\n' >fake/sbatch
    printf '#!/bin/sh\n' >fake/squeue
    printf '#!/bin/sh\necho JobId=9 JobState=%s Reason=None\n' "$1" >fake/scontrol
    chmod +x fake/*
    mkdir -p summary.parts
    echo 'slurmstepd: error' | tee summary.parts/slurm-7_0.out >summary.parts/slurm-7_1.out
}
for case in 'TIMEOUT:give it more time (-- --time=...) or more --tasks, and repeat' \
    'OUT_OF_MEMORY:give it more memory (-- --mem=...), and repeat' 'CANCELLED:repeat' 'NODE_FAIL:repeat'; do
    says "${case%%:*}"
    PATH=$PWD/fake:$PATH "$scan" summarise tree --slurm --tasks 2 2>err
    same_text "${case%%:*}: what to do about it" \
        "entropy-scan: task 7_1 of Slurm wrote no part (${case%%:*}); see summary.parts/slurm-7_1.out: ${case#*:} the command" \
        "$(grep 7_1 err)"
done
finish
