#!/usr/bin/env bash
# usage: tests/gpu/check.sh   (make gpu-check)
# Everything that needs a GPU, for a machine that is lent for calls of ten
# minutes. Each stage (tests/gpu/stages.sh) leaves its table in TABLES; one whose
# table is there is not done again. A stage that fails or takes too long leaves
# STAGE-failed.md and costs only itself. No stage begins for which too little of
# SECONDS_MAX is left. At the end, whatever ends it, summary.md says of
# everything that was required whether it holds and what is missing, and OUT
# gets all of it: gpu.tar.gz and summary.md; after each stage, too, for an end
# that nothing can be done at.
#
#   TABLES       tables, logs and a run file (build/gpu)
#   OUT          where copies go, or nothing: none. Nothing is read there
#   STAGES       which, in this order: "all", or names; all but compile, which
#                waits for PyTorch's compiler
#   SECONDS_MAX  of one call (560)
#   STAGE_MAX    seconds of each stage at most, in place of those below
#   BUILD        where the programs lie (build); they are made first, unless
#   PREBUILT     is 1: they were made elsewhere (tests/gpu/bundle.sh)
#
# Needs bash, coreutils, grep, sed, awk and tar; PyTorch 2 for flash, eager,
# compile and statistics, which wants cffi too; ncu for kernels and counters;
# compute-sanitizer for sanitize; libnccl.so.2 (PyTorch has one) for ranks, which
# leaves out, and says so, what takes two devices.
#
# On a machine without our packages, with this source there, in two calls of at
# most ten minutes, each carrying build/gpu-bundle.tar.gz (`make gpu-bundle`) and
# build/gpu, if there is one here:
#
#   mkdir -p build/bundle && tar -xzf build/gpu-bundle.tar.gz -C build/bundle &&
#     PREBUILT=1 BUILD=build/bundle tests/gpu/check.sh
#
#   mkdir -p build/bundle && tar -xzf build/gpu-bundle.tar.gz -C build/bundle &&
#     PREBUILT=1 BUILD=build/bundle STAGES=all tests/gpu/check.sh
#
# The second does what the first left, and the peers that compile. Between them,
# here, `make gpu-results OUT=FOLDER` makes build/gpu of what came back.
#
# Exit code: 0 all passed, 1 something failed or was not done, 3 no device, or
# OUT cannot be written, 130 or 143 interrupted.
set -uo pipefail
cd "$(dirname "$0")/../.."
export BUILD=${BUILD:-build}
export TABLES=${TABLES:-build/gpu}
# Of a product's candidates all stages have the one that the first has found.
export ENTROPY_TRAIN_TUNING=${ENTROPY_TRAIN_TUNING:-$TABLES/choices.txt}
OUT=${OUT:-}
SECONDS=0

# Stage, seconds that it is expected to take on an H200, and that it may take:
# estimates, none has been measured.
plan='
versions     5  30
verify      20  60
parity      30  90
attention   15  45
step        40 110
kernels     30  90
counters    40 110
record      20  60
flash       50 150
eager       50 120
statistics  30  90
replicate   85 110
ranks       20  90
others      20  60
compile    150 330
sanitize    60 150'
all=$(awk 'NF { print $1 }' <<<"$plan" | tr '\n' ' ')
STAGES=${STAGES:-${all/compile /}}
[ "$STAGES" != all ] || STAGES=$all
. tests/gpu/stages.sh

# A bundle's libraries are for our programs: Python has its own.
ours() { LD_LIBRARY_PATH=$ES_LIBRARY_PATH "$@"; }

# --- the stages -------------------------------------------------------------------

seconds_of() { # STAGE: expected and at most
    awk -v stage="$1" -v most="${STAGE_MAX:-}" -v minutes="$MINUTES" '
        $1 == stage {
            more = stage == "replicate" ? int(60 * (minutes - 1)) : 0
            print most ? most : $2 + more, most ? most : $3 + more
        }' <<<"$plan"
}

heading() { # STAGE
    echo "# gpu-check: $1"
    echo
    echo "$DEVICE$DRIVER; $(date -u +%F); \`make gpu-check\`"
    [ "$DEVICE" != 'host emulation' ] ||
        echo 'The CPU pretends to be a device: nothing here was measured on a GPU.'
    echo
}

