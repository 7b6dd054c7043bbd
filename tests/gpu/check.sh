#!/usr/bin/env bash
# Everything that needs a GPU, in one command of under ten minutes:
# `make gpu-check`. Each stage leaves its table in OUT; one whose table is there
# already is not done again, so that a check that was cut short goes on. A stage
# that fails or takes too long leaves STAGE-failed.md and costs only itself; the
# last, `require`, says of everything that was required whether it holds.
#
#   OUT        tables and a run file (BUILD/gpu): at most 8 files of 16 MiB
#   BUILD      where the programs lie (build); they are made first, unless
#   PREBUILT   is 1: they were made elsewhere (tests/gpu/bundle.sh)
#   STAGES     which, of "verify parity sanitize attention step replicate"
#   LIMIT      seconds for all of it (570)
#   ES_SHARED  the folder with reference/train (../shared)
#   ARCH       of the training at the end (SM+LN+G),
#   MINUTES    and its length (1)
#   CASES      of the reference (all): "g01 g17"
#   PROGRAMS   of the operations' parity (all): "test_cuda_rows"
#
# Needs bash, coreutils, grep, sed and awk; PyTorch 2 for attention and step,
# compute-sanitizer for sanitize.
#
# Seconds, estimated for an H200 with 16 processors, not measured; torch.compile
# fills its cache beside the first three stages, which time nothing:
#
#   stage      expects  at most  what takes them
#   verify          30       90  4 x 28 cases; the first load of cuBLASLt
#   parity          25       90  loops in double on the host
#   sanitize        60      120  4 runs; a launch costs 10 to 100 times as much
#   attention       70      150  14 shapes; a process of ours each, 2 s to start
#   step           170      240  18 processes; 15 s to start one that compiles
#   replicate       85      110  the speed first, then MINUTES
#
# Exit code: 0 all passed, 1 something failed or was not done, 3 no device.
set -uo pipefail
cd "$(dirname "$0")/../.."
export BUILD=${BUILD:-build}
export OUT=${OUT:-$BUILD/gpu}
export ES_SHARED=${ES_SHARED:-../shared}
STAGES=${STAGES:-verify parity sanitize attention step replicate}
SECONDS=0
SKIPPED=77
train=$BUILD/entropy-train
bench=$BUILD/gpu-bench-attention

# A bundle's libraries are for our programs: Python has its own.
ours() { LD_LIBRARY_PATH=$ES_LIBRARY_PATH "$@"; }

# --- the stages: each prints its table ----------------------------------------

cases() { # into the array
    local name
    found=()
    for name in ${CASES:-''}; do
        found+=("$ES_SHARED/reference/train/$name"*/)
    done
    [ -e "${found[0]}" ] ||
        { echo "skipped: no reference cases in $ES_SHARED"; exit $SKIPPED; }
}

# fp32 to the tolerance of the CPU, the others to theirs.
verify() {
    local failed=0 precision
    cases
    for precision in fp32 tf32 bf16 fp16; do
        ours "$train" verify --backend cuda --precision "$precision" \
            "${found[@]}" | sed "s|$ES_SHARED/reference/train/||" || failed=1
    done
    return $failed
}

# Every operation against plain loops in double. There is a device: who found
# none has not tested.
parity() {
    local failed=0 program said path missing='no CUDA device|: not there'
    [ "$DEVICE" = 'host emulation' ] ||
        missing+='|SKIPPED \] (test_cuda_host|libcuda)'
    for program in ${PROGRAMS:-$(cd "$BUILD/tests" && ls)}; do
        path=$BUILD/tests/$program
        [[ $program == test_cuda_* && $program != *.* && -x $path ]] || continue
        echo "== $program"
        said=$(ENTROPY_TRAIN_CUDA=$BUILD/libentropytrain_cuda.so \
            ours "$path" 2>&1) || failed=1
        grep -vE '^\[( RUN  |       OK )' <<<"$said"
        ! grep -qE "$missing" <<<"$said" ||
            { echo 'failed: not tested on the device'; failed=1; }
    done
    out_of_memory || failed=1
    return $failed
}

