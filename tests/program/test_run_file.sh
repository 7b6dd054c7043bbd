#!/usr/bin/env bash
# Checks that the tables, series and flags in the manual page about the run file
# agree with actual run files, and that an example query works.
. tests/support/tap.sh
plan_dir
run=$dir/run.db # the files in samples/runs have an older schema
"$scan" export samples/runs/sm.db | "$scan" import - -q -o "$run"

"$scan" help run-file >"$dir/text"
"$scan" help run-file --man >"$dir/page.5"
check 'the page is roff without warnings' sh -c \
    'test -z "$(man --warnings -E UTF-8 -l "$1" 2>&1 >/dev/null)"' sh "$dir/page.5"
check 'the page has its name' grep -qE '^entropy\\-scan\\-run \\- run file' "$dir/page.5"
man -E UTF-8 -l "$dir/page.5" 2>/dev/null | col -bx >"$dir/read"
for section in TABLES SERIES EVENTS FLAGS VALUES CHECKSUMS VERSIONS 'OTHER FILES' \
    EXAMPLES; do
    check "the page has $section" grep -qx "$section" "$dir/read"
    check "the help text has $section" grep -qx "$section" "$dir/text"
done

# --- the page matches run files -----------------------------------------------

for table in run series sample event; do
    sqlite3 -readonly "$run" "SELECT sql FROM sqlite_schema WHERE name = '$table'" >"$dir/sql"
    check "the page has the table $table of a run file" python3 -c 'import sys
text, sql = (open(name).read() for name in sys.argv[1:])
sys.exit(sql not in text)' "$dir/text" "$dir/sql"
done
output 'the page has the schema number of run files' "user_version is the schema: $(sqlite3 -readonly "$run" \
    'PRAGMA user_version')\." cat "$dir/text"
output 'the page has the application id of run files' "application_id is 0x$(printf %X "$(sqlite3 -readonly "$run" \
    'PRAGMA application_id')") " cat "$dir/text"
sqlite3 -readonly -separator ' ' "$run" "SELECT name, unit, shape FROM series
    WHERE name NOT LIKE '%.%'" >"$dir/series"
missing=$(while read -r name unit shape; do
    [ -n "$shape" ] || { shape=$unit; unit=; }
    grep -qE "^  $name: .*${unit:+, ${unit//^/.}} \($shape\)$" "$dir/text" || echo "$name"
done <"$dir/series")
same_text 'the page has every series of a recorded run, with unit and shape' '' "$missing"
check 'a recorded run has at least 15 series' test "$(wc -l <"$dir/series")" -ge 15
for flag in $("$scan" explain | awk '/^[a-z]/ { print $1 }'); do
    check "the page has the flag $flag" grep -q "^  $flag: " "$dir/text"
done

# --- the query ---------------------------------------------------------------

sed -n '/^SELECT/,/;$/p' "$dir/text" >"$dir/query"
output 'the query of the page runs' '^SM\|entropy\|train\|head\|nats\|[0-9]+\|2999$' \
    sqlite3 -readonly "$run" ".read $dir/query"
exits 'help run-file has no completions' 2 'unknown verb' "$scan" help run-file --completion
finish
