#!/usr/bin/env bash
# entropy-scan report: what the page holds, and how it behaves in a browser.
set -uo pipefail
. tests/support/tap.sh
plan_dir
case $BUILD in /*) bin=$BUILD ;; *) bin=$PWD/$BUILD ;; esac
scan=$bin/entropy-scan here=$PWD/tests/report
export PYTHONDONTWRITEBYTECODE=1
cd "$dir"

# NAME COMMAND...: the lines of a program that prints "ok - name".
relay() {
    local line name=$1
    shift
    while IFS= read -r line; do
        case $line in
        'ok - '*' # SKIP '*) line=${line#ok - } && skip "${line%% # SKIP *}" "${line#* # SKIP }" ;;
        'ok - '*) pass "${line#ok - }" ;;
        'not ok - '*) fail "${line#not ok - }" ;;
        *) echo "# $line" ;;
        esac
    done < <("$@" 2>&1 || echo "not ok - $name: ended with exit code $?")
}

python3 "$here/make_runs.py" || exit 1
for name in evil other big long; do
    "$scan" import -q $name.csv -o $name.db || exit 1
done

# --- the command line
check 'report' "$scan" report evil.db -o evil.html
exits 'says what it wrote' 0 'evil.html written' "$scan" report evil.db -o evil.html
check 'nothing with -q' sh -c '! "$0" report -q evil.db -o evil.html 2>&1 | grep .' "$scan"
check 'to standard output it is the same' sh -c '"$0" report evil.db -o - | cmp - evil.html' "$scan"
exits 'needs an output' 2 'give -o' "$scan" report evil.db
exits 'needs a run' 2 'no run file' "$scan" report -o x.html
exits 'never replaces a run' 2 'input and output' "$scan" report evil.db -o evil.db
exits 'nor any other' 2 'database' "$scan" report evil.db -o big.db
exits 'a policy that bounds nothing' 2 'ceiling bounds entropies' \
    "$scan" report evil.db -o x.html --series max_logit --max ceiling
exits 'a missing file costs itself alone' 4 'none.db' "$scan" report evil.db none.db -o x.html
check 'and the rest is written' test -s x.html
exits 'no run, no page' 3 'none.db' "$scan" report none.db -o y.html
check 'not even half of one' sh -c '! ls -A | grep -E "y.html|entropy-scan"'
exits 'a series that is not there is told of' 4 'no series sink.*max_logit' \
    "$scan" report evil.db -o x.html --series entropy,sink
output 'series are chosen by a list' '"name":"max_logit"' sh -c '"$0" report -q evil.db -o - --series max_logit,loss' "$scan"
check 'and no others are there' sh -c '! "$0" report -q evil.db -o - --series max_logit,loss |
    grep "\"run\":0,\"name\":\"entropy\""' "$scan"
printf '[rule wide]\nseries = entropy\nabove = 0.001\nseverity = info\n' >own.ini
output '--rules stand among the flags' '"kind":"wide","severity":"info"' "$scan" report -q evil.db -o - --rules own.ini
output 'and are told' '"further":\[\{"name":"wide"' "$scan" report -q evil.db -o - --rules own.ini
exits 'a wrong rule' 2 'wrong.ini:1: no section' sh -c 'echo "[rules]" >wrong.ini; "$0" report evil.db -o x.html --rules wrong.ini' "$scan"
output '--title' '<title>A &lt;b&gt; &amp; c</title>' "$scan" report -q evil.db -o - --title 'A <b> & c'
sqlite3 other.db '.clone bad.db' >/dev/null 2>&1
sqlite3 bad.db "update sample set value = x'00' where step = 20" 2>/dev/null
exits 'a damaged run costs itself alone' 4 'bad.db' "$scan" report bad.db evil.db -o z.html
check 'the other one is whole' sh -c '"$0" report -q evil.db -o - | cmp - z.html' "$scan"
check 'a full disk leaves nothing' sh -c '! "$0" report -q evil.db -o /dev/full' "$scan"

# --- what is in it
check 'reports of the others' sh -c '"$0" report -q big.db -o big.html && "$0" report -q long.db -o long.html' "$scan"
relay structure python3 "$here/structure.py" "$scan" "$dir"

# --- how it behaves
# With letters that have a width, whatever other fonts there are.
cat >fonts.conf <<'XML'
<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><cachedir prefix="relative">fonts</cachedir>
<dir>/usr/share/fonts/truetype/dejavu</dir></fontconfig>
XML
export FONTCONFIG_FILE=$dir/fonts.conf
if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
    "$scan" report -q evil.db other.db -o two.html || exit 1
    TMPDIR=$dir relay browser python3 "$here/browser.py" "$scan" "$dir"
else
    skip 'reports in a browser' 'chromium or chromedriver is not installed'
fi
finish