# A model that fits no card ends with one line that says so.
out_of_memory() {
    local said code=0
    echo '== out of memory'
    said=$(ENTROPY_TRAIN_EMULATION=memory=1000000000 ours "$train" bench \
        --backend cuda --precision bf16 --n-layer 96 --n-head 96 \
        --d-model 12288 --vocab 50257 --ctx 2048 --batch 64 2>&1) || code=$?
    echo "exit code $code: $said"
    [ $code = 3 ] && [[ $said == *'out of memory: '* && $said != *$'\n'* ]]
}

attention() {
    python3 -W ignore tests/gpu/peer_torch.py attention "$bench"
}

step() {
    python3 -W ignore tests/gpu/peer_torch.py step "$train"
}

# Our kernels alone, where the sanitizer can choose: those of cuBLAS take longer
# than all of ours.
sanitized() { # TOOL PRECISION
    local said code=0 found_what only
    for only in '--kernel-name kernel_substring=_kernel' ''; do
        code=0
        said=$(ours timeout --foreground -k 5 60 compute-sanitizer --tool "$1" \
            $only --error-exitcode 9 "$train" verify --backend cuda \
            --precision "$2" "${found[@]}" 2>&1) || code=$?
        [ $code != 124 ] && ! grep -q ' SUMMARY' <<<"$said" || break
    done
    ! grep -q 'Device not supported' <<<"$said" ||
        { echo 'skipped: compute-sanitizer cannot run here'; exit $SKIPPED; }
    found_what=$(sed -nE 's/^=+ (.* SUMMARY: .*)/\1/p' <<<"$said" | tail -1)
    echo "| $1 | $2 | $code | ${found_what:-no summary} |"
    [ $code != 0 ] || [ -z "$found_what" ] || return 0
    head -20 <<<"$said"
    return 1
}

# Memory and races, on the case with temperatures and entropy regularisation,
# PowerSoftmax, and LN with GELU.
sanitize() {
    local failed=0 tool precision
    CASES=${CASES:-g17 g21 g01}
    cases
    command -v compute-sanitizer >/dev/null ||
        { echo 'skipped: compute-sanitizer is not installed'; exit $SKIPPED; }
    echo "$CASES, our kernels"
    echo '| tool | precision | exit code | what it found |'
    echo '| --- | --- | --- | --- |'
    for tool in memcheck racecheck; do
        for precision in bf16 fp32; do
            sanitized $tool $precision || failed=1
        done
    done
    return $failed
}

replicate() {
    ours samples/gpu-replicate.sh "${ARCH:-SM+LN+G}" "${MINUTES:-1}"
}

# --- running them ---------------------------------------------------------------

limit_of() { # STAGE: seconds
    case $1 in
    verify | parity) echo 90 ;;
    attention) echo 150 ;;
    step) echo 240 ;;
    sanitize) echo 120 ;;
    *) awk -v m="${MINUTES:-1}" 'BEGIN { print int(60 * m) + 50 }' ;;
    esac
}

seconds_left() { echo $((${LIMIT:-570} - SECONDS)); }

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

# A table that is whole is OUT/STAGE.md, any other OUT/STAGE-failed.md.
run_stage() { # STAGE
    local table=$OUT/$1.md part=$OUT/$1-failed.md limit code=0 left
    local begin=$SECONDS
    if [ -s "$table" ]; then
        echo "== $1: done before, $table"
        return 0
    fi
    limit=$(limit_of "$1")
    left=$(seconds_left)
    [ "$left" -ge "$limit" ] || limit=$left
    if [ "$limit" -lt 5 ]; then
        echo "== $1: no time left: run it again"
        return 1
    fi
    echo "== $1"
    heading "$1" >"$part"
    ENTROPY_BENCH_SECONDS=$((limit - 10)) timeout -k 10 "$limit" \
        bash "$0" --stage "$1" >>"$part" 2>&1 </dev/null || code=$?
    [ $code = 0 ] || printf '\n%s: %s\n' "$1" "$(why_of $code "$limit")" >>"$part"
    cat "$part"
    echo "== $1: $(why_of $code "$limit"), took $((SECONDS - begin)) s"
    [ $code = 0 ] || return $code
    mv "$part" "$table"
}

