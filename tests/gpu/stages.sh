# The stages of tests/gpu/check.sh, which sources this file. Each stage is a
# function that prints its table and returns 0 if the stage has passed. A stage
# fails if a program or library that it needs is missing.
#
# Variables, with default values in parentheses:
#
#   CASES     prefixes of the names of reference cases, for example
#             "g01_sm_ln g17" (all cases that the back-end supports)
#   PROGRAMS  tests that compare operations with plain loops, for example
#             "test_cuda_rows" (all)
#   SHAPES    context lengths T for the stages attention and counters, with heads
#             of width 64 (1024 4096)
#   SIZES     sizes of training steps, as T x batch (1024x32 128x64)
#   PAIRS     number of pairs of training steps (20)
#   MODEL     options of the model (GPT-2 small)
#   LAUNCHES  number of kernel launches that ncu measures (1000, which is more
#             than two steps need)
#   TRAINING  maximum duration of the training run in seconds (60)
#   STEPS     maximum number of steps of the training run (1000000)
train=$BUILD/entropy-train
bench=$BUILD/gpu-bench-attention
n_tokens=${ENTROPY_BENCH_TOKENS:-16384} # tokens B T of a measurement of attention

# Runs a program of this project. If it fails, runs it again with blocking
# launches, so that its message names the launch that fails. The last line of
# output is then the exit code of the second run.
checked() { # COMMAND...
    local code=0
    ours "$@" || code=$?
    [ $code != 0 ] || return 0
    echo "-- exit code $code; again with CUDA_LAUNCH_BLOCKING=1"
    CUDA_LAUNCH_BLOCKING=1 ours "$@"
    echo "-- exit code $?"
    return $code
}

