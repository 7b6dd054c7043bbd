#!/usr/bin/env bash
# usage: build.sh FOLDER
# Builds the manual as HTML: the guides of `pages` by pandoc, the manual pages of
# the programs in BUILD by mandoc. FOLDER appears complete or not at all.
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
pages=$(sed -n 's/^\([^#|]*[^ |]\) *|.*/\1/p' "$here/pages" | tr '\n' ' ')

flat() { # PATH of a page: its name in the manual
    local name=${1%.md}
    name=${name%/README}
    echo "${name//\//-}.html"
}

guide() { # PAGE: HTML with links between pages of the manual
    pandoc -f gfm -t html5 --standalone --wrap=none --css style.css \
        --lua-filter "$here/links.lua" -M page="$1" -M pages="$pages" \
        --metadata pagetitle="$(sed -n 's/^# *//p;/^#/q' "$1" | head -1)" \
        -B <(echo '<nav><a href="index.html">entropy-scan manual</a></nav><main>') \
        -A <(echo '</main>') "$1" -o "$new/$(flat "$1")"
}

command_page() { # NAME WORD...: the manual page that the program WORD prints
    local name=$1
    shift
    {
        echo '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        echo '<meta name="viewport" content="width=device-width, initial-scale=1">'
        echo "<title>$name</title><link rel=\"stylesheet\" href=\"style.css\"></head>"
        echo '<body><nav><a href="index.html">entropy-scan manual</a></nav><main>'
        "$@" | mandoc -Thtml -O fragment
        echo '</main></body></html>'
    } >"$new/$name.html"
}

verbs_of() { # PROGRAM
    "$build/$1" help --completion | sed -n "s/^ *local verbs='\(.*\)'$/\1/p"
}
summary_of() { # MANUAL PAGE as HTML: the text behind the dash of its NAME
    sed -n 's/^<p class="Pp">[^ ]* - \(.*\)<\/p>$/\1/p;/id="SYNOPSIS"/q' "$1" | head -1
}

index() {
    echo '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    echo '<meta name="viewport" content="width=device-width, initial-scale=1">'
    echo '<title>entropy-scan manual</title><link rel="stylesheet" href="style.css"></head>'
    echo '<body><main><h1>entropy-scan manual</h1>'
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
    echo '</dl><h2>Commands</h2><dl>'
    for page in "${commands[@]}"; do
        echo "<dt><a href=\"$page.html\">$page</a></dt><dd>$(summary_of "$new/$page.html")</dd>"
    done
    echo '</dl></main></body></html>'
}

for page in $pages; do
    guide "$page"
done
commands=()
for program in entropy-scan entropy-train; do
    command_page $program "$build/$program" help --man
    commands+=("$program")
    for verb in $(verbs_of $program); do
        [ "$verb" != help ] || continue
        command_page "$program-$verb" "$build/$program" help "$verb" --man
        commands+=("$program-$verb")
    done
done
command_page entropy-scan-run "$build/entropy-scan" help run-file --man
commands+=(entropy-scan-run)
index >"$new/index.html"

# links.lua names a picture images/PATH, where dashes replace the slashes of PATH.
while IFS=' ' read -r name path; do
    cp "$path" "$new/images/$name"
done < <(grep -ohE 'data-path="[^"]+"' "$new"/*.html | sed 's/.*="//; s/"$//' | sort -u |
    while read -r path; do echo "${path//\//-} $path"; done)

rm -rf "$out"
mv "$new" "$out"
trap - EXIT
echo "$out/index.html"
