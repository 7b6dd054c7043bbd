#!/usr/bin/env python3
"""Runs the attacks in the table ROWS on the programs.

usage: soak.py [--long] [--only WORD]... [--part N] [--seed S] [--jobs N]
       soak.py --long --report tests/RELIABILITY.md
       soak.py [--long] --list

Prints TAP. The line of each attack reports what ran, how often, and for how many
seconds. The short form takes at most three minutes on two processors and uses the build
of `make check-tests`; the long form takes about two hours and also needs the builds
with sanitizers and with libFuzzer, which `make soak` makes.

  --only   run only attacks whose names contain this word; may be repeated
  --part   divide the count of each attack by N, as in --long --part 20
  --report write the stored results as Markdown, and run nothing

The last result of each attack is stored in BUILD/soak/. Reports are written from the
stored results, so the attacks of the long form can be run one at a time.

To add an attack, add a Row with a command that attacks SOAK_COUNT times in the empty
folder SOAK_FOLDER and whose random numbers depend on the seed SOAK_SEED. The
command exits with 0 if it found no defect, and then may print `soak: WHAT RAN` or, as
its last line, `soak: skipped: WHY`. Other output is printed if the attack fails.
"""
import argparse
import concurrent.futures
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import corpora

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RESULTS = os.path.join(HERE, "results.json")  # of the long form, for the report
LINES_MOST = 40  # printed lines of a failed row's output


