"""Makes a program's calls or allocations fail, one after another, and provides
the folders in which it runs, for faults.py and recording_faults.py.
"""
import collections
import concurrent.futures
import fcntl
import os
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile

PROBLEMS_MOST = 30  # printed problems per command
PATIENCE = 60  # seconds; SQLite waits five for a lock
JOBS = os.cpu_count() or 1

# The errors with which each system call may fail. All other calls always
# succeed, and so does brk, whose failure crashes malloc itself (glibc 2.36).
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

LASTING = ["EMFILE", "ENOSPC", "ENOMEM"]  # can fail once, or from then on


# --- ways to make calls fail -------------------------------------------------

ALLOCATION = "allocation"
SHIM = CLOCK_SHIM = ""  # paths of the built alloc_shim.c and clock_shim.c


def with_calls(scenario, *options):
    """Returns the beginning of a command line that runs a command under strace.
    strace must not be the parent of a recorder, which has to be the trainer's
    child.
    """
    return ["strace", *["-f", "--seccomp-bpf"] * scenario.follow,
            *["-D"] * scenario.daemon, *options]


def with_allocations(scenario, setting):
    return ["env", "LD_PRELOAD=" + SHIM,
            "ES_ALLOC_IN=" + (scenario.counted or scenario.program), setting]


# Limits with which a program is started, and the options of prlimit that set them.
LIMITS = {"descriptors": "--nofile=%d:%d", "bytes of a file": "--fsize=%d:%d"}
DISK = "KiB free on the disk"
CLOCK = "seconds that the clock jumps"
HOUR, YEAR = 3600, 365 * 86400


def with_disk(free):
    """Returns the beginning of a command line that leaves about `free` KiB on
    the disk of a small Place and then runs a command.
    """
    return ["sh", "-c", "used=$(df -k --output=used . | tail -n 1);"
            "mount -o remount,size=$((used + %d))k . && exec \"$@\"" % free, "sh"]


def failing(point, scenario):
    """Returns the beginning of a command line with which the scenario's command
    fails at this point."""
    call, number, reason, all_on = point
    when = "%d%s" % (number, "+" * all_on)
    if call in LIMITS:
        return ["prlimit", LIMITS[call] % (number, number)]
    if call == DISK:
        return with_disk(number)
    if call == CLOCK:
        return ["env", "LD_PRELOAD=" + CLOCK_SHIM,
                "ES_CLOCK=%d,%d" % (reason, number)]
    if call == ALLOCATION:
        return with_allocations(scenario, "ES_ALLOC_FAIL=" + when)
    return with_calls(scenario, "-qq", "-o", "/dev/null", "-e",
                      "trace=" + call, "-e", "inject=%s:error=%s:when=%s" % (
                          call, reason, when))


# --- one run of a command ---------------------------------------------------

def hold_lock(path):
    """Locks the run file until the end, like a process that is writing to it.
    """
    lock = open(path + "-lock", "w")
    whole_file = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(lock, 37, whole_file)  # F_OFD_SETLK
    return lock


Result = collections.namedtuple("Result", "code out err files")


ROWS = ["SELECT run_id, uuid, name, arch, config, status FROM run",
        "SELECT run_id, uuid, s.name, phase, step, value FROM sample"
        " JOIN series AS s USING(series_id) JOIN run USING(run_id)"]
SUMMARIES = "SELECT s.*, uuid FROM summary AS s JOIN run USING(run_id)"


def rows_of(path):
    """Returns the contents of a run file, independent of the layout of its
    pages.
    """
    with sqlite3.connect(path) as file:
        summarised = file.execute("SELECT 1 FROM sqlite_schema"
                                  " WHERE name = 'summary'").fetchone()
        return [sorted(repr(row[1:]) for row in file.execute(query))
                for query in ROWS + [SUMMARIES] * bool(summarised)]


def tree(folder):
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            full = os.path.join(path, name)
            if name in ("m.db", "i.db"):
                found[name] = rows_of(full)
                continue
            with open(full, "rb") as file:
                found[os.path.relpath(full, folder)] = file.read()
    return found


