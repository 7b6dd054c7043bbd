#!/usr/bin/env bash
# samples/configs: what is committed is what the table says, and all of it can
# be trained.
. tests/support/tap.sh
without_sanitizers 'other tests read configurations, and train'
. tests/support/corpus.sh
plan_dir
configs=samples/configs

mkdir "$dir/made"
check 'the table makes the configurations' $configs/make.sh "$dir/made"
same() { diff -r "$configs" "$dir/made" -x make.sh -x table.txt; }
check 'those that are here' same
is_row() { # FILE: it trains what its first line says, canonically
    local arch
    arch=$(sed -n 's/^arch = //p' "$1")
    [ "$(sed -n '1s/^# \([^;]*\);.*/\1/p' "$1")" = "$arch" ] &&
        "$train" --config "$1" --dry-run >"$dir/resolved" &&
        grep -qxF "arch = $arch" "$dir/resolved"
}
every() { # TEST GLOB: COMMAND holds for each file
    local file n=0
    for file in $2; do
        "$1" "$file" || { echo "$file"; return 1; }
        n=$((n + 1))
    done
    [ $n -ge 60 ] || { echo "only $n files"; return 1; }
}
check 'each resolves, and its architecture is canonical' every is_row "$configs/*.conf"
keeps() { # FILE: every line of it is in what it resolves to
    "$train" --config "$1" --dry-run >"$dir/resolved" &&
        ! grep -vE '^(#|$)' "$1" | grep -vxFf "$dir/resolved"
}
check 'each says what it resolves to' every keeps "$configs/*.conf"
has_twin() { [ -f "${1%-tiny.conf}.conf" ]; }
check 'each tiny one has a twin at full size' every has_twin "$configs/*-tiny.conf"

# A line of the table that does not exist fails, rather than leave a gap.
wrong_size() {
    mkdir "$dir/wrong" && cp $configs/make.sh "$dir/wrong" &&
        echo 'gpt2-l99-t128 | SM | no figure' >"$dir/wrong/table.txt" &&
        ! "$dir/wrong/make.sh"
}
check 'an unknown size is an error' wrong_size

write_source "$dir/src"
"$BUILD/entropy-corpus" -q -o "$dir/x.tok" "$dir/src" || echo 'Bail out! no corpus'
for name in gpt2-l12-t128-sm-ln-g pythia-l6-t128-sm-ln-r gpt2-l18-t128-sm-scfuffni4 sas-l12-t128-sm-scfuffni1; do
    output "$name-tiny trains" 'finished after 2 steps' \
        "$train" --config "$configs/$name-tiny.conf" --data "$dir/x.tok" \
        --no-record --steps 2 --eval-batches 1 --threads 1
done
finish