# What the tables say of what was required, and which tables there are.
require() {
    local failed=0 stage lines
    for stage in verify parity attention step sanitize replicate; do
        if [ -s "$OUT/$stage.md" ]; then
            echo "- $stage: passed"
        else
            echo "- $stage: $(tail -1 "$OUT/$stage-failed.md" 2>/dev/null |
                sed "s/^$stage: //" | grep . || echo 'not done')"
            failed=1
        fi
    done
    lines=$(cat "$OUT"/{attention,step}{,-failed}.md 2>/dev/null |
        grep '^required: ')
    [ -z "$lines" ] || sed 's/^/- /' <<<"$lines"
    ! grep -qv ': holds$' <<<"${lines:-none}" || failed=1
    return $failed
}

# --- finding the device -----------------------------------------------------------

# Where PyTorch or a toolkit may have the library that products need.
cublas_folders() {
    local site
    site=$(python3 -c \
        'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null)
    ls -d ${CUBLAS_FOLDER:+"$CUBLAS_FOLDER"} /usr/local/cuda*/lib64 \
        /usr/local/cuda*/targets/x86_64-linux/lib \
        "$site"/nvidia/*/lib 2>/dev/null
}

library_path() { # [FOLDER...]: with those of a bundle, before what there is
    local folders=("$BUILD/lib" "$@")
    (IFS=: && echo "${folders[*]}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
}

# Sets DEVICE and ES_LIBRARY_PATH; or says why not.
find_device() {
    local folder why
    ES_LIBRARY_PATH=$(library_path)
    ours "$train" --version >/dev/null ||
        { echo "gpu-check: $train does not run here" >&2; return 1; }
    DEVICE=$(ours "$bench" device 2>/dev/null) && return
    why=$(ours "$bench" device 2>&1)
    if [[ $why == *libcublasLt* ]]; then
        for folder in $(cublas_folders); do
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
    echo "gpu-check: $why" >&2
    [[ $why != *libcublasLt* ]] ||
        echo "gpu-check: name its folder in CUBLAS_FOLDER" >&2
    return 1
}

if [ "${1:-}" = --stage ]; then
    "$2"
    exit
fi

if [ "${PREBUILT:-0}" != 1 ]; then
    mkdir -p "$BUILD"
    make -j"$(nproc)" CUDA=1 all gpu-programs >"$BUILD/gpu-build.txt" 2>&1 ||
        { tail -20 "$BUILD/gpu-build.txt"; exit 1; }
fi
find_device || exit
mkdir -p "$OUT" || exit 1
DRIVER=
if [ "$DEVICE" != 'host emulation' ]; then
    DRIVER=$(nvidia-smi --query-gpu=driver_version,memory.total \
        --format=csv,noheader 2>/dev/null | head -1)
    DRIVER=${DRIVER:+, driver ${DRIVER/, /, }}
fi
export DEVICE DRIVER ES_LIBRARY_PATH

# Beside the stages that time nothing.
warm=
case " $STAGES " in *' step '*)
    [ -s "$OUT/step.md" ] || {
        timeout -k 5 170 python3 -W ignore tests/gpu/peer_torch.py warm \
            >/dev/null 2>&1 </dev/null &
        warm=$!
    } ;;
esac
for stage in $STAGES; do
    case $stage in attention | step) [ -z "$warm" ] || wait "$warm" ;; esac
    run_stage "$stage"
done
[ -z "$warm" ] || wait "$warm"

code=0
rm -f "$OUT/require.md"
{ heading require; require; } >"$OUT/require.part" || code=1
mv "$OUT/require.part" "$OUT/require.md"
cat "$OUT/require.md"
echo "gpu-check: tables in $OUT"
exit $code
