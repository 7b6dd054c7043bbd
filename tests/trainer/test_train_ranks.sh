#!/usr/bin/env bash
# Tests the training of one model by several processes. The results must equal those
# of a single process, whether a shell loop or mpirun starts the processes, and also
# on two hosts. All processes must end properly if one of them fails, is killed or is
# not started.
set -uo pipefail
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
own_corpus "$dir/corpus.tok" || exit 1
unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE SLURM_PROCID SLURM_NTASKS

small=(--n-layer 3 --n-head 2 --d-model 16 --ctx 12 --batch 3 --steps 9 --record-every 2
    --eval-every 4 --eval-batches 2 --threads 1 --seed 7 -q --data "$dir/corpus.tok")
status() { sqlite3 "$dir/$1.db" 'SELECT status FROM run'; }

ranks() { # WORLD NAME OPTION...: $dir/NAME.db; sets $codes to all exit codes; $dir/err.R
    local world=$1 name=$2 r pids=()
    shift 2
    rm -f "$dir/$name".db* "$dir"/err.*
    for ((r = 0; r < world; r++)); do
        timeout 300 "$train" "${small[@]}" -o "$dir/$name.db" --world "$world" \
            --rank $r "$@" >"$dir/out.$r" 2>"$dir/err.$r" </dev/null &
        pids+=($!)
    done
    codes=''
    for r in "${pids[@]}"; do
        wait "$r"
        codes+="${codes:+ }$?"
    done
}

samples() { # NAME: prints all recorded samples except the speed, one per line
    "$scan" export "$dir/$1.db" --format jsonl | tail -n +2 | grep -v tokens_per_s |
        sed 's/"uuid":"[^"]*",//'
}
same_samples() { # NAME ONE OTHER
    samples "$2" >"$dir/one" && samples "$3" >"$dir/other"
    check "$1" eval '[ -s "$dir/one" ] && diff "$dir/one" "$dir/other"'
}

# --- the same results --------------------------------------------------------

same() { # NAME ARCH OPTION...: all bits agree for 4 micro-batches in a fixed order
    local name=$1 arch=$2
    shift 2
    ranks 1 one --arch "$arch" --fixed-order --accumulate 4 "$@"
    ranks 2 two --arch "$arch" --fixed-order --accumulate 2 "$@"
    same_text "$name: both ranks end" '0 0' "$codes"
    same_samples "$name: two ranks have the same samples as one process" one two
}
same 'dropout' SM+LN+G --dropout 0.1 --record all
same 'temperatures, QK-Clip, WNorm, EReg' 'EReg(SM(t,clip 0.01)+WNorm(FFN)+LN+G)' --record all
same 'SNorm, a range loss' 'PSM(2)+SNorm(QK,FFN)+LN+R' --range-attn 0.01 --record standard
ranks 4 four --arch 'PSM(2)+SNorm(QK,FFN)+LN+R' --range-attn 0.01 --record standard \
    --fixed-order --accumulate 1
same_samples 'four ranks have the same samples as one process' one four

near() { # the losses of one and two differ by at most 1e-6, and none is missing
    local loss='"series":"loss"'
    paste <(samples one | grep "$loss") <(samples two | grep "$loss") >"$dir/pairs"
    awk -F '"value":|}' '{ d = $2 - $4; d = d < 0 ? -d : d; near += d <= 1e-6 && $2 > 0 }
        END { exit !(NR == 9 && near == NR) }' "$dir/pairs" || { cat "$dir/pairs"; false; }
}
ranks 1 one --arch SM+LN+G --accumulate 4
ranks 2 two --arch SM+LN+G --accumulate 2
check 'in the order of the ranks the losses agree to 1e-6' near
same_text 'measurements of the same weights agree in every digit' \
    "$(samples one | grep '"step":0,.*"entropy"')" "$(samples two | grep '"step":0,.*"entropy"')"
# --- ways to start ranks -----------------------------------------------------

if command -v mpirun >/dev/null; then
    rm -f "$dir"/mpi.db*
    check 'mpirun starts two ranks' timeout 300 mpirun --allow-run-as-root --oversubscribe \
        -n 2 "$train" "${small[@]}" --arch SM+LN+G --accumulate 2 -o "$dir/mpi.db" --world 0
    same_samples 'ranks started by mpirun give the same samples' two mpi
else
    skip 'mpirun starts two ranks' 'no mpirun: make test-deps'
fi
slurm() { SLURM_PROCID=$1 SLURM_NTASKS=2 timeout 300 "$train" "${small[@]}" \
    --arch SM+LN+G --accumulate 2 -o "$dir/slurm.db" "${@:2}"; }
