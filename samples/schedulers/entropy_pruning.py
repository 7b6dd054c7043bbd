"""Prunes trials of Optuna whose attention heads collapse or become NaN.

Copy this file into your project. If training runs in the same process and records into
a run file, use a callback, which may be called at every step:

    prune = EntropyPruning(trial, "trial-7.db")
    for step in range(steps):
        ...
        prune()                             # may raise optuna.TrialPruned

train() starts and monitors a training program in a separate process:

    run = train(trial, ["entropy-train", ..., "--out", path], path)
    return run["eval_loss"]

Runs are checked in the same way as by `entropy-scan RUN.db --check`; you can pass your
own rules (`entropy-scan rules`). The reason why a trial was pruned is stored in the
trial's attributes entropy_alert, entropy_onset, entropy_step and entropy_run.
"""
import contextlib
import json
import os
import shutil
import subprocess
import time

import optuna

SEVERITIES = ("info", "warning", "error", "critical")


class EntropyPruning:
    """Prunes `trial` once a flag of `severity` or above is active in `run`.

    Checks the run at most once in `every` seconds; `scan` is the program to run."""

    def __init__(self, trial, run, severity="critical", rules=None, every=1.0,
                 scan="entropy-scan"):
        self.trial, self.run, self.every = trial, os.fspath(run), every
        self.severities = SEVERITIES[SEVERITIES.index(severity):]
        if not shutil.which(scan):
            raise RuntimeError(f"{scan}: program not found: build it with `make "
                               "programs` and add build/ to PATH, or pass its "
                               "path as scan=FILE")
        # Pass an absolute path, so that a run called -x.db is not read as an option.
        self.command = [scan, "--check", "--json", os.path.abspath(run)]
        self.command += ["--rules", os.fspath(rules)] if rules else []
        self.next = 0.0

    def __call__(self):
        if time.monotonic() >= self.next:
            self.look()
            self.next = time.monotonic() + self.every

    def look(self, last=False):
        """Checks the run now: raises optuna.TrialPruned, or returns the run as in
        `entropy-scan --json`, or None if there is no sample yet. With `last`, which is
        set after the run has ended, a run without samples raises RuntimeError."""
        run = self._ask(last)
        flags = [flag for flag in run["flags"] if flag["stands"]
                 and flag["severity"] in self.severities] if run else []
        if flags:
            self._prune(run, min(flags, key=lambda flag: flag["onset"]))
        return run

    def _ask(self, last):
        done = subprocess.run(self.command, capture_output=True, text=True)
        if done.returncode in (0, 1):  # 1: a flag stands
            return json.loads(done.stdout)["runs"][-1]
        if last or done.returncode == 2:  # otherwise there is no sample yet
            raise RuntimeError(done.stderr.strip())
        return None

    def _prune(self, run, flag):
        reason = "{kind} since step {onset} ({severity})".format(**flag)
        for key, value in (("alert", reason), ("onset", flag["onset"]),
                           ("step", run["step"]), ("run", self.run)):
            self.trial.set_user_attr("entropy_" + key, value)
        raise optuna.TrialPruned(reason)


def train(trial, command, run, grace=30.0, **options):
    """Runs `command`, which records into `run`. Returns the run after the command has
    ended, as in `entropy-scan --json`.

    Checks the run like EntropyPruning(trial, run, **options). If the trial is pruned,
    makes the command stop through the file RUN.stop, terminates it if it still runs
    after `grace` seconds, and raises optuna.TrialPruned. Raises RuntimeError with the
    last lines of output if the command fails by itself."""
    if os.path.exists(run):
        raise RuntimeError(f"{run}: already exists")
    prune = EntropyPruning(trial, run, **options)
    with open(f"{run}.log", "w+", encoding="utf-8", errors="replace") as log:
        training = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            while training.poll() is None:
                prune()
                time.sleep(0.1)
            done = training.returncode == 0
            ended = prune.look(last=done)
            if done:
                return ended
        except optuna.TrialPruned as pruned:
            _ask_to_stop(training, run, str(pruned), grace)
            raise
        finally:
            _end(training, grace)
        log.seek(0)
        raise RuntimeError("".join(log.readlines()[-5:]).strip() or
                           f"{command[0]}: exit code {training.returncode}")


def _ask_to_stop(training, run, reason, grace):
    """Creates the file that makes the recorder stop the training run. An existing file
    is replaced, even if it is a link or a FIFO; it is never opened for writing."""
    if training.poll() is None:
        aside = f"{run}.stop-{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            os.remove(aside)
        with open(aside, "x", encoding="utf-8") as request:
            request.write(reason + "\n")
        os.replace(aside, f"{run}.stop")
        with contextlib.suppress(subprocess.TimeoutExpired):
            training.wait(grace)
        with contextlib.suppress(FileNotFoundError):
            os.remove(f"{run}.stop")


def _end(training, grace):
    """Terminates a training process that is still running, but lets it close its run
    first."""
    if training.poll() is None:
        training.terminate()
        try:
            training.wait(grace)
        except subprocess.TimeoutExpired:
            training.kill()
            training.wait()