why_of() { # CODE SECONDS
    case $1 in
    0) echo passed ;;
    "$SKIPPED") echo skipped ;;
    124 | 137) echo "did not end within $2 s" ;;
    *) echo "failed, exit code $1" ;;
    esac
}

# A table that is whole is TABLES/STAGE.md, any other TABLES/STAGE-failed.md.
run_stage() { # STAGE
    local table=$TABLES/$1.md part=$TABLES/$1-failed.md code=0 begin=$SECONDS
    local expected most left=$((SECONDS_MAX - SECONDS))
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
    echo "== $1"
    heading "$1" >"$part"
    ENTROPY_BENCH_SECONDS=$((most - 10)) timeout -k 5 "$most" \
        bash "$0" --stage "$1" >>"$part" 2>&1 </dev/null &
    child=$!
    wait "$child" || code=$?
    child=
    [ $code = 0 ] || printf '\n%s: %s\n' "$1" "$(why_of $code "$most")" >>"$part"
    cat "$part"
    echo "== $1: $(why_of $code "$most"), took $((SECONDS - begin)) s"
    [ $code != 0 ] || mv "$part" "$table"
    deliver
}

# --- what is said at the end --------------------------------------------------------

# What the tables say of what was required, and which tables there are.
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

deliver() { # to OUT
    [ -n "$OUT" ] || return 0
    [ ! -e "$TABLES/summary.md" ] || cp "$TABLES/summary.md" "$OUT" &&
        tar -czf "$OUT/gpu.part" -C "$TABLES" . &&
        mv "$OUT/gpu.part" "$OUT/gpu.tar.gz" && return 0 # a trap's, otherwise
    echo "gpu-check: $OUT: not all is there; it is in $TABLES" >&2
    return 3
}

# On exit, however that comes.
conclude() {
    local code=$?
    trap '' TERM INT HUP
    if [ -n "$child" ]; then
        kill "$child" 2>/dev/null
        wait "$child"
        printf '\n%s: interrupted\n' "$stage" >>"$TABLES/$stage-failed.md"
    fi
    rm -f "$TABLES/summary.md"
    { heading summary; summarise; } >"$TABLES/summary.part" ||
        [ $code != 0 ] || code=1
    mv "$TABLES/summary.part" "$TABLES/summary.md"
    cat "$TABLES/summary.md"
    deliver || code=3
    echo "gpu-check: tables in $TABLES${OUT:+, copies in $OUT}; took $SECONDS s"
    exit $code
}

# --- finding the device -----------------------------------------------------------

# Where PyTorch or a toolkit may have the library that products need.
cublas_folders() {
    local site
    site=$(python3 -c \
        'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null)
    ls -d ${CUBLAS_FOLDER:+"$CUBLAS_FOLDER"} /usr/local/cuda*/lib64 \
        /usr/local/cuda*/targets/x86_64-linux/lib \
        ${site:+"$site"/nvidia/*/lib} 2>/dev/null
}

library_path() { # [FOLDER...]: with those of a bundle, before what there is
    local folders=("$BUILD/lib" "$@")
    (IFS=: && echo "${folders[*]}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
}

# Sets DEVICE and ES_LIBRARY_PATH; or says why not.
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

if [ "${1:-}" = --stage ]; then
    "$2"
    exit
fi

SECONDS_MAX=${SECONDS_MAX:-560}
MINUTES=${MINUTES:-1}
[[ $SECONDS_MAX =~ ^[0-9]+$ && ${STAGE_MAX:-1} =~ ^[0-9]+$ ]] ||
    { echo 'gpu-check: SECONDS_MAX and STAGE_MAX are numbers' >&2; exit 2; }
if [ "${PREBUILT:-0}" != 1 ]; then
    mkdir -p "$BUILD"
    make -j"$(nproc)" CUDA=1 all gpu-programs >"$BUILD/gpu-build.txt" 2>&1 ||
        { tail -20 "$BUILD/gpu-build.txt"; exit 1; }
fi
find_device || exit
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
export DEVICE DRIVER ES_LIBRARY_PATH MINUTES

child=
trap conclude EXIT
trap 'exit 143' TERM HUP
trap 'exit 130' INT
for stage in $STAGES; do
    run_stage "$stage"
done
exit 0
