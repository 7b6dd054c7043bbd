#!/usr/bin/env bash
# usage: page.sh FOLDER REPORT.js...
#
# Writes the files that page.S embeds in the report page to FOLDER: all scripts
# as one file, and a Content-Security-Policy that forbids the browser to run any
# other script.
set -euo pipefail
here=$(dirname "$0")
folder=$1
shift

mkdir -p "$folder"
# Prints scripts without indentation and comments, which halves their size. Line
# breaks are kept, so that line numbers in error messages are useful.
bare() {
    cat "$@" | sed -E 's/^ +//; /^\/\/|^\/\*.*\*\/$|^$/d'
}
cp "$here/report.html" "$folder/"
bare "$here/report.css" >"$folder/report.css"
bare "$@" >"$folder/report.js"
if grep -qi '</script' "$folder/report.js" ||
    grep -qi '</style' "$folder/report.css"; then
    echo "page.sh: the script or style contains its own end tag and cannot be inlined" >&2
    exit 1
fi

# Prints the checksum of a file in the form 'sha256-...', in which the
# Content-Security-Policy lists allowed scripts and styles.
hash_of() {
    local hex
    hex=$(sha256sum "$1" | cut -c1-64)
    printf "'sha256-%s'" "$(printf '%b' "$(sed 's/../\\x&/g' <<<"$hex")" | base64)"
}
printf "default-src 'none'; script-src %s; style-src %s; img-src data: blob:; %s" \
    "$(hash_of "$folder/report.js")" "$(hash_of "$folder/report.css")" \
    "base-uri 'none'; form-action 'none'" >"$folder/policy"
