#!/usr/bin/env bash
# Tests entropy-corpus: the same files give the same bytes, whatever folder contains
# them.
. tests/support/tap.sh
plan_dir

tree() { # FOLDER NUMBERS: makes 60 modules in packages, and files that must be left out
    local i
    for i in $2; do
        mkdir -p "$1/p$((i % 7))"
        printf 'def f%d():\n    return %d\n' "$i" $((i * i)) >"$1/p$((i % 7))/m$i.py"
    done
    mkdir -p "$1/test" "$1/p1/tests" "$1/site-packages" "$1/.git"
    for i in test p1/tests site-packages .git; do echo 'NOT HERE' >"$1/$i/x.py"; done
    echo 'NOT HERE' >"$1/p1/readme.txt"
    echo 'NOT HERE' >"$1/p1/m.pyc"
    ln -s "$PWD/README.md" "$1/p1/link.py"
    ln -s / "$1/p2/root"
    : >"$1/p2/empty.py"
    printf 'x = "\0"  # NOT HERE\n' >"$1/p2/nul.py"
}
tree "$dir/a" "$(seq 60)"
tree "$dir/elsewhere/b" "$(seq 60 -1 1)"

make_corpus() { "$corpus" -o "$@" 2>"$dir/messages"; }
check 'entropy-corpus makes a corpus' make_corpus "$dir/a.tok" "$dir/a"
check 'the order of files in a directory and its location do not matter' bash -c '
    "$1" -q -o "$2/b.tok" "$2/elsewhere/b//" && cmp "$2/a.tok" "$2/b.tok"' \
    sh "$corpus" "$dir"
check 'the program reports how much is held out' grep -qE '60 documents, .* held out [1-9]' "$dir/messages"
check 'the program counts the files that it skips' \
    grep -q 'left out: 1 empty, 0 unreadable, 1 with a NUL' "$dir/messages"
in_order() { # by the bytes of the paths: p0/m14.py p0/m21.py p0/m28.py p0/m7.py ...
    local found want
    found=$(tail -c +97 "$1" | head -c "$(number "$1" 24)" | tr '\0' '\n' |
        sed -n 's/^def f\([0-9]*\).*/\1/p')
    want=$(cd "$dir/elsewhere/b" && find . -name 'm*.py' | LC_ALL=C sort |
        sed -n 's/.*\/m\([0-9]*\)\.py/\1/p' | grep -xF "$found")
    [ "$(wc -l <<<"$found")" -gt 40 ] && [ "$found" = "$want" ]
}
number() { od -An -tu8 -j"$2" -N8 "$1" | tr -d ' '; }
check 'documents come in the order of their paths' in_order "$dir/a.tok"
lacks() { ! grep -aq 'NOT HERE\|entropy-scan' "$1"; }
check 'tests, links and binaries are skipped' lacks "$dir/a.tok"
holds() {
    [ "$(number "$1" 24)" -gt 0 ] && [ "$(number "$1" 32)" -gt 0 ] &&
        [ $(($(number "$1" 40) + $(number "$1" 48))) = 60 ] &&
        [ $(($(number "$1" 24) + $(number "$1" 32) + 96)) = "$(stat -c %s "$1")" ]
}
check 'the header counts tokens and documents of both parts' holds "$dir/a.tok"
ends() { [ "$(tail -c +97 "$1" | tr -cd '\0' | wc -c)" = 60 ]; }
check 'a NUL ends every document' ends "$dir/a.tok"
held_out() { tail -c "$(number "$1" 32)" "$1"; }
split_holds() { # the part of a file does not depend on other files
    rm -r "$dir/a/p3" && "$corpus" -q -o "$dir/less.tok" "$dir/a" &&
        [ "$(number "$dir/less.tok" 32)" -le "$(number "$dir/a.tok" 32)" ] &&
        held_out "$dir/less.tok" | tr '\0' '\n' | grep -a '^def' |
        while read -r line; do held_out "$dir/a.tok" | grep -aqF "$line" || exit 1; done
}
check 'documents stay on their side of the split' split_holds
small() {
    "$corpus" -q --limit 500 -o "$dir/s.tok" "$dir/a" &&
        [ "$(stat -c %s "$dir/s.tok")" -le 596 ] && [ "$(stat -c %s "$dir/s.tok")" -gt 400 ]
}
check '--limit makes a small corpus' small
two() {
    mkdir -p "$dir/c/p1" && printf 'other = 1\n' >"$dir/c/p1/m1.py" &&
        "$corpus" -q -o "$dir/two.tok" "$dir/elsewhere/b" "$dir/c" &&
        [ $(($(number "$dir/two.tok" 40) + $(number "$dir/two.tok" 48))) = 61 ]
}
check 'the program reads several directories' two
twice() { # the same text under names of both parts
    mkdir "$dir/d" && for i in $(seq 200); do echo 'same = 1' >"$dir/d/$i.py"; done
    echo 'x = 1' >"$dir/d/x.py"
    "$corpus" -o "$dir/twice.tok" "$dir/d" 2>"$dir/messages" &&
        [ $(($(number "$dir/twice.tok" 40) + $(number "$dir/twice.tok" 48))) = 2 ] &&
        grep -q '199 duplicates' "$dir/messages"
}
check 'a text that occurs twice is used once' twice
text_of() { grep -oE 'text [0-9a-f]{16}' "$dir/messages"; }
text() {
    local a b c d
    make_corpus "$dir/b.tok" "$dir/elsewhere/b" && a=$(text_of) &&
        cp -r "$dir/elsewhere/b" "$dir/copy" &&
        make_corpus "$dir/b.tok" "$dir/copy" && b=$(text_of) &&
        echo '# more' >>"$dir/copy/p1/m1.py" &&
        make_corpus "$dir/b.tok" "$dir/copy" && c=$(text_of) &&
        mv "$dir/copy/p2/m2.py" "$dir/copy/p2/a2.py" &&
        make_corpus "$dir/b.tok" "$dir/copy" && d=$(text_of) &&
        [ "$a" = "$b" ] && [ "$b" != "$c" ] && [ "$c" != "$d" ]
}
check 'the checksum of the text depends on the documents and their order' text
piped() { "$corpus" -q -o - "$dir/elsewhere/b" | cmp - "$dir/a.tok"; }
check 'the program can write to standard output' piped

