#!/usr/bin/env bash
# usage: tests/gpu/check.sh   (make gpu-check)
# Runs all tests and measurements that need a GPU, on a machine that is available
# for 15 minutes. The stages (tests/gpu/stages.sh) run in the order of the plan
# below. Each stage has a time limit and writes a table to the folder TABLES. A
# stage that fails or takes too long leaves the table STAGE-failed.md and does not
# affect other stages. A stage does not begin if there is too little time before
# SECONDS_MAX. After each stage, all tables (as gpu.tar.gz) and summary.md are
# copied to OUT. The summary states for every requirement whether it is met, and
# lists missing stages.
#
# Variables, with default values in parentheses:
#
#   CALL         1 runs the most important stages, in 380 s (1); 2 runs stages that
#                call 1 did not finish or that failed, then the remaining stages,
#                in 250 s
#   TABLES       folder for tables, logs and a run file (build/gpu). A stage whose
#                complete table exists is not run again
#   OUT          folder for copies; if empty, nothing is copied
#   STAGES       stages to run, in this order (those of CALL)
#   SECONDS_MAX  time limit of this call in seconds (380 or 250)
#   STAGE_MAX    time limit of each stage in seconds (as in the plan)
#   BUILD        folder of the programs (build)
#   PREBUILT     1 if the programs were built elsewhere (tests/gpu/bundle.sh);
#                otherwise this script builds them first
#
# All stages need bash, coreutils, grep, sed, awk and tar. The stages statistics,
# watch, flash, compile and eager also need PyTorch 2, Triton, transformers and
# cffi; kernels and counters need ncu; sanitize needs compute-sanitizer; ranks
# needs libnccl.so.2, which PyTorch contains. A stage fails if a program or
# library that it needs is missing.
#
# A machine that has this source and the libraries of nvcc, but not the packages
# of the project's build machine, needs build/gpu-bundle.tar.gz (`make
# gpu-bundle`), and for the second call also the folder build/gpu of the first:
#
#   mkdir -p build/bundle && tar -xzf build/gpu-bundle.tar.gz -C build/bundle &&
#     PREBUILT=1 BUILD=build/bundle tests/gpu/check.sh
#
#   mkdir -p build/bundle && tar -xzf build/gpu-bundle.tar.gz -C build/bundle &&
#     PREBUILT=1 BUILD=build/bundle CALL=2 tests/gpu/check.sh
#
# Allow 420 s for the first call and 290 s for the second. Between the calls,
# `make gpu-results OUT=FOLDER` unpacks the returned files into build/gpu.
#
# tests/cuda/test_gpu_check.sh tests both calls without a device: the emulation
# replaces the back-end, and Triton's interpreter runs the Python package's
# kernels.
#
# Exit code: 0 if all stages passed; 1 if a stage failed or was not run; 3 if
# there is no device, or if OUT cannot be written; 130 or 143 if interrupted.
set -uo pipefail
cd "$(dirname "$0")/../.."
export BUILD=${BUILD:-build}
export TABLES=${TABLES:-build/gpu}
# All stages use the same choices among the algorithms that cuBLASLt proposes for a matrix
# product. The first stage that computes a product makes and stores the choices.
export ENTROPY_TRAIN_TUNING=${ENTROPY_TRAIN_TUNING:-$TABLES/choices.txt}
export PYTHONUNBUFFERED=1 # keeps the output of a stage that reaches its time limit
OUT=${OUT:-}
CALL=${CALL:-1}
SECONDS=0

# Each line contains a stage, the number of the call in which it runs, the
# expected time on an H100 in seconds (estimated, not measured), and its time
# limit in seconds. The stage watch spends a minute compiling; statistics and
# verify run during this time. If watch is the first stage, it may take a
# minute longer.
plan='
versions    1   4  20
statistics  1  45  80
verify      1  35  75
watch       1  60 125
attention   1  10  30
step        1  30  60
flash       1  45  75
training    1  72  85
compile     2 100 150
ranks       2  20  50
kernels     2  30  60
counters    2  40  70
eager       2  40  70
sanitize    2  60 120'
[[ $CALL = [12] ]] || { echo 'gpu-check: CALL must be 1 or 2' >&2; exit 2; }
all=$(awk -v call="$CALL" 'NF && $2 <= call { print $1 }' <<<"$plan" | tr '\n' ' ')
STAGES=${STAGES:-$all}
. tests/gpu/stages.sh

# Runs a program of this project with the libraries of the bundle. Python does
# not use these libraries, because it has its own.
ours() { LD_LIBRARY_PATH=$ES_LIBRARY_PATH "$@"; }

# --- the stages -------------------------------------------------------------------

seconds_of() { # STAGE: prints the expected and the maximum time in seconds
    awk -v stage="$1" -v most="${STAGE_MAX:-}" '
        $1 == stage { print most ? most : $3, most ? most : $4 }' <<<"$plan"
}

