"""Kills entropy-train, its recorder or both at random moments, and resumes the
training run.

usage: kills.py BIN

SOAK_COUNT is the number of kills, SOAK_FOLDER the folder of the files, and SOAK_SEED the
seed of the random moments. After each kill, the export of entropy-scan is compared with
that of an undisturbed run: every value is the same, no step before the last one is
missing, and everything that a reader saw before the kill is still there. A killed trainer
loses nothing that it recorded before its last checkpoint. A killed recorder changes no
bit of the last checkpoint. If a training run reaches its end, the whole export is the
same, or reports that something was lost.
"""
import os
import random
import signal
import subprocess
import sys
import time

STEPS = 1500
CHECKPOINT_EVERY = 100
PATIENCE = 60  # seconds
SPEED = "tokens_per_s"  # the only series that differs between runs


def broken(words):
    sys.exit("kills: " + words)


def write_corpus(bin_folder):
    os.mkdir("source")
    for i in range(1, 6):
        with open("source/m%d.py" % i, "w") as out:
            out.writelines("x = %d\n" % n for n in range(7 * i, 130 * i))
    subprocess.run([bin_folder + "/entropy-corpus", "-q", "-o", "c.tok",
                    "source"], check=True)


def training(bin_folder, name, resume=False):
    return subprocess.Popen(
        [bin_folder + "/entropy-train", "--data", "c.tok", "--arch", "SM+LN+G",
         "--n-layer", "2", "--n-head", "2", "--d-model", "8", "--ctx", "8",
         "--batch", "1", "--steps", str(STEPS), "--record-every", "1",
         "--eval-every", "0", "--threads", "1", "-q", "-o", name + ".db",
         "--checkpoint", name, "--checkpoint-every", str(CHECKPOINT_EVERY)]
        if not resume else
        [bin_folder + "/entropy-train", "-q", "-o", name + ".db", "--data",
         "c.tok", "--resume", name, "--checkpoint", name,
         "--checkpoint-every", str(CHECKPOINT_EVERY)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)


# --- the record ---------------------------------------------------------------

def exported(bin_folder, path):
    """Returns the exported lines of each step without the run's number, and
    the exit code; no lines if there is no run yet.
    """
    ended = subprocess.run([bin_folder + "/entropy-scan", "export", path, "-o",
                            "-"], capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 3):
        broken("export: exit %d: %s" % (ended.returncode, ended.stderr))
    steps, speed = {}, None
    for line in ended.stdout.splitlines():
        cells = line.split(",")
        if cells[0] == "step":
            speed = cells.index(SPEED) if SPEED in cells else None
        if cells[0].isdigit():
            if speed is not None:
                cells[speed] = ""
            steps.setdefault(int(cells[0]), []).append(",".join(cells[1:]))
    return steps, ended.returncode


def same_cells(lines, reference):
    """Compares the exported lines of a step, which may lack lines and cells, with the lines
    of the complete step."""
    wanted = {tuple(line.split(",")[:2]): line.split(",") for line in reference}
    return all(cell in ("", wanted[tuple(line.split(",")[:2])][i])
               for line in lines
               for i, cell in enumerate(line.split(",")))


def check(steps, reference, may_miss):
    """Compares the exported lines of each step with the reference. Returns the
    number of steps from the first step up to the first gap."""
    for step, lines in steps.items():
        if step not in reference:
            broken("step %d was never recorded" % step)
        if lines != reference[step] and not (
                same_cells(lines, reference[step]) and
                (step + 1 not in steps or may_miss)):
            broken("step %d: %s instead of %s" % (step, lines,
                                                  reference[step]))
    n = 0
    while n in steps:
        n += 1
    if n < len(steps) and not may_miss:
        broken("step %d of %d is missing, without any report" %
               (n, len(steps)))
    return n


def weights(folder):
    """Returns the data of the last checkpoint without the header, and the
    checkpoint's step.
    """
    names = sorted(name for name in os.listdir(folder)
                   if name.endswith(".safetensors"))
    if not names:
        return b"", 0
    with open(os.path.join(folder, names[-1]), "rb") as file:
        data = file.read()
    return (data[8 + int.from_bytes(data[:8], "little"):],
            int(names[-1].split("-")[-1].split(".")[0]))


# --- killing ------------------------------------------------------------------

def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def await_end(pid):
    until = time.monotonic() + PATIENCE
    while is_alive(pid):
        if time.monotonic() > until:
            broken("the recorder keeps running")
        time.sleep(0.005)


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Attempt:
    """A training run that is killed and resumed until it ends."""

    def __init__(self, bin_folder, reference, last):
        self.bin, self.reference, self.last = bin_folder, reference, last
        self.name, self.gap = "", False
        self.number = 0

    def begin(self):
        self.number += 1
        self.name, self.gap = "r%d" % self.number, False

    def seen(self):
        if not os.path.exists(self.name + ".db"):
            return 0
        steps, _ = exported(self.bin, self.name + ".db")
        return check(steps, self.reference, self.gap)

    def finish(self, process, recorder_died):
        output, _ = process.communicate(timeout=PATIENCE)
        if recorder_died and "before it answered" in output:
            return  # the training had not begun
        numbers, step = weights(self.name)
        if step != STEPS or numbers != self.last:
            broken("the training ended with %d, %s, but its last checkpoint "
                   "differs (step %d)" % (process.returncode, output, step))
        steps, code = exported(self.bin, self.name + ".db")
        check(steps, self.reference, self.gap or recorder_died)
        lost = len(steps) < STEPS
        if lost and not recorder_died and not self.gap:
            broken("%d steps of %d are there" % (len(steps), STEPS))
        if recorder_died and process.returncode == 0 and lost and code == 0:
            broken("steps are lost, and both programs end with 0")

    def round(self, draw):
        resumed = (weights(self.name)[1] if os.path.isdir(self.name)
                          else 0)
        if not resumed:  # use another file, which would otherwise hold two runs
            self.begin()
        before = self.seen()
        process = training(self.bin, self.name, resume=resumed > 0)
        time.sleep(draw.random() * 0.6)
        seen = self.seen() if draw.random() < 0.5 else 0
        if seen <= before:  # a resumed run deletes the steps that it repeats
            seen = min(seen, resumed)
        what = draw.choice(["trainer", "recorder", "both"])
        recorders = children(process.pid)
        if process.poll() is not None:
            self.finish(process, False)
            self.begin()
            return False
        if what != "trainer":
            for pid in recorders:
                kill(pid)
        if what == "recorder":
            self.finish(process, bool(recorders))
            self.begin()
            return bool(recorders)
        kill(process.pid)
        process.communicate()
        for pid in recorders:
            await_end(pid)
        left = self.seen()
        if left < seen:
            broken("%d steps were seen before the kill, %d are left" %
                   (seen, left))
        _, step = weights(self.name) if os.path.isdir(self.name) else (b"", 0)
        if left < step:
            if what == "trainer" and not self.gap:
                broken("the checkpoint is of step %d, %d steps are recorded" %
                       (step, left))
            self.gap = True
        return True


def main():
    bin_folder = os.path.abspath(sys.argv[1])
    count = int(os.environ.get("SOAK_COUNT", "20"))
    draw = random.Random(int(os.environ.get("SOAK_SEED", "1")))
    os.chdir(os.environ["SOAK_FOLDER"])
    write_corpus(bin_folder)
    process = training(bin_folder, "reference")
    output, _ = process.communicate()
    if process.returncode != 0:
        broken(output)
    reference, _ = exported(bin_folder, "reference.db")
    if sorted(reference) != list(range(STEPS)):
        broken("the reference has %d steps" % len(reference))
    attempt = Attempt(bin_folder, reference, weights("reference")[0])
    killed = 0
    while killed < count:
        killed += attempt.round(draw)
    print("soak: %d kills in %d trainings" % (killed, attempt.number))


if __name__ == "__main__":
    main()