class Row:
    """One attack. `short` and `long` are the numbers of its repetitions (count) in the
    short and the long form; 0 if a form does not include the attack.

      command  may contain {bin}, {count}, {seed}, and {kept}, a folder whose
               contents persist
      build    build used by the long form: "plain", "sanitized" or "fuzz"; the
               short form uses the build that BUILD names
      ran      regular expression that finds the count in the output
      alone    no other attack runs at the same time
      memory   its folder may be on a file system in memory
      found    defects found so far, and where they were corrected
    """

    def __init__(self, name, short, long, command, *, build="plain",
                 env="", unit="", alone=False, memory=False, minutes=120,
                 ran=None, found="nothing"):
        self.name, self.short, self.long = name, short, long
        self.command, self.build, self.env = command, build, env
        self.unit, self.alone, self.minutes = unit, alone, minutes
        self.memory, self.ran, self.found = memory, ran, found

    def count(self, given):
        count = self.long if given.long else self.short
        return max(1, count // given.part) if count else 0


# Parsers with a separate target in tests/fuzz.
PARSERS = "arch import npy rules safetensors settings text tokens"
TARGETS = ["reader", "scan", "fragment", "checkpoint", *PARSERS.split()]


def fuzzed(target):
    """Returns an attack that runs libFuzzer for {count} seconds and keeps the corpus
    and failing inputs.
    """
    words = os.path.join("tests/fuzz", target + ".dict")
    seeds = os.path.join("tests/fuzz/seeds", target)
    return Row(
        "fuzzing: " + target, 0, 300,
        "{bin}/fuzz_%s -max_total_time={count} -rss_limit_mb=2048 -timeout=60 "
        "-verbosity=0 -print_final_stats=1 -artifact_prefix={kept}/broken/%s- "
        "%s {kept}/corpus/%s %s" % (
            target, target,
            "-dict=" + words if os.path.exists(os.path.join(ROOT, words))
            else "", target,
            seeds if os.path.exists(os.path.join(ROOT, seeds)) else ""),
        build="fuzz", memory=True, unit="inputs",
        ran=r"number_of_executed_units: *(\d+)")


LIMITS = "descriptors,sizes,disks,clocks"

ROWS = [
    Row("power loss: fragment", 5000, 700000,
        "{bin}/tests/test_store_killed", memory=True, minutes=120,
        env="ESF_POWER_LOSSES={count} ESF_KILLS=0 RUN_KILLS=0",
        build="sanitized", unit="states"),
    Row("power loss: run file", 5000, 300000,
        "{bin}/tests/test_store_power", env="RUN_POWER_LOSSES={count}",
        memory=True, minutes=120, build="sanitized", unit="states",
        found="a log with a damaged header made the run file unreadable: it "
              "now counts as empty (store/view.c)"),
    Row("kill -9: writer of a fragment", 40, 1800,
        "{bin}/tests/test_store_killed",
        env="ESF_KILLS={count} RUN_KILLS=0 ESF_POWER_LOSSES=0", unit="kills"),
    Row("kill -9: writer of a run file", 30, 1800,
        "{bin}/tests/test_store_killed",
        env="RUN_KILLS={count} ESF_KILLS=0 ESF_POWER_LOSSES=0", unit="kills"),
    Row("kill -9: training, recorder, both, so often each", 8, 400,
        "{bin}/tests/test_recorder_faults",
        env="TRAINER_KILLS={count} RECORDER_KILLS={count} "
            "DOUBLE_KILLS={count} ES_SEED={seed}", unit="kills of each"),
    Row("kill -9: entropy-train, its recorder, both, resumed", 10, 400,
        "python3 tests/soak/kills.py {bin}", memory=True, unit="kills"),
    Row("mutated run files", 500, 50000,
        "{bin}/tests/replay {count} {seed} reader scan", build="sanitized",
        memory=True, unit="inputs"),
    Row("mutated fragments", 500, 50000,
        "{bin}/tests/replay {count} {seed} fragment", build="sanitized",
        memory=True, unit="inputs"),
    Row("mutated checkpoints", 500, 50000,
        "{bin}/tests/replay {count} {seed} checkpoint", build="sanitized",
        memory=True, unit="inputs"),
    Row("mutated inputs of other parsers", 500, 50000,
        "{bin}/tests/replay {count} {seed} " + PARSERS, build="sanitized",
        memory=True, unit="inputs"),
    Row("fault points: system calls of 16 scenarios", 300, 0,
        "python3 tests/soak/faults.py {bin} --points {count} --seed {seed}",
        unit="system calls", memory=True),
    Row("fault points: all system calls of 16 scenarios", 0, 1,
        "python3 tests/soak/faults.py {bin}", minutes=150, memory=True,
        unit="time each system call", found="a lock of its own that SQLite could "
        "not release, and a thread that could not be ended, kept a recorder "
        "waiting: it now opens the file again (hooks/recorder/process/session.c)"),
    Row("fault points: allocations, limits and clocks of 16 scenarios", 240, 0,
        "python3 tests/soak/faults.py {bin} --points {count} --seed {seed} "
        "--kind allocations," + LIMITS, unit="faults", memory=True),
    Row("fault points: allocations of 16 scenarios", 0, 40000,
        "python3 tests/soak/faults.py {bin} --points {count} --seed {seed} "
        "--kind allocations", unit="allocations", minutes=150, memory=True,
        found="glibc's open_memstream() silently truncates a text if memory runs "
              "out: a crash, and truncated JSON, queries and alerts "
              "(analyzer/base/text_stream.c); a run without its configuration "
              "(store/reader_config.c)"),
    Row("fault points: descriptors, disks, sizes of files, clocks", 0, 1,
        "python3 tests/soak/faults.py {bin} --kind " + LIMITS, minutes=60,
        unit="time each limit", memory=True,
        found="a sweep counted a run as done that a full disk had left without "
              "samples (cli/sweep/view.c); a log and its index remained without "
              "a run file (store/writer.c)"),
    # test_recorder_process is excluded: ThreadSanitizer replaces vfork by fork,
    # and then the reason why a program could not be started is lost.
    Row("races of ring, recorder, watch and push", 0, 1,
        "make -s CC=clang SAN=thread CUDA=0 BUILD={kept}/threads test T='ring "
        "recorder recorder_stop recorder_faults follow store_live store_view "
        "test_push.sh'", unit="run of eight tests with ThreadSanitizer", alone=True,
        memory=True),
    Row("hostile rows of PostgreSQL", 6, 1000, "tests/soak/hostile_rows.sh",
        unit="databases"),
    Row("hostile names", 20, 2000,
        "python3 tests/soak/hostile_names.py {bin} --count {count} --seed {seed}",
        unit="names", memory=True,
        found="annotations for GitHub had control bytes and bad UTF-8 "
              "(cli/scan/github.c)"),
    *map(fuzzed, TARGETS),
    Row("20 steady and 1,000 short readers of a recording", 0, 600,
        "python3 tests/soak/readers.py {bin} --seconds {count}", alone=True,
        unit="seconds", found="readers prevented checkpoints of the log, 235 "
        "MiB in 40 s: they now hold no lock between batches (store/reader.c)"),
    Row("branch coverage of all tests", 0, 1, "python3 tests/soak/coverage.py",
        minutes=120, alone=True, unit=""),
]


# --- running a row ------------------------------------------------------------

def sanitizers():
    """Returns the sanitizer options that tests/tools/run.sh sets."""
    given = os.environ.get("ASAN_OPTIONS")
    return {"ASAN_OPTIONS": ":".join(filter(None, [
                "intercept_tls_get_addr=0", given])),
            "LSAN_OPTIONS": "print_suppressions=0:suppressions=" +
                            os.path.join(ROOT, "tests/tools/leaks.txt")}


def filled(text, row, given):
    return text.format(bin=given.builds[row.build], count=row.count(given),
                       seed=given.seed, kept=given.kept)


def run_row(row, given):
    """Runs an attack. Returns its result, and its output, the end of which is printed
    if the attack failed."""
    folder = tempfile.mkdtemp(prefix="soak-", dir="/dev/shm" if row.memory and
                              os.access("/dev/shm", os.W_OK) else None)
    os.chmod(folder, 0o755)  # some tests read as another user
    env = {**os.environ, **sanitizers(), "CMOCKA_MESSAGE_OUTPUT": "tap",
           "BUILD": given.builds[row.build], "LC_ALL": "C.UTF-8",
           "OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1",
           "TMPDIR": folder, "XDG_STATE_HOME": os.path.join(folder, ".state"),
           "SOAK_COUNT": str(row.count(given)), "SOAK_SEED": str(given.seed),
           "SOAK_FOLDER": folder, "SOAK_BROKEN": given.kept + "/broken", "SOAK_FORM": "long" if given.long else "short",
           **dict(pair.split("=", 1)
                  for pair in shlex.split(filled(row.env, row, given)))}
    begun = time.monotonic()
    process = subprocess.Popen(
        shlex.split(filled(row.command, row, given)), cwd=ROOT, env=env,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, errors="replace", start_new_session=True)
    given.running.add(process)
    try:
        output, _ = process.communicate(timeout=60 * row.minutes)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, code = process.communicate()[0], None
    given.running.discard(process)
    shutil.rmtree(folder, ignore_errors=True)
    return result_of(row, given, code, output, time.monotonic() - begun)


def result_of(row, given, code, output, seconds):
    said = [line[6:].strip() for line in output.splitlines()
            if line.startswith("soak: ")]
    match = re.search(row.ran, output) if row.ran else None
    if match:
        said.append("%s %s" % (match[1], row.unit))
    last = said[-1] if said else "%d %s" % (row.count(given), row.unit)
    state = "passed" if code == 0 else "failed"
    if code == 0 and last.startswith("skipped: "):
        state = "skipped"
    if code is None:
        output += "\nstill running after %d minutes" % row.minutes
    elif code != 0:
        output += "\nexit %d" % code
    return {"name": row.name, "state": state, "ran": last,
            "seconds": round(seconds), "commit": given.commit,
            "machine": machine(),
            "build": row.build if given.long else "plain",
            "part": given.part}, output


def tap(number, result, output):
    words = "%s: %s in %d s" % (result["name"], result["ran"],
                                result["seconds"])
    if result["state"] == "skipped":
        print("ok %d - %s # SKIP %s" % (number, result["name"],
                                        result["ran"][9:]))
    elif result["state"] == "passed":
        print("ok %d - %s" % (number, words))
    else:
        print("not ok %d - %s" % (number, words))
        for line in output.splitlines()[-LINES_MOST:]:
            print("# " + line)
    sys.stdout.flush()


# --- running all rows ---------------------------------------------------------

def keep(given, results):
    """Stores the results by the names of attacks, together with the existing results of
    other attacks."""
    path = kept_path(given)
    write_json(path, {**read_json(path), **{r["name"]: r for r in results}})


def kept_path(given):
    return os.path.join(given.kept, "long.json" if given.long else "short.json")


def write_json(path, value):
    with open(path + ".new", "w") as out:
        json.dump(value, out, indent=1)
        out.write("\n")
    os.replace(path + ".new", path)


def read_json(path):
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def run_rows(rows, given):
    """Runs attacks in parallel where possible; attacks that must run alone come
    last."""
    number, results = 0, []

    def end(result, output):
        nonlocal number
        number += 1
        tap(number, result, output)
        results.append(result)
        keep(given, [result])

    together = [row for row in rows if not row.alone]
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for done in concurrent.futures.as_completed(
                [pool.submit(run_row, row, given) for row in together]):
            end(*done.result())
    for row in rows:
        if row.alone:
            end(*run_row(row, given))
    print("1..%d" % number)
    return results


# --- the report ---------------------------------------------------------------

def machine():
    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo") as file:
        memory = int(file.readline().split()[1]) / 2**20
    return "%d processors (%s), %.0f GiB, Linux %s, %s" % (
        os.cpu_count(), model, memory, platform.release(), compiler())


def compiler():
    text = subprocess.run(["gcc", "--version"], capture_output=True, text=True,
                          check=False).stdout
    return text.splitlines()[0] if text else "no gcc"


def commit():
    def git(*arguments):
        return subprocess.run(["git", "-C", ROOT, *arguments],
                              capture_output=True, text=True,
                              check=False).stdout.strip()
    changed = git("status", "--porcelain", "--untracked-files=no", "--",
                  ":!tests/RELIABILITY.md")
    return git("rev-parse", "--short=8", "HEAD") + ("+" if changed else "")


def report(given):
    """Writes the latest result of each attack, from BUILD/soak or from an earlier
    report, as Markdown. Also stores these results in RESULTS."""
    kept = {**read_json(RESULTS), **read_json(kept_path(given))}
    write_json(RESULTS, {row.name: kept[row.name] for row in ROWS
                         if row.name in kept})
    rows = [(row, kept[row.name]) for row in ROWS if row.name in kept]
    failed = [row.name for row, r in rows if r["state"] == "failed"]
    hours = sum(r["seconds"] for _, r in rows) / 3600
    verdict = ("No attack broke a promise of the programs."
               if not failed else "Broken: " + "; ".join(failed) + ".")
    lines = ["# Reliability", "",
             "This page lists the attacks of `make soak`, how often each ran, and what it found. %s" % verdict,
             "", "Commit %s; %s; the attacks took %.1f hours in total." % (
                 ", ".join(sorted({r["commit"] for _, r in rows})),
                 " and ".join(sorted({r["machine"] for _, r in rows})),
                 hours), "",
             "| attack | ran | build | seconds | result | found and corrected "
             "so far |", "| --- | --- | --- | --- | --- | --- |"]
    lines += ["| %s | %s | %s | %d | %s | %s |" % (
        row.name, r["ran"] + (" (1/%d)" % r["part"] if r["part"] > 1 else ""),
        r["build"], r["seconds"], r["state"], row.found)
        for row, r in rows]
    missing = [row.name for row in ROWS
               if row.count(given) and row.name not in kept]
    if any(r["part"] > 1 for _, r in rows):
        lines += ["", "(1/20): a twentieth of the count of the long form."]
    if missing:
        lines += ["", "Not run: " + "; ".join(missing) + "."]
    with open(os.path.join(HERE, "RELIABILITY.md.in")) as rest:
        lines += ["", rest.read().rstrip()]
    with open(given.report, "w") as out:
        out.write("\n".join(lines) + "\n")


# --- the command line ---------------------------------------------------------

def parse():
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=__doc__)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--part", type=int, default=1)
    parser.add_argument("--seed", type=int,
                        default=int(os.environ.get("ES_SEED", 1)))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--report")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    plain = os.path.join(ROOT, os.environ.get("BUILD", "build"))
    given.builds = {"plain": plain, "sanitized": plain, "fuzz": plain}
    if given.long:
        given.builds["sanitized"] = plain + "-san"
        given.builds["fuzz"] = plain + "/fuzz"
    given.kept = os.path.join(plain, "soak")
    os.makedirs(os.path.join(given.kept, "broken"), exist_ok=True)
    given.commit, given.running = commit(), set()
    return given


def stop(given):
    for process in list(given.running):
        os.killpg(process.pid, signal.SIGKILL)


def main():
    given = parse()
    rows = [row for row in ROWS if row.count(given) and
            (not given.only or any(w in row.name for w in given.only))]
    if given.report:
        report(given)
        return 0
    if given.list:
        for row in rows:
            print("%9d  %s" % (row.count(given), row.name))
        return 0
    if not rows:
        sys.exit("soak: no name of an attack contains one of these words; see --list")
    for target in TARGETS if given.long else []:
        corpora.unpack(target, os.path.join(given.kept, "corpus", target))
    try:
        results = run_rows(rows, given)
    except BaseException:
        stop(given)
        raise
    return any(result["state"] == "failed" for result in results)


if __name__ == "__main__":
    sys.exit(main())
