#!/usr/bin/env bash
# `make gpu-check` where there is no GPU, and all of it on the emulation of the
# host, out of a bundle as another machine has it: no figure comes of that.
# needs: nvcc
set -uo pipefail
. tests/support/tap.sh
plan_dir
emulation=$BUILD/tests/libentropytrain_cuda_host.so

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
        TABLES="$dir/none" OUT="$dir/out" bash tests/gpu/check.sh &&
        [ ! -e "$dir/out" ] && [ ! -e "$dir/none" ]
}
check 'a time that is no number' \
    says "'soon': MINUTES is a number" 2 samples/gpu-replicate.sh SM soon
check 'the peer without PyTorch or a device' \
    says 'skipped' 77 env CUDA_VISIBLE_DEVICES= \
    python3 tests/gpu/peer_torch.py rate
check 'no results without tables' \
    says 'no tables' 3 env TABLES="$dir" samples/gpu-results.sh
check 'no results of a folder in which nothing came back' \
    says 'no gpu.tar.gz' 3 env TABLES="$dir" OUT="$dir" samples/gpu-results.sh
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

# --- what tools say ----------------------------------------------------------------

stage_of() { # FUNCTION: of stages.sh, on what it is given
    BUILD=$BUILD TABLES=$dir bash -c '. tests/gpu/stages.sh; "$1"' bash "$1"
}
same_text 'of each array the one nearest to its tolerance' \
    '| array | times | error | tolerance | share |
| --- | --- | --- | --- | --- |
| d w, bf16 | 2 | 3.0e-02 | 4.0e-02 | 75 % |
| dx | 2 | nan | 1.0e-02 | none |' "$(stage_of array_table <<'END'
d w, bf16 3.0e-02 4.0e-02
d w, bf16 4.0e-02 8.0e-02
dx 2.0e-02 1.0e-02
dx nan 1.0e-02
END
)"
ncu_says() { # NAME UNIT VALUE...: as CSV
    echo '==PROF== Connected to process 7'
    echo '"ID","Process ID","Kernel Name","Grid Size","Metric Name","Metric Unit","Metric Value"'
    while [ $# -ge 3 ]; do
        echo "\"1\",\"7\",\"$1\",\"(1, 1, 1)\",\"gpu__time_duration.sum\",\"$2\",\"$3\""
        shift 3
    done
}
same_text 'the kernels of a step, as ncu has them, of whole steps alone' \
    '2 steps, 720.0 us of kernels each

| kernel | launches | us | share, % |
| --- | --- | --- | --- |
| adamw_kernel | 1.5 | 700.0 | 97.2 |
| embed_kernel | 1.5 | 20.0 | 2.8 |' "$(ncu_says embed_kernel ns 12,000 \
    adamw_kernel us 600 adamw_kernel us 100 embed_kernel ns 14000 embed_kernel us 14 \
    adamw_kernel ms 0.7 rows_kernel ns 9 | stage_of kernel_table)"
no_step() { ! ncu_says rows_kernel ns 9 | stage_of kernel_table; }
check 'no whole step is no table' no_step

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
    says 'corpus.tok' 0 env BUILD="$built" LEVEL=1 \
        tests/gpu/bundle.sh "$dir/b.tar.gz" &&
        mkdir "$dir/bundle" && tar -xzf "$dir/b.tar.gz" -C "$dir/bundle" &&
        [ -z "$(ls "$dir/bundle/lib" | grep -E '^lib(c|m|stdc..|gcc_s|cu.*)[.]so')" ] &&
        [ -n "$(ls "$dir/bundle/lib" | grep openblas)" ]
}
check 'a bundle without the libraries of C, C++ and CUDA' bundled
check 'a bundle too large is refused' says 'too large' 1 \
    env BUILD="$built" LEVEL=1 LIMIT=0 tests/gpu/bundle.sh "$dir/none.tar.gz"

# --- gpu-check out of it --------------------------------------------------------------

# What the other machine has: no PyTorch, a driver's program that names a card
# which is not what we run on, a profiler that has seen a step, and a sanitizer
# that finds what it is set to.
mkdir "$dir/bin"
printf '#!/bin/sh\necho "no module; $LD_LIBRARY_PATH" >&2; exit 1\n' >"$dir/bin/python3"
printf '#!/bin/sh\necho "NVIDIA H200"\n' >"$dir/bin/nvidia-smi"
ncu_says adamw_kernel us 700 rows_kernel ns 9 >"$dir/ncu.csv"
printf '#!/bin/sh\necho "$NCU_SAYS"; cat "%s"\n' "$dir/ncu.csv" >"$dir/bin/ncu"
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
out=$dir/out tables=$dir/tables
small='--n-layer 2 --n-head 2 --d-model 16 --ctx 8 --batch 2 --vocab 50'
there=(PATH="$dir/bin:$PATH" PREBUILT=1 BUILD="$dir/bundle" OUT="$out"
    TABLES="$tables" CASES=g02_sm MODEL="$small"
    SIZES=8x2 PAIRS=5 MINUTES=0.005 ENTROPY_TRAIN_CUDA=)
