"""Prunes trials of Optuna whose attention heads collapse or turn NaN.

Copy this file beside yours. A training in the same process that records into
a run file gets a callback, to be called as often as one likes:

    prune = EntropyPruning(trial, "trial-7.db")
    for step in range(steps):
        ...
        prune()                             # may raise optuna.TrialPruned

A training that is a program of its own is started and looked after:

    run = train(trial, ["entropy-train", ..., "--out", path], path)
    return run["eval_loss"]

entropy-scan judges, as in `entropy-scan RUN.db --check`; rules of your own
(`entropy-scan rules`) are passed on. The study keeps why a trial was pruned in
its attributes entropy_alert, entropy_onset, entropy_step and entropy_run.
"""
import contextlib
import json
import os
import shutil
import subprocess
import time

import optuna

SEVERITIES = ("info", "warning", "error", "critical")
FORECAST = {"warning": "--forecast", "stop": "--forecast=stop"}


class EntropyPruning:
    """Prunes `trial` once a flag of `severity` or above stands in `run`.

    Looks every `every` seconds at most; `scan` is the program to run.
    forecast: "warning" or "stop": the early warning prunes, too, by the
    threshold that entropy-scan warns or stops at."""

    def __init__(self, trial, run, severity="critical", rules=None, every=1.0,
                 forecast=None, scan="entropy-scan"):
        self.trial, self.run, self.every = trial, os.fspath(run), every
        self.severities = SEVERITIES[SEVERITIES.index(severity):]
        if not shutil.which(scan):
            raise RuntimeError(f"{scan}: no such program: build it with `make "
                               "programs` and add build/ to PATH, or say where "
                               "it is: scan=FILE")
        # A run called -x.db is no option.
        self.command = [scan, "--check", "--json", os.path.abspath(run)]
        self.command += ["--rules", os.fspath(rules)] if rules else []
        self.forecast = forecast
        if forecast:
            self.command.append(FORECAST[forecast])
        self.next = 0.0

    def __call__(self):
        if time.monotonic() >= self.next:
            self.look()
            self.next = time.monotonic() + self.every

    def look(self, last=False):
        """Looks now: raises optuna.TrialPruned, or returns the run as
        `entropy-scan --json` shows it, None if there is nothing to see yet.
        At the `last` look, after the training, that is a RuntimeError."""
        run = self._ask(last)
        flags = [flag for flag in run["flags"] if flag["stands"]
                 and (flag["severity"] in self.severities or
                      self.forecast and flag["kind"] == "forecast")
                 ] if run else []
        if flags:
            self._prune(run, min(flags, key=lambda flag: flag["onset"]))
        return run

    def _ask(self, last):
        done = subprocess.run(self.command, capture_output=True, text=True)
        if done.returncode in (0, 1):  # 1: a flag stands
            return json.loads(done.stdout)["runs"][-1]
        if last or done.returncode == 2:  # else there is no sample yet
            raise RuntimeError(done.stderr.strip())
        return None

    def _prune(self, run, flag):
        reason = "{kind} since step {onset} ({severity})".format(**flag)
        for key, value in (("alert", reason), ("onset", flag["onset"]),
                           ("step", run["step"]), ("run", self.run)):
            self.trial.set_user_attr("entropy_" + key, value)
        raise optuna.TrialPruned(reason)


def train(trial, command, run, grace=30.0, **options):
    """Runs `command`, which records into `run`; returns the run at its end.

    Raises optuna.TrialPruned as EntropyPruning(trial, run, **options) does:
    the training is requested to stop, and ended if it has not in `grace`
    seconds; RuntimeError with its last words if it fails by itself."""
    if os.path.exists(run):
        raise RuntimeError(f"{run}: is there already")
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
    """Its recorder finds the file, and stops the training. What lies there, a
    link or a FIFO too, is replaced, never written through."""
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
    """Ends what is still at work, gently: the run is closed."""
    if training.poll() is None:
        training.terminate()
        try:
            training.wait(grace)
        except subprocess.TimeoutExpired:
            training.kill()
            training.wait()
