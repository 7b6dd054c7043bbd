"""Measures how large the write-ahead log becomes while other processes read a
recording without pause.

usage: readers.py BIN [--seconds S] [--steady N] [--short N] [--layers L]
                  [--heads H] [--hertz F] [--most MIB]

Records at the rate --hertz (tests/soak/record.c). Meanwhile --steady processes
run entropy-scan on the file again and again, and --short further processes run
one after another. Prints the largest size of the write-ahead log, and exits
with 1 if it exceeds --most MiB, if a reader failed, or if a frame is missing
at the end.
"""
import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

STEADY = [["--json"], ["export", "-o", "/dev/null"], []]


def look(scan, path, command, failures, ended):
    """Runs a reader once, until the reader or the recording ends; if the
    reader fails, stores the first lines of its message.
    """
    verb, options = (command[:1], command[1:]) if command[:1] == ["export"] \
        else ([], command)
    reader = subprocess.Popen([scan, *verb, path, *options], text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while True:
        try:
            _, message = reader.communicate(timeout=1)
            break
        except subprocess.TimeoutExpired:
            if ended.is_set():
                reader.terminate()
    if reader.returncode not in (0, 1, -signal.SIGTERM):
        failures.append((reader.returncode, message.strip()[:200]))


def has_samples(path):
    try:
        with sqlite3.connect("file:%s?mode=ro" % path, uri=True) as file:
            return file.execute("SELECT count(*) FROM sample").fetchone()[0] > 1
    except sqlite3.Error:
        return False


def size_of(path):
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


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
        recording = subprocess.Popen(
            [os.path.join(given.bin, "tests/record"), path, str(given.layers),
             str(given.heads), str(given.hertz), str(given.seconds)],
            stdout=subprocess.PIPE, text=True, env={
                **os.environ, "ENTROPY_RECORDER":
                os.path.abspath(os.path.join(given.bin, "entropy-recorder"))})

        def steady(n):
            while not ended.is_set():
                look(scan, path, STEADY[n % len(STEADY)], failures, ended)
                n_read[0] += 1

        def short():
            while not ended.is_set() and n_read[1] < given.short:
                look(scan, path, ["--quiet"], failures, ended)
                n_read[1] += 1
                ended.wait(0.5 * given.seconds / given.short)

        threads = [threading.Thread(target=steady, args=[n])
                   for n in range(given.steady)]
        threads += [threading.Thread(target=short)] if given.short else []
        while not has_samples(path) and recording.poll() is None:
            time.sleep(0.01)
        for thread in threads:
            thread.start()
        largest = 0
        while recording.poll() is None:
            largest = max(largest, size_of(path + "-wal"))
            time.sleep(0.02)
        ended.set()
        for thread in threads:
            thread.join()
        pushed, committed = map(int, recording.communicate()[0].split())
        with sqlite3.connect(path) as file:
            n_stored, = file.execute("SELECT count(*) FROM sample").fetchone()
        size = size_of(path)

    print("soak: %d steady readers read %d times, short ones %d times in %.0f s; "
          "file of %.0f MiB, log of at most %.1f MiB"
          % (given.steady, *n_read, given.seconds, size / 2**20,
             largest / 2**20))
    for code, message in failures[:10]:
        print("a reader failed (exit %d): %s" % (code, message))
    if n_stored != pushed:
        print("%d of %d frames are in the file, %d were committed" % (
            n_stored, pushed, committed))
    return bool(failures or n_stored != pushed or recording.returncode or
                largest > given.most * 2**20)


if __name__ == "__main__":
    sys.exit(main())