heading() { # STAGE
    echo "# gpu-check: $1"
    echo
    echo "$DEVICE$DRIVER; $(date -u +%F); \`make gpu-check\`"
    [ "$DEVICE" != 'host emulation' ] ||
        echo 'The CPU emulates a device: nothing here was measured on a GPU.'
    echo
}

why_of() { # CODE SECONDS TABLE
    case $1 in
    0) echo passed ;;
    124 | 137) echo "did not end within $2 s" ;;
    *) echo "failed, exit code $1: $(grep . "$3" | tail -1 | cut -c1-150)" ;;
    esac
}

# The table of a stage that has passed is TABLES/STAGE.md. The table of a stage
# that has failed or is still running is TABLES/STAGE-failed.md.
run_stage() { # STAGE
    local table=$TABLES/$1.md part=$TABLES/$1-failed.md code=0 begin=$SECONDS
    local said expected most left=$((SECONDS_MAX - SECONDS))
    if [ -s "$table" ]; then
        echo "== $1: done before, $table"
        return 0
    fi
    read -r expected most < <(seconds_of "$1")
    [ -n "${most:-}" ] || { echo "== $1: no such stage"; return 1; }
    if [ "$left" -lt "$expected" ]; then
        echo "== $1: no time left: run it again"
        return 1
    fi
    [ "$left" -ge "$most" ] || most=$left
    echo "== $1: $expected s expected, $most s at most"
    heading "$1" >"$part"
    ENTROPY_BENCH_SECONDS=$((most - 10)) timeout -k 5 "$most" \
        bash "$0" --stage "$1" >>"$part" 2>&1 </dev/null &
    child=$!
    wait "$child" || code=$?
    child=
    [ "$1" != watch ] || end_warm_up # jobs that still run occupy memory of the device
    said=$(why_of $code "$most" "$part")
    [ $code = 0 ] || printf '\n%s: %s\n' "$1" "$said" >>"$part"
    cat "$part"
    echo "== $1: $said; took $((SECONDS - begin)) s, expected $expected s"
    [ $code != 0 ] || mv "$part" "$table"
    write_summary
    deliver
}

# --- summary ------------------------------------------------------------------------

