#!/usr/bin/env python3
"""Fits the costs of private inference to AERO's tables 4 to 7.

    fit.py SCAN TABLES.csv [-o coefficients.inc.h | --check coefficients.inc.h]

SCAN is the program entropy-scan. It counts the items of each row's model, so
that the fit uses the same counts as the program. The fit minimises the squared relative
errors with non-negative coefficients. It computes with exact fractions, tries all sets
of non-zero coefficients, and keeps the set with the smallest residual. Without -o and
--check it prints the residuals and tests of extrapolation. Needs only Python's standard
library.
"""
import argparse
import csv
import itertools
import json
import math
import subprocess
import sys
from fractions import Fraction

ITEMS = ["softmax", "LayerNorm", "GELU", "ReLU", "linear", "output", "fixed"]
NONLINEAR = ITEMS[:4]
# AERO's text about figure 1 describes one more model, SM+R, which needs 3.41 times
# less communication and 1.42 times less latency than a model with 25.32 GB and
# 8.21 minutes.
FIGURE_1 = {"table": "F1", "group": "Base", "arch": "SM+R", "n_layer": "12",
            "ctx": "128", "d_model": "768", "n_head": "12",
            "communication_GB": str(25.32 / 3.41), "latency_min": str(8.21 / 1.42)}


def count(scan, row):
    """Returns how many operations of each kind (ITEMS) the row's model needs."""
    # Only AERO's table 7 uses Languini's vocabulary of 16384. It is also the only table
    # in which the published costs of the simplified block (group SOTA) agree with the
    # counts of the full block.
    command = [scan, "cost", row["arch"], "--json", "--n-layer", row["n_layer"],
               "--n-head", row["n_head"], "--d-model", row["d_model"], "--ctx",
               row["ctx"], "--vocab", "16384" if row["table"] == "T7" else "50257"]
    if row["group"] == "SOTA":
        command += ["--final-norm", "on"]
        command += [] if row["table"] == "T7" else ["--simplified"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    counts = json.loads(out)["models"][0]["counts"]
    return [counts[item] for item in ITEMS]


# --- non-negative least squares ---------------------------------------------

def solve(matrix, right):
    """Solves a linear system by Gaussian elimination; None if it is singular."""
    n = len(right)
    rows = [matrix[i] + [right[i]] for i in range(n)]
    for c in range(n):
        pivot = next((r for r in range(c, n) if rows[r][c] != 0), None)
        if pivot is None:
            return None
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [x / rows[c][c] for x in rows[c]]
        for r in range(n):
            if r != c and rows[r][c] != 0:
                factor = rows[r][c]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[c])]
    return [row[n] for row in rows]


def fit(x, y):
    """Returns coefficients >= 0 with the smallest sum of squared relative errors."""
    n = len(x[0])
    a = [[Fraction(v) / Fraction(target) for v in row] for row, target in zip(x, y)]
    gram = [[sum(r[i] * r[j] for r in a) for j in range(n)] for i in range(n)]
    right = [sum(r[i] for r in a) for i in range(n)]
    best = None
    for size in range(n, 0, -1):
        for chosen in itertools.combinations(range(n), size):
            w = solve([[gram[i][j] for j in chosen] for i in chosen],
                      [right[i] for i in chosen])
            if w is None or min(w) < 0:
                continue
            full = [Fraction(0)] * n
            for i, value in zip(chosen, w):
                full[i] = value
            left = len(y) - 2 * sum(p * q for p, q in zip(full, right)) + sum(
                full[i] * gram[i][j] * full[j] for i in chosen for j in chosen)
            if best is None or left < best[0]:
                best = left, full
        if best and size == n:
            break  # the unconstrained minimum: no other set is better
    return [float(v) for v in best[1]]


def deviations(w, x, y):
    """Returns the coefficients' standard deviations, from the fit's residuals."""
    used = [i for i, v in enumerate(w) if v > 0]
    a = [[Fraction(row[i]) / Fraction(t) for i in used] for row, t in zip(x, y)]
    gram = [[sum(r[i] * r[j] for r in a) for j in range(len(used))]
            for i in range(len(used))]
    noise = sum(e * e for e in errors(w, x, y)) / (len(y) - len(used))
    out = [0.0] * len(w)
    for k, i in enumerate(used):
        unit = [Fraction(int(k == j)) for j in range(len(used))]
        out[i] = math.sqrt(float(solve(gram, unit)[k]) * noise)
    return out


def errors(w, x, y):
    return [sum(a * b for a, b in zip(w, row)) / t - 1 for row, t in zip(x, y)]


def rms(values):
    return math.sqrt(sum(v * v for v in values) / len(values))


# --- the two models ---------------------------------------------------------

