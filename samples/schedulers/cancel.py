#!/usr/bin/env python3
"""Cancels the Slurm task whose run collapsed or became NaN, and no other task:

    entropy-scan watch runs --exec samples/schedulers/cancel.py

The alert is read from standard input. The run file contains the number of the task that
trained the run: entropy-train stores the number, such as "4711_3", as slurm_job in the
configuration. A user who can write into the folder can create a run file with the
number of any of your tasks, so do not watch a folder into which others can write. Only
task numbers are passed to scancel, because other strings could be options, such as
--me.
"""
import json
import re
import subprocess
import sys


def output_of(*command):
    try:
        return subprocess.run(command, check=True, capture_output=True,
                              text=True).stdout
    except OSError as error:
        sys.exit(f"cancel.py: {command[0]}: {error.strerror}")
    except subprocess.CalledProcessError as error:
        words = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
        sys.exit(f"cancel.py: {command[0]}: {words[-1]}")


alert = json.load(sys.stdin)
if alert["kind"] in ("collapse", "nan"):
    runs = json.loads(output_of("entropy-scan", "--json", "--", alert["path"]))["runs"]
    running = [run for run in runs if run["status"] == "running"]
    if len(running) > 1:
        sys.exit(f"cancel.py: several running runs in one file: {alert['text']}")
    job = (running[0]["config"] or {}).get("slurm_job") if running else None
    if job is not None:
        if not isinstance(job, str) or not re.fullmatch("[0-9]+(_[0-9]+)?", job):
            sys.exit(f"cancel.py: slurm_job is not a task number: {job!a:.80}: {alert['text']}")
        print(f"scancel {job}: {alert['text']}", flush=True)
        output_of("scancel", "--", job)