# Prints which stages have passed, and the verdicts on requirements from all
# tables.
summarise() {
    local failed=0 stage lines missing=
    for stage in $all; do
        if [ -s "$TABLES/$stage.md" ]; then
            echo "- $stage: passed"
            continue
        fi
        echo "- $stage: $(tail -1 "$TABLES/$stage-failed.md" 2>/dev/null |
            sed "s/^$stage: //" | grep . || echo 'not done')"
        missing+=" $stage"
    done
    lines=$(cat "$TABLES"/*.md 2>/dev/null | grep -E '^(required|stretch): ')
    [ -z "$lines" ] || sed 's/^/- /' <<<"$lines"
    [ -z "$missing" ] || { echo "- missing:$missing"; failed=1; }
    ! grep '^required: ' <<<"${lines:-required: none}" | grep -qv ': holds$' ||
        failed=1
    return $failed
}

write_summary() { # fails if a requirement is not met or a stage is missing
    local code=0
    rm -f "$TABLES/summary.md"
    { heading summary; summarise; } >"$TABLES/summary.part" || code=1
    mv "$TABLES/summary.part" "$TABLES/summary.md"
    return $code
}

deliver() { # copies the summary and the tables to OUT
    [ -n "$OUT" ] || return 0
    [ ! -e "$TABLES/summary.md" ] || cp "$TABLES/summary.md" "$OUT" &&
        tar -czf "$OUT/gpu.part" -C "$TABLES" . &&
        mv "$OUT/gpu.part" "$OUT/gpu.tar.gz" && return 0 # in a trap, `return` has an older status
    echo "gpu-check: $OUT: incomplete copies: the tables are in $TABLES" >&2
    return 3
}

# Runs when the script exits, also after an interruption.
conclude() {
    local code=$?
    trap '' TERM INT HUP
    if [ -n "$child" ]; then
        kill "$child" 2>/dev/null
        wait "$child"
        printf '\n%s: interrupted\n' "$stage" >>"$TABLES/$stage-failed.md"
    fi
    end_warm_up
    rm -rf "$WATCH_FOLDER"
    write_summary || [ $code != 0 ] || code=1
    cat "$TABLES/summary.md"
    deliver || code=3
    echo "gpu-check: tables in $TABLES${OUT:+, copies in $OUT}; took $SECONDS s"
    exit $code
}

# --- finding the device -----------------------------------------------------------

# Prints the folders in which PyTorch or a CUDA toolkit may have installed
# cuBLASLt.
cublas_folders() {
    local site
    site=$(python3 -c \
        'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null)
    ls -d ${CUBLAS_FOLDER:+"$CUBLAS_FOLDER"} /usr/local/cuda*/lib64 \
        /usr/local/cuda*/targets/x86_64-linux/lib \
        ${site:+"$site"/nvidia/*/lib} 2>/dev/null
}

library_path() { # [FOLDER...]: puts them after the bundle's folder, before the environment's
    local folders=("$(realpath -m "$BUILD")/lib" "$@")
    (IFS=: && echo "${folders[*]}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
}

# Sets DEVICE and ES_LIBRARY_PATH. Fails with a message if there is no device.
find_device() {
    local folder why looked=
    ES_LIBRARY_PATH=$(library_path)
    ours "$train" --version >/dev/null ||
        { echo "gpu-check: $train does not run here" >&2; return 1; }
    DEVICE=$(ours "$bench" device 2>/dev/null) && return
    why=$(ours "$bench" device 2>&1)
    if [[ $why == *libcublasLt* ]]; then
        for folder in $(cublas_folders); do
            looked+=", $folder"
            ls "$folder"/libcublasLt.so.* >/dev/null 2>&1 || continue
            ES_LIBRARY_PATH=$(library_path "$folder")
            DEVICE=$(ours "$bench" device 2>/dev/null) && return
            why=$(ours "$bench" device 2>&1)
        done
    fi
    if [[ $why =~ 'no driver'|'no device' ]]; then
        echo "skipped: no CUDA device: $why" >&2
        return 3
    fi
    [[ $why != *libcublasLt* ]] ||
        why+="; looked in LD_LIBRARY_PATH$looked: name its folder in CUBLAS_FOLDER"
    echo "gpu-check: $why" >&2
    return 1
}

# Starts the jobs of the stage watch, which then compile while other stages
# run; this also loads PyTorch from the disk. If watch will not run, another
# process loads PyTorch.
warm_up() {
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$ES_LIBRARY_PATH" \
        "$(realpath "$BUILD")/entropy-recorder" >"$WATCH_FOLDER/recorder"
    chmod +x "$WATCH_FOLDER/recorder"
    if [[ " $STAGES " == *' watch '* ]] && [ ! -s "$TABLES/watch.md" ]; then
        ENTROPYSCAN_HOME=$BUILD ENTROPY_RECORDER=$WATCH_FOLDER/recorder \
            python3 -W ignore tests/gpu/torch_watch.py prepare "$WATCH_FOLDER" \
            >"$WATCH_FOLDER/prepare.txt" 2>&1 </dev/null &
    else
        python3 -W ignore -c 'import torch, triton' >/dev/null 2>&1 </dev/null &
    fi
    preparing=$!
}

end_warm_up() {
    [ -n "$preparing" ] || return 0
    kill "$preparing" 2>/dev/null
    wait "$preparing" 2>/dev/null
    preparing=
}

if [ "${1:-}" = --stage ]; then
    "$2"
    exit
fi

SECONDS_MAX=${SECONDS_MAX:-$((CALL == 1 ? 380 : 250))}
[[ $SECONDS_MAX =~ ^[0-9]+$ && ${STAGE_MAX:-1} =~ ^[0-9]+$ ]] ||
    { echo 'gpu-check: SECONDS_MAX and STAGE_MAX must be numbers' >&2; exit 2; }
if [ "${PREBUILT:-0}" != 1 ]; then
    mkdir -p "$BUILD"
    make -j"$(nproc)" CUDA=1 all gpu-programs >"$BUILD/gpu-build.txt" 2>&1 ||
        { tail -20 "$BUILD/gpu-build.txt"; exit 1; }
fi
find_device || exit
if [ "${PREBUILT:-0}" != 1 ]; then
    prepare_training || exit
    SECONDS=0
fi
# If this Python lacks cffi, the cffi of the bundle is used.
if [ -d "$BUILD/python" ] && ! python3 -c 'import cffi' 2>/dev/null; then
    PYTHONPATH=$(realpath "$BUILD/python")${PYTHONPATH:+:$PYTHONPATH}
    export PYTHONPATH
fi
mkdir -p "$TABLES" && rm -f "$TABLES/summary.md" || exit 3
if [ -n "$OUT" ] && ! { mkdir -p "$OUT" && : >"$OUT/gpu.part"; }; then
    echo "gpu-check: $OUT: cannot be written: give OUT another folder" >&2
    exit 3
fi
DRIVER=
if [ "$DEVICE" != 'host emulation' ]; then
    DRIVER=$(nvidia-smi --query-gpu=driver_version,memory.total \
        --format=csv,noheader 2>/dev/null | head -1)
    DRIVER=${DRIVER:+, driver ${DRIVER/, /, }}
fi
export DEVICE DRIVER ES_LIBRARY_PATH

child= preparing=
export WATCH_FOLDER
WATCH_FOLDER=$(mktemp -d) || exit
warm_up # before the traps are set, because new processes must not inherit them
trap conclude EXIT
trap 'exit 143' TERM HUP
trap 'exit 130' INT
for stage in $STAGES; do
    run_stage "$stage"
done
exit 0
