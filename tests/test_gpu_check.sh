#!/usr/bin/env bash
# `make gpu-check` where there is no GPU, and all of it on the emulation of the
# host, out of a bundle as another machine has it: no figure comes of that.
set -uo pipefail
. tests/tap.sh
plan_dir
emulation=$BUILD/tests/libentropytrain_cuda_host.so
export ES_SHARED

says() { # TEXT CODE COMMAND...
    [ "$1" != -- ] || shift
    local text=$1 code=$2 got=0
    shift 2
    "$@" >"$dir/said" 2>&1 || got=$?
    [ "$got" = "$code" ] && grep -qF -- "$text" "$dir/said" ||
        { echo "exit $got:"; tail -5 "$dir/said"; return 1; }
}

# --- without a device -----------------------------------------------------------

no_device() {
    says 'skipped: no CUDA device' 3 env PREBUILT=1 CUDA_VISIBLE_DEVICES= \
        OUT="$dir/out" bash tests/gpu/check.sh && [ ! -e "$dir/out" ]
}
check 'a time that is no number' \
    says "'soon': MINUTES is a number" 2 samples/gpu-replicate.sh SM soon
check 'the peer without PyTorch or a device' \
    says 'skipped' 77 env CUDA_VISIBLE_DEVICES= \
    python3 tests/gpu/peer_torch.py rate
check 'no results without tables' \
    says 'no tables' 3 env OUT="$dir" samples/gpu-results.sh
if [ ! -e "$emulation" ] || [ ! -e "$BUILD/libentropytrain_cuda.so" ]; then
    skip 'gpu-check on the emulation' 'no nvcc'
    finish
    exit
fi
check 'gpu-check without a device passes nothing' no_device

# --- attention by itself ----------------------------------------------------------

by_turns() { # PRECISION
    says ' ' 0 env ENTROPY_TRAIN_CUDA="$emulation" ENTROPY_BENCH_ROUNDS=1 \
        ENTROPY_BENCH_CALLS=1 "$BUILD/gpu-bench-attention" "$1" 1 2 17 16 &&
        grep -qE '^([0-9]+\.[0-9]{5} ?){7}$' "$dir/said"
}
for precision in fp32 bf16 fp16; do
    check "attention by itself, $precision, on the emulation" by_turns "$precision"
done
check 'a precision that does not exist' \
    says "no precision 'fp8'" 2 "$BUILD/gpu-bench-attention" fp8 1 1 1 16
check 'the device says its name' says 'host emulation' 0 \
    env ENTROPY_TRAIN_CUDA="$emulation" "$BUILD/gpu-bench-attention" device

if [ -n "${SAN:-}" ]; then
    skip 'gpu-check out of a bundle' 'the emulation is slow with sanitizers'
    finish
    exit
fi

# --- a bundle -----------------------------------------------------------------------

# The emulation in the place of the device; the rest as it is.
built=$dir/built
mkdir -p "$built/tests"
cp "$BUILD"/entropy-{train,recorder,scan,corpus} "$BUILD/gpu-bench-attention" \
    "$built"
cp "$emulation" "$built/libentropytrain_cuda.so"
cp "$BUILD"/tests/test_cuda_{index,stride} "$emulation" "$built/tests"
"$BUILD/entropy-corpus" -q -o "$built/corpus.tok" --ids=- --vocab 50 < <(
    for i in {1..4000}; do echo $((i * i % 47)); done)
bundled() {
    says 'corpus.tok' 0 env BUILD="$built" tests/gpu/bundle.sh "$dir/b.tar.gz" &&
        mkdir "$dir/bundle" && tar -xzf "$dir/b.tar.gz" -C "$dir/bundle" &&
        [ -z "$(ls "$dir/bundle/lib" | grep -E '^lib(c|m|stdc..|gcc_s|cu.*)[.]so')" ] &&
        [ -n "$(ls "$dir/bundle/lib" | grep openblas)" ]
}
check 'a bundle without the libraries of C, C++ and CUDA' bundled
check 'a bundle too large is refused' says 'too large' 1 \
    env BUILD="$built" LIMIT=0 tests/gpu/bundle.sh "$dir/none.tar.gz"

# --- gpu-check out of it --------------------------------------------------------------

# What the other machine has: no PyTorch, a driver's program that names a card
# which is not what we run on, and a sanitizer that finds what it is told to.
mkdir "$dir/bin"
printf '#!/bin/sh\necho "no module; $LD_LIBRARY_PATH" >&2; exit 1\n' >"$dir/bin/python3"
printf '#!/bin/sh\necho "NVIDIA H200"\n' >"$dir/bin/nvidia-smi"
cat >"$dir/bin/compute-sanitizer" <<'END'
#!/bin/bash
while [[ $1 == --* ]]; do
    case $1 in --help) exit ;; --tool) tool=$2 ;; esac
    shift 2
done
[ -z "$HANGS" ] || sleep 100
"$@" || exit
echo "========= ${tool/memcheck/ERROR} SUMMARY: ${FINDS:-0} errors" |
    sed s/racecheck/RACECHECK/
