"""Defines the scenarios of faults.py in which runs are recorded: training runs, one of
which is resumed, and a sweep of two runs. In each, a system call of the trainer, the
recorder or the sweep fails.

If the recording fails, training still ends with the same losses as without a
fault, to the last digit. The recorded samples are a part of the samples of an
undisturbed run, and complete if the exit code is 0; otherwise a message says
what is missing. The next sweep completes a sweep that failed.
"""
import glob
import os
import re
import sqlite3
import subprocess

import fault_points
from fault_points import Scenario, tree

MODEL = {"n-layer": 2, "n-head": 2, "d-model": 16, "ctx": 16, "batch": 2,
         "eval-batches": 1}
STEPS, HALF = 8, 4
TRAINING = [*("--%s=%s" % pair for pair in MODEL.items()), "--threads=1",
            "--record-every=1", "--eval-every=5", "--log-every=1",
            "--data=corpus.tok"]
WHOLE = [*TRAINING, "--steps=%d" % STEPS]

SWEEP = """[sweep]
arch = SM+LN+G
seed = 1 2
data = corpus.tok
[train]
steps = %d
threads = 1
""" % STEPS + "".join("%s = %s\n" % pair for pair in MODEL.items())

# oneDNN is excluded, as it crashes when memory runs out.
os.environ["ENTROPY_TRAIN_ONEDNN"] = "/none"

# This script starts the recorder with $FAULT in front of its command line, which
# makes its calls fail.
RECORDER = """#!/bin/sh
exec $FAULT "$RECORDER" "$@"
"""


def make_inputs(bin, folder):
    with open(os.path.join(folder, "sweep.ini"), "w") as out:
        out.write(SWEEP)
    with open(os.path.join(folder, "recorder.sh"), "w") as out:
        out.write(RECORDER)
    os.chmod(out.name, 0o755)
    os.mkdir(os.path.join(folder, "source"))
    for i in range(40):
        with open(os.path.join(folder, "source/m%d.py" % i), "w") as out:
            out.writelines("x = %d\n" % j for j in range(i * 7, i * 13))
    for command in [
            ["entropy-corpus", "-q", "-o", "corpus.tok", "source"],
            ["entropy-train", *TRAINING, "--steps=%d" % STEPS, "-o", "half.db",
             "--checkpoint=ck", "--checkpoint-every=%d" % HALF]]:
        subprocess.run([os.path.join(bin, command[0]), *command[1:]],
                       cwd=folder, check=True, capture_output=True)
    os.remove(os.path.join(folder, "ck/half-%08d.safetensors" % STEPS))


# --- the record of a training -------------------------------------------------

def samples(path):
    with sqlite3.connect(path) as file:
        return set(file.execute(
            "SELECT uuid = '', phase, s.name, step, hex(value) FROM sample"
            " JOIN series AS s USING (series_id) JOIN run USING (run_id)"
            " WHERE s.name <> 'tokens_per_s'"))


def recorded(place, path):
    """Returns the samples of a run file or fragment; (None, why) if it is
    damaged.
    """
    place.make_roomy()
    full = os.path.join(place.folder, path)
    if not os.path.exists(full) or os.path.getsize(full) == 0:
        return set(), ""
    if path.endswith(".esf"):
        ended = place.run(["merge", path, "-o", "merged.db", "-q"])
        if ended.code:
            return set(), ended.err
        full = os.path.join(place.folder, "merged.db")
    try:
        return samples(full), ""
    except sqlite3.Error as error:
        return None, str(error)


def result_of(result):
    """Returns the trainer's last line without the speed."""
    return re.sub(r", [0-9]+ tokens.*", "", result.out.decode())


def losses(result):
    return [re.sub(r" [0-9.]+ tokens.*", "", line)
            for line in result.err.splitlines() if line.startswith("step ")]


def judge_recorded(want, got, why, code):
    if got is None:
        return "the file is damaged: " + why
    if got - want:
        return "recorded other values: %s" % sorted(got - want)[:2]
    if code == 0 and got != want:
        return "exit 0, and %d of %d samples" % (len(got), len(want))
    return ""


# --- trainings -------------------------------------------------------------------

