#!/usr/bin/env bash
# Tests --backend: back-ends are found by name. If a library or a device is missing,
# fails during a run, or is incompatible with this build, the program uses the CPU or
# prints a message.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
unset ENTROPY_TRAIN_CUDA WRAPPED

own_corpus "$dir/corpus.tok" || exit 1
run=(--arch SM+LN+G --n-layer 2 --n-head 2 --d-model 16 --ctx 16 --batch 4
    --steps 12 --record-every 1 --eval-every 6 --eval-batches 2 --threads 1
    --seed 7 --data "$dir/corpus.tok" -q)

build() { # LIBRARY FLAG...
    local to=$1
    shift
    "${CC:-gcc}" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I. -O1 -fPIC \
        -fvisibility=hidden -fopenmp -pthread \
        "$@" -shared -o "$to" \
        tests/backends/wrapped.c -Wl,--start-group "$BUILD"/lib/trainer.a \
        "$BUILD"/lib/analyzer.a -Wl,--end-group -lopenblas -lm
}
wrapped=$dir/wrapped.so
check 'a test library can be built' build "$wrapped" || exit 1
build "$dir/other.so" -DSTAMP=7 || exit 1
echo 'int nothing;' >"$dir/nothing.c"
"${CC:-gcc}" -shared -fPIC -o "$dir/nothing.so" "$dir/nothing.c"
echo 'a missing library is refused' >"$dir/text.so"

by() { # LIBRARY HOW COMMAND...
    local library=$1 how=$2
    shift 2
    env ENTROPY_TRAIN_CUDA="$library" WRAPPED="$how" "$@"
}
ask() { sqlite3 "$1" "$2"; }

# --- names and precisions ----------------------------------------------------

exits 'an unknown back-end is refused' 2 "unknown back-end 'abacus': expected cpu, cuda or auto" \
    "$train" "${run[@]}" --no-record --backend abacus
exits 'an unknown precision is refused' 2 "unknown value 'fp8': expected one of fp32, tf32, bf16, fp16" \
    "$train" "${run[@]}" --no-record --precision fp8
for precision in tf32 fp16; do
    exits "$precision is refused on the CPU" 2 "back-end cpu has no precision $precision: use fp32 or bf16" \
        "$train" "${run[@]}" --no-record --precision "$precision"
done
exits 'fp16 emulation in bf16 is refused' 2 'emulate fp16 rounds float32 values: use --precision fp32' \
    "$train" "${run[@]}" --no-record --precision bf16 --emulate fp16
exits 'a precision that the library lacks is refused' 2 'back-end cuda has no precision tf32' \
    by "$wrapped" '' "$train" "${run[@]}" --no-record --backend cuda --precision tf32

# --- libraries ---------------------------------------------------------------

exits 'a missing library is refused' 3 "absent.so: .*: back-end cuda is not available" \
    by "$dir/absent.so" '' "$train" "${run[@]}" --no-record --backend cuda
exits 'a text file in place of a library is refused' 3 'text.so: .*: back-end cuda is not available' \
    by "$dir/text.so" '' "$train" "${run[@]}" --no-record --backend cuda
exits 'a library that is not a back-end is refused' 3 'nothing.so: not a back-end' \
    by "$dir/nothing.so" '' "$train" "${run[@]}" --no-record --backend cuda
exits 'a library of another build is refused' 3 'other.so: belongs to another build' \
    by "$dir/other.so" '' "$train" "${run[@]}" --no-record --backend cuda
exits 'verify refuses a library of another build' 3 'other.so: belongs to another build' \
    by "$dir/other.so" '' "$train" verify --backend cuda "$dir"
exits 'a missing device is refused' 3 'CUDA: no device' \
    by "$wrapped" no-device "$train" "${run[@]}" --no-record --backend cuda

# --- auto --------------------------------------------------------------------

same() { # A.db B.db: both runs have the same numbers
    local sql="SELECT name, phase, step, hex(value) FROM sample
        JOIN series USING (series_id) WHERE name <> 'tokens_per_s' ORDER BY 1, 2, 3"
    [ -n "$(ask "$1" "$sql")" ] && cmp <(ask "$1" "$sql") <(ask "$2" "$sql")
}
backend_of() { ask "$1" "SELECT json_extract(config, '\$.backend') FROM run"; }

"$train" "${run[@]}" -o "$dir/cpu.db" || fail 'a run by the CPU'
for how in no-device ''; do
    name=${how:-device}
    by "$wrapped" "$how" "$train" "${run[@]}" --backend auto -o "$dir/$name.db" \
        >"$dir/$name.out" 2>"$dir/$name.err" || fail "auto, $name: a run"
    check "auto, $name: results equal those of the CPU" same "$dir/cpu.db" "$dir/$name.db"
done
check 'auto, no device: one warning is printed' [ "$(wc -l <"$dir/no-device.err")" = 1 ]
check 'auto, no device: the warning gives the reason' grep -q 'warning: .*CPU.*CUDA: no device' \
    "$dir/no-device.err"
check 'auto, device: no warning is printed' [ ! -s "$dir/device.err" ]
check 'auto, no device: the run records cpu' [ "$(backend_of "$dir/no-device.db")" = cpu ]
check 'auto, device: the run records cuda' [ "$(backend_of "$dir/device.db")" = cuda ]
exits 'auto, no device: fp16 is refused on the CPU' 2 'back-end cpu has no precision fp16' \
    by "$wrapped" no-device "$train" "${run[@]}" --no-record --backend auto --precision fp16

# --- a device that fails -----------------------------------------------------

exits 'a device that fails during a run ends it' 3 '^entropy-train: CUDA: an illegal address was used$' \
    by "$wrapped" fails "$train" "${run[@]}" --backend cuda -o "$dir/fails.db" \
    --checkpoint "$dir/saved"
check 'the run ends as failed' [ "$(ask "$dir/fails.db" 'SELECT status FROM run')" = failed ]
check 'the earlier records are kept' [ "$(ask "$dir/fails.db" "SELECT count(*) FROM sample
    JOIN series USING (series_id) WHERE name = 'loss' AND phase = 'train'")" -ge 3 ]
check 'no NaN was recorded' [ "$(ask "$dir/fails.db" "SELECT count(*)
    FROM sample WHERE hex(value) = 'FFFFFFFF'")" = 0 ]
check 'no checkpoint is written' [ -z "$(ls "$dir"/saved/*.safetensors 2>/dev/null)" ]

# --- fp16 --------------------------------------------------------------------

scaled=("${run[@]}" --backend cuda --precision fp16 --name scaled)
check 'fp16: a run is recorded' by "$wrapped" fp16 "$train" "${scaled[@]}" -o "$dir/fp16.db" \
    --checkpoint "$dir/fp16" --checkpoint-every 5
check 'fp16: the scale is recorded' [ "$(ask "$dir/fp16.db" "SELECT hex(value) FROM sample
    JOIN series USING (series_id) WHERE name = 'loss_scale' AND step = 3")" = 00008047 ]
check 'fp16: the run can be resumed' by "$wrapped" fp16 "$train" -q -o "$dir/on.db" --checkpoint "$dir/on" \
    --resume "$dir"/fp16/scaled-00000005.safetensors
exits 'fp16: the CPU refuses the checkpoint' 2 'back-end cpu has no precision fp16' \
    by "$wrapped" fp16 "$train" -q --resume "$dir"/fp16/scaled-00000005.safetensors \
    --backend cpu --no-record
check 'fp32: no scale is recorded' [ "$(ask "$dir/cpu.db" "SELECT count(*) FROM series
    WHERE name = 'loss_scale'")" = 0 ]
finish
