"""Readers that never pause, beside a recording: how large the log becomes.

usage: readers.py BIN [--seconds S] [--steady N] [--short N] [--layers L]
                  [--heads H] [--hertz F] [--most MIB]

Records as fast as --hertz says while --steady processes run entropy-scan on the
file again and again, as many as the processors can take, and --short further
ones start one after another in that time. Prints how large the write-ahead log
was at most, and exits 1 if that is more than --most MiB, if a reader failed, or
if a step is missing in the end.
"""
import argparse
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "hooks/python"))
from entropyscan import _library  # noqa: E402

STEADY = [["--json"], ["export", "-o", "/dev/null"], []]


def look(scan, path, command, failures):
    """Runs a reader once; the first lines of one that failed are kept."""
    verb, options = (command[:1], command[1:]) if command[:1] == ["export"] \
        else ([], command)
    done = subprocess.run([scan, *verb, path, *options], text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode not in (0, 1):
        failures.append((done.returncode, done.stderr.strip()[:200]))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("bin")
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--steady", type=int, default=20)
    options.add_argument("--short", type=int, default=1000)
    options.add_argument("--layers", type=int, default=24)
    options.add_argument("--heads", type=int, default=16)
    options.add_argument("--hertz", type=float, default=1000)
    options.add_argument("--most", type=float, default=32)
    given = options.parse_args()
    scan = os.path.join(given.bin, "entropy-scan")
    failures, ended, n_read = [], threading.Event(), [0, 0]

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.db")
        recorder = _library.Recorder(path, {
            "uuid": str(uuid.uuid4()), "n_layer": given.layers,
            "n_head": given.heads})
        entropy = recorder.series("entropy", "head", "train", "nats")
        loss = recorder.series("loss", "run", "train", None)

        def begin():
            while subprocess.run([scan, "-q", path], stderr=subprocess.DEVNULL,
                                 ).returncode == 3:  # no sample yet
                pass
            for thread in threads:
                thread.start()

        def steady(n):
            while not ended.is_set():
                look(scan, path, STEADY[n % len(STEADY)], failures)
                n_read[0] += 1

        def short():
            while not ended.is_set() and n_read[1] < given.short:
                look(scan, path, ["--quiet"], failures)
                n_read[1] += 1
                ended.wait(0.8 * given.seconds / given.short)

        threads = [threading.Thread(target=steady, args=[n])
                   for n in range(given.steady)]
        threads += [threading.Thread(target=short)] if given.short else []
        values = np.random.default_rng(1).random(
            given.layers * given.heads).astype(np.float32)
        start, step, largest = time.monotonic(), 0, 0
        first = threading.Thread(target=begin)
        first.start()
        while time.monotonic() - start < given.seconds:
            recorder.push(entropy, step, values)
            recorder.push(loss, step, values[:1])
            step += 1
            if step % 50 == 0 and os.path.exists(path + "-wal"):
                largest = max(largest, os.path.getsize(path + "-wal"))
            time.sleep(max(0, start + step / given.hertz - time.monotonic()))
        ended.set()
        first.join()
        for thread in threads:
            thread.join()
        report = recorder.close("finished")
        with sqlite3.connect(path) as file:
            n_stored, = file.execute("SELECT count(*) FROM sample").fetchone()
        size = os.path.getsize(path)

    print("%d steady and %d short readers read %d and %d times in %.0f s: %d "
          "steps, a file of %.0f MiB, a log of at most %.1f MiB; close: %s"
          % (given.steady, given.short, *n_read, given.seconds, step,
             size / 2**20, largest / 2**20, report))
    for code, message in failures[:10]:
        print("a reader failed (exit %d): %s" % (code, message))
    if n_stored != 2 * step:
        print("%d of %d samples are in the file" % (n_stored, 2 * step))
    return bool(failures or n_stored != 2 * step or
                largest > given.most * 2**20)


if __name__ == "__main__":
    sys.exit(main())
