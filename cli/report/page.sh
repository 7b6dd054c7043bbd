#!/usr/bin/env bash
# usage: page.sh FOLDER REPORT.js...
# Gathers the files of a report's page in FOLDER, for page.S: our script as one
# file, and the policy that lets the browser run and load these files alone.
set -euo pipefail
here=$(dirname "$0")
folder=$1
shift

mkdir -p "$folder"
# Without indentation and comments: half as large, and as easy to debug.
bare() {
    cat "$@" | sed -E 's/^ +//; /^\/\/|^\/\*.*\*\/$|^$/d'
}
cp "$here/report.html" "$folder/"
bare "$here/report.css" >"$folder/report.css"
bare "$@" >"$folder/report.js"
if grep -qi '</script' "$folder/report.js" ||
    grep -qi '</style' "$folder/report.css"; then
    echo "page.sh: a script or style that ends itself cannot be inlined" >&2
    exit 1
fi

# 'sha256-...' of a file, as the policy spells it.
hash_of() {
    local hex
    hex=$(sha256sum "$1" | cut -c1-64)
    printf "'sha256-%s'" "$(printf '%b' "$(sed 's/../\\x&/g' <<<"$hex")" | base64)"
}
printf "default-src 'none'; script-src %s; style-src %s; img-src data:; %s" \
    "$(hash_of "$folder/report.js")" "$(hash_of "$folder/report.css")" \
    "base-uri 'none'; form-action 'none'" >"$folder/policy"