# Prints the path of an NVIDIA tool, which is on the PATH or in the folder of a
# toolkit.
tool() { # NAME
    command -v "$1" || ls -d {/usr/local/cuda*{/bin,/compute-sanitizer},/opt/nvidia/nsight-compute/*}/"$1" 2>/dev/null |
        tail -1 | grep .
}

need() { # NAME: writes the path of NAME to $found, or fails the stage
    found=$(tool "$1") || { echo "$1 is not installed"; exit 1; }
}

# --- versions -----------------------------------------------------------------------

versions() {
    local name source
    source=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
    echo "processors: $(nproc); $(uname -srm)"
    echo "programs of commit $(cat "$BUILD/commit" 2>/dev/null || echo "$source")," \
        "source of commit $source"
    [ "$DEVICE" = 'host emulation' ] ||
        nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,temperature.gpu,power.limit \
            --format=csv 2>&1
    ours ldd "$BUILD/libentropytrain_cuda.so" | grep -E 'cuda|cublas' |
        while read -r name _ path _; do
            echo "$name: $(readlink -f "$path")"
        done
    "$(tool nvcc || echo nvcc)" --version 2>&1 | tail -2
    echo "NCCL: $(find_nccl || echo 'not installed')"
    for name in ncu compute-sanitizer; do
        echo "$name: $(tool "$name" || echo 'not installed')"
    done
    python3 -W ignore -c 'import sys, importlib.metadata
print("Python", sys.version.split()[0])
for name in ("torch", "triton", "transformers", "numpy", "cffi"):
    try:
        print(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        print(name, "not installed")' 2>&1
    return 0
}

# --- correctness ----------------------------------------------------------------------

# Compares the Python package's kernels with the entropy's formula in double
# precision.
statistics() { ENTROPYSCAN_HOME=$BUILD python3 -W ignore tests/gpu/torch_statistics.py; }

# The folder of the reference cases is in the bundle, or else in the source.
case_folder=$BUILD/cases
[ -d "$case_folder" ] || case_folder=tests/trainer/cases
cases() { # sets the array found to the files of the cases
    local name
    found=()
    for name in ${CASES:-g01 g02_sm g0[3-9] g[12] p01_sm p02_sm p03_ereg}; do
        found+=("$case_folder"/$name*.safetensors)
    done
}

verify_in() { # PRECISION: each precision has its own tolerance
    cases
    echo "== verify, $1"
    checked "$train" verify --backend cuda --precision "$1" "${found[@]}" |
        sed "s|$case_folder/||"
}

# Reads lines "ARRAY ERROR TOLERANCE" that a test has written. Prints for each
# array the line with the largest ratio of error to tolerance.
array_table() {
    awk '
        {
            error = $(NF - 1); tolerance = $NF
            name = $0; sub(/ [^ ]+ [^ ]+$/, "", name)
            odd = error ~ /nan|inf/
            share = odd ? 1e9 : error / tolerance
            n[name]++
            if (n[name] == 1 || share > worst[name]) {
                worst[name] = share
                row[name] = error " | " tolerance " | " \
                    (odd ? "none" : sprintf("%.0f %%", 100 * share))
            }
        }
        END { for (name in n) print "| " name " | " n[name] " | " row[name] " |" }' |
        LC_ALL=C sort |
        sed '1i | array | times | error | tolerance | share |\n| --- | --- | --- | --- | --- |'
}

# Runs a test program that compares operations with plain loops in double. Fails
# if the program does not find the device, because it then tests nothing.
parity() { # PROGRAM
    local failed=0 said missing='no CUDA device|: not there' errors
    errors=$(mktemp)
    [ "$DEVICE" = 'host emulation' ] ||
        missing+='|SKIPPED \] (test_cuda_host|libcuda)'
    echo "== $1"
    said=$(ENTROPY_TRAIN_CUDA=$BUILD/libentropytrain_cuda.so \
        ENTROPY_PARITY=$errors checked "$BUILD/tests/$1" 2>&1) || failed=1
    grep -vE '^\[( RUN  |       OK )' <<<"$said"
    [ ! -s "$errors" ] || array_table <"$errors"
    rm -f "$errors"
    ! grep -qE "$missing" <<<"$said" ||
        { echo 'failed: not tested on the device'; failed=1; }
    return $failed
}

# Runs the reference cases in each precision and the tests of all operations.
# All of these programs run at the same time.
verify() {
    local failed=0 precision program i logs pids=()
    logs=$(mktemp -d)
    trap 'rm -rf "$logs"' EXIT
    for precision in fp32 tf32 bf16 fp16; do
        verify_in $precision >"$logs/${#pids[@]}" 2>&1 &
        pids+=($!)
    done
    for program in ${PROGRAMS:-$(cd "$BUILD/tests" && ls)}; do
        [[ $program == test_cuda_* && $program != *.* && -x $BUILD/tests/$program ]] ||
            continue
        parity "$program" >"$logs/${#pids[@]}" 2>&1 &
        pids+=($!)
    done
    echo "${#pids[@]} programs, side by side"
    for i in "${!pids[@]}"; do
        wait "${pids[i]}" || failed=1
        cat "$logs/$i"
    done
    out_of_memory || failed=1 # last, because it requests more memory than the device has
    return $failed
}

# Checks that training a model that is too large for any card fails with a
# one-line message.
out_of_memory() {
    local said code=0
    echo '== out of memory'
    said=$(ENTROPY_TRAIN_EMULATION=memory=1000000000 ours "$train" bench \
        --backend cuda --precision bf16 --n-layer 96 --n-head 96 \
        --d-model 12288 --vocab 50257 --ctx 2048 --batch 64 2>&1) || code=$?
    echo "exit code $code: $said"
    [ $code = 3 ] && [[ $said == *'out of memory: '* && $said != *$'\n'* ]]
}

# Runs reference cases under the sanitizer and prints its findings. If the
# sanitizer can select kernels, it checks only the back-end's kernels, because
# checking the kernels of cuBLAS would take longer than checking all of the
# back-end's.
sanitized() { # SANITIZER TOOL PRECISION
    local said code=0 found_what only
    for only in '--kernel-name kernel_substring=_kernel' ''; do
        code=0
        said=$(ours timeout --foreground -k 5 60 "$1" --tool "$2" \
            $only --error-exitcode 9 "$train" verify --backend cuda \
            --precision "$3" "${found[@]}" 2>&1) || code=$?
        [ $code != 124 ] && ! grep -q ' SUMMARY' <<<"$said" || break
    done
    ! grep -q 'Device not supported' <<<"$said" ||
        { echo 'compute-sanitizer cannot run here'; exit 1; }
    found_what=$(sed -nE 's/^=+ (.* SUMMARY: .*)/\1/p' <<<"$said" | tail -1)
    echo "| $2 | $3 | $code | ${found_what:-no summary} |"
    [ $code != 0 ] || [ -z "$found_what" ] || return 0
    head -20 <<<"$said"
    return 1
}

# Checks memory accesses and races in three reference cases, which cover
# temperatures, entropy regularisation, PowerSoftmax, LayerNorm and GELU.
sanitize() {
    local failed=0 name precision sanitizer
    need compute-sanitizer
    sanitizer=$found
    CASES=${CASES:-g17 g21 g01_sm_ln}
    cases
    echo "$CASES, our kernels"
    echo '| tool | precision | exit code | findings |'
    echo '| --- | --- | --- | --- |'
    for name in memcheck racecheck; do
        for precision in bf16 fp32; do
            sanitized "$sanitizer" $name $precision || failed=1
        done
    done
    return $failed
}

# --- speed ----------------------------------------------------------------------------

# Measures attention. Unlike the stage flash, which also measures PyTorch's SDPA,
# this stage does not need PyTorch.
attention() {
    local failed=0 n_ctx line
    echo "Milliseconds, bf16, causal, B T = $n_tokens, H d_k = 768, d_k = 64; the"
    echo 'cost of the entropy and of all statistics in % of the plain forward pass, with'
    echo '95 % intervals.'
    echo
    echo '| T | forward | with entropy | with all | backward | with dL/dE | entropy | all |'
    echo '| --- | --- | --- | --- | --- | --- | --- | --- |'
    for n_ctx in ${SHAPES:-1024 4096}; do
        line=$(checked "$bench" bf16 $((n_tokens / n_ctx)) 12 "$n_ctx" 64) || failed=1
        [[ $line =~ ^([0-9.]+ ){10}[0-9.]+$ ]] || { echo "$line"; continue; }
        awk -v t="$n_ctx" '
            function cost(i) {
                return sprintf("%+.2f [%+.2f, %+.2f]", 100 * ($i - 1),
                    100 * ($(i + 1) - 1), 100 * ($(i + 2) - 1))
            }
            { print "| " t, $1, $2, $3, $4, $5, cost(6), cost(9) " |" }' \
            OFS=' | ' <<<"$line"
    done
    return $failed
}

# Sets the options of a benchmark in which steps with and without recording
# alternate. The model is MODEL, or GPT-2 small as in peer_torch.py.
options_of() { # T B PAIRS: writes to the array options
    local model
    read -ra model <<<"${MODEL:---n-layer 12 --n-head 12 --d-model 768 --vocab 50257}"
    options=(bench --backend cuda --precision bf16 --arch SM+LN+GT --bias all
        "${model[@]}" --ctx "$1" --batch "$2" --pairs "$3")
}

step() {
    local failed=0 size part plans=$TABLES/plans.txt
    rm -f "$plans"
    for size in ${SIZES:-1024x32 128x64}; do
        echo "== T x B = $size"
        options_of "${size%x*}" "${size#*x}" "${PAIRS:-20}"
        (export ENTROPY_TRAIN_PLANS=$plans && checked "$train" "${options[@]}") ||
            failed=1
    done
    # Measures training steps of the last size in SIZES twice more: without overlapping
    # kernels, and without timing the algorithms that cuBLASLt proposes for a matrix
    # product.
    for part in OVERLAP TUNING; do
        echo "== T x B = $size, ENTROPY_TRAIN_$part=off"
        (export "ENTROPY_TRAIN_$part=off" && checked "$train" "${options[@]}") ||
            failed=1
    done
    echo '== the products, the candidate of cuBLASLt for each, and the fused operations'
    if [ -s "$plans" ]; then sort "$plans" | uniq -c; else echo 'no product was planned'; fi
    return $failed
}

# Reads the CSV output of ncu, and prints each kernel's share of the time of an
# average step, computed from all complete steps. The first step begins with the
# first kernel. A step ends with the last of its consecutive adamw_kernels, since
# AdamW runs once for each group of parameters.
kernel_table() {
    awk -F'","' '
        function end_step(    i) {
            steps++
            for (i in here) {
                n[i] += n_here[i]; took[i] += here[i]; sum += here[i]
            }
            delete here; delete n_here
        }
        /^"ID"/ {
            for (i = 1; i <= NF; i++) {
                name = $i; gsub(/"/, "", name); column[name] = i
            }
            next
        }
        !("Metric Value" in column) || !/^"[0-9]/ { next }
        {
            name = $column["Kernel Name"]; value = $column["Metric Value"]
            unit = $column["Metric Unit"]
            gsub(/[",]/, "", value); sub(/\(.*/, "", name)
            value *= unit ~ /^(ns|nsecond)/ ? 1e-3 : unit ~ /^(ms|msecond)/ ? 1e3 : 1
            if (updates && name !~ /adamw/) end_step()
            updates = name ~ /adamw/
            n_here[name]++; here[name] += value
        }
        END {
            if (!steps) exit 1
            printf "%d steps, %.1f us of kernels each\n\n", steps, sum / steps
            print "| kernel | launches | us | share, % |"
            print "| --- | --- | --- | --- |"
            fflush()
            for (i in took)
                printf "| %s | %.1f | %.1f | %.1f |\n", i, n[i] / steps,
                    took[i] / steps, 100 * took[i] / sum | "sort -t\"|\" -k4 -gr"
        }'
}

