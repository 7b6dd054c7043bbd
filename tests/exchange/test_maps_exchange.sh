#!/usr/bin/env bash
# Checks that attention maps keep every bit when they are exported as text or
# arrays and imported again, and that error messages about malformed maps name
# the line.
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir

write_source "$dir/src"
"$BUILD/entropy-corpus" -q -o "$dir/x.tok" "$dir/src" || echo 'Bail out! no corpus'
"$train" --n-layer 3 --n-head 2 --d-model 12 --ctx 20 --batch 4 --threads 1 --steps 10 \
    --eval-every 5 --eval-batches 2 --data "$dir/x.tok" --maps 4 --map-heads -q \
    -o "$dir/run.db" || echo 'Bail out! no run'

maps() { # RUN.db: prints the bits of every map
    sqlite3 "$1" "SELECT phase, step, layer, head, size, ctx, hex(value)
        FROM attention_map ORDER BY 1, 2, 3, 4"
}
through_csv() {
    "$scan" export "$dir/run.db" -o "$dir/run.csv" &&
        "$scan" import "$dir/run.csv" -o "$dir/back.db" -q &&
        [ "$(maps "$dir/run.db" | wc -l)" = 27 ] &&
        [ "$(maps "$dir/back.db")" = "$(maps "$dir/run.db")" ] &&
        "$scan" export "$dir/back.db" -o "$dir/back.csv" &&
        cmp "$dir/run.csv" "$dir/back.csv"
}
check 'export and import keep every bit of a map' through_csv
sqlite3 "$dir/back.db" "UPDATE attention_map SET value = zeroblob(64) WHERE layer = 1 AND head = 0
    AND step = 5"
damaged() {
    "$scan" export "$dir/back.db" --series attention_map -o "$dir/damaged.csv" &&
        grep -qE '^# attention_map: eval 5 1 0 4 20:( NA){16}$' "$dir/damaged.csv" &&
        [ "$(grep -c '^# attention_map:' "$dir/damaged.csv")" = 27 ]
}
check 'a damaged map is exported as missing values' damaged
none() {
    "$scan" export "$dir/run.db" --phase train -o "$dir/train.csv" &&
        "$scan" export "$dir/run.db" --series loss -o "$dir/loss.csv" &&
        ! grep -h attention_map "$dir/train.csv" "$dir/loss.csv"
}
check 'export of another series or phase has no maps' none

json() {
    "$scan" export "$dir/run.db" --format jsonl --series attention_map | python3 -c '
import json, sys
rows = [row for row in map(json.loads, sys.stdin) if "uuid" in row]
one = next(row for row in rows if (row["step"], row["layer"], row["head"]) == (10, 2, 1))
assert len(rows) == 27 and one["series"] == "attention_map" and one["phase"] == "eval"
assert one["ctx"] == 20 and [len(row) for row in one["value"]] == [4] * 4
assert all(one["value"][q][k] is None for q in range(4) for k in range(q + 1, 4))
assert all(0 < one["value"][q][k] <= 1 for q in range(4) for k in range(q + 1))
assert any(row["head"] is None for row in rows)'
}
check 'JSON lines have one row per query' json

arrays() { # compares each member of the archive with the run file
    "$scan" export "$dir/run.db" -o "$dir/run.npz" &&
        python3 - "$dir/run.npz" "$dir/run.db" <<'EOF'
import ast, sqlite3, sys, zipfile

archive = zipfile.ZipFile(sys.argv[1])
rows = sqlite3.connect(sys.argv[2]).execute(
    "SELECT step, layer, head, value FROM attention_map ORDER BY step, layer, head").fetchall()
for name, heads in ("layer_4", [-1]), ("head_4", [0, 1]):
    data = archive.read(f"eval/attention_map/{name}.npy")
    size = 10 + int.from_bytes(data[8:10], "little")
    shape = ast.literal_eval(data[10:size].decode())["shape"]
    assert shape == ((3, 3, 4, 4) if heads == [-1] else (3, 3, 2, 4, 4)), shape
    assert data[size:] == b"".join(row[3] for row in rows if row[2] in heads)
    steps = archive.read(f"steps/eval/attention_map/{name}.npy")
    assert steps[-24:] == b"".join(step.to_bytes(8, "little") for step in (0, 5, 10))
EOF
}
check 'NPZ has one array for layers and one for heads' arrays

broken() { # SED REGEX: a malformed map is an error that names its line
    sed "$1" "$dir/run.csv" >"$dir/bad.csv"
    rm -f "$dir/bad.db"
    exits "a malformed map is refused: $2" 3 "bad.csv: line [0-9]+: an attention map: .*$2" \
        "$scan" import "$dir/bad.csv" -o "$dir/bad.db" -q
    check "a malformed map writes no run file: $2" [ ! -e "$dir/bad.db" ]
}
broken 's/^# attention_map: eval 5 1 0 4/# attention_map: eval 5 9 0 4/' '9'
broken 's/^# attention_map: eval 5 1 0 4/# attention_map: eval 5 1 0 65/' '65'
broken 's/^# attention_map: eval 5 1 0 4/# attention_map: test 5 1 0 4/' 'neither train nor eval'
broken '$s/ [^ ]*$//' '15 values instead of 16'
broken '$s/$/ 1/' 'more than 16 values'
broken '$s/[^ ]*$/x/' 'x'
finish
