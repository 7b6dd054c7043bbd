"""Makes each system call, or each allocation, of a program fail in turn and checks the result.
Prints TAP, one line per command.

usage: tests/soak/faults.py BIN [--kind KIND,...] [--points N] [--seed S]
                            [--only COMMAND]

KIND is calls, allocations, descriptors or sizes (limits on open files and on the size
of a file), disks (with few free KiB), or clocks (the time of day jumps).

A command that exits with 0 must have printed and written the same output as
without a fault. A command that failed must print a one-line message, exit with
3 or 4, leave only complete files, and print no number that it does not print
without a fault. strace makes system calls fail, and alloc_shim.c makes allocations fail: either a
single call, or this call and all later calls of its kind. recording_faults.py contains the
scenarios that train.
"""
import argparse
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile

import fault_points
import recording_faults
from fault_points import ALLOCATION, JOBS, Place, Scenario, sweep, tree

KINDS = ["calls", "allocations", "descriptors", "sizes", "disks", "clocks"]

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
    "import": ["import", "a.csv", "-q", "-o", "i.db"],
    "watch": ["watch", "--once", "runs", "--state=s.state"],
}
SCRATCH = {"watch": ["s.state", "s.state-journal", "s.state-wal",
                     "s.state-shm"]}


# --- the runs ---------------------------------------------------------------

def long_csv(path, name, n_layer, n_head, steps, high, status):
    """Writes a CSV file with entropies below `high`; the last steps have a
    collapse, a NaN and a growing logit.
    """
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


def leave_log(path):
    """Leaves the last transaction in the write-ahead log, and the log's index
    file, like a killed writer.
    """
    subprocess.run([sys.executable, "-c", """if True:
        import os, sqlite3, sys
        file = sqlite3.connect(sys.argv[1])
        file.execute("PRAGMA journal_mode=WAL")
        file.execute("UPDATE run SET arch = 'from the log'")
        file.execute("DELETE FROM row_checksum")
        file.commit()
        os._exit(0)""", path], check=True)


def make_inputs(scan, home):
    folder = os.path.join(home, "runs")
    os.makedirs(folder)
    long_csv(os.path.join(home, "a.csv"), "a", 3, 4, 8, 4.1, "finished")
    for name, shape, steps, high, status in [
            ("a", (3, 4), 8, 4.1, "finished"), ("b", (2, 6), 6, 1.9, "running")]:
        text = os.path.join(folder, name + ".csv")
        long_csv(text, name, *shape, steps, high, status)
        subprocess.run([scan, "import", "-q", text, "-o", text[:-3] + "db"],
                       check=True)
        os.remove(text)
    leave_log(os.path.join(folder, "b.db"))


# --- judgement ----------------------------------------------------------------

def shown(result):
    """Returns the printed lines without the blanks that depend on column
    widths."""
    return {b" ".join(line.split()) for line in result.out.splitlines()}


class Reading(Scenario):
    """A command that reads two runs. Stores its results without a fault, for both runs
    together and for each run alone."""

    def __init__(self, place, name):
        self.name, self.arguments = name, COMMANDS[name]
        self.begins = "runs" if name != "import" else "a.csv"
        self.scratch = set(SCRATCH.get(name, []))
        self.reads_both = bool({"runs", *BOTH} & set(self.arguments))
        self.whole = self.of(place, self.arguments)
        again = self.of(place, self.arguments)
        assert self.whole == again, name + " is not the same twice"
        self.outs = shown(self.whole)
        self.files = [self.whole.files]
        for one in BOTH if self.reads_both else []:
            alone = self.of(place, self.with_runs([one]))
            self.outs |= shown(alone)
            self.files.append(alone.files)
        if self.arguments[:2] == BOTH:
            self.outs |= shown(self.of(place, self.with_runs(["no.db"]), 3))

    def with_runs(self, paths):
        """Returns the command line with these runs in place of the two original runs."""
        given = self.arguments
        places = [i for i, a in enumerate(given) if a in ["runs", *BOTH]]
        rest = [a for i, a in enumerate(given) if i not in places]
        return rest[:places[0]] + paths + rest[places[0]:]

    def of(self, place, arguments, code=0):
        result = place.run(arguments)
        place.clear(result.files)
        assert result.code == code, (arguments, result)
        return result._replace(files=self.new_files(place, result.files))

    def new_files(self, place, files):
        return {k: v for k, v in files.items()
                if k not in place.inputs and k not in self.scratch}


    def try_point(self, place, point):
        result = place.run(self.arguments, fault_points.failing(point, self))
        why = judge(self, place, result, point)
        if not why and self.name == "watch" and result.code:
            why = self.rerun(place, result)
        place.clear(tree(place.folder))
        return point, result.code, why

    def rerun(self, place, result):
        """Runs the watcher again and checks that it reports the alerts that
        the failed watcher did not report.
        """
        place.make_roomy()
        again = place.run(self.arguments)
        reported = shown(result) | shown(again)
        if again.code == 0 and self.outs <= reported:
            return ""
        return "the next one: exit %s, and not reported: %s %s" % (
            again.code, self.outs - reported, again.err)


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
        elif name.startswith("all/"):  # any of the runs may be missing from it
            if not new[name].rstrip().endswith(b"</svg>"):
                return "left a part of " + name
        elif not any(new[name] == whole.get(name)
                     for whole in reference.files):
            return "left a part of " + name
    return ""