gpu_check() { # VARIABLE=VALUE...
    env "${there[@]}" "$@" bash tests/gpu/check.sh
}
members() { # SESSION: its processes
    cat /proc/[0-9]*/stat 2>/dev/null |
        awk -v session="$1" '{ pid = $1; sub(/.*\) /, "") }
            $4 == session && $1 != "Z" { print pid }'
}
just() { # FILE...: these are in TABLES, and no others; and all of them in OUT
    [ "$(cd "$tables" && ls | tr '\n' ' ')" = "$* " ] ||
        { ls "$tables"; return 1; }
    [ "$(ls "$out" | tr '\n' ' ')" = 'gpu.tar.gz summary.md ' ] &&
        cmp "$out/summary.md" "$tables/summary.md" &&
        [ "$(tar -tzf "$out/gpu.tar.gz" | sed -n 's|^./\(.\)|\1|p' | sort |
            tr '\n' ' ')" = "$* " ] || { ls "$out"; return 1; }
}
anew() { rm -rf "$tables" "$out"; }

# Where PYTHON names a Python with PyTorch, this alone is run: the rest needs none.
with_python=${PYTHON:+$(dirname "$PYTHON"):}$PATH
if PATH=$with_python python3 -c 'import torch.nn.attention' 2>/dev/null; then
    with_torch() {
        anew
        says 'not judged, no GPU' 1 gpu_check PATH="$with_python" STAGES='flash eager' \
            ENTROPY_BENCH_DEVICE=cpu ENTROPY_BENCH_MODEL='2 2 32 101' \
            ENTROPY_BENCH_CONTEXTS='16 33' ENTROPY_BENCH_TOKENS=64 \
            ENTROPY_BENCH_ROUNDS=2 ENTROPY_BENCH_CALLS=1 \
            ENTROPY_BENCH_STEPS=16x2 && just eager.md flash.md summary.md &&
            [ "$(grep -cE '^\| 16 \| (16|33) \| [0-9]' "$tables/flash.md")" = 2 ] &&
            grep -qE '^- stretch: fused forward .* against cuDNN' "$dir/said" &&
            grep -qE '^- required: step, recorded, T 16, against eager' "$dir/said"
    }
    check 'beside PyTorch, on the CPU' with_torch
else
    skip 'beside PyTorch, on the CPU' 'no PyTorch'
fi
[ -z "${PYTHON:-}" ] || { finish; exit; }

# By the time that is left, which is none: nothing is begun.
order='versions verify parity attention step kernels counters record flash eager'
order+=' statistics replicate ranks others compile sanitize'
budget() { # STAGES WANT
    anew
    says -- "- missing: $order" 1 gpu_check SECONDS_MAX=1 STAGES="$1" &&
        just summary.md &&
        [ "$(sed -n 's/^== \(.*\): no time left.*/\1/p' "$dir/said" |
            tr '\n' ' ')" = "$2 " ]
}
check 'without time left nothing begins, and what is missing is listed' \
    budget '' "${order/compile /}"
check 'all: the peers that compile, too' budget all "$order"
check 'a stage that does not exist' says 'nonsense: no such stage' 1 \
    gpu_check STAGES=nonsense
check 'a time of no number' says 'are numbers' 2 gpu_check SECONDS_MAX=soon
: >"$dir/file"
unwritable() {
    anew
    says "$dir/file/out: cannot be written" 3 gpu_check OUT="$dir/file/out" &&
        [ -z "$(ls "$tables")" ]
}
check 'an OUT that cannot be written is said before anything is done' unwritable

# The stage of ranks, whose NCCL adds up memory of the host.
mkdir "$dir/nccl"
${CC:-gcc} -D_GNU_SOURCE -fPIC -shared -fvisibility=hidden -o "$dir/nccl/libnccl.so.2" \
    tests/gpu/fake_nccl.c -lm
with_nccl() { # VARIABLE=VALUE...
    anew
    says 'not done: that takes two devices' 1 gpu_check STAGES=ranks TMPDIR="$dir" \
        ENTROPY_TRAIN_NCCL="$dir/nccl/libnccl.so.2" "$@"
}
ranks() {
    with_nccl FAKE_NCCL= && just ranks.md summary.md &&
        [ "$(grep -c ': holds$' "$tables/ranks.md")" = 2 ] &&
        grep -q '^| nccl-alone | 1 | 0 | [1-9]' "$tables/ranks.md"
}
check 'ranks: NCCL alone, and two that share the device' ranks
no_sum() {
    with_nccl FAKE_NCCL=1 && just ranks-failed.md summary.md &&
        grep -q 'alone, .*: fails$' "$tables/ranks-failed.md"
}
check 'ranks: a sum that NCCL refuses fails' no_sum