# Measures the times of kernels with ncu, which runs them one after another.
# Stores the complete output of ncu in TABLES.
kernels() {
    local log=$TABLES/kernels.csv size=${SIZES:-128x64}
    size=${size##* }
    need ncu
    options_of "${size%x*}" "${size#*x}" 5
    ours "$found" --csv --print-units base --print-kernel-base function \
        --metrics gpu__time_duration.sum --clock-control none \
        --launch-count "${LAUNCHES:-1000}" --kill yes \
        "$train" "${options[@]}" >"$log" 2>&1
    may_count "$log"
    echo 'By ncu, gpu__time_duration.sum, kernels serialised, clocks unchanged.'
    kernel_table <"$log" && return
    echo 'no complete step in the output of ncu:'
    tail -20 "$log"
    return 1
}

may_count() { # LOG: fails the stage if ncu may not read counters, according to LOG
    ! grep -q ERR_NVGPUCTRPERM "$1" ||
        { echo 'ncu may not read counters here'; exit 1; }
}

# Measures four attention kernels for each T with ncu: the fifth forward pass
# without statistics, the first forward pass with statistics, and a backward
# pass without and with a gradient of the entropies (dL/dE). bench_attention.c
# first makes 5 warm-up calls of each variant.
counters() {
    local failed=0 n_ctx which log=$TABLES/counters.log
    need ncu
    for n_ctx in ${SHAPES:-1024 4096}; do
        for which in 'kernel$ --launch-skip 4 --launch-count 2' \
            'd.*_kernel$ --launch-skip 8 --launch-count 4'; do
            echo "== T $n_ctx, attention_mma_$which"
            ENTROPY_BENCH_ROUNDS=1 ENTROPY_BENCH_CALLS=1 ours "$found" \
                --clock-control none --section SpeedOfLight --section Occupancy \
                --section LaunchStats --section WarpStateStats \
                --section ComputeWorkloadAnalysis \
                --section MemoryWorkloadAnalysis \
                --kernel-name regex:^attention_mma_$which \
                "$bench" bf16 $((n_tokens / n_ctx)) 12 "$n_ctx" 64 >"$log" 2>&1
            may_count "$log"
            cat "$log"
            grep -q Duration "$log" || failed=1
        done
    done
    rm -f "$log"
    return $failed
}

flash() { python3 -W ignore tests/gpu/peer_torch.py flash "$bench" "$train"; }
eager() { python3 -W ignore tests/gpu/peer_torch.py eager "$train"; }
compile() { python3 -W ignore tests/gpu/peer_torch.py compile "$train"; }

# Measures the cost of es.watch. check.sh has already created WATCH_FOLDER and
# started the jobs.
watch() {
    ENTROPYSCAN_HOME=$BUILD ENTROPY_RECORDER=$WATCH_FOLDER/recorder \
        python3 -W ignore tests/gpu/torch_watch.py measure "$WATCH_FOLDER"
}

# Prints the path of libnccl.so.2, which is part of PyTorch or installed on the
# machine.
find_nccl() {
    local folder
    [ -z "${ENTROPY_TRAIN_NCCL:-}" ] || { echo "$ENTROPY_TRAIN_NCCL"; return; }
    for folder in $(cublas_folders) /usr/lib/x86_64-linux-gnu; do
        ls "$folder/libnccl.so.2" 2>/dev/null && return
    done
    return 1
}

train_ranks() { # NAME WORLD [VARIABLE=VALUE...]: writes the recorded samples to $work/NAME
    local name=$1 world=$2 r code=0 pids=()
    shift 2
    rm -f "$work/$name.db"*
    for ((r = 0; r < world; r++)); do
        (export "${@:-RANK=$r}" && ours "$train" --backend cuda --precision fp32 --arch SM+LN+G \
            --n-layer 2 --n-head 2 --d-model 32 --ctx 16 --batch 2 --accumulate $((4 / world)) \
            --steps 5 --record-every 2 --eval-every 0 --seed 7 -q --data "$BUILD/corpus.tok" \
            --rank-timeout 30 --world "$world" --rank $r -o "$work/$name.db") &
        pids+=($!)
    done
    for r in "${pids[@]}"; do
        wait "$r" || code=$?
    done
    ours "$BUILD/entropy-scan" export "$work/$name.db" --format jsonl |
        sed '1d; /tokens_per_s/d; s/"uuid":"[^"]*",//' >"$work/$name"
    echo "| $name | $world | $code | $(grep -c . "$work/$name") |"
    return $code
}

# Succeeds if both runs have recorded three losses, which differ by at most 1e-6.
near() { # NAME OTHER
    paste <(grep '"loss"' "$work/$1") <(grep '"loss"' "$work/$2") |
        awk -F '"value":|}' '{ d = $2 - $4; n += $2 > 0 && d <= 1e-6 && d >= -1e-6 }
            END { exit !(NR == 3 && n == NR) }'
}

# Tests several ranks. NCCL needs a separate device for each rank. With a single
# device, one process joins NCCL alone, so that NCCL's calls are captured and
# run; then two ranks share the device and exchange gradients through the host.
ranks() {
    local failed=0 nccl n
    nccl=$(find_nccl) ||
        { echo 'no libnccl.so.2: name it in ENTROPY_TRAIN_NCCL'; exit 1; }
    n=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
    export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo} # the machine may have no other network
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    echo "$nccl; devices: $n"
    printf '| run | ranks | exit code | samples |\n| --- | --- | --- | --- |\n'
    verdict() { # NAME COMMAND...
        "${@:2}" && said=holds || { said=fails; failed=1; }
        verdicts+="$1: $said"$'\n'
    }
    local verdicts= said
    train_ranks one 1 || failed=1
    train_ranks nccl-alone 1 ENTROPY_TRAIN_NCCL="$nccl" ENTROPY_TRAIN_NCCL_ALONE=1 || failed=1
    train_ranks host 2 ENTROPY_TRAIN_NCCL=/none ENTROPY_TRAIN_DEVICE=0 || failed=1
    verdict 'one process with NCCL, every digit of one without it' \
        cmp "$work/one" "$work/nccl-alone"
    verdict 'two ranks on one device, through the host, 1e-6' near one host
    if [ "$n" -ge 2 ]; then
        train_ranks nccl 2 ENTROPY_TRAIN_NCCL="$nccl" || failed=1
        train_ranks again 2 ENTROPY_TRAIN_NCCL="$nccl" || failed=1
        verdict 'two ranks on two devices, by NCCL, 1e-6' near one nccl
        verdict 'repeated, every digit' cmp "$work/nccl" "$work/again"
    else
        verdicts+='two ranks by NCCL: not done: this needs two devices'$'\n'
    fi
    printf '\n%s' "$verdicts"
    return $failed
}

