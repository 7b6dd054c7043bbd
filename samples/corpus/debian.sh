#!/usr/bin/env bash
# Makes a large corpus from the Python sources of a list of Debian packages. The
# packages are fetched with apt-get download and unpacked without being installed.
#
# usage: samples/corpus/debian.sh [--list FILE] [--cache DIR] [--update] \
#            -o FILE [OPTION of entropy-corpus...]
#
#   --list FILE   lines with a package, its version and the SHA256 of its .deb; the line
#                 "text CHECKSUM" is the expected checksum of the corpus text (default
#                 samples/corpus/debian.list)
#   --cache DIR   keeps the .deb files, and the tree in DIR/tree
#                 (default ~/.cache/entropy-scan)
#   --update      first updates the list to the mirror's current versions and the
#                 resulting checksum
#
# entropy-corpus decides which files belong to the corpus. The same list gives the same
# token file everywhere. Needs $BUILD/entropy-corpus (make programs).
set -euo pipefail

die() {
    echo "debian.sh: $*" >&2
    exit 1
}

list=$(dirname "$0")/debian.list
cache=${XDG_CACHE_HOME:-$HOME/.cache}/entropy-scan
corpus=${BUILD:-build}/entropy-corpus
update=
options=()
while [ $# -gt 0 ]; do
    case $1 in
    --list | --cache)
        [ $# -ge 2 ] || die "$1: give a value"
        [ "$1" = --list ] && list=$2 || cache=$2
        shift
        ;;
    --update) update=1 ;;
    *) options+=("$1") ;;
    esac
    shift
done
[ ${#options[@]} -gt 0 ] || die 'no output: give -o FILE'
[ -x "$corpus" ] || die "$corpus: not found: build it with make programs"
[ -r "$list" ] || die "$list: cannot be read"
mkdir -p "$cache"

packages() { grep -vE '^(#|text |$)' "$list"; }

deb_of() { # PACKAGE VERSION: prints its path in the cache, whether it exists or not
    local found=("$cache/$1_${2//:/%3a}"_*.deb)
    echo "${found[0]}"
}

known() { # prints package, version, SHA256 of those packages that apt knows
    apt-cache show --no-all-versions "$@" 2>/dev/null | awk '
        $1 == "Package:" { package = $2 }
        $1 == "Version:" { version = $2 }
        $1 == "SHA256:"  { print package, version, $2 }'
}

write_list() { # writes the current versions into the list
    local new=$cache/list names package
    names=$(packages | cut -d' ' -f1)
    { grep -E '^#' "$list" || true; known $names | LC_ALL=C sort; } >"$new"
    for package in $names; do
        grep -q "^$package " "$new" ||
            die "$package: unknown to apt: run apt-get update"
    done
    mv "$new" "$list"
}

fetch() {
    local wanted=() package version sha256
    while read -r package version sha256; do
        [ -n "$sha256" ] || die "$list: $package: no version and SHA256: use --update"
        [ -e "$(deb_of "$package" "$version")" ] || wanted+=("$package=$version")
    done < <(packages)
    [ ${#wanted[@]} -gt 0 ] || return 0
    echo "fetching ${#wanted[@]} packages into $cache" >&2
    # Ignore errors here, because check() reports packages that are still missing.
    (cd "$cache" && apt-get -qq download "${wanted[@]}" >apt.log 2>&1) || true
}

check() { # checks that every package exists and has the checksum of the list
    local package version sha256 deb
    while read -r package version sha256; do
        deb=$(deb_of "$package" "$version")
        [ -e "$deb" ] || die "$package $version: cannot be fetched; the mirror" \
            "has: $(known "$package"). Put the file" \
            "from snapshot.debian.org into $cache, or use the current versions" \
            "with --update. apt-get says: $(tail -n 1 "$cache/apt.log" 2>/dev/null)"
        echo "$sha256  $deb" | sha256sum --check --status ||
            die "$deb: its SHA256 differs from that in the list: remove the file"
    done < <(packages)
}

unpack() {
    local package version
    rm -rf "$cache/tree"
    while read -r package version _; do
        mkdir -p "$cache/tree/$package"
        dpkg-deb --fsys-tarfile "$(deb_of "$package" "$version")" |
            tar -x -C "$cache/tree/$package" --no-same-owner --wildcards \
                --transform 's,/dist-packages/,/,' '*.py' ||
            die "$package: contains no Python source"
    done < <(packages)
}

[ -z "$update" ] || write_list
[ -n "$(packages)" ] || die "$list: no packages"
fetch
check
unpack
said=$cache/said
code=0
"$corpus" "${options[@]}" "$cache/tree" 2>"$said" || code=$?
cat "$said" >&2
[ $code = 0 ] || exit $code
text=$(sed -nE 's/.*, text ([0-9a-f]{16})$/\1/p' "$said")
want=$(sed -n 's/^text //p' "$list")
case " ${options[*]} " in *' --limit'*) exit 0 ;; esac
if [ -n "$update" ]; then
    echo "text $text" >>"$list"
elif [ -z "$text" ] || [ "$text" != "$want" ]; then
    die "the text's checksum is ${text:-unknown}, but $list has ${want:-none}"
fi