class Costs:
    """The rows of AERO's tables with their counts and published costs, and the fits of both
    costs."""

    def __init__(self, scan, tables):
        with open(tables, newline="") as file:
            self.rows = list(csv.DictReader(file)) + [FIGURE_1]
        self.counts = [count(scan, row) for row in self.rows]
        self.bytes = [float(r["communication_GB"]) * 1e9 for r in self.rows]
        self.seconds = [float(r["latency_min"]) * 60 for r in self.rows]
        self.by_byte = fit(self.counts, self.bytes)
        # The latency has three terms: seconds per GB of the nonlinear items,
        # per value entering or leaving the layers' matrix products, and per logit. More
        # coefficients would fit better but extrapolate worse.
        self.timed = [[sum(c * w for c, w in zip(n[:4], self.by_byte)) / 1e9, n[4], n[5]]
                      for n in self.counts]
        self.by_second = fit(self.timed, self.seconds)

    def extrapolate(self, x, y, is_known):
        """Fits the costs of the rows for which is_known is true; returns the errors for the other
        rows."""
        known = [i for i, row in enumerate(self.rows) if is_known(i, row)]
        new = [i for i in range(len(y)) if i not in known]
        w = fit([x[i] for i in known], [y[i] for i in known])
        return errors(w, [x[i] for i in new], [y[i] for i in new])

    def report(self):
        for name, x, y, w in (("communication", self.counts, self.bytes, self.by_byte),
                              ("latency", self.timed, self.seconds, self.by_second)):
            alone = [self.extrapolate(x, y, lambda i, _, k=k: i != k)[0]
                     for k in range(len(y))]
            for what, e in (("fitted", errors(w, x, y)), ("leave-one-out", alone),
                            ("from-T128", self.extrapolate(
                                x, y, lambda _, row: row["ctx"] == "128")),
                            ("from-L12", self.extrapolate(
                                x, y, lambda _, row: row["n_layer"] == "12"))):
                print(f"{name} {what} rms {100 * rms(e):.2f} "
                      f"worst {100 * max(map(abs, e)):.2f} rows {len(e)}")

    def text(self):
        """Returns the text of coefficients.inc.h."""
        bytes_of = deviations(self.by_byte, self.counts, self.bytes)
        seconds_of = deviations(self.by_second, self.timed, self.seconds)
        lines = [
            "/* Written by `make cost-fit` (fit.py): do not edit. Each item has a coefficient",
            "   (bytes of communication or seconds of latency per unit), its standard",
            "   deviation, and a group number (errors within a group are correlated). The",
            "   relative residuals of the fits and the ranges of the fitted rows follow.",
            "   Source: AERO (Jha and Reagen, arXiv 2410.13060), tables 4 to 7, figure 1;",
            f"   {len(self.rows)} rows. */",
            "/* clang-format off */",
            "static const coefficient coefficients[][ES_N_COST_ITEMS] = {",
            "    [ES_COST_BYTES] = {"]
        enums = ["SOFTMAX", "LAYER_NORM", "GELU", "RELU", "LINEAR", "OUTPUT", "FIXED"]
        for i, name in enumerate(enums):
            lines.append(f"        [ES_COST_{name}] = "
                         f"{{{self.by_byte[i]:.6g}, {bytes_of[i]:.3g}, {i}}},")
        lines += ["    },", "    [ES_COST_SECONDS] = {"]
        for i, name in enumerate(enums[:6]):
            rate = self.by_byte[i] / 1e9 if i < 4 else 1
            k = 0 if i < 4 else i - 3
            lines.append(f"        [ES_COST_{name}] = {{{self.by_second[k] * rate:.6g}, "
                         f"{seconds_of[k] * rate:.3g}, {k}}},")
        lines += ["    },", "};", "static const double residual[] = {"]
        for kind, e in (("BYTES", errors(self.by_byte, self.counts, self.bytes)),
                        ("SECONDS", errors(self.by_second, self.timed, self.seconds))):
            lines.append(f"    [ES_COST_{kind}] = {rms(e):.4f},")
        lines.append("};")
        for name, key in (("layers", "n_layer"), ("heads", "n_head"),
                          ("width", "d_model"), ("ctx", "ctx")):
            values = [int(row[key]) for row in self.rows]
            lines.append(f"static const span fitted_{name} = "
                         f"{{{min(values)}, {max(values)}}};")
        lines += ["static const span fitted_mult = {4, 4};",
                  "static const span fitted_vocab = {16384, 50257};"]
        return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scan")
    parser.add_argument("tables")
    parser.add_argument("-o", dest="output", metavar="FILE")
    parser.add_argument("--check", metavar="FILE")
    given = parser.parse_args()
    costs = Costs(given.scan, given.tables)
    if given.output:
        with open(given.output, "w") as file:
            file.write(costs.text())
    elif given.check:
        with open(given.check) as file:
            if file.read() != costs.text():
                sys.exit(f"{given.check}: differs from a fit to the tables: run make cost-fit")
    else:
        costs.report()


if __name__ == "__main__":
    main()
