#!/usr/bin/env bash
# Tests the command line of entropy-train: results, exit codes, one-line errors.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
small=(--n-layer 2 --n-head 3 --d-model 12 --ctx 16 --batch 4 --threads 1
    --eval-batches 2 --data "$dir/x.tok")

write_source "$dir/src"
"$BUILD/entropy-corpus" -q -o "$dir/x.tok" "$dir/src" || echo 'Bail out! no corpus'

# --- results
result() { "$train" "${small[@]}" --steps 12 "$@" 2>"$dir/messages" | tee "$dir/result"; }
output 'a training run prints its result' \
    '^SM\+LN\+G finished after 12 steps, loss [0-9.]+, held-out [0-9.]+, perplexity' \
    result -o "$dir/run.db" --record-every 1
cp "$dir/result" "$dir/recorded"
output 'the run names the products and the kernels' \
    '"products":"OpenBLAS [0-9.]+ [^"]+","kernels":"(avx512|avx2|plain)",' \
    "$BUILD/entropy-scan" "$dir/run.db" --json
check 'progress goes to standard error' grep -q 'step 1/12  loss 5\.' "$dir/messages"
check 'the bar shows the heads' grep -qE '\[#{16}\]' "$dir/messages"
result --no-record >/dev/null
losses() { sed 's/,[^,]*$//' "$1"; } # everything but the speed
same() { [ -n "$(losses "$1")" ] && [ "$(losses "$1")" = "$(losses "$2")" ]; }
check 'recording changes no result' same "$dir/recorded" "$dir/result"
result --no-record --seed 2 >/dev/null
differ() { [ -s "$1" ] && [ -s "$2" ] && ! same "$1" "$2"; }
check 'another seed gives other results' differ "$dir/recorded" "$dir/result"
maps() { # OPTION...: prints the number of maps, their bytes and their steps
    rm -f "$dir/maps.db"
    result -o "$dir/maps.db" --eval-every 2 --maps 8 "$@" >"$dir/mapped" || return 1
    sqlite3 "$dir/maps.db" "SELECT count(*), max(length(value)), group_concat(DISTINCT step)
        FROM attention_map WHERE phase = 'eval' AND ctx = 16"
}
output '--maps records maps of the layers' '^6\|256\|0,6,12$' maps --map-count 3
check 'recording maps changes no result' same "$dir/recorded" "$dir/mapped"
output '--map-heads also records maps of heads' '^8\|256\|12$' maps --map-count 1 --map-heads
exits '--maps without evaluations is refused' 2 'maps needs evaluations.*: give --eval-every' \
    "$train" "${small[@]}" -o "$dir/none.db" --eval-every 0 --maps 8
quiet() { [ -z "$("$train" "${small[@]}" --steps 3 --no-record --quiet 2>&1)" ]; }
check '--quiet prints nothing' quiet
output 'train as a verb trains' 'finished' \
    "$train" train "${small[@]}" --steps 2 --no-record
output '--help prints the options' 'usage: entropy-train .*--arch' "$train" --help
output 'VERB --help prints the help of the verb' 'usage: entropy-train bench' "$train" bench --help
output '--help lists the verbs' '^  probe +record the heads' "$train" --help
output 'help VERB prints the help of the verb' 'usage: entropy-train probe' "$train" help probe
output '--version prints the version' '^entropy-train [0-9]+\.[0-9]+' "$train" --version
output '--version names the library of the products and its kernels' \
    '^products: OpenBLAS [0-9.]+ [A-Za-z0-9_]+(, oneDNN [0-9.]+ [a-z0-9_]+)?$' \
    "$train" --version
# OPENBLAS_CORETYPE selects the kernels, and a warning is printed if the processor
# supports better kernels.
if grep -q avx2 /proc/cpuinfo; then
    held_back() { OPENBLAS_CORETYPE=Nehalem "$train" "${small[@]}" --steps 2 --no-record 2>&1; }
    output 'kernels below the processor cause a warning' \
        'warning: OpenBLAS uses .*unset OPENBLAS_CORETYPE \(Nehalem\)' held_back
    output 'bench warns of slow kernels and names them' 'products: OpenBLAS [0-9.]+ Nehalem' \
        env OPENBLAS_CORETYPE=Nehalem "$train" bench "${small[@]:0:10}" --threads 1 --pairs 5
else
    skip 'kernels below the processor cause a warning' 'this processor has no AVX2'
fi
printf 'arch = SM+R\nsteps = 5\nn_layer = 1\n' >"$dir/a.conf"
output 'options override a configuration file' \
    '^SM\+R finished after 4 steps' \
    "$train" "${small[@]}" --config "$dir/a.conf" --steps 4 --no-record
output '--dry-run prints the configuration of the training' '^arch = SM\+R$' \
    "$train" --config "$dir/a.conf" --dry-run