slurm 1 --world 0 &
check "Slurm's variables determine rank and world" slurm 0 --world 0
wait
same_samples 'ranks from Slurm give the same samples' two slurm

# Two network namespaces with separate host names simulate two hosts.
spaces=("entropy-$$-0" "entropy-$$-1")
part() {
    local r
    for r in 0 1; do
        ip netns del "${spaces[r]}" 2>/dev/null
    done
}
divide() {
    local r
    trap 'part; rm -rf "$dir"' EXIT
    for r in 0 1; do
        ip netns add "${spaces[r]}" || return
    done
    ip -n "${spaces[0]}" link add link0 type veth peer name link0 netns "${spaces[1]}" || return
    for r in 0 1; do
        ip -n "${spaces[r]}" address add 10.77.0.$((r + 1))/24 dev link0 &&
            ip -n "${spaces[r]}" link set link0 up || return
    done
}
on_host() { # RANK OPTION...
    ip netns exec "${spaces[$1]}" unshare --uts sh -c 'hostname "$0" && exec "$@"' "host$1" \
        timeout 300 "$train" "${small[@]}" --arch SM+LN+G --accumulate 2 -o "$dir/hosts.db" \
        --world 2 --rank "$@"
}
if divide 2>"$dir/why" </dev/null; then
    on_host 1 2>/dev/null &
    check 'ranks train on two hosts' on_host 0
    wait
    same_samples 'ranks on two hosts give the same samples' two hosts
else
    skip 'ranks train on two hosts' "no network namespaces here: $(tail -n 1 "$dir/why")"
fi
part
exits 'without --world each process trains alone, with a warning' 0 \
    'warning: srun has started 2 processes, but each trains its own model: give --world 0' \
    env SLURM_PROCID=1 SLURM_NTASKS=2 "$train" "${small[@]}" --steps 1 --arch SM --no-record
exits '--world that differs from the number of started processes is refused' 2 \
    'entropy-train: --world 3: srun has started 2 processes .SLURM_NTASKS=2.: give --world 0' slurm 0 --world 3
one_rank() { timeout 300 "$train" "${small[@]}" --arch SM+LN+G -o "$dir/x.db" "$@"; }
exits 'a missing rank is refused' 2 'entropy-train: no rank: give --world N --rank R' \
    one_rank --world 2
exits 'a rank out of range is refused' 2 'entropy-train: --rank 2: --world 2 has ranks 0 to 1' \
    one_rank --world 2 --rank 2

# --- checkpoints and the end -------------------------------------------------

ranks 2 part --arch SM+LN+G --fixed-order --accumulate 2 --steps 5 --schedule constant \
    --checkpoint "$dir/kept"
ranks 2 whole --arch SM+LN+G --fixed-order --accumulate 2 --steps 9 --schedule constant
for world in 2 1; do
    rm -rf "$dir/used"
    cp -r "$dir/kept" "$dir/used"
    ranks $world rest --resume "$dir/used" --steps 9 --accumulate $((4 / world))
    same_text "ranks 0 to $((world - 1)) resume a checkpoint of two" \
        "$(samples whole | grep '"step":8')" "$(samples rest | grep '"step":8')"
done

ranks 2 nan --arch SM+LN+G --lr 1e30 --warm-up 0 --accumulate 2 --after-nan 2
same_text 'a loss that is not finite ends both ranks' '1 1' "$codes"
same_text 'a loss that is not finite is reported once' 1 "$(cat "$dir"/err.* | grep -c 'loss is not finite from')"

# --- failures ----------------------------------------------------------------

alone_reported() { # REGEX [RANK]: RANK prints the only line of all ranks
    [ "$(cat "$dir"/err.* | wc -l)" = 1 ] && grep -qE "$1" "$dir/err.${2:-0}" ||
        { tail -n +1 "$dir"/err.*; false; }
}
closed() { # the run is closed as failed once the recorder has finished
    until_true has_failed || { status long; false; }
}
has_failed() { [ "$(status long)" = failed ]; }
# Checks first that the file exists, because sqlite3 would create a missing file, and
# would delete the log of a file that is created in the meantime.
is_recorded() { [ -s "$dir/long.db" ] && [ "$(sqlite3 "$dir/long.db" 'SELECT count(*) FROM run' 2>/dev/null)" = 1 ]; }

