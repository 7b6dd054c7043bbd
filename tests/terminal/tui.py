"""Checks entropy-scan --tui in a pseudo-terminal, with real training runs. Prints TAP lines.

usage: tui.py BIN DIR   (BIN: the programs; DIR: a temporary folder with corpus.tok)
"""
import os
import signal
import subprocess
import sys
import time

from terminal import PLAIN, Program

BIN, DIR = sys.argv[1:3]
SCAN, TRAIN = BIN + "/entropy-scan", BIN + "/entropy-train"
SIZES = [(80, 24), (132, 43), (40, 12), (20, 6), (7, 3), (250, 70)]
count = 0


def check(name, good, why=""):
    global count
    count += 1
    print("%s %d - %s" % ("ok" if good else "not ok", count, name))
    if not good:
        for line in str(why).splitlines():
            print("#", line)
    sys.stdout.flush()


def environment(**variables):
    env = {k: v for k, v in os.environ.items()
           if k not in ("NO_COLOR", "COLORTERM", "LC_ALL", "LC_CTYPE", "LANG")}
    env.update(TERM="xterm-256color", LC_ALL="C.UTF-8")
    env.update(variables)
    return env


def scan(*arguments, size=(80, 24), **variables):
    return Program([SCAN, *arguments], *size, env=environment(**variables))


