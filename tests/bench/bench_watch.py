#!/usr/bin/env python3
"""Measures how much a watcher slows down the training run that it watches.

usage: tests/bench/bench_watch.py [PAIRS [STEPS]]

Trains the same small model repeatedly and records every step, alternately with and
without a process `entropy-scan watch --rules` on the run's folder. Prints the medians
of the ratios of the times with 95 % confidence intervals, which are computed from the
quartiles, and the CPU time of the watcher.
"""
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

RULES = """
[rule high]
series = max_logit
above = 1 history
severity = info
[rule layer]
series = entropy
aggregate = layer_mean
below = 0.5 history
samples = 5
severity = error
"""
MODEL = ("--arch SM+LN+G --n-layer 4 --n-head 4 --d-model 64 --ctx 64 "
         "--batch 4 --threads 1 --record-every 1 --eval-every 0").split()


def train(program, folder, steps):
    """Returns CPU and wall seconds of one training run; the CPU seconds
    exclude its recorder.
    """
    path = os.path.join(folder, "run.db")
    command = [program, *MODEL, "--steps", str(steps), "--data", "x.tok",
               "-o", path]
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.monotonic() - start
    child.returncode = status
    assert status == 0, status
    os.remove(path)
    return usage.ru_utime + usage.ru_stime, wall


def watched(scan, train_once):
    """Returns CPU and wall seconds of a training run that is watched, and the CPU
    seconds of the watcher.
    """
    watcher = subprocess.Popen(
        [scan, "watch", "watched", "--rules", "rules.ini", "--severity",
         "info", "--state", "state.db", "--textfile", "alerts.prom"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists("alerts.prom"):
        time.sleep(0.01)
    cost = train_once()
    watcher.send_signal(signal.SIGTERM)
    _, status, usage = os.wait4(watcher.pid, 0)
    watcher.returncode = status
    os.remove("alerts.prom")
    os.remove("state.db")
    return (*cost, usage.ru_utime + usage.ru_stime)


def report(name, ratios):
    low, middle, high = statistics.quantiles(ratios, n=4)
    sure = 1.57 * (high - low) / len(ratios) ** 0.5
    print(f"{name:<22} {middle:.4f} +- {sure:.4f}   target: 1.005")


def main():
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    build = os.path.abspath(os.environ.get("BUILD", "build"))
    scan, program = f"{build}/entropy-scan", f"{build}/entropy-train"
    sources = os.path.abspath("tests")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run([f"{build}/entropy-corpus", "-q", "-o", "x.tok",
                        sources], check=True)
        with open("rules.ini", "w", encoding="utf-8") as file:
            file.write(RULES)
        os.mkdir("watched")
        os.mkdir("alone")
        cpu, wall, own = [], [], []
        for pair in range(pairs):
            both = [lambda: watched(scan, lambda: train(program, "watched",
                                                        steps)),
                    lambda: train(program, "alone", steps)]
            costs = [None, None]
            for which in ((0, 1) if pair % 2 else (1, 0)):
                costs[which] = both[which]()
            cpu.append(costs[0][0] / costs[1][0])
            wall.append(costs[0][1] / costs[1][1])
            own.append(costs[0][2] / costs[0][1])
        print(f"{pairs} pairs of {steps} steps, recorded every step")
        report("processor time, ratio", cpu)
        report("wall time, ratio", wall)
        print(f"{'the watcher itself':<22} {statistics.median(own):.4f}   "
              "of a core")
        os.chdir("/")


main()