# --- a training ---------------------------------------------------------------------

# Makes a training run and records it in FILE. The micro-batches and the learning
# rates of the first steps do not depend on the number of steps.
record_training() { # FILE OPTION...
    local model
    read -ra model <<<"${MODEL:---n-layer 12 --n-head 12 --d-model 768 --ctx 128 --batch 8}"
    ${TRAIN_SECONDS:+timeout -s INT --preserve-status "$TRAIN_SECONDS"} \
        "$train" --arch SM+LN+G "${model[@]}" --data "$BUILD/corpus.tok" --lr 1e-4 \
        --schedule constant --warm-up 0 --eval-every 0 -q -o "$1" "${@:2}"
}

losses() { # RUN: prints lines "STEP LOSS"
    ours "$BUILD/entropy-scan" export "$1" --series loss --format csv |
        awk -F, '/^[0-9]/ { print $1, $4 }'
}

# Creates the token file, and computes the losses of the first steps on the CPU.
# This takes several minutes, so it is done on the machine that builds the
# programs, not on the machine with the GPU.
prepare_training() {
    local run
    [ -f "$BUILD/corpus.tok" ] ||
        "$BUILD/entropy-corpus" -q --limit 2000000 -o "$BUILD/corpus.tok" || return
    [ ! -s "$BUILD/cpu-losses.txt" ] || return 0
    run=$(mktemp -d) || return
    ours record_training "$run/cpu.db" --backend cpu --steps 20 --record-every 1 &&
        losses "$run/cpu.db" >"$BUILD/cpu-losses.part" &&
        mv "$BUILD/cpu-losses.part" "$BUILD/cpu-losses.txt"
    rm -rf "$run"
    [ -s "$BUILD/cpu-losses.txt" ]
}

