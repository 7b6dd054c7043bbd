#!/usr/bin/env bash
# Everything that needs a GPU, in one command of under ten minutes:
# `make gpu-check`. Each stage leaves its table in OUT; a stage whose table is
# there already is not done again, so that an interrupted check goes on.
#
#   OUT        tables and run files (BUILD/gpu): at most 8 files of 16 MiB
#   BUILD      where the programs lie (build); they are made first, unless
#   PREBUILT   is 1: they were made elsewhere (tests/gpu/bundle.sh)
#   STAGES     which ("verify parity sanitize attention step replicate")
#   ES_SHARED  the folder with reference/train (../shared)
#   MINUTES    of the training at the end (1)
#
# Exit code: 0 all that ran passed, 1 a stage failed, 3 there is no device.
set -uo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
OUT=${OUT:-$BUILD/gpu}
ES_SHARED=${ES_SHARED:-../shared}
train=$BUILD/entropy-train
export BUILD OUT ES_SHARED
mkdir -p "$OUT" || exit 3

if [ "${PREBUILT:-0}" != 1 ]; then
    make -j"$(nproc)" CUDA=1 all gpu-programs >"$OUT/build.txt" 2>&1 ||
        { tail -20 "$OUT/build.txt"; exit 1; }
    rm "$OUT/build.txt"
fi
card=$(nvidia-smi --query-gpu=name,driver_version,memory.total \
    --format=csv,noheader 2>/dev/null | head -1)
[ -n "$card" ] || { echo 'skipped: no CUDA device' >&2; exit 3; }

# The reference cases: fp32 to the tolerance of the CPU, the others to theirs.
verify() {
    local cases=("$ES_SHARED"/reference/train/*/) failed=0
    [ -e "${cases[0]}" ] ||
        { echo "skipped: no reference cases in $ES_SHARED"; return; }
    for precision in fp32 tf32 bf16 fp16; do
        echo "== $precision"
        "$train" verify --backend cuda --precision "$precision" \
            "${cases[@]}" || failed=1
    done
    return $failed
}

parity() { # every operation against plain loops in double
    local failed=0
    for program in "$BUILD"/tests/test_cuda_*; do
        case $program in *.so | *.sh) continue ;; esac
        echo "== $(basename "$program")"
        ENTROPY_TRAIN_CUDA=$BUILD/libentropytrain_cuda.so "$program" \
            >"$OUT/one.part" 2>&1 || failed=1
        grep -vE '^\[( RUN  |       OK )' "$OUT/one.part"
        # There is a device: whoever says otherwise has not tested.
        ! grep -q 'no CUDA device' "$OUT/one.part" || failed=1
    done
    rm -f "$OUT/one.part"
    return $failed
}

# Memory and races, where the sanitizer can run at all.
sanitize() {
    local failed=0 case=("$ES_SHARED"/reference/train/g17*/)
    command -v compute-sanitizer >/dev/null ||
        { echo 'skipped: compute-sanitizer is not installed'; return; }
    compute-sanitizer "$train" bench --backend cuda --pairs 5 --n-layer 1 \
        --n-head 1 --d-model 16 --ctx 8 --vocab 11 2>&1 |
        grep -q 'Device not supported' &&
        { echo 'skipped: compute-sanitizer cannot run here'; return; }
    [ -e "${case[0]}" ] ||
        { echo "skipped: no reference cases in $ES_SHARED"; return; }
    for tool in memcheck racecheck; do
        for precision in fp32 bf16; do
            echo "== $tool, $precision"
            compute-sanitizer --tool $tool --error-exitcode 9 \
                "$train" verify --backend cuda --precision $precision \
                "${case[@]}" 2>&1 | tail -4
            [ "${PIPESTATUS[0]}" = 0 ] || failed=1
        done
    done
    return $failed
}

attention() { python3 tests/gpu/peer_torch.py attention "$BUILD/gpu-bench-attention"; }
step() { python3 tests/gpu/peer_torch.py step "$train"; }

replicate() {
    BUILD=$BUILD OUT=$OUT samples/gpu-replicate.sh \
        "${ARCH:-SM+LN+G}" "${MINUTES:-1}"
}

n_failed=0
for stage in ${STAGES:-verify parity sanitize attention step replicate}; do
    table=$OUT/$stage.md
    if [ -s "$table" ]; then
        echo "== $stage: done before, $table"
        continue
    fi
    echo "== $stage"
    if { echo "# $stage"; echo; echo "$card, $(date -u +%F)"; echo
        "$stage" 2>&1; } >"$table.part"; then
        mv "$table.part" "$table"
        cat "$table"
    else
        cat "$table.part"
        mv "$table.part" "$OUT/$stage-failed.md"
        n_failed=$((n_failed + 1))
    fi
done
echo "gpu-check: $n_failed of the stages failed; tables in $OUT"
[ $n_failed = 0 ]