class Training:
    """A training run that continues until end() is called."""

    def __init__(self, name):
        self.path = os.path.join(DIR, name)
        self.process = subprocess.Popen(
            [TRAIN, "--data", DIR + "/corpus.tok", "--out", self.path,
             *("--arch SM+LN+G --n-layer 3 --n-head 2 --d-model 12 --ctx 16 "
               "--batch 2 --threads 1 --steps 100000000 --record-every 50 "
               "--eval-batches 1").split()],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60  # until the first sample
        while time.monotonic() < end and subprocess.run(
                [SCAN, self.path, "-q"], stderr=subprocess.DEVNULL).returncode:
            time.sleep(0.05)

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        self.process.wait(60)


def step_of(program):
    """Returns the step in the title row of the screen, or -1."""
    for word in program.screen.lines()[0].replace("/", " ").split():
        if word.isdigit():
            return int(word)
    return -1


def grows(program):
    before = step_of(program)
    return program.until(lambda: step_of(program) > before)


def clean(program):
    return program.restored() and not program.screen.unknown


# --- drawing once -------------------------------------------------------------

def ended(*arguments, **variables):
    """Runs the program to its end. Returns the finished program and its exit code."""
    p = scan(*arguments, "--tui", **variables)
    return p, p.end()


def drawn_once(run):
    for size in SIZES:
        p, code = ended(run, size=size)
        check("the runs are drawn at %d x %d" % size,
              code == 0 and clean(p) and "\x1b[?" not in p.sent,
              "%s %s\n%s" % (code, p.screen.unknown, p.screen.text()))
    p, _ = ended(run, COLORTERM="truecolor")
    check("a terminal with 24 bits of colour gets them", "▀" in p.sent and
          ";38;2;" in p.sent and ";48;2;" in p.sent and ";38;5;" not in p.sent)
    p, _ = ended(run)
    check("a terminal with 256 colours gets only these", "▀" in p.sent and
          ";38;5;" in p.sent and ";2;" not in p.sent)
    for name, variables in (("TERM=dumb", {"TERM": "dumb"}),
                            ("NO_COLOR", {"NO_COLOR": "1"}),
                            ("a locale without UTF-8", {"LC_ALL": "C"})):
        p, _ = ended(run, COLORTERM="truecolor", **variables)
        check("the drawing is plain ASCII with " + name, p.sent.isascii() and
              "\x1b" not in p.sent and "flags" in p.sent, p.sent)
    p, code = ended(run, "--follow", TERM="dumb")
    check("a terminal without a cursor has no live view", code == 2 and
          "TERM is unset or dumb" in p.sent and "\x1b" not in p.sent, p.sent)
    p, code = ended(run, run + ".no")
    check("one unreadable file of two exits with 4", code == 4 and
          "no such file" in p.sent and "flags" in p.sent, p.sent)
    p, code = ended(run + ".no")
    check("a single unreadable file exits with 3", code == 3, p.sent)


def small_numbers():
    path = os.path.join(DIR, "small")
    with open(path + ".csv", "w") as file:
        file.write("# series: run - loss\nstep,layer,head,entropy,loss\n"
                   "0,0,0,1e-5,\n0,0,1,1e-5,\n0,,,,2e-5\n5,,,,3e-5\n")
    subprocess.run([SCAN, "import", "-q", path + ".csv", "-o", path + ".db",
                    "--arch", "SM", "--ctx", "8"], check=True)
    p, _ = ended(path + ".db", NO_COLOR="1")
    check("small numbers have short exponents",
          all(text in p.screen.text() for text in (
              "m = 1e-5", "loss 2e-5", "1e-5 nats")) and
          "e-05" not in p.sent, p.screen.text())


def many_runs():
    """Checks that more than three runs are shown as a list, in which a run can be selected
    and opened."""
    paths = []
    for i in range(5):
        path = os.path.join(DIR, "many%d" % i)
        with open(path + ".csv", "w") as file:
            file.write('# arch: SM\n# ctx: 8\n# config: {"lr":0.%d}\n'
                       "# series: run - loss\nstep,layer,head,entropy,loss\n"
                       "0,0,0,%g,\n0,0,1,1,\n0,,,,%d\n" % (i + 1, i / 4, 5 - i))
        subprocess.run([SCAN, "import", "-q", path + ".csv", "-o",
                        path + ".db"], check=True)
        paths.append(path + ".db")
    p = scan(*paths, "--tui", size=(100, 12))
    check("many runs are lines to choose from", p.shows("enter open") and
          taken(p) and "> 0.1" in p.screen.text(), p.screen.text())
    p.send("\x1b[B")
    check("down chooses the next one",
          p.until(lambda: "> 0.2" in p.screen.text()), p.screen.text())
    p.send("o")
    check("o sorts the lines", p.shows("by loss") and p.until(
        lambda: p.screen.lines()[1].startswith("  0.5")), p.screen.text())
    p.send("\r")
    check("enter opens the run", p.shows("many1.db") and p.shows("loss 4"),
          p.screen.text())
    p.send("\x1b[A")
    check("up opens the one before", p.shows("many2.db"), p.screen.text())
    p.send("\r")
    check("enter goes back to the lines", p.shows("> 0.3"), p.screen.text())
    p.send("f")
    check("f shows a figure of the chosen run", p.shows("next/previous figure") and
          p.shows("overview"), p.screen.text())
    p.send("\x1b[B")
    p.send("\r")
    check("enter goes back from the figure of the next run", p.shows("> 0.2"),
          p.screen.text())
    p.send("\x1b[A")
    p.shows("> 0.3")
    p.send("q")
    check("q quits the lines", p.end() == 0 and clean(p), p.screen.text())
    p, code = ended(*paths, TERM="dumb")
    check("a terminal without a cursor gets the lines once", code == 0 and
          "by loss" not in p.sent and "0.5" in p.sent and "heads" in p.sent,
          p.sent)


# --- following ----------------------------------------------------------------

def taken(program):
    return program.screen.alternate and not program.screen.cursor_shown


def live(run, *arguments, **settings):
    """Starts a live view, and waits for its first drawing."""
    p = scan(run, "--tui", "--follow", *arguments, **settings)
    p.shows("q quit")
    return p


def keys(run):
    p = live(run)
    check("the live view takes over the terminal", p.shows("q quit") and taken(p),
          p.screen.text())
    check("the live view follows new samples", grows(p), p.screen.text())
    frames, begin = p.sent.count("\x1b[1;1H"), time.monotonic()
    p.until(lambda: step_of(p) >= 1000)  # so that there are samples to go back to
    p.until(lambda: False, 2)
    check("the live view draws at most twice a second", p.sent.count("\x1b[1;1H")
          - frames <= 2 * (time.monotonic() - begin) + 1)
    p.send("\x1b[D")
    stopped = p.shows("stopped")
    at = step_of(p)
    p.until(lambda: False, 1.5)
    check("left stops one sample before", stopped and step_of(p) == at,
          p.screen.text())
    p.send("\x1bO")  # a key may arrive in two parts
    p.until(lambda: False, 0.2)
    for key, name, wanted in (
            ("D", "left again goes back one more sample",
             lambda: step_of(p) == at - 50),
            ("\x1b[C", "right goes forward one sample", lambda: step_of(p) == at),
            ("\x1b[H", "home goes to the first sample",
             lambda: step_of(p) == 0),
            ("\x1b[6~", "page down goes forward ten samples",
             lambda: step_of(p) == 500),
            ("s", "s switches the series", lambda: p.shows("entropy_max")),
            ("S", "S switches it back", lambda: p.shows("entropy, mean")),
            (" ", "space continues the live view",
             lambda: step_of(p) > at and p.shows("live"))):
        p.send(key)
        check(name, p.until(wanted), p.screen.text())
    p.send("\x1b[99;99Xzz\x1b\x1b[\x1b[5;5Z\x1bz~")
    check("unbound keys change nothing", grows(p) and taken(p),
          p.screen.text())
    p.send("q")
    code = p.end()
    check("q quits with 0 and restores the terminal", code == 0 and clean(p),
          "%s %s\n%s" % (code, p.remains(), p.sent[-300:].encode()))
    check("q restores the screen", p.screen.text() == "",
          p.screen.text())


def figures(run):
    """Checks that a key opens figures, which are updated while the run continues."""
    p = live(run, size=(100, 32), NO_COLOR="1")
    p.send("f")
    check("f opens a figure and lists the others", p.shows("mean of each layer") and
          p.shows("next/previous figure") and
          all(name in p.screen.lines()[0] for name in ("overview", "heatmap", "loss")),
          p.screen.text())
    before = p.screen.text()
    check("a figure follows the run", p.until(lambda: p.screen.text() != before, 20) and
          taken(p), p.screen.text())
    p.send("f")
    check("f shows the next figure", p.until(
        lambda: "mean of each layer" not in p.screen.text()) and p.shows("|"), p.screen.text())
    for key, name, text in (
            ("F", "F shows the previous figure", "mean of each layer"),
            ("F", "F again shows the heatmap", "head")):
        p.send(key)
        check(name, p.shows(text), p.screen.text())
    p.send("\x1b[H")
    check("a figure shows the chosen step", p.shows("step 0"), p.screen.text())
    p.send("s")
    check("a figure shows the chosen series", p.until(lambda: "entropy_max" in
          p.screen.text().replace("\n", "") or "step 0" in p.screen.text()), p.screen.text())
    for size in SIZES:
        p.resize(*size)
        p.screen.rows = [[("~", PLAIN)] * size[0] for _ in range(size[1])]
        gone = p.until(lambda: "~" not in p.screen.text())
        check("a figure is redrawn at %d x %d" % size, gone and taken(p) and
              not p.screen.unknown, p.screen.text())
    p.resize(80, 12)
    p.until(lambda: "head" not in p.screen.text())
    seen = p.screen.text()
    p.send("\x1b[6~")
    check("page down scrolls a figure", p.until(lambda: p.screen.text() != seen),
          p.screen.text())
    p.send("\r")
    check("enter goes back to the run", p.shows("f: figures"), p.screen.text())
    p.send("f")
    p.shows("next/previous")
    p.send("q")
    check("q quits a figure", p.end() == 0 and clean(p), p.screen.text())
    p = live(run, "--step", "50", COLORTERM="truecolor")
    p.send("F")
    check("a figure has the terminal's colours", p.until(lambda: ";48;2;" in p.sent) and
          p.shows("F next/previous"), p.screen.text())
    p.send("q")
    check("q quits a figure of a stopped run", p.end() == 0 and clean(p), p.screen.text())


def resizing(run):
    p = live(run)
    for size in SIZES[1:] + SIZES[:1]:
        p.resize(*size)
        p.screen.rows = [[("~", PLAIN)] * size[0] for _ in range(size[1])]
        gone = p.until(lambda: "~" not in p.screen.text())
        check("the view is redrawn at %d x %d" % size, gone and taken(p),
              p.screen.text())
    p.send("q")
    check("q ends a view that was resized", p.end() == 0 and clean(p))


def signals(run):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP,
                   signal.SIGQUIT):
        p = live(run)
        p.signal(number)
        name = signal.Signals(number).name
        check("the terminal is restored at " + name,
              p.end() == -number and clean(p), "%s %s" % (p.status, p.remains()))
    p = live(run)
    p.send("\x03")
    check("the terminal is restored at ^C", p.end() == -signal.SIGINT and clean(p), p.status)
    stopping(run)


