#!/usr/bin/env python3
"""Cancels the task of Slurm whose run collapsed, or went NaN, and no other:

    entropy-scan watch runs --exec samples/schedulers/cancel.py

The alert comes on standard input. Which task trained the run is in the run
itself: entropy-train keeps it as slurm_job in the configuration, "4711_3".
"""
import json
import subprocess
import sys

alert = json.load(sys.stdin)
if alert["kind"] in ("collapse", "nan"):
    scan = subprocess.run(["entropy-scan", "--json", "--", alert["path"]],
                          check=True, capture_output=True, text=True)
    run = json.loads(scan.stdout)["runs"][0]
    job = run["config"].get("slurm_job")
    if job and run["status"] == "running":
        print(f"scancel {job}: {alert['text']}")
        subprocess.run(["scancel", job], check=True)