stages() {
    anew
    says 'copies in' 1 gpu_check STAGES='verify sanitize' FINDS=3 &&
        just sanitize-failed.md summary.md verify.md &&
        grep -qF '3 errors' "$tables/sanitize-failed.md" &&
        grep -qF -- '- sanitize: failed' "$dir/said" &&
        grep -qF -- '- verify: passed' "$dir/said"
}
check 'a stage that fails keeps its table; the others are done' stages
again() { # OUT was emptied
    rm -rf "$out"
    touch -d '1 hour ago' "$tables/verify.md"
    says 'verify: done before' 1 gpu_check \
        STAGES='versions verify parity step kernels replicate sanitize' &&
        just kernels.csv kernels.md parity.md replicate.md sanitize.md \
            sm-ln-g.db step.md summary.md verify.md versions.md &&
        [ -z "$(find "$tables/verify.md" -mmin -30)" ] &&
        grep -qF -- '- attention: not done' "$dir/said"
}
check 'again, without what was copied: only what is not done' again
check 'each array of parity with its error and tolerance' \
    [ "$(grep -cE '^\| dx, (bf16|fp16|fp32) \|( [0-9.e-]+ \|){3}' "$tables/parity.md")" = 3 ]
by_make() { # PREBUILT is what it is given
    says 'verify: done before' 2 env "${there[@]}" make -s gpu-check \
        PREBUILT=1 BUILD="$dir/bundle" OUT="$out" STAGES=verify
}
check 'make gpu-check works in the folder of OUT' by_make
check 'every table says what it ran on, and that it is no GPU' \
    [ "$(grep -lE '^host emulation; ' "$tables"/*.md | wc -l)" = 8 ]
check 'no card is named that was not used' \
    [ -z "$(grep -rE 'NVIDIA|H200' "$tables")" ]
check 'tolerances are stated for each precision' \
    [ "$(grep -c 'an array passes within' "$tables/verify.md")" = 2 ]
check 'the run is whole' says finished 0 "$dir/bundle/entropy-scan" \
    "$tables/sm-ln-g.db" --json
check 'the emulation gives no results' says 'no results' 3 \
    env OUT="$out" TABLES="$dir/back" RESULTS="$dir/results" \
    samples/gpu-results.sh
check 'what came back is where the next call goes on' \
    [ "$(cd "$dir/back" && ls)" = "$(cd "$tables" && ls)" ]
counted() {
    anew
    says 'may not read counters' 1 gpu_check STAGES=kernels \
        NCU_SAYS='==ERROR== ERR_NVGPUCTRPERM' &&
        grep -qF -- '- kernels: skipped' "$dir/said"
}
check 'a profiler that may not read counters' counted

# Cut short, as by the end of the time on a machine: no process is left.
begin() { # STAGE VARIABLE=VALUE...: in $session, some way into the stage
    anew
    setsid env "${there[@]}" STAGES="$@" bash tests/gpu/check.sh \
        >"$dir/said" 2>&1 &
    session=$!
    until_true grep -q '^== test_cuda_begun\|^cuda on' "$tables/$1-failed.md" 2>/dev/null
}
goes_on() { # STAGE
    says "== $1" 1 gpu_check STAGES="$1" PROGRAMS=test_cuda_index &&
        [ -s "$tables/$1.md" ] && [ ! -e "$tables/$1-failed.md" ]
}
killed() {
    begin verify CASES=
    kill -KILL $(members $session)
    wait $session
    [ ! -e "$tables/verify.md" ] && goes_on verify
}
check 'verify, killed in the middle, is done again' killed
printf '#!/bin/sh\nsleep 100\n' >"$dir/bundle/tests/test_cuda_begun"
chmod +x "$dir/bundle/tests/test_cuda_begun"
terminated() {
    begin parity PROGRAMS=test_cuda_begun
    kill -TERM $session
    wait $session
    [ $? = 143 ] && [ -z "$(members $session)" ] &&
        just parity-failed.md summary.md &&
        grep -q -- "- missing: $order" "$out/summary.md" &&
        grep -q -- '- parity: interrupted' "$dir/said" && goes_on parity
}
check 'parity, terminated: all is copied, and it is done again' terminated

