"""Makes one system call of entropy-scan fail, once for each that it makes, and
judges what it then does: prints TAP, a line for each command.

usage: tests/soak/faults.py BIN [--points N] [--seed S] [--only COMMAND]

A command that ends with 0 has printed and written what it does undisturbed.
One that failed says so in a line of its own, ends with 3 or 4, leaves whole
files or none, and shows no number that an undisturbed one does not show.
strace makes the calls fail: one of them, or all of its kind from it on.
"""
import argparse
import collections
import concurrent.futures
import fcntl
import os
import random
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile

PROBLEMS_MOST = 30  # of a command, printed
PATIENCE = 60  # seconds; SQLite waits five for a lock
JOBS = os.cpu_count() or 1

# What calls may fail with; those that are not here are left alone, and so is
# brk, after which one malloc itself crashes (glibc 2.36).
REASONS = collections.defaultdict(list)
for reason, calls in {
        "EIO": "openat read pread64 newfstatat fstat statx statfs fstatfs "
               "access faccessat2 readlink lseek fcntl getdents64 write "
               "pwrite64 ftruncate fsync fdatasync rename unlink link close "
               "getrandom",
        "ENOSPC": "write pwrite64 writev fallocate mkdir inotify_add_watch",
        "ENOMEM": "getcwd mmap mremap poll",
        "EMFILE": "openat pipe2 memfd_create inotify_init1 socketpair dup",
        "EAGAIN": "clone clone3 vfork", "ECHILD": "wait4 waitid",
        "EPERM": "fchmod fchown", "ENOLCK": "flock"}.items():
    for call in calls.split():
        REASONS[call].append(reason)

LASTING = ["EMFILE", "ENOSPC", "ENOMEM"]  # fail once, and from then on

BOTH = ["runs/a.db", "runs/b.db"]
COMMANDS = {
    "table": BOTH,
    "json": [*BOTH, "--json"],
    "figures": [*BOTH, "--heatmap=h.svg", "--curves=c.png", "-q"],
    "all figures": [*BOTH, "--all=all", "--format=svg", "-q"],
    "compare": [*BOTH, "--compare"],
    "where": ["-r", "runs", "--where=loss<9", "--sort=-loss"],
    "report": ["report", *BOTH, "-o", "r.html", "-q"],
    "export": ["export", "runs/b.db", "-o", "e.csv"],
    "merge": ["merge", "-r", "runs", "-o", "m.db", "-q"],
    "watch": ["watch", "--once", "runs", "--state=s.state"],
}
SCRATCH = {"watch": ["s.state", "s.state-journal", "s.state-wal",
                     "s.state-shm"]}


# --- the runs ---------------------------------------------------------------

def long_csv(path, name, n_layer, n_head, steps, high, status):
    """Entropies below `high`; in the end a collapse, a NaN, a growing logit."""
    random_values = random.Random(name)
    with open(path, "w") as out:
        print("# name: %s" % name, "# arch: SM+LN+G", "# status: %s" % status,
              "# n_layer: %d" % n_layer, "# n_head: %d" % n_head,
              "# d_model: 48", "# ctx: 64", "# batch: 4", "# seed: 1",
              '# config: {"steps":%d,"lr":0.001,"name":"%s"}'
              % (10 * steps, name),
              "# started_at: 2026-01-01T00:00:00.000Z",
              "# uuid: 0c1b1e05-450d-426d-ad67-d8583298%04x" % n_head,
              "step,layer,head,entropy,max_logit,nonfinite_rows,theta,"
              "nan_activations,alpha,beta,slope,loss,ce,eval:ce",
              sep="\n", file=out)
        for step in range(0, 10 * steps, 10):
            late = step >= 7 * steps
            print("%d,,,,,,,,,,,%g,%g,%g" % (step, 5 - step / 100,
                                             4 - step / 100, 4.5 - step / 100),
                  file=out)
            for layer in range(n_layer):
                print("%d,%d,,,,,,%d,1,0.5,%g,,," % (
                    step, layer, late, layer / 8), file=out)
                for head in range(n_head):
                    value = random_values.uniform(0.3, high)
                    value = 0.01 if late and layer == 1 else value
                    print("%d,%d,%d,%.4f,%d,%d,%g,,,,,,," % (
                        step, layer, head, value, step * 30, late, head / 9),
                        file=out)