class Training(Scenario):
    """Makes system calls of the trainer process fail, one call per run, beginning with
    the first call whose arguments contain the name of the data file.
    """
    program = "entropy-train"
    begins = "corpus.tok"
    follow = False
    file = "run.db"
    extra = []

    def __init__(self, place, name):
        self.name = name
        self.arguments = [*WHOLE, *self.extra, "-o", self.file]
        self.whole = self.run(place)
        assert self.whole.code == 0, self.whole
        self.samples = recorded(place, self.file)[0]
        assert len(self.samples) > 10 * STEPS, self.samples
        place.clear(tree(place.folder))

    def run(self, place, before=()):
        return place.run(self.arguments, before, self.program)

    def try_point(self, place, point):
        before = fault_points.failing(point, self)
        result = self.run(place, before)
        why = self.judge(place, result, point)
        place.clear(tree(place.folder))
        return point, result.code, why

    def judge(self, place, result, point):
        if result.code is None:
            return "did not end"
        if result.code < 0 or result.code > 127:
            return "ended by a signal: " + result.err[-300:]
        if result.code not in (0, 3):
            return "exit %d: %s" % (result.code, result.err[-300:])
        if result.code and not re.search("^entropy-train: .*[a-z]", result.err,
                                         re.M) and point[0] != "write":
            return "exit %d, without a message: %s" % (result.code, result.err)
        no_check = point[0] == fault_points.ALLOCATION and not point[3]
        if result.code == 3 and not fault_points.gives_reason(result, point):
            return "another reason: " + result.err[-300:]
        if result.out and result_of(result) != result_of(self.whole) and not (
                no_check and self.is_near(result)):
            return "another result: " + result_of(result)
        steps = losses(result)
        if steps != losses(self.whole)[:len(steps)] and point[0] != "write":
            return "other losses: %s" % steps
        if steps and not result.out and self.must_go_on(point):
            return "the training has ended early: " + result.err[-300:]
        got, why = recorded(place, self.file)
        if no_check and got and self.is_near(result):
            got = {found for found in self.samples
                   if found[:4] in {sample[:4] for sample in got}}
        return judge_recorded(self.samples, got, why, result.code)

    def is_near(self, result):
        """Compares the results without their last digits, which may differ: if the
        trainer has no memory to check its fast kernels, it uses the plain kernels."""
        return [word[:6] for word in result_of(result).split()] == [
            word[:6] for word in result_of(self.whole).split()]

    def must_go_on(self, point):
        """Returns true if training must continue despite the fault. After the first
        step, this is required for all faults except those in writing to standard
        output, in reading the data, and in allocating memory for the next step."""
        return point[0] not in ("write", "pread64", fault_points.ALLOCATION)


class Recorder(Training):
    """Makes system calls of the recorder process fail, one call per run, beginning with
    the first call whose arguments contain the name of the run file.
    """
    counted = "entropy-recorder"
    begins = "run"
    follow = True
    daemon = True

    def run(self, place, before=()):
        env = dict(os.environ, FAULT="" if place.is_small else " ".join(before),
                   RECORDER=os.path.join(place.bin, "entropy-recorder"),
                   ENTROPY_RECORDER=os.path.join(place.folder, "recorder.sh"))
        of_disk = list(before) if place.is_small else []
        return place.run(self.arguments, of_disk, self.program, env)

    def must_go_on(self, point):
        return True


class Fragment(Recorder):
    file = "run.esf"
    extra = ["--store=fragment"]


class Resumed(Training):
    """The second half of a training run, recorded into the file of the first
    half."""
    file = "half.db"

    def __init__(self, place, name):
        super().__init__(place, name)
        self.arguments = ["--resume=ck", "-o", "half.db", "--log-every=1",
                          "--threads=1"]
        self.whole = self.run(place)
        assert self.whole.code == 0, self.whole
        self.samples = recorded(place, self.file)[0]
        place.restore()
        self.begins = "ck"


class Sweep(Scenario):
    """System calls of `entropy-scan sweep` itself fail; the training processes
    that it starts are not disturbed.
    """
    program = "entropy-scan"
    begins = "sweep.ini"
    follow = False
    arguments = ["sweep", "sweep.ini", "-o", "sw", "-j", "1"]

    def __init__(self, place, name):
        self.name = name
        result = place.run(self.arguments)
        assert result.code == 0, result
        self.files = self.recorded(place)
        assert len(self.files) == 2, self.files
        place.restore()

    def recorded(self, place):
        return {os.path.basename(path): recorded(place, path)
                for path in glob.glob(os.path.join(place.folder, "sw/*.db"))}

    def try_point(self, place, point):
        result = place.run(self.arguments, fault_points.failing(point, self))
        why = self.judge(place, result, point)
        if not why and result.code:
            place.make_roomy()
            again = place.run(self.arguments)
            why = self.judge(place, again, point)
            if again.code:
                why = "the next one: exit %s: %s" % (again.code, again.err)
        place.restore()
        return point, result.code, why

    def judge(self, place, result, point):
        if result.code is None:
            return "did not end"
        if result.code not in (0, 3, 4):
            return "exit %d: %s" % (result.code, result.err[-300:])
        is_lost = point[0] == "write" and point[3]  # the message fails as well
        if result.code and not is_lost and not re.search(
                "^entropy-scan: .*[a-z]", result.err, re.M):
            return "exit %d, without a message: %s" % (result.code, result.err)
        if not fault_points.gives_reason(result, point):
            return "another reason: " + result.err[-300:]
        if result.code == 0 and self.recorded(place) != self.files:
            return "exit 0, and other runs"
        return ""


SCENARIOS = {"training": Training, "recorder of a training": Recorder,
             "recorder of a fragment": Fragment, "resumed training": Resumed,
             "sweep": Sweep}
