#!/usr/bin/env bash
# Tests that a dry run reports what it cannot check on this machine, and that it
# refuses the same paths, checkpoints and weights as training. test_dry_run.c tests
# the options.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
dry() { "$train" --dry-run "$@" 2>"$dir/messages"; }

# --- a back-end that is not on this machine
elsewhere() { ENTROPY_TRAIN_CUDA=$dir/none.so dry --backend cuda "$@"; }
check 'a dry run accepts a back-end that is missing here' elsewhere --precision fp16 --no-record
file_has 'a dry run reports that the back-end was not checked' "$dir/messages" '^entropy-train: not checked: back-end cuda: .*none\.so'
check 'a dry run without the back-end refuses an invalid architecture' \
    eval '! elsewhere --arch SM+ScFuFFNi9 --n-layer 2'

# --- outputs
write_source "$dir/src"
"$BUILD/entropy-corpus" -q -o "$dir/x.tok" "$dir/src" || echo 'Bail out! no corpus'
own_corpus "$dir/y.tok"
small=(--data "$dir/x.tok" --preset gpt2-l12-t128-sm-scfuffni6-tiny --n-layer 6 --threads 1
    --batch 1 --steps 1 --eval-batches 1)
refused() { # NAME CODE REGEX OPTION...: a dry run and training refuse these options
    exits "$1: refused by a dry run" "$2" "$3" "$train" "${small[@]}" "${@:4}" --dry-run
    exits "$1: refused by training" "$2" "$3" "$train" "${small[@]}" "${@:4}"
}
mkdir "$dir/sub"
refused 'an output in a folder that does not exist' 3 'nowhere' -o "$dir/nowhere/run.db"
refused 'an output that is a folder' 3 "$dir/sub" -o "$dir/sub"
refused 'an existing output file that is not a run file' 3 'x\.tok' -o "$dir/x.tok"
refused 'a checkpoint folder that cannot be created' 3 'nowhere' --no-record --checkpoint "$dir/nowhere/sub"
"$train" "${small[@]}" --steps 2 -q -o "$dir/a.db" --checkpoint "$dir/kept" || echo 'Bail out! no training'
refused 'a folder with checkpoints of another run' 2 'belongs to another run|is later' \
    -o "$dir/a.db" --checkpoint "$dir/kept"
refused 'fewer steps than the checkpoint has done' 2 'has already trained 2 steps of 1' \
    -o "$dir/a.db" --resume "$dir/kept" --steps 1
refused 'data that differ from the checkpoint' 2 'was trained on' \
    -o "$dir/a.db" --resume "$dir/kept" --data "$dir/y.tok"
check 'a dry run accepts valid settings' dry "${small[@]}" -o "$dir/b.db" --checkpoint "$dir/new"
check 'a dry run of valid settings prints nothing' [ ! -s "$dir/messages" ]
check 'a dry run creates no file and no folder' [ ! -e "$dir/b.db" -a ! -e "$dir/new" ]
check 'a dry run accepts a resumed run' dry "${small[@]}" -o "$dir/a.db" --resume "$dir/kept" --steps 3
file_has 'its run file was not opened' "$dir/messages" \
    '^entropy-train: not checked: run file: the file exists, and adding the run to it may fail$'

# --- initial weights: those of GPT-2 with a separate output matrix
cat >"$dir/untie.py" <<'END'
import json, struct, sys
file = open(sys.argv[1], "rb").read()
n = 8 + struct.unpack("<Q", file[:8])[0]
arrays = {name + ".weight" * (name in ("wte", "wpe")): one
          for name, one in json.loads(file[8:n]).items()
          if name != "__metadata__" and not name.startswith("optimizer")}
arrays["lm_head.weight"] = dict(arrays["wte.weight"], data_offsets=[
    at + 4 for at in arrays["wte.weight"]["data_offsets"]])
data, header = b"", {}
for name, one in arrays.items():
    first, end = one["data_offsets"]
    header[name] = dict(one, data_offsets=[len(data), len(data) + end - first])
    data += file[n + first:n + end]
header = json.dumps(header).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(header)) + header + data)
END
small=(--data "$dir/x.tok" --n-head 3 --ctx 16 --batch 1 --steps 1 --eval-every 0 --threads 1 -q --no-record)
"$train" "${small[@]}" --n-layer 1 --d-model 12 --bias all --name tied --checkpoint "$dir/tied" ||
    echo 'Bail out! no weights'
python3 "$dir/untie.py" "$dir"/tied/tied-*.safetensors "$dir/untied.safetensors"
refused 'weights that fit no model' 3 'lm_head.weight is not the embedding' \
    --init "$dir/untied.safetensors"
check 'a dry run accepts weights that fit' dry "${small[@]}" --init "$dir"/tied/tied-*.safetensors
finish