output '--dry-run prints the vocabulary of the data' '^vocab = 256$' \
    "$train" "${small[@]}" --dry-run -o "$dir/dry.db"
check '--dry-run creates no run file' [ ! -e "$dir/dry.db" ]
exits '--dry-run runs the checks of training' 2 'ScFuFFNi3' \
    "$train" --arch SM+ScFuFFNi3 --n-layer 2 --dry-run
exits '--dry-run checks the data' 3 'none.tok' "$train" --dry-run --data "$dir/none.tok"
output 'bench prints tokens/s and the share of recording' 'tokens/s: [0-9]+' \
    "$train" bench "${small[@]:0:10}" --threads 1 --pairs 5
left_nothing() {
    mkdir "$dir/tmp" && TMPDIR=$dir/tmp "$train" bench --n-layer 1 --n-head 1 \
        --d-model 4 --ctx 5 --batch 1 --pairs 5 >"$dir/bench" && rmdir "$dir/tmp" &&
        grep -qE 'wall +recorded .* %' "$dir/bench"
}
check 'bench leaves no file behind' left_nothing
no_sqlite() {
    readelf -d "$train" | grep -q 'NEEDED.*libc\.' &&
        ! readelf -d "$train" | grep -qi sqlite
}
check 'the trainer is not linked with SQLite' no_sqlite

# --- endings
nan() {
    "$train" "${small[@]}" --arch SM --lr 1e12 --clip 0 --steps 60 --after-nan 3 \
        -o "$dir/nan.db" "$@"
}
exits 'a NaN ends the run as failed with a message that names step and layer' 1 \
    'loss is not finite from step [0-9]+ on' nan
says_nan() {
    nan -o "$dir/again.db" >"$dir/result" 2>/dev/null
    grep -qE '^SM failed after [0-9]+ steps, loss (NaN|inf)' "$dir/result"
}
check 'a NaN is printed without a sign' says_nan
under_way() { # waits until the trainer has done 3 steps
    await 'step 3 is done' grep -q '^step 3/' "$dir/messages"
}
interrupt() { # SIGNAL: interrupts training with SIGNAL; returns the exit code
    : >"$dir/messages" # clears the messages of the previous run
    "$train" "${small[@]}" --steps 1000000 --log-every 1 -o "$dir/$1.db" \
        >"$dir/result" 2>"$dir/messages" &
    local pid=$!
    under_way
    kill -s "$1" $pid
    wait $pid
}
interrupt INT
code=$?
check 'SIGINT ends with 130' [ $code = 130 ]
check 'an interrupted training run prints its last step' grep -q 'stopped after [0-9]* steps' "$dir/result"
interrupt TERM
code=$?
check 'SIGTERM ends with 143' [ $code = 143 ]
: >"$dir/messages"
"$train" "${small[@]}" --steps 1000000 --log-every 1 -o "$dir/stop.db" \
    >"$dir/result" 2>"$dir/messages" &
pid=$!
under_way
echo 'enough' >"$dir/stop.db.stop"
until_true ended $pid
kill -9 $pid 2>/dev/null # only if it has not stopped by itself
wait $pid
code=$?
check 'a request to stop ends the run properly' [ $code = 0 ]
check 'a stopped training run reports that it was stopped' grep -q 'stopped after' "$dir/result"
status_of() { "$BUILD/entropy-scan" "$1" --json | grep -o '"status": *"[a-z]*"' | tr -d ' "' | cut -d: -f2; }
if [ -x "$BUILD/entropy-scan" ]; then
    check 'runs are closed as finished, failed, stopped' test \
        "$(for run in run nan INT TERM stop; do status_of "$dir/$run.db"; done | xargs)" \
        = 'finished failed stopped stopped stopped'
else
    skip 'runs are closed as finished, failed, stopped' 'no entropy-scan'
fi
plain() { [ -f "$1" ] && ! ls "$1"-* 2>/dev/null; }
check 'an interrupted run is one plain file' plain "$dir/INT.db"

child_of() { # PID: prints the PID of its entropy-recorder
    local status
    for status in /proc/[0-9]*/status; do
        grep -q "^PPid:[[:space:]]*$1$" "$status" 2>/dev/null &&
            grep -q '^Name:[[:space:]]*entropy-recorde' "$status" &&
            basename "$(dirname "$status")"
    done
}
steps=8000
[ -z "${SAN:-}" ] || steps=2000 # sanitizers make them take as long
long=("${small[@]}" --steps $steps --eval-every 0)
: >"$dir/messages"
"$train" "${long[@]}" --record-every 1 --log-every 1 -o "$dir/killed.db" \
    >"$dir/killed" 2>"$dir/messages" &
pid=$!
under_way
kill -STOP $pid # otherwise it could end before its recorder is found
kill -9 "$(child_of $pid)"
kill -CONT $pid
wait $pid
code=$?
check 'a killed recorder does not stop training' \
    grep -q "finished after $steps steps" "$dir/killed"
