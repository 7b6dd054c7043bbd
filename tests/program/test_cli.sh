#!/usr/bin/env bash
# Tests the commands of entropy-scan: import, show, draw, compare, export,
# merge.
. tests/support/tap.sh
plan_dir
golden=$PWD/tests/golden
heatmaps=$PWD/samples/published
cd "$dir"

# same NAME GOLDEN COMMAND...: checks that standard output equals the golden
# file byte for byte.
same() {
    local name=$1 file=$golden/$2
    shift 2
    "$@" >printed 2>/dev/null </dev/null
    [ "${ES_GOLDEN_UPDATE:-}" != 1 ] || cp printed "$file"
    if text=$(diff "$file" printed); then pass "$name"; else fail "$name" "$text"; fi
}

# says NAME TEXT COMMAND...: checks that standard error equals TEXT.
says() {
    local name=$1 want=$2
    shift 2
    text=$("$@" 2>&1 >/dev/null </dev/null)
    if [ "$text" = "$want" ]; then pass "$name"; else fail "$name" "$text"; fi
}

is_png() { [ "$(head -c 8 "$1" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ]; }
size_of_png() { od -An -tu1 -j16 -N8 "$1" | awk '{ print ($3 * 256 + $4) "x" ($7 * 256 + $8) }'; }

# --- help, generated from one table
same '--help is the golden text' cli_help.txt "$scan" --help
same 'help VERB prints the help of the verb' cli_help_import.txt "$scan" help import
output 'help VERB --all prints the rest as well' '^Import skips and reports' "$scan" help import --all
long_helps() { # verbs whose help does not fit into 60 lines
    for verb in '' $("$scan" help | sed '1,/^verbs:/d' | awk '{ print $1 }'); do
        [ "$("$scan" help $verb | wc -l)" -le 60 ] || echo "$verb"
    done
}
same_text 'the help of each verb fits into 60 lines' '' "$(long_helps)"
check 'VERB --help prints the same as help VERB' sh -c '"$0" import --help | diff - "$1"' "$scan" "$golden/cli_help_import.txt"
same 'help --man is the golden manual' cli_help.man "$scan" help --man
same 'help --completion is the golden script' cli_help.bash "$scan" help --completion
check 'the manual is roff without warnings' sh -c '! "$0" help --man |
    man --warnings -E UTF-8 -l - 2>&1 >/dev/null | grep .' "$scan"
page() { "$scan" help "$@" --man | man -E UTF-8 -l - 2>/dev/null | col -b; }
page >page.txt
for section in NAME SYNOPSIS DESCRIPTION VERBS OPTIONS 'EXIT STATUS' ENVIRONMENT FILES EXAMPLES 'SEE ALSO'; do
    file_has "the manual has $section" page.txt "^$section$"
done
output 'each verb has its own manual page' '^ *entropy-scan-import +- +make +a +run' page import
output "a verb's manual page has its options" '^ *--tags=' page import
check "a verb's manual page lists no verbs" sh -c '! echo "$1" | grep -q ^VERBS' sh "$(page import)"
exits 'help accepts one verb at a time' 2 'only --man and --all take a verb' "$scan" help import --completion
rm page.txt

# These verbs have separate options, which entropy-scan RUN.db accepts, too.
for verb in '' draw compare tui trends summarise; do
    check "the help of '$verb' fits into 60 lines" test "$("$scan" help $verb | wc -l)" -le 60
done
sm=$root/samples/runs/sm.db ln=$root/samples/runs/sm-ln-g.db
same_output() { # N ARGUMENT... OLD-ARGUMENT...: the first N arguments print the same as the others
    "$scan" "${@:2:$1}" >drawn && [ -s drawn ] && "$scan" "${@:$(($1 + 2))}" | cmp drawn
}
check 'compare prints the comparison' same_output 5 compare "$sm" "$ln" --baseline "$sm" "$sm" "$ln" --compare --baseline "$sm"
check 'compare --json prints the same JSON' same_output 4 compare "$sm" "$ln" --json "$sm" "$ln" --compare --json
check 'trends --json prints the same JSON' same_output 3 trends "$sm" --json "$sm" --trends --json
exits 'tui draws on a terminal' 2 '--tui needs a terminal' "$scan" tui "$sm"
mkdir new old
"$scan" draw heatmap,curves "$sm" "$ln" --spread range --theme dark --format svg -o new >drawn 2>&1
"$scan" "$sm" "$ln" --figure heatmap,curves --spread range --theme dark --format svg -q -o old
check 'draw draws the same figures' diff -r new old
same_text 'draw prints no table' '' "$(cat drawn)"
exits 'draw needs a figure' 2 "--figure: unknown figure 'sm.db': expected overview, heatmap" "$scan" draw sm.db
exits 'draw needs a run' 2 'no run file' "$scan" draw heatmap
exits 'draw has no option of the table' 2 '--csv' "$scan" draw heatmap "$sm" --csv
rm -r new old drawn

# Every example of the manual is run in a folder that contains the runs and
# files named by the example.
mkdir examples
for run in sm sm-ln-g; do cp "$root/samples/runs/$run.db" examples/; done
cp "$root/samples/runs/sm.db" examples/again.db # importance needs three
printf '2.5,1,0.5\n3,0,NaN\n' >examples/table.csv
printf '[sweep]\narch = SM, SM+LN\n[train]\nlr = 1e-3, 1e-4\n' >examples/sweep.ini
n_examples=0
while read -r line; do
    n_examples=$((n_examples + 1))
    case $line in *importance*) "$scan" --version | grep -q "^GSL" || { skip "example: $line" "built without GSL"; continue; } ;; esac
    check "example: $line" sh -c "cd examples && PATH=$(dirname "$scan"):\$PATH && $line"
done < <({ "$scan" help --man; for verb in import export merge sql report cost importance rules explain watch sweep run-file; do
    "$scan" help $verb --man; done; } | sed -n '/^\.RS 4$/,/^\.RE$/{ /^entropy/ { s/\\-/-/g; p } }')
check 'the manual has examples of each verb' test $n_examples -ge 15
rm -r examples
output '--version prints the version' '^entropy-scan [0-9.]+$' "$scan" --version
output '-V names the libraries' '^SQLite 3\.[0-9.]+, cairo 1.*, libpng 1.*, FreeType 2.*, FriBidi 1' "$scan" -V
output '-V reports the licence of GSL, or what is missing without it' '^(GSL 2\.[0-9.]+: .* GPL-3|no GSL: no intervals)' "$scan" -V
check 'the libraries and the recorder do not use GSL' sh -c '! nm "$@" | grep " gsl_"' - "$bin"/libentropy{record,scan}.{a,so.0} \
    "$bin"/entropy-recorder "$bin"/entropy-train
output 'entropy-train has -h and -V' '^usage: entropy-train' "$train" -h
output 'entropy-train -V prints the same as --version' '^own kernels: ' "$train" -V

completes() { # NAME WANT WORD...: the words that bash offers for the last word
    local name=$1 want=$2
    shift 2
    text=$(bash -c '. "$0"; compopt() { :; }
        COMP_WORDS=(entropy-scan "$@") COMP_CWORD=$#
        _entropy_scan; echo "${COMPREPLY[*]}"' "$golden/cli_help.bash" "$@")
    if [ "$text" = "$want" ]; then pass "$name"; else fail "$name" "$text"; fi
}
completes 'completes an option' '--heatmap' --heat
completes 'completes a verb' 'merge' me
completes 'completes an option after a file' '--json --jsonl' run.db --js
completes 'completes an option of a verb' '--from=' import --fr
completes 'completes a verb to help with' 'export explain' help ex

# Prints the options that zsh completes after WORD... For this, zsh's completion
# functions are replaced by functions that print their arguments.
zsh_options() { # WORD...
    "$scan" help --completion=zsh >_entropy-scan
    zsh -fc '_arguments() { print -rl -- "$@" }; _describe() { print -rl -- $verbs }
        words=(entropy-scan "$@") CURRENT=$(($# + 1)); . ./_entropy-scan' zsh "$@"
}
output 'zsh has options with their help' '^--heatmap=-\[draw a heatmap of layers by heads.*::FILE:_files$' zsh_options ''
output 'zsh keeps quotes in the help of options' "shade a layer.s range or quartiles" zsh_options draw ''
output 'zsh offers the choices of an option' '^--for=.*:MEDIUM:\(screen column .*neurips\)$' zsh_options draw ''
output 'zsh offers verbs' '^import:make a run file' zsh_options ''
output 'zsh offers the options of a verb' '^--tags=' zsh_options import ''
check 'zsh offers no other options for a verb' sh -c '! echo "$1" | grep -q heatmap' sh "$(zsh_options import '')"
fish_offers() { "$scan" help --completion=fish >own.fish && fish -Nc ". ./own.fish; complete -C 'entropy-scan $1'"; }
output 'fish offers an option with its help' "^--format=?.png, svg, pdf, txt \(by the name of FILE" fish_offers 'draw --form'
output 'fish offers verbs' '^report.write runs' fish_offers 'rep'
output 'fish offers choices' '^neurips' fish_offers 'draw --for n'
output 'fish offers the options of a verb' '^--tags' fish_offers 'import --ta'
check 'fish offers no other options for a verb' sh -c '! echo "$1" | grep -q heatmap' sh "$(fish_offers 'import --hea')"
rm _entropy-scan own.fish
exits 'an unknown shell is refused' 2 "completion 'csh': expected one of bash, zsh, fish" "$scan" help --completion=csh

# --- import: messages and results of each format
printf '2.5,1,0.5\n3,0,NaN\n' >heat.csv
says 'import reports what it read' \
    'entropy-scan: heat.db: 1 sample of 1 series, L = 2, H = 3, from a matrix
entropy-scan: heat.csv: entropies above ln(ctx) = 2.0794: 2 (largest 3.0000); is the context length wrong, or are they in bits instead of nats?' \
    "$scan" import heat.csv -o heat.db --arch SM --ctx 8 --step 40
says 'import -q prints nothing' '' "$scan" import -q heat.csv -o heat.db --arch SM --ctx 8 --step 40

# --- colours
coloured() { # SEQUENCE COMMAND...: prints the colour sequence without a terminal
    local text
    text=$("${@:2}" 2>&1)
    case $text in *$'\033'"[$1"*) ;; *) return 1 ;; esac
}
uncoloured() { ! coloured "$@"; }
check 'FORCE_COLOR colours a failure' coloured 31mentropy-scan: env FORCE_COLOR=1 "$scan" none.db
check 'FORCE_COLOR colours the progress of a training run' coloured 31mentropy-train: env FORCE_COLOR=1 "$train" --data none.tok -o none.db
check 'NO_COLOR takes precedence over FORCE_COLOR' uncoloured 31m env FORCE_COLOR=1 NO_COLOR=1 "$scan" none.db
check 'empty colour variables have no effect' uncoloured 31m env FORCE_COLOR= "$scan" none.db
check '--color=always colours a table' coloured 1m env NO_COLOR=1 "$scan" heat.db --color=always
check '--color=never does not' uncoloured 1m env FORCE_COLOR=1 "$scan" heat.db --color=never
check 'output that is not a terminal has no colours' uncoloured 1m "$scan" heat.db

printf 'starting\nStep 1 - Layer 0: 2.5\nStep 1 - Layer 1: 2\nStep 5 - Layer 0: 2\nStep 3 - Layer 0: 1\nStep 3 - Layer 0: 1.5\n' >some.log
says 'import of a log reports restarts and skipped lines' 'entropy-scan: log.db: 3 samples of 1 series, L = 2, H = 1, from a log
entropy-scan: some.log: skipped lines without a log entry or a step: 1
entropy-scan: some.log: values given again (the last one of each is used): 1
entropy-scan: some.log: restarts (each discards the earlier samples of the same and later steps): 1' \
    "$scan" import some.log -o log.db
same 'after a restart in a log the later values are exported' cli_log.csv sh -c '"$0" export log.db | grep -v "^#"' "$scan"
check 'standard input is imported' sh -c '"$0" import - -o in.db -q <heat.csv' "$scan"
output 'a run from standard input is named after it' 'standard input' "$scan" in.db
check 'semicolons are recognised as separators' sh -c 'tr , ";" <heat.csv >semi.csv; "$0" import -q semi.csv -o semi.db' "$scan"
check 'import leaves no file behind' sh -c '! ls -A | grep -E "entropy-scan|-wal|-shm|-lock"'
printf '# name: kept\n# ctx: 9\n1,2\n' >about.csv
check 'comments of a CSV describe the run' sh -c '"$0" import -q about.csv -o about.db &&
    "$0" about.db --json | grep -q "\"name\":\"kept\".*\"ctx\":9"' "$scan"
check 'options override comments' sh -c '"$0" import -q about.csv -o about.db --name x --ctx 4 &&
    "$0" about.db --json | grep -q "\"name\":\"x\".*\"ctx\":4"' "$scan"

# --- export, and import of it
printf '# name: a b\nstep,layer,head,entropy,slope,loss,eval:entropy\n0,,,,,3.25,\n0,0,,,-0,,\n0,0,0,1e-3,,,NA\n0,1,1,inf,,,2\n9,,,,,NaN,\n' >long.csv
"$scan" import -q long.csv -o long.db --ctx 8 || exit 1
same 'export prints the golden CSV' cli_export.csv sh -c '"$0" export long.db | grep -vE "uuid|started_at|entropy-scan"' "$scan"
same 'export of selected series prints the golden JSON lines' cli_export.jsonl \
    sh -c '"$0" export long.db --format jsonl --series loss --series slope | sed "s/\"uuid\":\"[^\"]*\"/\"uuid\":\"\"/; s/,\"started_at.*Z\"//"' "$scan"
check 'an export that is imported exports the same' sh -c '"$0" export long.db >1.csv && "$0" import -q 1.csv -o 1.db &&
    "$0" export 1.db -o 2.csv && cmp 1.csv 2.csv' "$scan"
check 'a file name in .jsonl chooses JSON lines' sh -c '"$0" export long.db -o x.jsonl && head -1 x.jsonl | grep -q "^{\"run\""' "$scan"
check 'export --phase prints that phase alone' sh -c '"$0" export long.db --phase eval | grep -q "^step,layer,head,eval:entropy$"' "$scan"

# --- merge
check 'three files are merged' sh -c '"$0" merge -q heat.db long.db log.db -o all.db' "$scan"
output 'the merged file has all runs' '^3$' sh -c '"$0" all.db --csv | grep -c "^all.db"' "$scan"
check 'a merged run is the same bit for bit' sh -c '"$0" export all.db --run "a b" >3.csv && cmp 1.csv 3.csv' "$scan"
output 'merging a file with itself changes nothing' '^3$' \
    sh -c '"$0" merge -q all.db all.db -o all.db && "$0" all.db --csv | grep -c "^all.db"' "$scan"
output 'JSON lines of a merged file have all runs' '^3$' sh -c '"$0" export all.db --format jsonl | grep -c "^{\"run\""' "$scan"

# --- streams and exit codes
printf '1,1.5\n2,1.25\n' >well.csv
"$scan" import -q well.csv -o well.db --ctx 128 || exit 1
check '--check of a healthy run exits with 0' "$scan" -q well.db --check
exits '--check of a flagged run exits with 1' 1 '^$' "$scan" -q heat.db --check
says '-q prints no message' '' "$scan" -q heat.db
output '-q prints nothing' '^0$' sh -c '"$0" -q heat.db | wc -c' "$scan"
output '-q still prints CSV' '^path,' "$scan" -q heat.db --csv
check '-o FILE receives the table' sh -c '"$0" heat.db -o t.txt | cmp - /dev/null && grep -q SM t.txt' "$scan"
check '-o FILE receives JSON' sh -c '"$0" heat.db --json -o t.json && grep -q "\"schema\":2" t.json' "$scan"
output '-o - is standard output' 'SM' "$scan" heat.db -o -
check '--step accepts first and a number' sh -c '"$0" long.db --series loss --step first --csv | grep -q ",0,3.25," &&
    "$0" long.db --series loss --step 9 --csv | grep -q ",9,NaN,"' "$scan"

# --- pictures
mkdir elsewhere
cp heat.db elsewhere/run.db
says '--heatmap names the picture after the run' 'entropy-scan: run-heatmap.png written' \
    "$scan" elsewhere/run.db --heatmap
check 'the picture is a PNG' is_png run-heatmap.png
output 'a picture is drawn in addition to the table' 'SM' "$scan" elsewhere/run.db --heatmap
for note in 'run heat' 'arch SM' 'step 40' 'series entropy' 'phase train' \
    'max 3 .observed' 'program entropy-scan [0-9]'; do
    output "a PNG says: $note" "$note" sh -c 'LC_ALL=C tr -c "[:print:]" " " <run-heatmap.png' "$scan"
done
check '--curves draws a picture' sh -c '"$0" -q long.db log.db --curves && test -s long-curves.png' "$scan"
check '--curves draws the loss' sh -c '"$0" -q long.db --curves=loss.svg --series loss && grep -q "<svg" loss.svg' "$scan"
check 'a file name with .pdf makes a PDF' sh -c '"$0" -q heat.db --heatmap=x.pdf && head -c 5 x.pdf | grep -q "%PDF-"' "$scan"
check '--format svg makes an SVG' sh -c '"$0" -q heat.db --heatmap --format svg && grep -q "<svg" heat-heatmap.svg' "$scan"
check 'a picture on standard output replaces the table' sh -c '"$0" heat.db --heatmap=- >o.png' "$scan"
check 'standard output has the same picture as a file' sh -c '"$0" heat.db -q --heatmap=p.png && cmp o.png p.png' "$scan"
check '-o names the picture' sh -c '"$0" -q heat.db --heatmap -o q.png && cmp p.png q.png' "$scan"
check '-o is the file of JSON rather than of the picture' sh -c '"$0" heat.db --heatmap --json -o j.json && grep -q schema j.json && cmp heat-heatmap.png p.png' "$scan"
check '--size is in pixels' sh -c '"$0" -q heat.db --heatmap=s.png --size 901x700' "$scan"
output 'a PNG has the size of --size to the pixel' '^901x700$' size_of_png s.png
check '--colormap and --title change the picture' sh -c '"$0" -q heat.db --heatmap=m.png --colormap magma &&
    "$0" -q heat.db --heatmap=t.png --title Hello && ! cmp -s m.png p.png && ! cmp -s t.png p.png' "$scan"
check '--max changes the picture' sh -c '"$0" -q heat.db --heatmap=l.png --max 9 && ! cmp -s l.png p.png' "$scan"
output 'the colour bar of a series without a unit has no unit' '^m of max_logit \(run: ' "$scan" \
    "$root/samples/runs/sm.db" --series max_logit --max run
exits 'a run without heads is omitted from a picture' 4 'log.db: the run has no series with a value per head' \
    "$scan" -q heat.db log.db --heatmap
check 'two pictures are drawn at once' sh -c 'rm *.png; "$0" -q heat.db --heatmap --curves && ls heat-heatmap.png heat-curves.png' "$scan"

# --- names with control characters
printf '# name: a\\x1b[31m\\x9bb\\xc2\\x9bc,\\x0a"<c>\n# arch: \\x1b]0;x\\x07\nstep,layer,head,entropy,=1\\x1b[2J\n0,0,0,1,\n0,,,,2\n' >evil.csv
"$scan" import -q evil.csv -o evil.db || exit 1
clean() { # NAME COMMAND...: prints no control characters on either stream
    local name=$1
    shift
    # Counts control characters: the set C0 and DEL, the set C1 encoded in
    # UTF-8, and C1 as single bytes.
    text=$("$@" 2>&1 </dev/null | tr -d '\n' |
        LC_ALL=C grep -caP '[\x00-\x1f\x7f]|\xc2[\x80-\x9f]|^[\x80-\xbf]|[\x00-\x7f][\x80-\xbf]')
    if [ "$text" = 0 ]; then pass "$name"; else fail "$name" "$("$@" 2>&1 | cat -v)"; fi
}
check 'the run file has a name with an escape' grep -q "$(printf '\033\\[31m')" evil.db
clean 'the table escapes names' "$scan" evil.db
clean 'JSON escapes names' "$scan" evil.db --json
clean 'CSV escapes names' "$scan" evil.db --csv
clean 'export escapes names' "$scan" export evil.db
clean 'JSON lines escape names' "$scan" export evil.db --format jsonl
clean 'messages escape names' "$scan" evil.db --series nothing
clean 'messages escape arguments' "$scan" "$(printf 'x\033[31m\302\233.db')"
clean 'messages escape the name of a series' "$scan" evil.db --heatmap --series "$(printf '=1\033[2J')"
check 'an SVG escapes names' sh -c '"$0" -q evil.db --heatmap=e.svg && ! LC_ALL=C grep -q "$(printf "[\033\a]")" e.svg' "$scan"
check 'the note in a PNG escapes names' sh -c '"$0" -q evil.db --heatmap=e.png && grep -aqF "a\\x1b[31m" e.png &&
    ! LC_ALL=C grep -aq "$(printf "a\033\\[31m")" e.png' "$scan"
check 'export and import keep escaped names' sh -c '"$0" export evil.db >4.csv && "$0" import -q 4.csv -o 4.db && "$0" export 4.db | cmp - 4.csv' "$scan"

# --- the published heatmaps, whose bands and flags test_bands and test_summary check
published() {
    local arch
    for arch in SM+LN+G SM+LN+R SM+G SM+R SM; do
        "$scan" import -q "$heatmaps/$arch.csv" --arch $arch \
            --ctx 128 -o $arch.db || return 1
    done
}
check 'the published heatmaps are imported' published
output 'SM collapses and is overloaded' 'collapse L9-11 \(critical\); overload L0-5 \(error\)$' "$scan" SM.db --csv
exits '--check of all five published runs exits with 1' 1 '^$' "$scan" -q SM*.db --check
check '--check of the two healthy published runs exits with 0' "$scan" -q SM+LN+G.db SM+LN+R.db --check
check 'two published heatmaps are drawn side by side' sh -c '"$0" -q SM+LN+G.db SM.db --heatmap=both.png' "$scan"
finish