def judge(reference, place, result, point):
    """Returns the reason why the result is not permitted, or "" if it is
    permitted."""
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
    is_lost = point[0] == "write" and point[3]  # the message cannot be written either
    if not is_lost and (not lines or not all(
            re.match("entropy-scan: .*[a-z]", line) for line in lines)):
        return "exit %d, without a message: %s" % (result.code, result.err)
    each_fails = reference.name == "all figures" or (
        point[0] == ALLOCATION and point[3])  # each figure or process prints the message
    if len(set(lines)) != len(lines) and not each_fails:
        return "a message comes twice: " + result.err
    if not fault_points.gives_reason(result, point):
        return "exit %d, and another reason: %s" % (result.code, result.err)
    strange = shown(result) - reference.outs
    if strange and point[0] != "write":
        return "exit %d, and shows %s" % (result.code, strange.pop()[:200])
    return judge_files(reference, place, result, point)


def can_be_tried(kind, bin):
    """Returns true if faults of this kind are possible here: strace may be
    forbidden, and a sanitizer permits no preloaded library.
    """
    command = {"calls": ["strace", "-f", "--seccomp-bpf", "-qq", "-o",
                         "/dev/null", "-e", "trace=none"],
               "allocations": ["env", "LD_PRELOAD=" + fault_points.SHIM],
               "clocks": ["env", "LD_PRELOAD=" + fault_points.CLOCK_SHIM]}
    try:
        return subprocess.run(
            [*command.get(kind, []), os.path.join(bin, "entropy-scan"),
             "--version"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--kind", default="calls")
    parser.add_argument("--points", type=int, default=0)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only")
    given = parser.parse_args()
    if given.points:
        print("# ES_SEED=" + given.seed)
    scenarios = {**{name: Reading for name in COMMANDS},
                 **recording_faults.SCENARIOS}
    bin = os.path.abspath(given.bin)
    fault_points.SHIM = os.path.join(bin, "tests/alloc_shim.so")
    fault_points.CLOCK_SHIM = os.path.join(bin, "tests/clock_shim.so")
    # Ignore the user's settings, and disable the leak checker, which does not
    # work under strace.
    os.environ.update(LC_ALL="C", ASAN_OPTIONS="detect_leaks=0")
    kinds = given.kind.split(",")
    unknown = set(kinds) - set(KINDS)
    if unknown:
        parser.error("unknown kind: " + unknown.pop())
    kinds = [kind for kind in kinds if can_be_tried(kind, bin)]
    if not kinds:
        print("soak: skipped: no strace, or it may not trace here")
        return 0
    names = [given.only] if given.only else list(scenarios)
    good, tried = True, 0
    with tempfile.TemporaryDirectory() as home:
        inputs = os.path.join(home, "inputs")
        make_inputs(os.path.join(bin, "entropy-scan"), inputs)
        recording_faults.make_inputs(bin, inputs)
        places = [Place(bin, inputs, home, "disks" in kinds)
                  for _ in range(JOBS)]
        for number, name in enumerate(names, 1):
            reference = scenarios[name](places[0], name)
            points = []
            for kind in kinds:
                found = getattr(reference, kind)(places[0])
                if given.points:
                    some = random.Random(given.seed + name + kind)
                    found = some.sample(found, min(
                        len(found), given.points // len(names) // len(kinds)))
                points += found
            good = sweep(number, reference, places, points) and good
            tried += len(points)
        for place in places:
            place.leave()
    print("1..%d" % len(names))
    print("soak: %d faults" % tried)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
