#!/usr/bin/env bash
# Checks `entropy-scan report`: the command line, the contents of the page, and
# the page's behaviour in a browser.
. tests/support/tap.sh
plan_dir
here=$PWD/tests/report
export PYTHONDONTWRITEBYTECODE=1
cd "$dir"

python3 "$here/make_runs.py" || exit 1
for name in evil other big long steady spiky diverging; do
    "$scan" import -q $name.csv -o $name.db || exit 1
done

# --- the command line
check 'report writes a page' "$scan" report evil.db -o evil.html
exits 'report names the file that it wrote' 0 'evil.html written' "$scan" report evil.db -o evil.html
check '-q prints nothing' sh -c '! "$0" report -q evil.db -o evil.html 2>&1 | grep .' "$scan"
check 'standard output gets the same page' sh -c '"$0" report evil.db -o - | cmp - evil.html' "$scan"
exits 'report without an output is refused' 2 'use -o' "$scan" report evil.db
exits 'report without a run is refused' 2 'no run file' "$scan" report -o x.html
exits 'a page does not replace its run' 2 'input and output' "$scan" report evil.db -o evil.db
exits 'a page does not replace another database' 2 'database' "$scan" report evil.db -o big.db
exits 'a policy that does not bound the series is refused' 2 'ceiling only applies to entropies' \
    "$scan" report evil.db -o x.html --series max_logit --max ceiling
exits 'a missing file does not affect the others' 4 'none.db' "$scan" report evil.db none.db -o x.html
check 'the page is written without the missing file' test -s x.html
exits 'no page is written without a run' 3 'none.db' "$scan" report none.db -o y.html
check 'a failed report leaves no file' sh -c '! ls -A | grep -E "y.html|entropy-scan"'
exits 'a missing series is reported' 4 'no series sink.*max_logit' \
    "$scan" report evil.db -o x.html --series entropy,sink
output 'series are chosen by a list' '"name":"max_logit"' sh -c '"$0" report -q evil.db -o - --series max_logit,loss' "$scan"
check 'series that are not in the list are left out' sh -c '! "$0" report -q evil.db -o - --series max_logit,loss |
    grep "\"run\":0,\"name\":\"entropy\""' "$scan"
printf '[rule wide]\nseries = entropy\nabove = 0.001\nseverity = info\n' >own.ini
summary_of() { "$scan" report -q "$@" -o - | python3 "$here/page.py"; }
output '--rules add flags' '"kind":"wide","severity":"info"' summary_of evil.db --rules own.ini
output '--rules are described in the page' '"further":\[\{"name":"wide"' summary_of evil.db --rules own.ini
exits 'a wrong rules file is refused' 2 'wrong.ini:1: unknown section' sh -c 'echo "[rules]" >wrong.ini; "$0" report evil.db -o x.html --rules wrong.ini' "$scan"
output '--title is escaped' '<title>A &lt;b&gt; &amp; c</title>' "$scan" report -q evil.db -o - --title 'A <b> & c'
sqlite3 other.db '.clone bad.db' >/dev/null 2>&1
sqlite3 bad.db "update sample set value = x'00' where step = 20" 2>/dev/null
exits 'a damaged run does not affect the others' 4 'bad.db' "$scan" report bad.db evil.db -o z.html
mkdir -p tree/below && cp evil.db tree/below/
check 'a folder means the run files below it' sh -c '"$0" report -q tree/below/evil.db -o - >1.html && "$0" report -q tree -o - | cmp - 1.html && "$0" report -rq tree -o - | cmp - 1.html' "$scan"
exits 'a folder without run files is refused' 3 'empty: no run file .*below it' sh -c 'mkdir empty; "$0" report empty -o x.html' "$scan"
check 'a run next to a damaged one is complete' sh -c '"$0" report -q evil.db -o - | cmp - z.html' "$scan"
check 'a full disk leaves nothing' sh -c '! "$0" report -q evil.db -o /dev/full' "$scan"

# --- contents
check 'long and large runs have a page' sh -c '"$0" report -q big.db -o big.html && "$0" report -q long.db -o long.html' "$scan"
sizes='150:2000000 500:4000000' # runs of 12 layers of 8 heads, and bytes
for size in $sizes; do
    n=${size%:*}
    python3 "$here/make_tree.py" other.db $n tree$n.db || exit 1
    check "$n runs have a page" "$scan" report -q tree$n.db -o tree$n.html
    check "$n runs take ${size#*:} bytes at most" test "$(wc -c <tree$n.html)" -le "${size#*:}"
done
relay structure python3 "$here/structure.py" "$scan" "$dir"

# --- behaviour
# Uses only DejaVu fonts, so that letters have known widths.
cat >fonts.conf <<'XML'
<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><cachedir prefix="relative">fonts</cachedir>
<dir>/usr/share/fonts/truetype/dejavu</dir></fontconfig>
XML
export FONTCONFIG_FILE=$dir/fonts.conf
if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
    "$scan" report -q evil.db other.db -o two.html || exit 1
    "$scan" report -q steady.db spiky.db diverging.db -o losses.html || exit 1
    "$scan" draw loss steady.db spiky.db diverging.db -o losses.svg || exit 1
    TMPDIR=$dir relay browser python3 "$here/browser.py" "$scan" "$dir"
else
    skip 'reports in a browser' 'chromium or chromedriver is not installed'
fi
finish
