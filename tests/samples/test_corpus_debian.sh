#!/usr/bin/env bash
# samples/corpus/debian.sh: the same list gives the same tokens; what is not
# the list's is refused. Two packages made here stand in the cache; a real one
# comes from the mirror where there is one.
. tests/support/tap.sh
plan_dir
cache=$dir/cache
list=$dir/list
mkdir "$cache"

deb() { # NAME VERSION TEXT: a package of five modules in the cache
    local root=$dir/root/$1 i
    rm -rf "$root"
    mkdir -p "$root/DEBIAN" "$root/usr/lib/python3/dist-packages/$1/tests" "$root/etc"
    printf '%s\n' "Package: $1" "Version: $2" 'Architecture: all' \
        'Maintainer: nobody <nobody@localhost>' 'Description: a test' >"$root/DEBIAN/control"
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

make_corpus() { # OUTPUT: text checksum on standard output
    samples/corpus/debian.sh --list "$list" --cache "$cache" -o "$1" >"$dir/said" 2>&1
}
unrecorded() {
    ! make_corpus "$dir/a.tok" &&
        grep -qE "text's checksum is [0-9a-f]{16}, not there" "$dir/said" &&
        sed -nE 's/.*checksum is ([0-9a-f]{16}).*/text \1/p' "$dir/said" >>"$list"
}
check 'a list without the checksum of its text: it is said' unrecorded
check 'the same list again' make_corpus "$dir/b.tok"
check 'gives the same tokens' cmp "$dir/a.tok" "$dir/b.tok"
content() {
    tail -c +97 "$dir/b.tok" | tr '\0' '\n' | grep -a . | LC_ALL=C sort |
        cmp - <(printf '%s\n' "one_"{1..5}" = 'entropy-one'" "same = 1" \
            "two_"{1..5}" = 'entropy-two'")
}
check 'every module once, of dist-packages, without tests' content
kept() { [ -z "$(find "$cache/tree" -name '*.conf')" ]; }
check 'nothing else is unpacked' kept
limited() {
    samples/corpus/debian.sh --list "$list" --cache "$cache" --limit 60 -o "$dir/l.tok"
}
check 'options of entropy-corpus are passed on' limited

refuses() { # NAME REGEX: with the list as it is
    rm -f "$dir/x.tok"
    exits "$1" 1 "$2" samples/corpus/debian.sh --list "$list" --cache "$cache" -o "$dir/x.tok"
}
cp "$list" "$dir/good"
sed -i 's/^text .*/text 0123456789abcdef/' "$list"
refuses 'another text than the recorded one' 'checksum is [0-9a-f]*, not 0123456789abcdef'
cp "$dir/good" "$list"
deb entropy-one 1.0-1 changed
refuses 'another package of the same version' 'entropy-one_1.0-1_all.deb: its SHA256'
sed -i 's/^entropy-one 1.0-1/entropy-one 1.0-2/' "$list"
refuses 'a version that is not there' 'entropy-one 1.0-2: cannot be fetched.*--update'
echo 'entropy-one' >"$list"
refuses 'a list without versions' 'entropy-one: no version and SHA256: use --update'
echo '# nothing' >"$list"
refuses 'an empty list' 'no packages'
no_tokens() { [ ! -e "$dir/x.tok" ] || [ "$(stat -c %s "$dir/x.tok")" -gt 96 ]; }
check 'no file is left half-written' no_tokens
exits 'no such list' 1 'cannot be read' samples/corpus/debian.sh --list "$dir/nowhere" -o "$dir/x.tok"
exits 'no output' 1 'give -o FILE' samples/corpus/debian.sh --list "$list"

well_formed() { # the list that comes with the source
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
    check 'a package of the mirror, its list made and used' updated
else
    skip 'a package of the mirror' "apt-get: $(tail -n 1 "$dir/said")"
fi
finish
