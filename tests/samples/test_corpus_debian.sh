#!/usr/bin/env bash
# Tests samples/corpus/debian.sh: the same list gives the same tokens; packages and
# texts that differ from the list are refused. The test makes two packages and puts them
# into the cache; a real package is fetched if the mirror can be reached.
. tests/support/tap.sh
plan_dir
cache=$dir/cache
list=$dir/list
mkdir "$cache"

deb() { # NAME VERSION TEXT: makes a package of five modules in the cache
    local root=$dir/root/$1 i
    rm -rf "$root"
    mkdir -p "$root/DEBIAN" "$root/usr/lib/python3/dist-packages/$1/tests" "$root/etc"
    printf '%s\n' "Package: $1" "Version: $2" 'Architecture: all' \
        'Maintainer: test <test@localhost>' 'Description: a test' >"$root/DEBIAN/control"
    for i in 1 2 3 4 5; do
        echo "$3_$i = '$1'" >"$root/usr/lib/python3/dist-packages/$1/m$i.py"
    done
    echo 'same = 1' >"$root/usr/lib/python3/dist-packages/$1/same.py"
    echo 'not_here = 1' >"$root/usr/lib/python3/dist-packages/$1/tests/t.py"
    echo 'not here' >"$root/etc/$1.conf"
    dpkg-deb --root-owner-group --build "$root" "$cache/$1_${2//:/%3a}_all.deb" >/dev/null
}
line() { echo "$1 $2 $(sha256sum <"$cache/$1_${2//:/%3a}_all.deb" | cut -d' ' -f1)"; }
deb entropy-one 1.0-1 one
deb entropy-two 2:2.0-1 two
{ echo '# a list' && line entropy-one 1.0-1 && line entropy-two 2:2.0-1; } >"$list"

make_corpus() { # OUTPUT
    samples/corpus/debian.sh --list "$list" --cache "$cache" -o "$1" >"$dir/said" 2>&1
}
unrecorded() {
    ! make_corpus "$dir/a.tok" &&
        grep -qE "text's checksum is [0-9a-f]{16}, but .* has none" "$dir/said" &&
        sed -nE 's/.*checksum is ([0-9a-f]{16}).*/text \1/p' "$dir/said" >>"$list"
}
check 'a list without the checksum of its text is refused with the checksum' unrecorded
check 'a list with the checksum is accepted' make_corpus "$dir/b.tok"
check 'the accepted list gives the same tokens' cmp "$dir/a.tok" "$dir/b.tok"
content() {
    tail -c +97 "$dir/b.tok" | tr '\0' '\n' | grep -a . | LC_ALL=C sort |
        cmp - <(printf '%s\n' "one_"{1..5}" = 'entropy-one'" "same = 1" \
            "two_"{1..5}" = 'entropy-two'")
}
check 'the corpus has every module of dist-packages once, without tests' content
kept() { [ -z "$(find "$cache/tree" -name '*.conf')" ]; }
check 'nothing else is unpacked' kept
limited() {
    samples/corpus/debian.sh --list "$list" --cache "$cache" --limit 60 -o "$dir/l.tok"
}
check 'options of entropy-corpus are passed on' limited

refuses() { # NAME REGEX: with the present list
    rm -f "$dir/x.tok"
    exits "$1" 1 "$2" samples/corpus/debian.sh --list "$list" --cache "$cache" -o "$dir/x.tok"
}
cp "$list" "$dir/good"
sed -i 's/^text .*/text 0123456789abcdef/' "$list"
refuses 'a text that differs from the recorded one is refused' \
    'checksum is [0-9a-f]*, but .* has 0123456789abcdef'
cp "$dir/good" "$list"
deb entropy-one 1.0-1 changed
refuses 'another package of the same version is refused' 'entropy-one_1.0-1_all.deb: its SHA256'
sed -i 's/^entropy-one 1.0-1/entropy-one 1.0-2/' "$list"
refuses 'a version that is not available is refused' 'entropy-one 1.0-2: cannot be fetched.*--update'
echo 'entropy-one' >"$list"
refuses 'a list without versions is refused' 'entropy-one: no version and SHA256: use --update'
echo '# nothing' >"$list"
refuses 'an empty list is refused' 'no packages'
no_tokens() { [ ! -e "$dir/x.tok" ] || [ "$(stat -c %s "$dir/x.tok")" -gt 96 ]; }
check 'no file is left half-written' no_tokens
exits 'a missing list is refused' 1 'cannot be read' samples/corpus/debian.sh --list "$dir/nowhere" -o "$dir/x.tok"
exits 'a command without output is refused' 1 'give -o FILE' samples/corpus/debian.sh --list "$list"

well_formed() { # checks the list of the source tree
    awk '/^#/ { next } /^text [0-9a-f]+$/ && length == 21 { text++; next }
        NF == 3 && length($3) == 64 && $1 > last { n++; last = $1; next }
        { bad = 1 } END { exit bad || text != 1 || n < 40 }' samples/corpus/debian.list
}
check 'the list is sorted and complete' well_formed

echo 'python3-decorator' >"$list"
if (cd "$dir" && timeout 60 apt-get -qq download python3-decorator) >"$dir/said" 2>&1; then
    updated() {
        samples/corpus/debian.sh --update --list "$list" --cache "$dir/net" -o "$dir/n.tok" &&
            grep -qE '^text [0-9a-f]{16}$' "$list" &&
            samples/corpus/debian.sh --list "$list" --cache "$dir/net2" -o "$dir/m.tok" &&
            cmp "$dir/n.tok" "$dir/m.tok"
    }
    check 'a list with a package from the mirror can be made and used' updated
else
    skip 'a list of a package of the mirror' "apt-get: $(tail -n 1 "$dir/said")"
fi
finish