if ls /usr/lib/python3.*/os.py >/dev/null 2>&1; then
    whole() {
        "$corpus" -o "$dir/std.tok" 2>"$dir/messages" &&
            [ "$(stat -c %s "$dir/std.tok")" -gt 5000000 ] &&
            [ $((100 * $(number "$dir/std.tok" 32))) -gt $((2 * $(number "$dir/std.tok" 24))) ] &&
            [ $((100 * $(number "$dir/std.tok" 32))) -lt $((5 * $(number "$dir/std.tok" 24))) ]
    }
    check 'the default corpus is the standard library, with 2 to 5 % held out' whole
else
    skip 'the default is the standard library' 'no Python on this machine'
fi

exits 'a command without output is refused' 2 'give -o FILE' "$corpus" "$dir/a"
exits 'for an unknown option the nearest one is suggested' 2 'did you mean --limit' \
    "$corpus" --limt 5 -o "$dir/x.tok"
exits 'a limit that is not a number is refused' 2 '^entropy-corpus: --limit' \
    "$corpus" --limit many -o "$dir/x.tok"
exits 'a missing directory is refused' 3 'nowhere: ' "$corpus" -o "$dir/x.tok" "$dir/nowhere"
exits 'a file in place of a directory is refused' 3 'a.tok: not a directory' \
    "$corpus" -o "$dir/x.tok" "$dir/a.tok"
mkdir "$dir/bare"
few() { (ulimit -n "$1"; shift; "$@"); }
exits 'a limit of open files does not make the corpus smaller' 3 'Too many open files' \
    few 5 "$corpus" -q -o "$dir/few.tok" "$dir/a"
exits 'a directory without Python is refused' 3 'no Python source' \
    "$corpus" -o "$dir/x.tok" "$dir/bare"
exits 'an output that cannot be written is reported' 3 'nowhere' \
    "$corpus" -o "$dir/nowhere/x.tok" "$dir/a"
exits 'a closed standard output is reported' 3 'standard output: cannot write' \
    bash -c '"$0" -o - "$1" >&-' "$corpus" "$dir/a"
exits 'a full device is reported' 3 . "$corpus" -o /dev/full "$dir/a"
absent() { [ ! -e "$dir/x.tok" ]; }
check 'a failure leaves no file behind' absent
# Run as a user without permission to read the file, even if root runs the test.
as=()
if [ "$(id -u)" = 0 ]; then
    as=("${other_user[@]}")
    chmod 755 "$dir"
fi
if [ "$(id -u)" = 0 ] && ! other_user_can_run "$corpus"; then
    skip 'an unreadable file is counted' 'another user cannot run the programs here'
else
    chmod 0 "$dir/elsewhere/b/p1/m1.py"
    unreadable() { "${as[@]}" "$corpus" -o - "$dir/elsewhere/b" 2>&1 >/dev/null | grep -q '1 unreadable'; }
    check 'an unreadable file is counted' unreadable
fi
finish