def hold_lock(path):
    """As a process does that is writing the run file; kept until the end."""
    lock = open(path + "-lock", "w")
    whole_file = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(lock, 37, whole_file)  # F_OFD_SETLK
    return lock


def leave_log(path):
    """The last transaction stays in the log, as a writer that is killed leaves
    it; the index of the log stays, too, and nobody answers for it."""
    subprocess.run([sys.executable, "-c", """if True:
        import os, sqlite3, sys
        file = sqlite3.connect(sys.argv[1])
        file.execute("PRAGMA journal_mode=WAL")
        file.execute("UPDATE run SET arch = 'from the log'")
        file.execute("DELETE FROM row_checksum")
        file.commit()
        os._exit(0)""", path], check=True)


def make_runs(scan, folder):
    os.makedirs(folder)
    for name, shape, steps, high, status in [
            ("a", (3, 4), 8, 4.1, "finished"), ("b", (2, 6), 6, 1.9, "running")]:
        text = os.path.join(folder, name + ".csv")
        long_csv(text, name, *shape, steps, high, status)
        subprocess.run([scan, "import", "-q", text, "-o", text[:-3] + "db"],
                       check=True)
        os.remove(text)
    leave_log(os.path.join(folder, "b.db"))


# --- what makes calls fail --------------------------------------------------

ALLOCATION = "allocation"
SHIM = ""  # tests/soak/alloc_shim.c, built


def with_calls(*options):
    return ["strace", "-f", "--seccomp-bpf", *options]


def with_allocations(setting, program="entropy-scan"):
    return ["env", "LD_PRELOAD=" + SHIM,
            "ES_ALLOC_IN=" + program, setting]


# --- one run of a command ---------------------------------------------------

Result = collections.namedtuple("Result", "code out err files")


def rows_of(path):
    """What a run file says, whatever its pages are like."""
    with sqlite3.connect(path) as file:
        return [sorted(repr(row[1:]) for row in file.execute(query))
                for query in [
            "SELECT run_id, uuid, name, arch, config, status FROM run",
            "SELECT run_id, uuid, s.name, phase, step, value FROM sample"
            " JOIN series AS s USING(series_id) JOIN run USING(run_id)",
            "SELECT s.*, uuid FROM summary AS s JOIN run USING(run_id)"]]


def tree(folder):
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            full = os.path.join(path, name)
            if name == "m.db":
                found[name] = rows_of(full)
                continue
            with open(full, "rb") as file:
                found[os.path.relpath(full, folder)] = file.read()
    return found