def stopping(run):
    """Checks that ^Z stops the live view. The program runs under a shell, because the kernel
    ignores stop signals from the terminal for a session leader."""
    p = Program(["bash", "--norc", "--noprofile", "-i"],
                env=environment(PS1="shell> "))
    p.shows("shell>")
    p.send("%s %s --tui --follow\n" % (SCAN, run))
    p.shows("q quit")
    p.send("\x1a")
    back = p.shows("Stopped") and p.until(
        lambda: not p.screen.alternate and p.screen.cursor_shown)
    check("the terminal is restored at ^Z", back, p.screen.text())
    p.send("fg\n")
    check("the terminal is taken over again after fg", p.shows("q quit") and
          p.until(lambda: taken(p)) and grows(p), p.screen.text())
    p.send("q")
    check("the terminal is restored by q after fg", p.until(lambda: not p.screen.alternate) and
          p.screen.cursor_shown, p.screen.text())
    p.close()


def endings(training):
    before = open(training.path, "rb").read(100)
    p = scan(training.path, "--tui", "--follow", size=(100, 30))
    p.shows("live")
    training.end()
    check("the view ends with the run and reports how it ended",
          p.end() == 0 and clean(p) and ": stopped at step" in p.sent and
          "flags" in p.screen.text(), p.screen.text())
    check("a followed file ends as one plain file",
          not os.path.exists(training.path + "-wal") and
          open(training.path, "rb").read(100)[18:20] == b"\1\1" and before)
    p = scan(training.path, "--tui", "--follow")
    check("a run that has ended is drawn once", p.end() == 0 and
          "\x1b[?1049h" not in p.sent and ": stopped at" in p.sent, p.sent)
    p = scan(training.path, "--tui", "--follow", "--step", "50")
    check("--step stays at that step", p.shows("all runs have ended") and
          step_of(p) == 50 and p.status is None, p.screen.text())
    p.send(" ")
    check("a stopped view ends once it is live again", p.end() == 0 and clean(p))


