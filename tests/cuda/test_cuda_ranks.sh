#!/usr/bin/env bash
# Tests several ranks on the CUDA back-end with emulated devices. Gradients are
# summed by a fake NCCL library within the captured step, or through the host
# without NCCL. Also tests a rank that disappears while the other ranks wait
# for it.
# needs: nvcc
set -uo pipefail
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
read -ra cc <<<"${CC:-gcc}"
library=$bin/tests/libentropytrain_cuda_host.so
unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE SLURM_PROCID SLURM_NTASKS FAKE_NCCL
export TMPDIR=$dir ENTROPY_TRAIN_CUDA=$library
own_corpus "$dir/corpus.tok" || exit 1
check 'NCCL can be faked' "${cc[@]}" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 \
    -fPIC -shared -fvisibility=hidden -o "$dir/libnccl.so" tests/gpu/fake_nccl.c -lm

# Compares the declarations in nccl.h with those of NCCL's header if the header
# is installed.
cuda=${CUDA_HOME:-/usr/local/cuda}/include
cat >"$dir/declared.cc" <<'END'
#include "hooks/trainer/cuda/nccl.h"
#include <nccl.h>
static_assert(sizeof(ncclUniqueId) == sizeof(es_nccl_id) && sizeof(ncclResult_t) == sizeof(int) &&
              ncclSuccess == 0 && (int)ncclFloat32 == ES_NCCL_FLOAT32 &&
              (int)ncclFloat64 == ES_NCCL_FLOAT64 && (int)ncclSum == ES_NCCL_SUM &&
              (int)ncclMax == ES_NCCL_MAX, "as NCCL has them");
typedef ncclDataType_t type;
static const char *(*error)(ncclResult_t) = ncclGetErrorString;
static ncclResult_t (*id)(ncclUniqueId *) = ncclGetUniqueId;
static ncclResult_t (*init)(es_nccl_comm *, int, ncclUniqueId, int) = ncclCommInitRank;
static ncclResult_t (*check)(es_nccl_comm, ncclResult_t *) = ncclCommGetAsyncError;
static ncclResult_t (*reduce)(const void *, void *, size_t, type, ncclRedOp_t, es_nccl_comm,
                              cudaStream_t) = ncclAllReduce;
static ncclResult_t (*ends[])(es_nccl_comm) = {ncclCommDestroy, ncclCommAbort};
END
if echo '#include <nccl.h>' | g++ -xc++ -isystem "$cuda" -fsyntax-only - 2>/dev/null; then
    check 'the declarations match those of the NCCL header' \
        g++ -std=c++17 -D_GNU_SOURCE -I. -isystem "$cuda" -fsyntax-only "$dir/declared.cc"
else
    skip 'the declarations match those of the NCCL header' 'no nccl.h'
fi

ranks() { # WORLD NAME OPTION...: sets $codes; writes $dir/NAME.db and $dir/err.RANK
    local world=$1 name=$2 r pids=()
    shift 2
    rm -f "$dir/$name".db* "$dir"/err.*
    for ((r = 0; r < world; r++)); do
        timeout 300 "$train" --backend cuda --n-layer 2 --n-head 2 --d-model 16 --ctx 8 \
            --batch 2 --steps 5 --record-every 2 --eval-every 4 --eval-batches 1 --seed 7 -q \
            --threads 1 --data "$dir/corpus.tok" -o "$dir/$name.db" --world "$world" --rank $r \
            "$@" >"$dir/out.$r" 2>"$dir/err.$r" </dev/null &
        pids+=($!)
    done
    codes=''
    for r in "${pids[@]}"; do
        wait "$r"
        codes+="${codes:+ }$?"
    done
}
samples() {
    "$scan" export "$dir/$1.db" --format jsonl | tail -n +2 | grep -v tokens_per_s |
        sed 's/"uuid":"[^"]*",//'
}