start_three() { # OPTION...: sets pids of three ranks that train for long, once they have begun
    local r
    rm -rf "$dir"/long.db* "$dir"/err.*
    pids=()
    for r in 0 1 2; do
        timeout 300 "$train" "${small[@]}" --arch SM+LN+G --steps 1000000 --eval-every 0 \
            -o "$dir/long.db" --world 3 --rank $r "$@" >"$dir/out.$r" 2>"$dir/err.$r" \
            </dev/null &
        pids+=($!)
    done
    await 'three ranks train' is_recorded
}
end_three() { # sets $codes to the exit codes of the three ranks
    local p
    codes=''
    for p in "${pids[@]}"; do
        wait "$p" 2>/dev/null
        codes+="${codes:+ }$?"
    done
}
trainer_of() { pgrep -P "${pids[$1]}" entropy-train; } # child of its `timeout`

for dead in 0 1 2; do
    start_three --checkpoint "$dir/kept.$dead"
    kill -9 "$(trainer_of $dead)"
    end_three
    want=(3 3 3)
    want[dead]=137
    same_text "rank $dead is killed: all ranks end" "${want[*]}" "$codes"
    check "rank $dead is killed: one rank reports this" alone_reported \
        "^entropy-train: rank $dead \(process [0-9]+ on [^ ]+\) has ended unexpectedly: .* --resume" \
        $((dead == 0))
    check "rank $dead is killed: the run has failed" closed
done
check 'a checkpoint has the steps before the rank was killed' \
    eval 'ls "$dir"/kept.1/*.safetensors && ls "$dir"/kept.2/*.safetensors'

start_three --rank-timeout 10
kill -STOP "$(trainer_of 1)"
wait "${pids[2]}"
kill -CONT "$(trainer_of 1)"
end_three
same_text 'a silent rank: all ranks end' '3 3 3' "$codes"
check 'a silent rank: one rank reports this' alone_reported \
    '^entropy-train: rank 1 .* has been silent for longer than --rank-timeout'

start_three
touch "$dir/long.db.stop"
end_three
same_text 'a stop file ends all ranks properly' '0 0 0 stopped' "$codes $(status long)"

two_with() { # OPTIONS-OF-RANK-1 OPTION...: runs two ranks, one with different options
    local other=$1 r pids=()
    shift
    rm -f "$dir"/long.db* "$dir"/err.*
    for r in 0 1; do
        [ $r = 0 ] || set -- "$@" $other
        timeout 300 "$train" "${small[@]}" --arch SM+LN+G -o "$dir/long.db" --world 2 \
            --rank $r "$@" 2>"$dir/err.$r" >/dev/null </dev/null &
        pids+=($!)
    done
    codes=''
    for r in "${pids[@]}"; do
        wait "$r"
        codes+="${codes:+ }$?"
    done
}
differs() { # NAME OPTIONS-OF-RANK-1 CODES REGEX [REPORTER]
    two_with "$2" --rank-timeout 60
    same_text "$1: both ranks end" "$3" "$codes"
    check "$1: one rank reports this" alone_reported "^entropy-train: $4" "${5:-0}"
    check "$1: no run is recorded" [ ! -e "$dir/long.db" ]
}
differs 'another learning rate' '--lr 0.5' '2 2' \
    'rank 1 has --lr 0.5, rank 0 has --lr 1e-3: start all ranks with the same'
differs 'other data' "--data $dir/none.tok" '3 3' 'rank 1: .*none.tok: '
differs 'another number of ranks' '--world 3' '2 2' \
    'rank 1 was started with --world 3, rank 0 with 2: give all ranks the same --world'
differs 'no checkpoint in the folder of rank 1' "--resume $dir/none" '3 3' 'rank 1: .*none: '
echo 'not ours' >"$dir/other"
exits 'rank 1 is not started: rank 0 reports it' 3 \
    'entropy-train: rank 1 of 2 did not arrive at .*x.db.ranks within 0.3 s: start it' \
    one_rank --world 2 --rank 0 --rank-timeout 0.3
exits 'rank 0 is not started: rank 1 reports it' 3 \
    'entropy-train: rank 0 of 2 did not arrive at .*x.db.ranks within 0.3 s: start it' \
    one_rank --world 2 --rank 1 --rank-timeout 0.3
check 'no rendezvous file is left' eval '! ls "$dir"/x.db*'
exits 'a file that is not a rendezvous file is not overwritten' 2 \
    'entropy-train: .*other: not a rendezvous file of entropy-train' \
    one_rank --world 2 --rank 0 --rendezvous "$dir/other"
same_text 'a file that is not a rendezvous file is unchanged' 'not ours' "$(cat "$dir/other")"

printf 'entropy-train ranks 1\nkey %032d\nhost x\nport 9\naddress 127.0.0.1\n' 0 \
    >"$dir/old"
ranks 2 two --arch SM+LN+G --rendezvous "$dir/old"
same_text 'files left by a killed training run do not prevent training' '0 0' "$codes"
check 'files left by a killed training run are removed' [ ! -e "$dir/old" ]

finish