class Place:
    """A folder of its own with the runs, of which one is being written."""

    def __init__(self, scan, runs, home):
        self.scan, self.runs = scan, runs
        self.folder = tempfile.mkdtemp(dir=home)
        self.lock = None
        self.restore()

    def restore(self):
        if self.lock:
            self.lock.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.runs, os.path.join(self.folder, "runs"))
        self.lock = hold_lock(os.path.join(self.folder, "runs/b.db"))
        self.inputs = tree(self.folder)

    def run(self, arguments, before=()):
        try:
            ended = subprocess.run([*before, self.scan, *arguments],
                                   cwd=self.folder, stdin=subprocess.DEVNULL,
                                   capture_output=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return Result(None, b"", "", tree(self.folder))
        here = os.path.realpath(self.folder).encode()
        return Result(ended.returncode, ended.stdout.replace(here, b"."),
                      ended.stderr.decode(errors="replace"), tree(self.folder))

    def clear(self, after):
        if {k: after[k] for k in after if k in self.inputs} != self.inputs:
            self.restore()
        for name in set(after) - set(self.inputs):
            os.remove(os.path.join(self.folder, name))


# --- what is to be ----------------------------------------------------------

def shown(result):
    """The lines, without the blanks that the widths of columns come to."""
    return {b" ".join(line.split()) for line in result.out.splitlines()}


class Reference:
    """A command undisturbed: with both runs, and with each alone."""

    def __init__(self, place, name):
        self.name, self.arguments = name, COMMANDS[name]
        self.scratch = set(SCRATCH.get(name, []))
        self.whole = self.of(place, self.arguments)
        again = self.of(place, self.arguments)
        assert self.whole == again, name + " is not the same twice"
        self.outs = shown(self.whole)
        self.files = [self.whole.files]
        for one in BOTH:
            alone = self.of(place, self.with_runs([one]))
            self.outs |= shown(alone)
            self.files.append(alone.files)
        if self.arguments[:2] == BOTH:
            self.outs |= shown(self.of(place, self.with_runs(["no.db"]), 3))

    def with_runs(self, paths):
        """The command line for these instead of both."""
        given = self.arguments
        places = [i for i, a in enumerate(given) if a in ["runs", *BOTH]]
        rest = [a for i, a in enumerate(given) if i not in places]
        return rest[:places[0]] + paths + rest[places[0]:]

    def of(self, place, arguments, code=0):
        result = place.run(arguments)
        place.clear(result.files)
        assert result.code == code, (arguments, result.err)
        return result._replace(files=self.new_files(place, result.files))

    def new_files(self, place, files):
        return {k: v for k, v in files.items()
                if k not in place.inputs and k not in self.scratch}

    def log_of(self, place, before):
        """What a command that is run by `before` leaves in a file."""
        with tempfile.NamedTemporaryFile("r") as log:
            result = place.run(self.arguments, before(log.name))
            place.clear(result.files)
            return log.read().splitlines()

    def allocations(self, place):
        """All of them, by their number: each fails alone, and with all later
        ones."""
        count = int(self.log_of(place, lambda log: with_allocations(
            "ES_ALLOC_COUNT=" + log))[0])
        return [(ALLOCATION, number, "ENOMEM", all_on)
                for number in range(1, count + 1) for all_on in (False, True)]

    def calls(self, place):
        return [(call, number, reason, all_on)
                for call, number in self.call_numbers(place)
                for reason in REASONS.get(call, [])
                for all_on in ((False, True) if reason in LASTING
                               else (False,))]

    def call_numbers(self, place):
        """(call, its number), from the first on that names a run. Fonts are
        left alone: without one a picture looks different, and may."""
        lines = self.log_of(place, lambda log: with_calls(
            "-y", "-o", log, "-e", "trace=all"))
        seen, found, begun = collections.Counter(), [], False
        for line in lines:
            match = re.match(r"%s +(\w+)\(" % lines[0].split()[0], line)
            if not match:
                continue
            call = match[1]
            seen[call] += 1
            begun = begun or (call != "execve" and "runs" in line)
            if begun and not re.search("font|/usr/|/proc/|/sys/", line):
                found.append((call, seen[call]))
        return found


def judge_files(reference, place, result, point):
    new = reference.new_files(place, result.files)
    changed = [k for k in place.inputs
               if result.files.get(k) != place.inputs[k]]
    if changed:
        return "changed " + changed[0]
    for name in new:
        if not any(name in whole for whole in reference.files):
            if point[0] != "unlink":
                return "left " + name
        elif name.startswith("all/"):  # any of the runs may be missing there
            if not new[name].rstrip().endswith(b"</svg>"):
                return "left a part of " + name
        elif not any(new[name] == whole.get(name)
                     for whole in reference.files):
            return "left a part of " + name
    return ""


def judge(reference, place, result, point):
    """Why the result is none that there may be; empty if it is."""
    whole = reference.whole
    if result.code is None:
        return "did not end"
    if result.code < 0 or result.code > 127:
        return "ended by a signal, or strace failed: " + result.err[-300:]
    if result.code == 0:
        if result.out != whole.out:
            return "exit 0, and another output"
        new = reference.new_files(place, result.files)
        other = [k for k in {**new, **whole.files}
                 if new.get(k) != whole.files.get(k) and
                 not (point[0] == "unlink" and k.startswith("."))]
        if other:
            return "exit 0, and another " + ", ".join(other)
        return judge_files(reference, place, result, point)
    if result.code not in (3, 4):
        return "exit %d: %s" % (result.code, result.err)
    lines = [line for line in result.err.splitlines()
             if not line.startswith("Fontconfig ")]
    is_lost = point[0] == "write" and point[3]  # nor can it be written
    if not is_lost and (not lines or not all(
            re.match("entropy-scan: .*[a-z]", line) for line in lines)):
        return "exit %d, without a message: %s" % (result.code, result.err)
    each_fails = reference.name == "all figures" or (
        point[0] == ALLOCATION and point[3])  # each figure, each process
    if len(set(lines)) != len(lines) and not each_fails:
        return "a message comes twice: " + result.err
    strange = shown(result) - reference.outs
    if strange and point[0] != "write":
        return "exit %d, and shows %s" % (result.code, strange.pop()[:200])
    return judge_files(reference, place, result, point)


def rerun(reference, place, result):
    """What a watcher that failed has not reported comes the next time."""
    again = place.run(reference.arguments)
    reported = shown(result) | shown(again)
    if again.code == 0 and reference.outs <= reported:
        return ""
    return "the next one: exit %s, and not reported: %s %s" % (
        again.code, reference.outs - reported, again.err)


# --- all of them ------------------------------------------------------------

def describe(point):
    call, number, reason, all_on = point
    return "%s, the %d. call%s: %s" % (call, number,
                                       " and all later ones" * all_on, reason)


def failing(point):
    """The words before a command that make it fail there."""
    call, number, reason, all_on = point
    when = "%d%s" % (number, "+" * all_on)
    if call == ALLOCATION:
        return with_allocations("ES_ALLOC_FAIL=" + when)
    return with_calls("-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e",
                      "inject=%s:error=%s:when=%s" % (call, reason, when))


def try_point(reference, place, point):
    result = place.run(reference.arguments, failing(point))
    why = judge(reference, place, result, point)
    if not why and reference.name == "watch" and result.code:
        why = rerun(reference, place, result)
    place.clear(tree(place.folder))
    return point, result.code, why


def sweep(number, reference, places, points):
    problems, ends = [], collections.defaultdict(collections.Counter)

    def work(place, mine):
        return [try_point(reference, place, point) for point in mine]

    with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:
        for done in pool.map(work, places, [points[i::len(places)]
                                            for i in range(len(places))]):
            for point, code, why in done:
                ends[point[0]][code] += 1
                if why:
                    problems.append(describe(point) + ": " + why.strip())
    print("%s %d - %s: of %d failing system calls each is reported, or "
          "harmless" % ("not ok" if problems else "ok", number,
                        reference.name, len(points)))
    for call in sorted(ends):
        print("#   %-18s %s" % (call, ", ".join(
            "exit %s: %d" % end for end in sorted(ends[call].items(),
                                                  key=str))))
    for problem in problems[:PROBLEMS_MOST]:
        print("# " + problem.replace("\n", "\n#   "))
    sys.stdout.flush()
    return not problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--points", type=int, default=0)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", choices=COMMANDS)
    parser.add_argument("--kind", choices=["calls", "allocations"],
                        default="calls")
    given = parser.parse_args()
    global SHIM
    scan = os.path.abspath(os.path.join(given.bin, "entropy-scan"))
    SHIM = os.path.abspath(os.path.join(given.bin, "tests/alloc_shim.so"))
    names = [given.only] if given.only else list(COMMANDS)
    if given.points:
        print("# ES_SEED=" + given.seed)
    # Nobody's settings, and no leak checker, which strace would disturb.
    os.environ.update(LC_ALL="C", ASAN_OPTIONS="detect_leaks=0")
    good = True
    with tempfile.TemporaryDirectory() as home:
        runs = os.path.join(home, "runs")
        make_runs(scan, runs)
        places = [Place(scan, runs, home) for _ in range(JOBS)]
        for number, name in enumerate(names, 1):
            reference = Reference(places[0], name)
            points = getattr(reference, given.kind)(places[0])
            if given.points:
                some = random.Random(given.seed + name)
                points = some.sample(points, min(
                    len(points), given.points // len(names)))
            good = sweep(number, reference, places, points) and good
    print("1..%d" % len(names))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
