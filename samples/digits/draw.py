#!/usr/bin/env python3
"""Draws the accuracy on held-out images over the steps for the runs of study.sh: mean
and range over the seeds. Also prints a table of the last step.

    draw.py FOLDER -o FIGURE.svg      (needs matplotlib, and entropy-scan in the PATH)"""
import argparse
import collections
import csv
import json
import pathlib
import subprocess
import sys

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from picture import COLOURS, GRID, INK  # noqa: E402


def read(path, series):
    said = subprocess.run(
        ["entropy-scan", "export", path, "--series", series, "--phase", "eval", "-o", "-"],
        capture_output=True, text=True, check=True).stdout
    rows = csv.DictReader(x for x in said.splitlines() if not x.startswith("#"))
    column = rows.fieldnames[-1]  # the name of the column contains the phase
    return [(int(row["step"]), float(row[column])) for row in rows]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    runs = collections.defaultdict(list)
    for path in sorted(options.folder.glob("*.db")):
        about = json.loads(subprocess.run(
            ["entropy-scan", path, "--json", "-q"], capture_output=True, text=True,
            check=True).stdout)
        runs[about["runs"][0]["arch"]].append(path)
    plt.rcParams.update({"font.size": 9, "font.family": "DejaVu Sans", "text.color": INK,
                         "axes.labelcolor": INK, "grid.color": GRID, "svg.hashsalt": "digits"})
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    print("| architecture | accuracy, mean (lowest to highest) | loss | entropy, nats |")
    print("| --- | --- | --- | --- |")
    archs = sorted(runs, key=lambda arch: (arch.startswith("PSM"), arch))
    for colour, marker, arch in zip(COLOURS, "os^D" * 2, archs):
        paths = runs[arch]
        steps = [step for step, _ in read(paths[0], "accuracy")]
        right = 100 * np.array([[x for _, x in read(p, "accuracy")] for p in paths])
        axes.plot(steps, right.mean(0), color=colour, label=arch, marker=marker, ms=3.5)
        axes.fill_between(steps, right.min(0), right.max(0), color=colour, alpha=0.15,
                          lw=0)
        loss = np.mean([read(p, "loss")[-1][1] for p in paths])
        entropy = np.mean([[x for s, x in read(p, "entropy") if s == steps[-1]]
                           for p in paths])
        last = right[:, -1]
        print(f"| {arch} | {last.mean():.1f} % ({last.min():.1f} to {last.max():.1f}) |"
              f" {loss:.3f} | {entropy:.2f} |")
    axes.set(xlabel="step", ylabel="accuracy on held-out images, %", ylim=(0, 100),
             xlim=(0, None))
    axes.grid(axis="y")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(options.output, metadata={"Date": None} if
                   options.output.endswith(".svg") else None)


if __name__ == "__main__":
    main()
