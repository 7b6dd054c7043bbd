#!/usr/bin/env bash
# Checks figures that are drawn with characters: as text files and on terminals, with
# and without colours, of any size, and of runs with hostile names or only NaN.
# ES_GOLDEN_UPDATE=1 rewrites tests/golden/text_*.
. tests/support/tap.sh
plan_dir
golden=$root/tests/golden
cd "$dir"
export LC_ALL=C.UTF-8 TERM=xterm-256color
unset NO_COLOR COLORTERM COLUMNS

# Imports a run of six layers with four heads over forty steps.
run() { # FILE NAME [VALUE]
    awk -v name="$2" -v value="${3-}" '
    function shown(number) { return value != "" ? value : sprintf("%.4f", number) }
    BEGIN {
        print "# arch: SM\n# ctx: 32\n# d_model: 64\n# name: " name
        print "# series: run - loss"
        print "step,layer,head,entropy,loss"
        for (s = 0; s < 400; s += 10) {
            for (l = 0; l < 6; l++) for (h = 0; h < 4; h++)
                printf "%d,%d,%d,%s,\n", s, l, h, shown(2.4 - l * s / 1200 - 0.2 * (h * l % 3))
            printf "%d,,,,%s\n", s, shown(3 + 4 / (1 + s / 40))
        } }' >run.csv
    "$scan" import -q run.csv -o "$1" || exit 1
}
run run.db 'a run'
run nan.db 'only NaN' NaN
printf -v hostile 'a\033[31mred\033[0m\tb\302\2331m\177'
run hostile.db "$hostile"

draw() { "$scan" draw "$@"; }
text() { draw "$1" "${@:2}" --format txt -o -; } # FIGURE RUN... [OPTION...]
same() { # NAME COMMAND...: compares with tests/golden/NAME
    local name=$1
    shift
    "$@" >"$name" || return 1
    [ -z "${ES_GOLDEN_UPDATE-}" ] || cp "$name" "$golden/$name"
    diff "$golden/$name" "$name"
}
plain() { LC_ALL=C awk '/[^ -~]/ { bad = 1; print } END { exit bad || !NR }' "$@"; }
narrow() { awk -v most="$1" 'length > most { bad = 1; print } END { exit bad || !NR }'; }

for figure in heatmap curves overview timeline; do
    check "$figure is text" same "text_$figure.txt" text $figure run.db --size 90x34
    check "$figure has colours" same "text_$figure.ansi" text $figure run.db --size 90x34 --color=always
done
check 'a run with only NaN is text' same text_nan.txt text heatmap nan.db --size 60x24
check 'a run with only NaN has curves' sh -c '"$0" draw curves nan.db -o nan.txt' "$scan"

# --- files and pipes ----------------------------------------------------------

check 'the extension .txt selects text' sh -c '"$0" draw heatmap,curves run.db -o x && "$0" draw heatmap run.db -o a.txt' "$scan"
check 'a text file has only ASCII characters' plain a.txt
check 'a text file has 80 columns' eval 'narrow 80 <a.txt'
check 'an automatic name ends in .txt' sh -c '"$0" draw heatmap run.db --format txt && cmp run-heatmap.txt a.txt' "$scan"
check 'several figures share standard output' eval 'text heatmap,loss run.db >two.txt && grep -q "2.40" two.txt && grep -q "step$\|step  *$" two.txt'
check '--color=always colours a file' eval 'draw heatmap run.db --color=always -o b.txt && grep -q "\[0;" b.txt'
check '--theme light reverses the contrast' eval '! text heatmap run.db --theme light | cmp -s - a.txt'
check 'a size in points is converted' eval 'text heatmap run.db --size 210x168pt | narrow 60'
exits 'pictures do not share standard output' 2 'standard output: two outputs have this name' "$scan" draw heatmap,loss run.db --format png -o -
exits 'a size may be too small' 2 'too small for its content' "$scan" draw heatmap run.db --format txt --size 1x1 -o -
exits 'a size may be too large' 2 'size' "$scan" draw heatmap run.db --format txt --size 99999x99999 -o -
exits 'another format contradicts the extension' 2 'contradicts the file name' "$scan" draw heatmap run.db --format png -o c.txt

# --- names --------------------------------------------------------------------

harmless() { ! LC_ALL=C grep -aq $'\033\\[31m\|\177\|\302\233' "$1"; }
check 'a hostile name is harmless without colours' eval 'text curves,overview,heatmap hostile.db >h.txt && plain h.txt'
check 'a hostile name is harmless with colours' eval 'text curves,overview,heatmap hostile.db --color=always >h.ansi && harmless h.ansi'

# --- terminals ----------------------------------------------------------------

# Runs the program in a pseudo-terminal of COLUMNS x ROWS and prints its output.
cat >terminal.py <<'END'
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    sys.stdin.read(1)
    os.execv(sys.argv[3], sys.argv[3:])
fcntl.ioctl(fd, termios.TIOCSWINSZ,
            struct.pack("HHHH", int(sys.argv[2]), int(sys.argv[1]), 0, 0))
mode = termios.tcgetattr(fd)
mode[1] &= ~termios.OPOST
mode[3] &= ~termios.ECHO
termios.tcsetattr(fd, termios.TCSANOW, mode)
os.write(fd, b"\n")
while True:
    try:
        data = os.read(fd, 65536)
    except OSError:
        break
    if not data:
        break
    sys.stdout.buffer.write(data)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
terminal() { python3 terminal.py "$@"; } # COLUMNS ROWS COMMAND...
check 'a terminal shows a figure in colours' eval 'terminal 100 30 "$scan" draw heatmap run.db -o - >t.ansi && grep -q "38;5" t.ansi'
check 'a terminal with 24 bits of colour gets them' eval 'COLORTERM=truecolor terminal 100 30 "$scan" draw heatmap run.db -o - >true.ansi && grep -q "38;2" true.ansi'
check 'NO_COLOR shows a figure without colours' eval 'NO_COLOR=1 terminal 100 30 "$scan" draw heatmap run.db -o - >n.txt && plain n.txt && narrow 100 <n.txt'
check 'a figure is as wide as the terminal' eval 'NO_COLOR=1 terminal 150 30 "$scan" draw curves run.db -o - >w.txt && narrow 150 <w.txt && ! narrow 120 <w.txt'
for columns in 7 20 40; do
    check "a figure fits into $columns columns" eval "NO_COLOR=1 terminal $columns 10 '$scan' draw curves,heatmap,timeline run.db -o - | narrow $columns"
done
check 'the figure of cost is text' eval '"$scan" cost run.db --figure flops --format txt -o - >c.txt && plain c.txt && narrow 80 <c.txt && grep -q FFN c.txt'
check 'a terminal shows the figure of cost' eval 'NO_COLOR=1 terminal 90 30 "$scan" cost run.db --figure flops -o - >c.txt && plain c.txt && narrow 90 <c.txt'
check 'a terminal gets no PNG' eval '! terminal 80 24 "$scan" draw heatmap run.db --format png -o - >p.txt && grep -q "standard output is a terminal" p.txt'
finish