# Compares the losses of the first 20 steps with those computed on the CPU. On the
# CPU, bf16 changes the losses by 1.0e-3; the tolerance for bf16 is three times as
# large.
compare_losses() { # PRECISION TOLERANCE
    ours record_training "$work/$1.db" --backend cuda --precision "$1" --steps 20 \
        --record-every 1 || return
    paste -d ' ' "$BUILD/cpu-losses.txt" <(losses "$work/$1.db") |
        awk -v precision="$1" -v most="$2" '
            {
                off = $2 - $4; off = off < 0 ? -off : off
                if ($1 == $3 && $4 != "" && off <= most) n++
                if (off > worst) worst = off
            }
            END {
                holds = n == NR && NR == 20
                printf "required: 20 losses in %s, as on the CPU within %s: %.1e: %s\n",
                    precision, most, worst, holds ? "holds" : "fails"
                exit !holds
            }'
}

training() {
    local failed=0 code=0 begin
    [ -s "$BUILD/cpu-losses.txt" ] ||
        { echo "$BUILD/cpu-losses.txt is missing: make the CPU's losses first"; exit 1; }
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    compare_losses fp32 1e-3 || failed=1
    compare_losses bf16 3e-3 || failed=1
    begin=$SECONDS
    TRAIN_SECONDS=${TRAINING:-60} ours record_training "$work/training.db" --backend cuda \
        --precision bf16 --steps "${STEPS:-1000000}" --record-every 25 || code=$?
    mv "$work/training.db" "$TABLES/" || return
    losses "$TABLES/training.db" | awk -v seconds=$((SECONDS - begin)) '
        NR == 1 { first = $2 }
        { last = $2; step = $1 }
        END {
            printf "%d steps in %s s, loss from %.3f to %.3f\n", step, seconds, first, last
            exit !(NR && last < first)
        }' || failed=1
    echo "exit code $code (130: its time was up)"
    [ $code = 0 ] || [ $code = 130 ] || failed=1
    return $failed
}
