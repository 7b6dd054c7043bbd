#!/usr/bin/env bash
# Tests `make gpu-check` without a GPU. Unpacks a bundle as on another machine, and runs its two
# commands that use a GPU, with the emulation as the device and with Triton's interpreter. The
# measured times have no meaning.
# needs: nvcc
set -uo pipefail
. tests/support/tap.sh
plan_dir
export OMP_NUM_THREADS=1 # the emulation's threads wait for each other
emulation=$BUILD/tests/libentropytrain_cuda_host.so

says() { # TEXT CODE COMMAND...
    [ "$1" != -- ] || shift
    local text=$1 code=$2 got=0
    shift 2
    "$@" >"$dir/said" 2>&1 || got=$?
    [ "$got" = "$code" ] && grep -qF -- "$text" "$dir/said" ||
        { echo "exit $got:"; tail -5 "$dir/said"; return 1; }
}

ncu_says() { # NAME UNIT VALUE...: prints ncu's CSV
    echo '==PROF== Connected to process 7'
    echo '"ID","Process ID","Kernel Name","Grid Size","Metric Name","Metric Unit","Metric Value"'
    while [ $# -ge 3 ]; do
        echo "\"1\",\"7\",\"$1\",\"(1, 1, 1)\",\"gpu__time_duration.sum\",\"$2\",\"$3\""
        shift 3
    done
}

# --- a bundle -----------------------------------------------------------------------

# The emulation replaces the device's libraries; all other files of the bundle
# are those of a real bundle.
built=$dir/built
mkdir -p "$built/tests"
cp "$BUILD"/entropy-{train,recorder,scan,corpus} "$BUILD/gpu-bench-attention" \
    "$BUILD"/libentropyrecord.so.* "$built"
cp "$emulation" "$built/libentropytrain_cuda.so"
cp "$BUILD"/tests/test_cuda_{index,stride} "$emulation" "$built/tests"
"$BUILD/entropy-corpus" -q -o "$built/corpus.tok" --ids=- --vocab 50 < <(
    for i in {1..4000}; do echo $((i * i % 47)); done)
# Creates fake wheels, like those of a package registry, and the CPU's losses
# for a tiny model.
mkdir -p "$dir/wheel/cffi" "$dir/wheels"
echo 'MADE_FOR = "tests"' >"$dir/wheel/cffi/__init__.py"
(cd "$dir/wheel" && python3 -m zipfile -c "$dir/wheels/cffi-2-py3-none-any.whl" cffi/)
small='--n-layer 2 --n-head 2 --d-model 16 --ctx 8 --batch 2 --vocab 50'
pack=(env BUILD="$built" LEVEL=1 WHEELS="$dir/wheels" MODEL="$small")
bundled() {
    says b.tar.gz 0 "${pack[@]}" tests/gpu/bundle.sh "$dir/b.tar.gz" &&
        mkdir "$dir/bundle" && tar -xzf "$dir/b.tar.gz" -C "$dir/bundle" &&
        [ -z "$(ls "$dir/bundle/lib" | grep -E '^lib(c|m|stdc..|gcc_s|cu.*)[.]so')" ] &&
        [ -n "$(ls "$dir/bundle/lib" | grep openblas)" ] &&
        [ "$(wc -l <"$dir/bundle/cpu-losses.txt")" = 20 ] &&
        [ -s "$dir/bundle/commit" ] && [ -s "$dir/bundle/python/cffi/__init__.py" ]
}
check 'a bundle has cffi, the commit and the losses, but no libraries of C and CUDA' \
    bundled
check 'a bundle that is too large is refused' says 'too large' 1 \
    "${pack[@]}" LIMIT=0 tests/gpu/bundle.sh "$dir/none.tar.gz"

# --- gpu-check from the bundle --------------------------------------------------------

# Creates fake programs for a machine without PyTorch: a driver program
# (nvidia-smi) that names a card which is not used, a profiler that prints a
# recorded step, a sanitizer that reports the requested findings, and an NCCL
# library that adds arrays in host memory.
mkdir "$dir/bin"
printf '#!/bin/sh\necho "no module; $LD_LIBRARY_PATH; $PYTHONPATH" >&2; exit 1\n' >"$dir/bin/python3"
printf '#!/bin/sh\necho "NVIDIA H200"\n' >"$dir/bin/nvidia-smi"
ncu_says adamw_kernel us 700 rows_kernel ns 9 >"$dir/ncu.csv"
printf '#!/bin/sh\necho "$NCU_SAYS"; cat "%s"; echo Duration\n' "$dir/ncu.csv" >"$dir/bin/ncu"
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
mkdir "$dir/nccl"
${CC:-gcc} -D_GNU_SOURCE -fPIC -shared -fvisibility=hidden -o "$dir/nccl/libnccl.so.2" \
    tests/gpu/fake_nccl.c -lm
out=$dir/out tables=$dir/tables
there=(PATH="$dir/bin:$PATH" PREBUILT=1 BUILD="$dir/bundle" OUT="$out" TMPDIR="$dir"
    TABLES="$tables" CASES=g02_sm MODEL="$small" SHAPES=16 ENTROPY_BENCH_TOKENS=16
    ENTROPY_BENCH_ROUNDS=1 ENTROPY_BENCH_CALLS=1 SIZES=8x2 PAIRS=5 STEPS=60
    ENTROPY_TRAIN_CUDA= ENTROPY_TRAIN_NCCL="$dir/nccl/libnccl.so.2")
gpu_check() { # VARIABLE=VALUE...
    env "${there[@]}" "$@" bash tests/gpu/check.sh
}
members() { # SESSION: prints the processes of the session
    cat /proc/[0-9]*/stat 2>/dev/null |
        awk -v session="$1" '{ pid = $1; sub(/.*\) /, "") }
            $4 == session && $1 != "Z" { print pid }'
}
just() { # FILE...: succeeds if exactly these files are in TABLES and in OUT
    [ "$(cd "$tables" && ls | tr '\n' ' ')" = "$* " ] ||
        { ls "$tables"; return 1; }
    [ "$(ls "$out" | tr '\n' ' ')" = 'gpu.tar.gz summary.md ' ] &&
        cmp "$out/summary.md" "$tables/summary.md" &&
        [ "$(tar -tzf "$out/gpu.tar.gz" | sed -n 's|^./\(.\)|\1|p' | sort |
            tr '\n' ' ')" = "$* " ] || { ls "$out"; return 1; }
}
anew() { rm -rf "$tables" "$out"; }

# If PYTHON names a Python with PyTorch, only the stages that use PyTorch are
# tested. ENTROPY_BENCH_WATCH, for example 'gpt2:eager llama:compile', selects
# further jobs of the stage watch.
with_python=${PYTHON:+$(dirname "$PYTHON"):}$PATH
if PATH=$with_python python3 -c 'from importlib.util import find_spec as find
exit(not (find("torch") and find("transformers")))'; then
    with_torch() { # uses the cffi of this Python, not the fake cffi of the bundle
        anew
        says 'not judged, no GPU' 1 gpu_check PATH="$with_python" \
            STAGES='statistics watch flash' ENTROPY_BENCH_DEVICE=cpu \
            ENTROPY_BENCH_STATISTICS='bf16:key_mask fp32:packed' \
            ENTROPY_BENCH_WATCH="${ENTROPY_BENCH_WATCH:-gpt2:eager}" \
            ENTROPY_BENCH_WATCH_SECONDS=0 ENTROPY_BENCH_MODEL='2 2 32 101' \
            ENTROPY_BENCH_CONTEXTS=16 ENTROPY_BENCH_TOKENS=64 \
            ENTROPY_BENCH_STEPS=16x2 &&
            just flash.md statistics.md summary.md watch.md &&
            [ "$(grep -cE '^\| (bf16|fp32) \| (key mask|packed) (\| [0-9.e-]+, [^|]* ){4}\|$' \
                "$tables/statistics.md")" = 2 ] &&
            [ "$(grep -cE ': (4 losses are bit-equal|the file has the samples).*: holds$' \
                "$tables/watch.md")" -ge 2 ] &&
            grep -qE '^\| 16 \| 16 \| [0-9]' "$tables/flash.md" &&
            grep -qE '^\| 16 \| 2 \| eager, flash, no entropy \| [0-9]' "$tables/flash.md" &&
            grep -qE '^- stretch: fused forward .* against cuDNN' "$dir/said"
    }
    check 'call 1 runs with PyTorch on the CPU' with_torch
else
    skip 'call 1 runs with PyTorch on the CPU' 'no PyTorch or transformers'
fi
[ -z "${PYTHON:-}" ] || { finish; exit; }

# --- without a device -----------------------------------------------------------

no_device() {
    says 'skipped: no CUDA device' 3 env PREBUILT=1 CUDA_VISIBLE_DEVICES= \
        TABLES="$dir/none" OUT="$dir/out" bash tests/gpu/check.sh &&
        [ ! -e "$dir/out" ] && [ ! -e "$dir/none" ]
}
check 'a time must be a number' \
    says "MINUTES: not a number: 'soon'" 2 samples/gpu-replicate.sh SM soon
check 'the PyTorch comparison needs PyTorch and a device' \
    says 'PyTorch ' 1 env CUDA_VISIBLE_DEVICES= \
    python3 tests/gpu/peer_torch.py rate
check 'without tables there are no results' \
    says 'no tables' 3 env TABLES="$dir" samples/gpu-results.sh
check 'results need a folder with returned tables' \
    says 'no gpu.tar.gz' 3 env TABLES="$dir" OUT="$dir" samples/gpu-results.sh
check 'without a device gpu-check passes no stage' no_device

# --- attention without a model ----------------------------------------------------------

by_turns() { # PRECISION
    says ' ' 0 env ENTROPY_TRAIN_CUDA="$emulation" ENTROPY_BENCH_ROUNDS=1 \
        ENTROPY_BENCH_CALLS=1 "$BUILD/gpu-bench-attention" "$1" 1 2 17 16 &&
        grep -qE '^([0-9]+\.[0-9]{5} ?){11}$' "$dir/said"
}
for precision in fp32 bf16 fp16; do
    check "attention without a model, $precision, is measured" by_turns "$precision"
done
check 'an unknown precision is refused' \
    says "unknown precision 'fp8'" 2 "$BUILD/gpu-bench-attention" fp8 1 1 1 16
check 'the name of the device is printed' says 'host emulation' 0 \
    env ENTROPY_TRAIN_CUDA="$emulation" "$BUILD/gpu-bench-attention" device

# --- tools' output -----------------------------------------------------------------

stage_of() { # FUNCTION: calls FUNCTION of stages.sh, which reads standard input
    BUILD=$BUILD TABLES=$dir bash -c '. tests/gpu/stages.sh; "$1"' bash "$1"
}
same_text 'the table shows the error nearest to its tolerance' \
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
same_text 'the table of kernels covers whole steps only' \
    '2 steps, 720.0 us of kernels each

| kernel | launches | us | share, % |
| --- | --- | --- | --- |
| adamw_kernel | 1.5 | 700.0 | 97.2 |
| embed_kernel | 1.5 | 20.0 | 2.8 |' "$(ncu_says embed_kernel ns 12,000 \
    adamw_kernel us 600 adamw_kernel us 100 embed_kernel ns 14000 embed_kernel us 14 \
    adamw_kernel ms 0.7 rows_kernel ns 9 | stage_of kernel_table)"
no_step() { ! ncu_says rows_kernel ns 9 | stage_of kernel_table; }
check 'without a complete step no table is printed' no_step

# Checks that no stage begins if no time is left.
first='versions statistics verify watch attention step flash training'
rest='compile ranks kernels counters eager sanitize'
budget() { # CALL WANT
    anew
    says -- "- missing: $2" 1 gpu_check SECONDS_MAX=1 CALL="$1" &&
        just summary.md &&
        [ "$(sed -n 's/^== \(.*\): no time left.*/\1/p' "$dir/said" |
            tr '\n' ' ')" = "$2 " ]
}
check 'without time left no stage begins, and the missing stages are listed' budget 1 "$first"
check 'the second call also runs the remaining stages' budget 2 "$first $rest"
check 'a third call is refused' says 'CALL must be 1 or 2' 2 gpu_check CALL=3
check 'an unknown stage is refused' says 'nonsense: no such stage' 1 \
    gpu_check STAGES=nonsense
check 'limits must be numbers' says 'must be numbers' 2 gpu_check SECONDS_MAX=soon
: >"$dir/file"
unwritable() {
    anew
    says "$dir/file/out: cannot be written" 3 gpu_check OUT="$dir/file/out" &&
        [ -z "$(ls "$tables")" ]
}
check 'an OUT that cannot be written is reported first' unwritable

# --- both calls ----------------------------------------------------------

# Without PyTorch, the stages that need it must fail. Python must not load the
# bundle's libraries.
call_1() {
    anew
    says 'copies in' 1 gpu_check &&
        just attention.md flash-failed.md statistics-failed.md step.md summary.md \
            training.db training.md verify.md versions.md watch-failed.md &&
        [ "$(grep -c '^== .*: passed; took [0-9]* s, expected [0-9]* s$' "$dir/said")" = 5 ] &&
        grep -qF -- '- missing: statistics watch flash' "$out/summary.md" &&
        grep -q 'no module.*; .*bundle/python' "$tables/flash-failed.md" && ! grep -F bundle/lib "$tables"/*.md
}
check 'call 1 runs with the emulation' call_1
check 'the programs name their commit' \
    grep -qF "programs of commit $(cat "$dir/bundle/commit")" "$tables/versions.md"
check 'losses are compared with those of the CPU' \
    [ "$(grep -cE '^required: 20 losses in (fp32|bf16), as on the CPU .*: holds$' \
        "$tables/training.md")" = 2 ]
call_2() { # also checks that OUT may have been removed
    rm -rf "$out"
    touch -d '1 hour ago' "$tables/verify.md"
    says 'verify: done before' 1 gpu_check CALL=2 &&
        just attention.md compile-failed.md counters.md eager-failed.md \
            flash-failed.md kernels.csv kernels.md ranks.md sanitize.md \
            statistics-failed.md step.md summary.md training.db training.md verify.md \
            versions.md watch-failed.md &&
        [ -z "$(find "$tables/verify.md" -mmin -30)" ] &&
        grep -qF -- '- compile: failed' "$dir/said"
}
check 'call 2 runs failed and remaining stages' call_2
ranks() {
    grep -qF 'not done: this needs two devices' "$tables/ranks.md" &&
        [ "$(grep -c ': holds$' "$tables/ranks.md")" = 2 ] &&
        grep -q '^| nccl-alone | 1 | 0 | [1-9]' "$tables/ranks.md"
}
check 'the stage ranks runs one rank with NCCL, and two ranks on one device' ranks
check 'each array is listed with its error and tolerance' \
    [ "$(grep -cE '^\| dx, (bf16|fp16|fp32) \|( [0-9.e-]+ \|){3}' "$tables/verify.md")" = 3 ]
by_make() { # checks that make passes PREBUILT on to check.sh
    says 'verify: done before' 2 env "${there[@]}" make -s gpu-check \
        PREBUILT=1 BUILD="$dir/bundle" OUT="$out" STAGES=verify
}
check 'make gpu-check works in the folder of OUT' by_make
check 'every table names the emulation, which is not a GPU' \
    [ "$(grep -lE '^host emulation; ' "$tables"/*.md | wc -l)" = 15 ]
check 'an unused card is not named' \
    [ -z "$(grep -rE 'NVIDIA|H200' "$tables")" ]
check 'tolerances are stated for each precision' \
    [ "$(grep -c 'an array passes within' "$tables/verify.md")" = 4 ]
check 'the training run is complete' says finished 0 "$dir/bundle/entropy-scan" \
    "$tables/training.db" --json
check 'tables of the emulation do not become results' says 'these tables are from the emulation' 3 \
    env OUT="$out" TABLES="$dir/back" RESULTS="$dir/results" \
    samples/gpu-results.sh
check 'the next call continues from the returned tables' \
    [ "$(cd "$dir/back" && ls)" = "$(cd "$tables" && ls)" ]
counted() {
    anew
    says 'may not read counters' 1 gpu_check CALL=2 STAGES=kernels \
        NCU_SAYS='==ERROR== ERR_NVGPUCTRPERM' &&
        grep -qF -- '- kernels: failed, exit code 1: ncu may not' "$dir/said"
}
check 'a profiler without access to counters fails its stage' counted
no_sum() {
    anew
    says 'ranks: failed' 1 gpu_check STAGES=ranks FAKE_NCCL=1 &&
        just ranks-failed.md summary.md &&
        grep -q 'with NCCL, .*: fails$' "$tables/ranks-failed.md"
}
check 'the stage ranks fails if NCCL refuses a sum' no_sum
faulty() {
    anew
    says 'copies in' 1 gpu_check CALL=2 STAGES=sanitize FINDS=3 &&
        just sanitize-failed.md summary.md &&
        grep -qF '3 errors' "$tables/sanitize-failed.md" &&
        grep -qF -- '- sanitize: failed' "$dir/said"
}
check 'the table of a stage that fails is kept' faulty

# If the check is interrupted, for example because the time on the machine is used up,
# no process of the check may remain.
begin() { # STAGE VARIABLE=VALUE...: starts $session, and waits until the stage has begun
    anew
    setsid env "${there[@]}" STAGES="$@" bash tests/gpu/check.sh \
        >"$dir/said" 2>&1 &
    session=$!
    until_true grep -q ' programs, side by side' "$tables/$1-failed.md" 2>/dev/null
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
check 'verify runs again after it was killed' killed
printf '#!/bin/sh\nsleep 100\n' >"$dir/bundle/tests/test_cuda_begun"
chmod +x "$dir/bundle/tests/test_cuda_begun"
terminated() {
    begin verify PROGRAMS=test_cuda_begun
    kill -TERM $session
    wait $session
    [ $? = 143 ] && [ -z "$(members $session)" ] &&
        just summary.md verify-failed.md &&
        grep -q -- "- missing: $first" "$out/summary.md" &&
        grep -q -- '- verify: interrupted' "$dir/said" && goes_on verify
}
check 'a terminated verify copies its tables and runs again' terminated

# Checks that errors are found: a case with wrong values, a test that did not
# run on a device, and a sanitizer that prints no summary.
off() {
    anew
    LC_ALL=C sed 's|out/loss|out/====|; s|out/ereg|out/loss|; s|out/====|out/ereg|' \
        "$dir/bundle/cases/"g02_sm*.safetensors >"$dir/bundle/cases/off.safetensors"
    says 'off.safetensors: ' 1 gpu_check STAGES=verify CASES='g02_sm off' PROGRAMS=none &&
        just summary.md verify-failed.md &&
        [ "$(grep -c 'CUDA_LAUNCH_BLOCKING=1$' "$tables/verify-failed.md")" = 4 ] &&
        [ "$(grep -c '^off.safetensors: .*: fail$' "$tables/verify-failed.md")" = 8 ]
}
check 'a case with wrong values fails verify, also in the second run' off
fake() { # SCRIPT: creates the test test_cuda_fake, which runs SCRIPT
    printf '#!/bin/sh\n%s\n' "$1" >"$dir/bundle/tests/test_cuda_fake"
    chmod +x "$dir/bundle/tests/test_cuda_fake"
    anew
}
untested() {
    fake 'echo "skipped: no CUDA device"'
    says 'not tested on the device' 1 gpu_check STAGES=verify PROGRAMS=test_cuda_fake &&
        just summary.md verify-failed.md
}
check 'a test without a device fails verify' untested
blocking() {
    fake 'echo "blocking: $CUDA_LAUNCH_BLOCKING."; exit 5'
    says 'blocking: 1.' 1 gpu_check STAGES=verify PROGRAMS=test_cuda_fake &&
        grep -qF 'blocking: .' "$tables/verify-failed.md"
}
check 'a failed test runs again with blocking launches' blocking
silent() {
    anew
    printf '#!/bin/sh\nexit 0\n' >"$dir/silent/compute-sanitizer"
    chmod +x "$dir/silent/compute-sanitizer"
    says 'no summary' 1 gpu_check STAGES=sanitize \
        PATH="$dir/silent:$dir/bin:$PATH" && just sanitize-failed.md summary.md
}
mkdir "$dir/silent"
check 'a sanitizer without a summary fails its stage' silent
slow() {
    anew
    says 'did not end within 3 s' 1 gpu_check STAGES='sanitize verify' \
        HANGS=1 STAGE_MAX=3 PROGRAMS=none && just sanitize-failed.md summary.md verify.md
}
check 'a hanging stage ends at its time limit' slow
# Puts cuBLASLt into an unusual folder. The library is a link to the emulation.
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
check 'cuBLASLt is found in an unusual folder' found
missing_library() {
    says 'name its folder' 1 gpu_check BUILD="$dir/apart" STAGES=none \
        CUBLAS_FOLDER="$dir/bin" && [ "$(wc -l <"$dir/said")" = 1 ] &&
        grep -q "libcublasLt.so.99: .*; looked in LD_LIBRARY_PATH, $dir/bin" \
            "$dir/said"
}
check 'a missing library is reported with the searched folders' \
    missing_library

# --- requirements ---------------------------------------------------------------------

required() { # VERDICT CODE
    anew
    mkdir "$tables"
    for stage in $first; do
        echo "required: $stage >= 1x: 1.2x: holds" >"$tables/$stage.md"
    done
    echo 'stretch: memory, cuDNN: 0.4x' >>"$tables/flash.md"
    echo "required: memory >= 2x: 1.9x: $1" >>"$tables/step.md"
    says -- "- required: memory >= 2x: 1.9x: $1" "$2" gpu_check STAGES=step &&
        grep -qF -- '- required: attention >= 1x: 1.2x: holds' "$dir/said" &&
        grep -qF -- '- stretch: memory, cuDNN: 0.4x' "$dir/said" &&
        [ "$(grep -c passed "$dir/said")" = "$(wc -w <<<"$first")" ]
}
check 'requirements are met, and a stretch goal has no verdict' required holds 0
check 'a failed requirement is listed with the others' required fails 1
missing() {
    required holds 0 && rm "$tables/verify.md" &&
        says '- verify: not done' 1 gpu_check STAGES=step
}
check 'the check fails if a stage is missing' missing

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
