#!/usr/bin/env bash
# usage: page.sh FOLDER D3.js REPORT.js...
# Gathers the files of a report's page in FOLDER, for page.S: our script as one
# file, and the policy that lets the browser run and load these files alone.
set -euo pipefail
here=$(dirname "$0")
folder=$1 d3=$2
shift 2

mkdir -p "$folder"
cp "$here/report.html" "$here/report.css" "$folder/"
cp "$d3" "$folder/d3.js"
cat "$@" >"$folder/report.js"
if grep -qi '</script' "$folder/d3.js" "$folder/report.js" ||
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
printf "default-src 'none'; script-src %s %s; style-src %s; img-src data:; %s" \
    "$(hash_of "$folder/d3.js")" "$(hash_of "$folder/report.js")" \
    "$(hash_of "$folder/report.css")" \
    "base-uri 'none'; form-action 'none'" >"$folder/policy"
