# Code shared by the tests of sweeps, which source this file after calling
# plan_dir. It changes the directory to $dir, which contains the corpus x.tok
# for training, and sets $root to the previous directory.
. tests/support/background.sh
. tests/support/corpus.sh
cd "$dir"
write_source src
"$bin/entropy-corpus" -q -o x.tok src || echo 'Bail out! no corpus'

batches=40 # per step, which takes a few milliseconds
[ -z "${SAN:-}" ] || batches=10
model=(n-layer=2 n-head=3 d-model=12 ctx=16 batch=4 eval-batches=2)
spec() { # FILE ARCHS SEEDS [LINE]...: writes a spec of tiny training runs
    local file=$1
    { echo '[sweep]'; echo "arch = $2"; echo "seed = $3"; echo 'data = x.tok'
      shift 3
      printf '%s\n' '[train]' "${model[@]}" "$@"; } >"$file"
}
states() { "$scan" sweep "$1" --status 2>/dev/null | awk 'NR > 1 && /\[/ { print $1, $2 }'; }
has_state() { states "$1" | grep -q "^$2 $3\$"; }
frames() { # RUN.db: prints a checksum of its samples except speeds
    sqlite3 "$1" "SELECT phase, name, step, hex(value) FROM sample
        JOIN series USING (series_id) WHERE name <> 'tokens_per_s'
        ORDER BY name, phase, step" | md5sum
}
