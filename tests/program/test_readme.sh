#!/usr/bin/env bash
# Checks that every command of README.md and samples/README.md works: runs their
# ```sh blocks one after another, in a folder with copies of the recorded runs.
. tests/support/tap.sh
. tests/support/optuna.sh
plan_dir

ln -s "$root/samples" "$dir/samples"
cp samples/runs/*.db "$dir"
ln -s "$bin" "$dir/build"

# `make test` has built the programs before it runs this test. The demo is
# shortened, and make install writes into the test folder. The schedulers start
# training runs of only a hundred steps; tests/sweep/test_tuners.sh tests them
# with a thousand.
mkdir "$dir/short"
cat >"$dir/short/entropy-train" <<END
#!/bin/bash
for word; do
    shift
    [ "\$word" != 1000 ] || word=100
    set -- "\$@" "\$word"
done
exec "$train" "\$@"
END
chmod +x "$dir/short/entropy-train"
cat >"$dir/shims" <<END
unset MAKEFLAGS MAKELEVEL MFLAGS
export PYTHONDONTWRITEBYTECODE=1
export PATH="$dir/short:$bin:\$PATH" DEMO_STEPS=12 DESTDIR="$dir/installed"
git() { :; }
cd() { :; }
python3() { "$python" "\$@"; }
make() {
    [ "\${1:-}" = test ] && return 0
    command make --no-print-directory -C "$root" BUILD="$BUILD" CC="$CC" "\$@"
}
END

blocks=$(awk -v dir="$dir" '
    /^```sh$/ { n++; inside = 1; next }
    /^```/    { inside = 0 }
    inside    { print > (dir "/block" n) }
    END       { print n + 0 }' README.md samples/README.md)
[ "$blocks" -ge 4 ] || fail "README.md has $blocks blocks of commands"
for ((i = 1; i <= blocks; i++)); do
    first=$(grep -m1 -vE '^(#|$)' "$dir/block$i")
    if [ -z "$python" ] && grep -q ^python3 "$dir/block$i"; then
        skip "block $i: $first" "$no_optuna"
        continue
    fi
    check "block $i: $first" bash -c "builtin cd '$dir' && . ./shims &&
        set -euo pipefail && . ./block$i"
done

# Every link of every page must lead to an existing file; the manual shows other links
# as plain text.
while IFS=: read -r page path; do
    check "link $path" test -e "$(dirname "$page")/$path"
done < <(find * -path 'build*' -prune -o -name '*.md' -print0 | xargs -0 grep -oE '\]\([^)#]+\)' -- | tr -d '()]' |
    grep -v ':http' | sort -u)
finish
