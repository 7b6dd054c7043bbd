#!/usr/bin/env python3
"""Draws figures and tables of the runs of runs.sh. Needs only Python and entropy-scan.

    figures.py p FOLDER -o p.svg              perplexity by p, with softmax and scaled ReLU
    figures.py epsilon FOLDER -o epsilon.svg  perplexity by epsilon, stable and plain
    figures.py distance FOLDER -o d.svg       mean attention distance of each head by p
    figures.py table FOLDER                   perplexity of every kind of run, as Markdown
"""
import argparse
import json
import math
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from picture import COLOURS, GRID, MUTED, Picture  # noqa: E402

POWERS = {"1e-5": "10⁻⁵", "1e-4": "10⁻⁴", "1e-3": "10⁻³", "1e-2": "10⁻²", "1e-1": "10⁻¹"}
SCAN = os.environ.get("ENTROPY_SCAN", "entropy-scan")


def scan(*arguments):
    done = subprocess.run([SCAN, *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)  # entropy-scan has printed the reason
    return done.stdout


def runs(folder):
    """Returns {kind of run: its runs in the order of seeds}."""
    found = {}
    for line in scan("-r", folder, "--jsonl").splitlines():
        run = json.loads(line)
        kind, _, seed = run["name"].rpartition("-s")
        if kind and seed.isdigit():
            found.setdefault(kind, []).append(run)
    if not found:
        sys.exit(f"{folder}: no run of runs.sh in this folder: run sh runs.sh study TOKENS {folder}")
    return found


def perplexities(found, kind):
    """Returns the perplexity of each seed; None for a run that did not finish, for
    example after a non-finite loss."""
    return [run["eval_ppl"] if run["status"] == "finished" else None
            for run in found.get(kind, ())]


# --- lines --------------------------------------------------------------------


class Plot:
    def __init__(self, title, x_label, y_label, xs, names, ys, more=0):
        low, high = min(ys), max(ys)
        pad = 0.08 * (high - low or 1)
        self.low, self.high, self.n = low - pad, high + pad, len(xs)
        self.left, self.top, self.width, self.height = 66, 44, 380, 230
        picture = self.picture = Picture(self.left + self.width + 24 + more,
                                         self.top + self.height + 52)
        bottom = self.top + self.height
        picture.text(self.left, 24, title, more='font-size="14"')
        step = 10 ** math.floor(math.log10((self.high - self.low) / 3))
        step = next(s for s in (step, 2 * step, 5 * step, 10 * step)
                    if (self.high - self.low) / s <= 6)
        tick = math.ceil(self.low / step) * step
        while tick <= self.high + step / 1e3:
            y = self.y(tick)
            picture.line([(self.left, y), (self.left + self.width, y)], GRID)
            picture.text(self.left - 8, y + 4, f"{tick:.6g}", "end")
            tick += step
        for i, name in enumerate(names):
            picture.text(self.x(i), bottom + 18, name, "middle")
        picture.line([(self.left, bottom), (self.left + self.width, bottom)], MUTED)
        picture.text(self.left + self.width / 2, bottom + 40, x_label, "middle")
        picture.text(0, 0, y_label, "middle",
                     f'transform="translate(16 {self.top + self.height / 2}) rotate(-90)"')

    def x(self, i):
        return self.left + (i + 0.5) / self.n * self.width

    def y(self, value):
        return self.top + (self.high - value) / (self.high - self.low) * self.height

    def points(self, series, mark, text, shift=0):
        """Draws a dot for each run, and a line with marks through the means over the seeds,
        which has a gap where a run is missing. `shift` moves everything to the right. Adds
        `text` to the legend."""
        line = []
        for i, values in enumerate(series):
            x = self.x(i) + shift
            for value in known([values]):
                self.picture.dot(x, self.y(value), COLOURS[mark], 2.2, 0.45)
            whole = values and None not in values
            if whole:
                line.append((x, self.y(sum(values) / len(values))))
            if line and (not whole or i == len(series) - 1):
                self.picture.line(line, COLOURS[mark], 'stroke-width="1.8"')
                for point in line:
                    self.picture.mark(*point, mark)
                line = []
        self.legend(mark, COLOURS[mark], text, mark=mark)

    def level(self, value, colour):
        y = self.y(value)
        self.picture.line([(self.left, y), (self.left + self.width, y)], colour,
                          'stroke-width="1.4" stroke-dasharray="5 4"')

    def legend(self, i, colour, text, more="", mark=None):
        self.picture.key(*self.key_at(i), colour, text, more, mark)

    def key_at(self, i):
        return self.left + self.width + 18, self.top + 10 + 22 * i


def known(series):
    return [v for values in series for v in values if v is not None]


def draw_p(folder, path):
    found = runs(folder)
    powers = sorted(int(k[1:]) for k in found if re.fullmatch(r"p\d+", k))
    series = [perplexities(found, f"p{p}") for p in powers]
    levels = [("softmax", known([perplexities(found, "softmax")]), MUTED),
              ("scaled ReLU", known([perplexities(found, "relu")]), COLOURS[4])]
    ys = known(series) + [v for _, values, _ in levels for v in values]
    plot = Plot("Perplexity by the power, epsilon 10⁻³", "p", "perplexity, eval", powers,
                [str(p) for p in powers], ys, 120)
    for i, (name, values, colour) in enumerate(levels):
        if values:
            plot.level(sum(values) / len(values), colour)
            plot.legend(i + 1, colour, name, 'stroke-dasharray="5 4"')
    plot.points(series, 0, "PowerSoftmax")
    plot.picture.write(path)


def draw_epsilon(folder, path):
    found = runs(folder)
    names = ("1e-5", "1e-4", "1e-3", "1e-2", "1e-1", "1")
    stable = [perplexities(found, "p4" if e == "1e-3" else f"eps{e}") for e in names]
    plain = [perplexities(found, f"plain{e}") for e in names]
    plot = Plot("Perplexity by epsilon, p = 4", "epsilon", "perplexity, eval", names,
                [POWERS.get(name, name) for name in names], known(stable) + known(plain), 130)
    plot.points(stable, 0, "stable, eq. 5", -3)
    plot.points(plain, 1, "plain, eq. 4", 3)
    plot.picture.write(path)


# --- distances ----------------------------------------------------------------


def distances(folder):
    """Returns the attention distances of the heads of each run at the last evaluation,
    computed from weights that are normalised to sum to one."""
    rows = json.loads(scan(
        "sql", "-r", folder,
        "WITH d AS (SELECT run, step, layer, head, value FROM es_values('distance', 'eval')), "
        "m AS (SELECT run, step, layer, head, value FROM es_values('missing_mass', 'eval')), "
        "last AS (SELECT run, max(step) AS step FROM d GROUP BY run) "
        "SELECT d.run, d.value / (1 - ifnull(m.value, 0)) AS value FROM d JOIN last USING (run, step) "
        "LEFT JOIN m USING (run, step, layer, head)", "--json"))
    found = {}
    for row in rows:
        found.setdefault(row["run"], []).append(row["value"])
    return found


def draw_distance(folder, path):
    found, context = runs(folder), None
    by_run = distances(folder)
    kinds = ["softmax"] + sorted((k for k in found if re.fullmatch(r"p\d+", k)),
                                 key=lambda k: int(k[1:]))
    columns = []
    for kind in kinds:
        context = found[kind][0]["ctx"]
        columns.append([v for run in found[kind] for v in by_run[run["name"]]])
    uniform = (context - 1) / 4
    plot = Plot(f"Mean attention distance of each head, T = {context}", "p", "tokens", kinds,
                [k if k == "softmax" else k[1:] for k in kinds], [0, uniform] +
                [v for column in columns for v in column], 96)
    plot.level(uniform, MUTED)
    plot.legend(2, MUTED, "uniform", 'stroke-dasharray="5 4"')
    for i, column in enumerate(columns):
        for k, value in enumerate(sorted(column)):
            plot.picture.dot(plot.x(i) + 15 * ((k * 0.618) % 1 - 0.5), plot.y(value), COLOURS[3],
                             2.4, 0.75)
        mean = plot.y(sum(column) / len(column))
        plot.picture.line([(plot.x(i) - 14, mean), (plot.x(i) + 14, mean)], COLOURS[2],
                          'stroke-width="2"')
    plot.legend(0, COLOURS[2], "mean")
    x, y = plot.key_at(1)
    plot.picture.dot(x + 11, y - 4, COLOURS[3], 2.4, 0.75)
    plot.picture.text(x + 28, y, "head")
    plot.picture.write(path)
    for kind, column in zip(kinds, columns):
        print(f"{kind}: {sum(column) / len(column):.2f} of {len(column)} heads")


# --- tables -------------------------------------------------------------------


def print_table(folder):
    print("| run | architecture | seeds | perplexity, held out |\n| --- | --- | --- | --- |")
    found = runs(folder)
    for kind in sorted(found):
        values = perplexities(found, kind)
        fine = known([values])
        text = " / ".join(run["status"] if v is None else f"{v:.3f}"
                          for run, v in zip(found[kind], values))
        if len(fine) > 1:
            text = f"{sum(fine) / len(fine):.3f} ({text})"
        print(f"| {kind} | `{found[kind][0]['arch']}` | {len(values)} | {text} |")


DRAWN = {"p": draw_p, "epsilon": draw_epsilon, "distance": draw_distance}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=(*DRAWN, "table"))
    parser.add_argument("folder")
    parser.add_argument("-o", dest="output", metavar="FILE")
    given = parser.parse_args()
    if given.kind != "table" and not given.output:
        parser.error(f"{given.kind}: give -o FILE")
    if given.kind == "table":
        print_table(given.folder)
    else:
        DRAWN[given.kind](given.folder, given.output)


if __name__ == "__main__":
    main()