def children_of(pid):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name) as stat:
                if int(stat.read().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(int(name))
        except OSError:
            pass  # the process has just ended
    return found


def crash():
    """Kills both the trainer and the recorder, so that no process ends the run in the file."""
    training = Training("crash.db")
    p = scan(training.path, "--tui", "--follow", COLORTERM="truecolor")
    p.shows("live")
    recorder = children_of(training.process.pid)
    training.process.send_signal(signal.SIGSTOP)
    for child in recorder:
        os.kill(child, signal.SIGKILL)
    training.end(signal.SIGKILL)
    code = p.end()
    check("a crashed run is interrupted and ends the view",
          code == 0 and clean(p) and len(recorder) == 1 and
          ": interrupted at step" in p.sent, "%s\n%s" % (code, p.sent[-400:]))


def removal():
    """Removes the file while all writers, which could create it again, are stopped."""
    training = Training("removed.db")
    p = scan(training.path, "--tui", "--follow")
    p.shows("live")
    processes = [training.process.pid, *children_of(training.process.pid)]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    for suffix in ("", "-wal", "-shm", "-lock"):
        try:
            os.remove(training.path + suffix)
        except FileNotFoundError:
            pass
    check("a removed file ends the view",
          p.end() == 0 and clean(p) and "no such file" in p.sent,
          p.screen.text())
    for process in processes[1:]:
        os.kill(process, signal.SIGKILL)
    training.end(signal.SIGKILL)


def idle(run):
    """Measures the CPU time of the live view while nothing is written."""
    p = live(run, "--step", "50")

    def ticks():
        with open("/proc/%d/stat" % p.pid) as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    before, sent = ticks(), None
    for _ in range(30):  # of 2 s, until the first picture is complete
        if len(p.sent) == sent:
            break
        before, sent = ticks(), len(p.sent)
        p.until(lambda: False, 2)
    share = (ticks() - before) / os.sysconf("SC_CLK_TCK") / 2
    print("# idle: %.2f %% of a core" % (100 * share))
    check("nothing is drawn while nothing changes", len(p.sent) == sent)
    p.send("q")
    p.end()


first = Training("run.db")
check("a training is running", first.process.poll() is None)
drawn_once(first.path)
small_numbers()
many_runs()
keys(first.path)
figures(first.path)
resizing(first.path)
signals(first.path)
endings(first)
idle(first.path)
crash()
removal()
print("1..%d" % count)
