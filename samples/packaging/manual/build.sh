#!/usr/bin/env bash
# usage: build.sh FOLDER
#
# Builds the manual as HTML in FOLDER. pandoc converts the guides that the file
# `pages` lists, and mandoc converts the manual pages of the programs in BUILD.
# FOLDER appears complete or not at all.
set -euo pipefail
for program in pandoc mandoc; do
    command -v $program >/dev/null || { echo "$program is missing: make test-deps" >&2; exit 3; }
done
here=$(realpath "$(dirname "$0")")
cd "$here/../../.."
out=$1
build=${BUILD:-build}

new=$out.new
rm -rf "$new"
mkdir -p "$new/images"
trap 'rm -rf "$new"' EXIT
cp "$here/style.css" "$new/"
pages=$(sed -n 's/^\([^#|]*[^ |]\) *|.*/\1/p' "$here/pages")

flat() { # PATH of a guide: its name in the manual
    local name=${1%.md}
    name=${name%/README}
    echo "${name//\//-}.html"
}
names=$(for page in $pages; do echo "$page=$(flat "$page")"; done)

head_of() { # TITLE
    echo '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    echo '<meta name="viewport" content="width=device-width, initial-scale=1">'
    echo "<title>$1</title><link rel=\"stylesheet\" href=\"style.css\"></head><body>"
}
navigation='<nav><a href="index.html">entropy-scan manual</a></nav><main>'

guide() { # PAGE: HTML with links between pages of the manual
    pandoc -f gfm -t html5 --standalone --wrap=none --css style.css \
        --lua-filter "$here/links.lua" -M page="$1" -M names="$names" \
        --metadata pagetitle="$(sed -n 's/^# *//p;/^#/q' "$1" | head -1)" \
        -B <(echo "$navigation") -A <(echo '</main>') "$1" -o "$new/$(flat "$1")"
}

command_page() { # FILE: a manual page in roff
    local name
    name=$(basename "${1%.*}")
    {
        head_of "$name"
        echo "$navigation"
        mandoc -Thtml -O fragment "$1"
        echo '</main></body></html>'
    } >"$new/$name.html"
}
summary_of() { # MANUAL PAGE in roff: the text after the dash of its NAME
    sed -n '/^\.SH NAME$/{ n; s/\\-/-/g; s/^[^ ]* - //p; q; }' "$1"
}

index() {
    head_of 'entropy-scan manual'
    echo '<main><h1>entropy-scan manual</h1>'
    echo '<p>Records the attention entropy of every head of a transformer while it trains, and shows'
    echo 'which heads collapse, stay near the maximum or become NaN.</p>'
    local page words
    while IFS= read -r line; do
        case $line in
        '#'*) continue ;;
        *'|'*)
            page=${line%%|*} words=${line#*|}
            echo "<dt><a href=\"$(flat "${page% }")\">${words%%:*}</a></dt><dd>${words#*: }</dd>"
            ;;
        ?*) echo "</dl><h2>$line</h2><dl>" ;;
        esac
    done <"$here/pages" | sed '1s,^</dl>,,'
    echo '</dl><h2>Commands and formats</h2><dl>'
    for page in "$new"/roff/man/man[15]/*; do
        words=$(basename "${page%.*}")
        echo "<dt><a href=\"$words.html\">$words</a></dt><dd>$(summary_of "$page")</dd>"
    done
    echo '</dl></main></body></html>'
}

for page in $pages; do
    guide "$page"
done
BUILD=$build VERSION=$("$build/entropy-scan" --version | cut -d' ' -f2) MAN=$new/roff/man/man1 \
    tests/tools/install.sh pages
for page in "$new"/roff/man/man[15]/*; do
    command_page "$page"
done
index >"$new/index.html"
rm -r "$new/roff"

# links.lua names a picture images/PATH, where dashes replace the slashes of PATH.
while IFS=' ' read -r name path; do
    cp "$path" "$new/images/$name"
done < <(grep -ohE 'data-path="[^"]+"' "$new"/*.html | sed 's/.*="//; s/"$//' | sort -u |
    while read -r path; do echo "${path//\//-} $path"; done)

rm -rf "$out"
mv "$new" "$out"
trap - EXIT
echo "$out/index.html"