check 'a killed recorder is reported by exit code 3' [ $code = 3 ]
check 'a killed recorder is reported by one warning' [ "$(grep -c 'warning: ' "$dir/messages")" = 1 ]
check 'a killed recorder is reported by the frames lost' \
    grep -qE 'recording is incomplete: .*[0-9]+ frames' "$dir/messages"
"$train" "${long[@]}" --no-record >"$dir/result" 2>/dev/null
check 'a killed recorder changes no result' same "$dir/killed" "$dir/result"

# --- bad input
args=("${small[@]}" --steps 2)
bad() { # NAME CODE REGEX OPTION...
    local name=$1 code=$2 regex=$3
    shift 3
    exits "$name" "$code" "$regex" "$train" "${args[@]}" "$@"
    [ "$(wc -l <<<"$errors")" = 1 ] || fail "$name: one line" "$errors"
}
bad 'an unknown part of an architecture' 2 "XY" --no-record --arch SM+XY
bad 'an odd power' 2 'PSM.*3|3.*even' --no-record --arch 'PSM(3)'
bad 'heads that do not divide the width' 2 'n-head 5.*d-model 12' --no-record --n-head 5
bad 'more FFNs removed than the model has layers' 2 'ScFuFFNi9' --no-record --arch SM+ScFuFFNi9
bad 'a context longer than the data' 2 'x.tok: .*too few' --no-record --ctx 900000
bad 'data with another vocabulary' 2 'x.tok: .*vocabulary has 256 tokens, but --vocab is 300' --no-record --vocab 300
bad 'an output in a directory that does not exist' 3 'nowhere' -o "$dir/nowhere/run.db"
bad 'an output that is a directory' 3 "$dir/src" -o "$dir/src"
bad 'an output file that is not a run file' 3 'x.tok' -o "$dir/x.tok"
bad 'an unknown option' 2 'did you mean --n-layer' --no-record --n-layr 3
bad 'options that are mutually exclusive' 2 '--out and --no-record' --no-record -o "$dir/y.db"
bad 'an argument that is not an option' 2 "'more'" --no-record more
bad 'no output' 2 'give --out FILE or --no-record'
bad 'an unknown back-end' 2 'abacus' --no-record --backend abacus
bad 'a value that is not a number' 2 '--lr' --no-record --lr fast
bad 'a negative tolerance' 2 '--gamma: -0.1 is not between 0 and' --no-record --gamma -0.1
printf 'lr = 1\nstep = 3\n' >"$dir/bad.conf"
bad 'a wrong line of a configuration' 2 'bad.conf:2: step' --no-record --config "$dir/bad.conf"
bad 'a configuration file that does not exist' 3 'absent.conf' --no-record --config "$dir/absent.conf"
exits 'an endless configuration file is refused' 2 'larger than the 1024 KiB' \
    timeout 60 "$train" --dry-run --config <(yes 'steps = 5')
if [ -n "${SAN:-}" ]; then
    skip 'a device without end' 'sanitizers reserve more memory than the limit'
else
    exits 'a device without end' 2 '/dev/zero: larger than' \
        bash -c 'ulimit -v 4000000; timeout 60 "$0" --dry-run --config /dev/zero' "$train"
fi
mkfifo "$dir/fifo.conf"
exits 'a FIFO without a writer is refused' 3 'fifo.conf: a FIFO without a writer' \
    timeout 60 "$train" --dry-run --config "$dir/fifo.conf"
output 'a configuration can come from a pipe' '^steps = 5$' "$train" --dry-run --config <(sleep 0.1; echo steps = 5)
exits 'missing data are refused' 2 'give --data FILE' "$train" --no-record
exits 'an unknown verb is refused as an argument' 2 "'fly'" "$train" fly
exits 'verify without a case is refused' 2 'no cases' "$train" verify
exits 'verify of a file that is not a case fails' 1 '' "$train" verify "$dir/src"

data() { # NAME REGEX: training with the damaged x.tok fails
    exits "$1" 3 "$2" "$train" "${args[@]}" --no-record
}
cp "$dir/x.tok" "$dir/good"
head -c -100 "$dir/good" >"$dir/x.tok"
data 'a token file cut short' 'x.tok: cut short'
{ head -c 5000 "$dir/good"; printf '!'; tail -c +5002 "$dir/good"; } >"$dir/x.tok"
data 'a damaged token file' 'x.tok: damaged'
echo 'some text' >"$dir/x.tok"
data 'a text file in place of a token file' 'x.tok: not a token file'
: >"$dir/x.tok"
data 'an empty token file' 'x.tok: not a token file'
rm "$dir/x.tok"
data 'a token file that does not exist' 'x.tok: No such file'
mkfifo "$dir/x.tok"
data 'a FIFO in place of a token file' 'x.tok: not a regular file'
finish