for arch in SM+LN+G 'SM(t,clip 0.01)+WNorm(FFN)+LN+G'; do
    ENTROPY_TRAIN_NCCL=$dir/none.so ranks 2 host --arch "$arch" --accumulate 2
    same_text "$arch: without NCCL both ranks finish" '0 0' "$codes"
    same_text "$arch: a warning says that gradients go through the host" 1 "$(grep -c \
        'warning: gradients are exchanged through the host: .*none.so: ' "$dir/err.0")"
    ENTROPY_TRAIN_NCCL=$dir/libnccl.so ranks 2 device --arch "$arch" --accumulate 2
    same_text "$arch: with NCCL both ranks finish" '0 0 ' "$codes $(cat "$dir"/err.*)"
    same_text "$arch: NCCL gives the same samples" "$(samples host)" "$(samples device)"
    [ -n "$(samples device)" ] || fail "$arch: samples are recorded"
done

# Uses more micro-batches than a single captured sequence can contain.
ENTROPY_TRAIN_NCCL=$dir/none.so ranks 2 host --arch SM+LN+G --accumulate 9 --steps 3
ENTROPY_TRAIN_NCCL=$dir/libnccl.so ranks 2 device --arch SM+LN+G --accumulate 9 --steps 3
same_text 'many micro-batches: NCCL gives the same samples' "$(samples host)" "$(samples device)"

# Lets the ninth sum fail. Each step has four sums (one per layer, the other
# gradients, and the losses), so this is the first sum of the third step.
FAKE_NCCL=9 ENTROPY_TRAIN_NCCL=$dir/libnccl.so ranks 2 fails --arch SM+LN+G
same_text 'NCCL fails: all ranks end' '3 3' "$codes"
same_text 'NCCL fails: exactly one line is printed' 1 "$(cat "$dir"/err.* | wc -l)"
check 'NCCL fails: the message names NCCL' grep -q '^entropy-train: .*NCCL' "$dir/err.0"
same_text 'NCCL fails: the run is closed as failed' failed \
    "$(sqlite3 "$dir/fails.db" 'SELECT status FROM run')"

# Lets a rank die while the devices connect. NCCL itself would wait forever for
# this rank.
FAKE_NCCL=dies ENTROPY_TRAIN_NCCL=$dir/libnccl.so ranks 2 dies --arch SM+LN+G
same_text 'a rank dies while connecting: all ranks end' '3 137' "$codes"
check 'a rank dies while connecting: the message names this rank' grep -qE \
    '^entropy-train: rank 1 \(process [0-9]+ on [^ ]+\) has ended unexpectedly' "$dir/err.0"
FAKE_NCCL=hangs ENTROPY_TRAIN_NCCL=$dir/libnccl.so ranks 2 hangs --arch SM+LN+G --rank-timeout 10
same_text 'a rank hangs while connecting: all ranks end' '3 3' "$codes"
same_text 'a rank hangs while connecting: exactly one line is printed' 1 "$(cat "$dir"/err.* | wc -l)"
check 'a rank hangs while connecting: the message states the time limit' grep -qE \
    '^entropy-train: .*NCCL: the ranks. devices did not connect within 10 s ' "$dir/err.0"

are_recorded() { [ -s "$dir/long.db" ] && [ "$(sqlite3 "$dir/long.db" 'SELECT count(*) FROM sample')" -gt 0 ]; }
long() { # kills rank 1 during the training, and waits for rank 0
    rm -f "$dir"/long.db* "$dir"/err.*
    local r pids=()
    for r in 0 1; do
        ENTROPY_TRAIN_NCCL=$dir/libnccl.so "$train" --backend cuda --arch SM+LN+G --n-layer 2 \
            --n-head 2 --d-model 16 --ctx 8 --batch 2 --steps 1000000 --record-every 100 \
            --eval-every 0 -q --data "$dir/corpus.tok" -o "$dir/long.db" --world 2 --rank $r \
            >"$dir/out.$r" 2>"$dir/err.$r" </dev/null &
        pids+=($!)
    done
    await 'two ranks train' are_recorded
    kill -9 "${pids[1]}"
    wait "${pids[0]}"
}
long
same_text 'a rank is killed: the other rank ends' 3 $?
check 'a rank is killed: the message names this rank' grep -qE \
    '^entropy-train: rank 1 \(process [0-9]+ on [^ ]+\) has ended unexpectedly' "$dir/err.0"

finish