# What is wrong is not missed: a case that is off, a test that found nothing
# to test, a sanitizer that says nothing.
off() {
    anew
    LC_ALL=C sed 's|out/loss|out/====|; s|out/ereg|out/loss|; s|out/====|out/ereg|' \
        "$dir/bundle/cases/"g02_sm*.safetensors >"$dir/bundle/cases/off.safetensors"
    says 'off.safetensors: ' 1 gpu_check STAGES=verify CASES='g02_sm off' &&
        just summary.md verify-failed.md &&
        [ "$(grep -c 'CUDA_LAUNCH_BLOCKING=1$' "$tables/verify-failed.md")" = 2 ] &&
        [ "$(grep -c '^off.safetensors: .*: fail$' "$tables/verify-failed.md")" = 4 ]
}
check 'a case that is off fails verify, in the second run as well' off
fake() { # WHAT ITS TEST SAYS
    printf '#!/bin/sh\n%s\n' "$1" >"$dir/bundle/tests/test_cuda_fake"
    chmod +x "$dir/bundle/tests/test_cuda_fake"
    anew
}
untested() {
    fake 'echo "skipped: no CUDA device"'
    says 'not tested on the device' 1 gpu_check STAGES=parity \
        PROGRAMS=test_cuda_fake && just parity-failed.md summary.md
}
check 'a test that finds no device fails parity' untested
blocking() {
    fake 'echo "blocking: $CUDA_LAUNCH_BLOCKING."; exit 5'
    says 'blocking: 1.' 1 gpu_check STAGES=parity PROGRAMS=test_cuda_fake &&
        grep -qF 'blocking: .' "$tables/parity-failed.md"
}
check 'a test that fails runs again a launch at a time' blocking
silent() {
    anew
    printf '#!/bin/sh\nexit 0\n' >"$dir/silent/compute-sanitizer"
    chmod +x "$dir/silent/compute-sanitizer"
    says 'no summary' 1 gpu_check STAGES=sanitize \
        PATH="$dir/silent:$dir/bin:$PATH" && just sanitize-failed.md summary.md
}
mkdir "$dir/silent"
check 'a sanitizer that says nothing has found nothing out' silent
slow() {
    anew
    says 'did not end within 3 s' 1 gpu_check STAGES='sanitize verify' \
        HANGS=1 STAGE_MAX=3 && just sanitize-failed.md summary.md verify.md
}
check 'a stage that hangs costs its time alone' slow
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
    anew
    says 'host emulation' 1 gpu_check BUILD="$dir/apart" STAGES=none \
        CUBLAS_FOLDER="$dir/cublas" && just summary.md
}
check 'the library of products is looked for' found
missing_library() {
    says 'name its folder' 1 gpu_check BUILD="$dir/apart" STAGES=none \
        CUBLAS_FOLDER="$dir/bin" && [ "$(wc -l <"$dir/said")" = 1 ] &&
        grep -q "libcublasLt.so.99: .*; looked in LD_LIBRARY_PATH, $dir/bin" \
            "$dir/said"
}
check 'where there is none, one line says so and where it was looked for' \
    missing_library
no_torch() {
    anew
    says 'flash: failed' 1 gpu_check STAGES='flash compile' &&
        just compile-failed.md flash-failed.md summary.md &&
        grep -qF 'no module' "$tables/compile-failed.md" &&
        ! grep -F bundle/lib "$tables/compile-failed.md"
}
check 'without a Python the peers fail, and that is said' no_torch

# --- what was required ----------------------------------------------------------------

required() { # VERDICT CODE
    anew
    mkdir "$tables"
    for stage in $order; do
        echo "required: $stage >= 1x: 1.2x: holds" >"$tables/$stage.md"
    done
    echo 'stretch: memory, cuDNN: 0.4x' >>"$tables/eager.md"
    echo "required: memory >= 2x: 1.9x: $1" >>"$tables/step.md"
    says -- "- required: memory >= 2x: 1.9x: $1" "$2" gpu_check STAGES=step &&
        grep -qF -- '- required: attention >= 1x: 1.2x: holds' "$dir/said" &&
        grep -qF -- '- stretch: memory, cuDNN: 0.4x' "$dir/said" &&
        [ "$(grep -c passed "$dir/said")" = "$(wc -w <<<"$order")" ]
}
check 'what was required holds; a stretch is no verdict' required holds 0
check 'what was required fails, and the rest is shown' required fails 1
missing() {
    required holds 0 && rm "$tables/parity.md" &&
        says '- parity: not done' 1 gpu_check STAGES=step
}
check 'what was not done does not hold' missing

# --- results --------------------------------------------------------------------------

real=$dir/real
mkdir -p "$real"
printf '# gpu-check: step\n\nA card; today\n\nrequired: a >= 1x: 2x: holds\n' |
    tee "$real/step.md" "$real/verify-failed.md" >"$real/summary.md"
results() {
    says gpu-step.md 0 env BUILD="$BUILD" TABLES="$real" OUT= \
        RESULTS="$dir/results" samples/gpu-results.sh &&
        cmp "$real/verify-failed.md" "$dir/results/gpu-verify.md"
}
check 'tables of a device become results' results
finish