[ -z "$FINDS" ] || exit 9
END
chmod +x "$dir"/bin/*
out=$dir/out
small='--n-layer 2 --n-head 2 --d-model 16 --ctx 8 --batch 2'
there=(PATH="$dir/bin:$PATH" PREBUILT=1 BUILD="$dir/bundle" OUT="$out"
    ES_SHARED="$dir/bundle/shared" CASES=g02 MODEL="$small" PAIRS=5
    MINUTES=0.005 ENTROPY_TRAIN_CUDA= STAGES='verify parity sanitize replicate')
gpu_check() { # VARIABLE=VALUE...
    env "${there[@]}" "$@" bash tests/gpu/check.sh
}
members() { # SESSION: its processes
    cat /proc/[0-9]*/stat 2>/dev/null |
        awk -v session="$1" '{ pid = $1; sub(/.*\) /, "") }
            $4 == session { print pid }'
}
just() { # FILE...: these are in OUT, and no others
    [ "$(cd "$out" && ls | tr '\n' ' ')" = "$* " ] || { ls "$out"; return 1; }
}

if [ -d "$ES_SHARED/reference/train" ]; then
    stages() {
        says 'tables in' 1 gpu_check STAGES='verify sanitize' FINDS=3 &&
            just require.md sanitize-failed.md verify.md &&
            grep -qF '3 errors' "$out/sanitize-failed.md" &&
            grep -qF -- '- sanitize: failed' "$dir/said" &&
            grep -qF -- '- verify: passed' "$dir/said"
    }
    check 'a stage that fails keeps its table; the others are done' stages
    again() {
        touch -d '1 hour ago' "$out/verify.md"
        says 'verify: done before' 1 gpu_check &&
            just parity.md replicate.md require.md sanitize.md sm-ln-g.db verify.md &&
            [ -z "$(find "$out/verify.md" -mmin -30)" ] &&
            grep -qF -- '- attention: not done' "$dir/said"
    }
    check 'again: only what is not done' again
    by_make() { # as bundle.sh says it
        grep -qF 'make gpu-check PREBUILT=1 BUILD=' tests/gpu/bundle.sh &&
            says 'verify: done before' 2 env PATH="$dir/bin:$PATH" make -s \
                gpu-check PREBUILT=1 BUILD="$dir/bundle" OUT="$out" STAGES=verify
    }
    check 'by make, in the folder that it is told' by_make
    check 'every table says what it ran on, and that it is no GPU' \
        [ "$(grep -lE '^host emulation; ' "$out"/*.md | wc -l)" = 5 ]
    check 'no card is named that was not used' \
        [ -z "$(grep -rE 'NVIDIA|H200' "$out")" ]
    check 'tolerances are stated for each precision' \
        [ "$(grep -c 'an array passes within' "$out/verify.md")" = 4 ]
    check 'the run is whole' says finished 0 "$dir/bundle/entropy-scan" \
        "$out/sm-ln-g.db" --json
    check 'the emulation gives no results' says 'no results' 3 \
        env OUT="$out" RESULTS="$dir/results" samples/gpu-results.sh

    # Cut short, as by the end of the time on a machine: no process is left.
    cut_short() { # STAGE VARIABLE=VALUE...
        local stage=$1 session i
        shift
        rm -rf "$out"
        setsid env "${there[@]}" STAGES="$stage" "$@" \
            bash tests/gpu/check.sh >"$dir/said" 2>&1 &
        session=$!
        for i in {1..100}; do
            [ ! -s "$out/$stage-failed.md" ] || break
            sleep 0.1
        done
        sleep 0.2
        kill -KILL $(members $session)
        wait $session
        [ -s "$out/$stage-failed.md" ] && [ ! -e "$out/$stage.md" ] || return 1
        says "== $stage" 1 gpu_check STAGES="$stage" &&
            [ -s "$out/$stage.md" ] && [ ! -e "$out/$stage-failed.md" ]
    }
    check 'verify, cut short, is done again' cut_short verify CASES=
    check 'parity, cut short, is done again' cut_short parity PROGRAMS=
    check 'sanitize, cut short, is done again' cut_short sanitize HANGS=1
    check 'replicate, cut short, is done again' cut_short replicate MINUTES=1
    # What is wrong is not missed: a case that is off, a test that found nothing
    # to test, a sanitizer that says nothing.
    off() {
        rm -rf "$out"
        cp -r "$dir/bundle/shared/reference/train/"{g02*,off}
        cp "$dir/bundle/shared/reference/train/off/out/"{ce,entropy}.npy
        says 'off/: fail' 1 gpu_check STAGES=verify CASES='g02 off' &&
            just require.md verify-failed.md
    }
    check 'a case that is off fails verify' off
    untested() {
        printf '#!/bin/sh\necho "skipped: no CUDA device"\n' \
            >"$dir/bundle/tests/test_cuda_fake"
        chmod +x "$dir/bundle/tests/test_cuda_fake"
        rm -rf "$out"
        says 'not tested on the device' 1 gpu_check STAGES=parity \
            PROGRAMS=test_cuda_fake && just parity-failed.md require.md
    }
    check 'a test that finds no device fails parity' untested
    silent() {
        rm -rf "$out"
        printf '#!/bin/sh\nexit 0\n' >"$dir/silent/compute-sanitizer"
        chmod +x "$dir/silent/compute-sanitizer"
        says 'no summary' 1 gpu_check STAGES=sanitize \
            PATH="$dir/silent:$dir/bin:$PATH" && just require.md sanitize-failed.md
    }
    mkdir "$dir/silent"
    check 'a sanitizer that says nothing has found nothing out' silent

    slow() {
        rm -rf "$out"
        says 'did not end within' 1 gpu_check STAGES='verify sanitize' HANGS=1 \
            LIMIT=12 && just require.md sanitize-failed.md verify.md
    }
    check 'a stage that hangs costs its time alone' slow
