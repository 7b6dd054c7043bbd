"""Trains runs, several at a time, and keeps the finished ones.

Used by replicate.py and thresholds.py. A run is a name with options of entropy-train. In
the folder, NAME.db is the run file, and NAME.done contains the settings and the data
checksum of a finished run. A run is trained again from its beginning if NAME.done does
not exist, because the run was killed, or if its settings have changed. Uses only
Python's standard library.
"""
import concurrent.futures
import fcntl
import hashlib
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field


class Refused(Exception):
    """Raised with an error message of one line that includes the remedy."""


@dataclass
class Run:
    name: str
    options: dict = field(default_factory=dict)

    def arguments(self):
        return [f"--{key}" if value is True else f"--{key}={value}"
                for key, value in self.options.items()]


class Trainer:
    """Runs entropy-train with one thread per run, in a folder."""

    def __init__(self, build, folder, data, workers=2, nice=19):
        self.program = os.path.join(build, "entropy-train")
        self.folder, self.data = folder, data
        self.workers, self.nice = workers, nice
        self.checksum = data_checksum(data)
        self.processes, self.lock, self.stopped = set(), threading.Lock(), False

    def path(self, run, ending):
        return os.path.join(self.folder, run.name + ending)

    def command(self, run):
        return [self.program, *run.arguments(), f"--data={self.data}",
                f"--name={run.name}", "--threads=1"]

    def settings(self, run):
        """Returns the identity of a run: its resolved settings and the checksum of its
        data."""
        said = subprocess.run([*self.command(run), "--no-record", "--dry-run"],
                              capture_output=True, text=True, env=environment())
        if said.returncode:
            raise Refused(f"{run.name}: {last_line(said.stderr)}")
        lines = [line for line in said.stdout.splitlines()
                 if not line.startswith(("data = ", "own kernels", "products:"))]
        return "\n".join([*lines, f"# data: {self.checksum}", ""])

    def is_done(self, run, settings=None):
        try:
            with open(self.path(run, ".done"), encoding="utf-8") as file:
                return (os.path.exists(self.path(run, ".db")) and
                        file.read() == (settings or self.settings(run)))
        except FileNotFoundError:
            return False

    def train(self, run):
        """Trains a run. Returns False if the run was already finished."""
        settings = self.settings(run)
        if self.is_done(run, settings):
            return False
        for ending in (".done", ".db", ".db-wal", ".db-shm", ".db-journal"):
            remove(self.path(run, ending))
        with open(self.path(run, ".log"), "w", encoding="utf-8") as log:
            code = self.wait([*self.command(run), "-o", self.path(run, ".db")], log)
        # Exit code 1 means that the loss is no longer finite, which is a valid result.
        if code not in (0, 1):
            with open(self.path(run, ".log"), encoding="utf-8", errors="replace") as log:
                raise Refused(f"{run.name}: {last_line(log.read())} (exit code {code}): "
                              "finished runs are kept; run the same command again to continue")
        new = self.path(run, ".done.new")
        with open(new, "w", encoding="utf-8") as file:
            file.write(settings)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path(run, ".done"))
        return True

    def wait(self, command, log):
        with self.lock:
            if self.stopped:
                return -15
            process = subprocess.Popen(["nice", "-n", str(self.nice), *command],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       env=environment(), pass_fds=[self.held])
            self.processes.add(process)
        code = process.wait()
        with self.lock:
            self.processes.discard(process)
        return code

    def train_all(self, runs, say=lambda line: print(line, file=sys.stderr)):
        """Trains all runs. Stops at the first run that cannot be trained."""
        repeated = {run.name for run in runs
                    if sum(other.name == run.name for other in runs) > 1}
        if repeated:
            raise Refused(f"{sorted(repeated)[0]}: two runs have this name")
        self.hold()
        pool = concurrent.futures.ThreadPoolExecutor(self.workers)
        futures = {pool.submit(self.train, run): run for run in runs}
        try:
            for n, future in enumerate(concurrent.futures.as_completed(futures), 1):
                if future.result():
                    say(f"{n}/{len(runs)} {futures[future].name}")
        except BaseException:
            self.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
            os.close(self.held)

    def hold(self):
        """Locks the folder. The training processes inherit the lock, because
        they outlive a killed parent process."""
        os.makedirs(self.folder, exist_ok=True)
        self.held = os.open(os.path.join(self.folder, "lock"), os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self.held)
            raise Refused(f"{self.folder}: another process trains there, or a killed process has "
                          "left a training process running: wait for it, or kill it") from None

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.processes:
                process.terminate()


def environment():
    """Returns the environment variables of a training process. They make
    OpenBLAS use one thread. OPENBLAS_CORETYPE is removed, because kernels for
    another processor would round differently."""
    mine = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C"}
    mine.pop("OPENBLAS_CORETYPE", None)
    return mine


def data_checksum(path):
    """Returns the SHA-256 of a token file."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}: make it with samples/corpus/debian.sh "
                      "--list samples/truth/corpus.list") from None


def last_line(text):
    return ([line for line in text.splitlines() if line.strip()] or ["it printed nothing"])[-1]


def remove(path):
    try:
        os.remove(path)
    except FileNotFoundError:
        pass