class Place:
    """A separate folder with the input files; one of its runs is still being
    written."""

    def __init__(self, bin, inputs, home, is_small=False):
        self.bin, self.inputs_from = bin, inputs
        self.folder = tempfile.mkdtemp(dir=home)
        self.is_small = is_small and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16m", "none", self.folder],
            stderr=subprocess.DEVNULL).returncode == 0
        self.lock = None
        self.restore()

    def restore(self):
        if self.lock:
            self.lock.close()
        self.make_roomy()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.inputs_from, self.folder, dirs_exist_ok=True)
        self.lock = hold_lock(os.path.join(self.folder, "runs/b.db"))
        self.inputs = tree(self.folder)

    def run(self, arguments, before=(), program="entropy-scan", env=None):
        process = subprocess.Popen(
            [*before, os.path.join(self.bin, program), *arguments],
            cwd=self.folder, env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return Result(None, b"", "", tree(self.folder))
        here = os.path.realpath(self.folder).encode()
        return Result(process.returncode, out.replace(here, b"."),
                      err.decode(errors="replace"), tree(self.folder))

    def make_roomy(self):
        if self.is_small:
            subprocess.run(["mount", "-o", "remount,size=16m", self.folder],
                           check=True)

    def leave(self):
        self.lock.close()
        if self.is_small:
            subprocess.run(["umount", "-l", self.folder], check=True)

    def clear(self, after):
        self.make_roomy()
        if {k: after[k] for k in after if k in self.inputs} != self.inputs:
            self.restore()
        for name in set(after) - set(self.inputs):
            if os.path.exists(os.path.join(self.folder, name)):
                os.remove(os.path.join(self.folder, name))


# --- the fault points of a scenario ------------------------------------------

class Scenario:
    """A command line of a program, which is run in a Place (a separate
    folder)."""
    program = "entropy-scan"
    counted = None  # program whose calls fail; None: the command itself
    begins = "runs"  # calls matter from the first line that contains this text
    follow = True  # child processes fail, too
    daemon = False

    def run(self, place, before=()):
        return place.run(self.arguments, before, self.program)

    def log_of(self, place, before):
        """Runs the command, preceded by the arguments before(log), and returns
        the lines that these arguments write to the log.
        """
        with tempfile.NamedTemporaryFile("r") as log:
            result = self.run(place, before(log.name))
            place.clear(result.files)
            return log.read().splitlines()

    def allocations(self, place):
        """Returns two fault points for each allocation: either only this allocation fails,
        or this one and all later ones fail.
        """
        count = int(self.log_of(place, lambda log: with_allocations(
            self, "ES_ALLOC_COUNT=" + log))[0])
        assert count > 100, count
        return [(ALLOCATION, number, "ENOMEM", all_on)
                for number in range(1, count + 1) for all_on in (False, True)]

    def descriptors(self, _):
        return [("descriptors", number, "EMFILE", True)
                for number in range(4, 24)]

    def sizes(self, _):
        return [("bytes of a file", 512 * number, "EFBIG", True)
                for number in range(0, 200)]

    def disks(self, place):
        return [(DISK, number, "ENOSPC", True) for number in range(
            0, 400, 4)] if place.is_small else []

    def clocks(self, _):
        return [(CLOCK, by, time, False)
                for by in (-HOUR, HOUR, YEAR, -YEAR, 200 * YEAR, -70 * YEAR)
                for time in (1, 2, 3, 5, 8, 13, 40)]

    def calls(self, place):
        return [(call, number, reason, all_on)
                for call, number in self.call_numbers(place)
                for reason in REASONS.get(call, [])
                for all_on in ((False, True) if reason in LASTING
                               else (False,))]

    def call_numbers(self, place):
        """Returns pairs (call, number) for all system calls from the first one
        whose arguments name a run. Calls for fonts are left out, because a
        picture may look different without a font. Calls on event counters are
        left out, because a counter cannot be full.
        """
        lines = self.log_of(place, lambda log: with_calls(
            self, "-y", "-o", log, "-e", "trace=all"))
        main = lines[0].split()[0] + " +" if self.follow else ""
        seen, found, begun = collections.Counter(), [], False
        for line in lines:
            match = re.match(main + r"(\w+)\(", line)
            if not match:
                continue
            call = match[1]
            seen[call] += 1
            begun = begun or (call != "execve" and self.begins in line)
            if begun and not re.search(
                    r"font|/usr/|/proc/|/sys/|\[eventfd\]", line):
                found.append((call, seen[call]))
        return found


# --- running all points ------------------------------------------------------

# Regular expressions that match the message of a program that has reached a limit.
WORDS = {"EMFILE": "Too many open files|loading shared libraries",
         "EFBIG": "File too large|limit on file sizes",
         "ENOSPC": "No space left on device|disk is full|cannot hold"}


def gives_reason(result, point):
    """Returns true if the fault was not a limit, or if the message names the limit that
    was reached. A jump of the clock must not cause a failure at all."""
    if point[0] == CLOCK:
        return not result.code
    if point[0] not in LIMITS and point[0] != DISK or not result.code:
        return True
    return re.search(WORDS[point[2]], result.err)


def describe(point):
    call, number, reason, all_on = point
    if call in LIMITS or call in (DISK, CLOCK):
        return "%d %s (%s)" % (number, call, reason)
    return "%s, the %d. call%s: %s" % (call, number,
                                       " and all later ones" * all_on, reason)


def sweep(number, reference, places, points):
    problems, ends = [], collections.defaultdict(collections.Counter)

    def work(place, mine):
        return [reference.try_point(place, point) for point in mine]

    with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:
        for done in pool.map(work, places, [points[i::len(places)]
                                            for i in range(len(places))]):
            for point, code, why in done:
                ends[point[0]][code] += 1
                if why:
                    problems.append(describe(point) + ": " + why.strip())
    print("%s %d - %s: of %d faults each is reported, or harmless" % (
        "not ok" if problems else "ok", number, reference.name, len(points)))
    for call in sorted(ends):
        print("#   %-18s %s" % (call, ", ".join(
            "exit %s: %d" % end for end in sorted(ends[call].items(),
                                                  key=str))))
    for problem in problems[:PROBLEMS_MOST]:
        print("# " + problem.replace("\n", "\n#   "))
    sys.stdout.flush()
    return not problems