fi
# A library of products that no usual folder has, beside the emulation.
mkdir "$dir/cublas" "$dir/apart"
cp -r "$dir"/bundle/{lib,entropy-train,gpu-bench-attention} "$dir/apart"
cp "$emulation" "$dir/apart/lib/libemulation.so"
: >"$dir/empty.c"
${CC:-gcc} -shared -fPIC -Wl,-soname,libcublasLt.so.99 "$dir/empty.c" \
    -o "$dir/cublas/libcublasLt.so.99"
${CC:-gcc} -shared -fPIC -Wl,--no-as-needed "$dir/empty.c" \
    "$dir/cublas/libcublasLt.so.99" -L"$dir/apart/lib" -l:libemulation.so \
    -o "$dir/apart/libentropytrain_cuda.so"
found() {
    rm -rf "$out"
    says 'host emulation' 1 gpu_check BUILD="$dir/apart" STAGES=none \
        CUBLAS_FOLDER="$dir/cublas" && just none-failed.md require.md
}
check 'the library of products is looked for' found
check 'where there is none, that is said' says 'name its folder' 1 \
    gpu_check BUILD="$dir/apart" STAGES=none
rm -rf "$out"
no_torch() {
    says 'attention: failed' 1 gpu_check STAGES='attention step' &&
        just attention-failed.md require.md step-failed.md &&
        grep -qF 'no module' "$out/step-failed.md" &&
        ! grep -F bundle/lib "$out/step-failed.md"
}
check 'without a Python the peers fail, and that is said' no_torch

if python3 -c 'import torch.nn.attention' 2>/dev/null; then
    with_torch() {
        rm -rf "$out"
        says 'not judged, no GPU' 1 gpu_check PATH="$PATH" STAGES=attention \
            ENTROPY_BENCH_DEVICE=cpu ENTROPY_BENCH_MODEL='2 2 32 101' \
            ENTROPY_BENCH_CONTEXTS='16 33' ENTROPY_BENCH_TOKENS=64 \
            ENTROPY_BENCH_ROUNDS=2 ENTROPY_BENCH_CALLS=1 &&
            just attention.md require.md &&
            [ "$(grep -cE '^\| 16 \| (16|33) \| [0-9]' "$out/attention.md")" = 2 ]
    }
    check 'attention beside PyTorch, on the CPU' with_torch
else
    skip 'attention beside PyTorch, on the CPU' 'no PyTorch 2'
fi

# --- what was required ----------------------------------------------------------------

required() { # VERDICT CODE
    rm -rf "$out"
    mkdir "$out"
    for stage in verify parity sanitize attention step replicate; do
        echo "required: $stage >= 1x: 1.2x: holds" >"$out/$stage.md"
    done
    echo "required: memory >= 2x: 1.9x: $1" >>"$out/step.md"
    says -- "- required: memory >= 2x: 1.9x: $1" "$2" gpu_check STAGES=step &&
        grep -qF -- '- required: attention >= 1x: 1.2x: holds' "$dir/said" &&
        [ "$(grep -c passed "$dir/said")" = 6 ]
}
check 'what was required holds' required holds 0
check 'what was required fails, and the rest is told' required fails 1
missing() {
    required holds 0 && rm "$out/parity.md" &&
        says '- parity: not done' 1 gpu_check STAGES=step
}
check 'what was not done does not hold' missing

# --- results --------------------------------------------------------------------------

real=$dir/real
mkdir -p "$real"
printf '# gpu-check: step\n\nA card; today\n\nrequired: a >= 1x: 2x: holds\n' |
    tee "$real/step.md" "$real/verify-failed.md" >"$real/require.md"
results() {
    says gpu-step.md 0 env BUILD="$BUILD" OUT="$real" RESULTS="$dir/results" \
        samples/gpu-results.sh &&
        cmp "$real/verify-failed.md" "$dir/results/gpu-verify.md"
}
check 'tables of a device become results' results
finish
