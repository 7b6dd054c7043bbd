"""Computes alarms from scores of steps, and the rates of detected and falsely alarmed
runs, for fit.py and judge.py."""
import numpy as np

LEADS = (0, 5, 10, 20, 50)
FRACTION = 0.2
FIRST = 4  # number of samples before the first alarm is possible


class Runs:
    """The runs of some parts of the data; each run has a slice of the table of
    steps."""

    def __init__(self, path, parts):
        file = np.load(path)
        self.names = [str(name) for name in file["names"]]
        mine = np.flatnonzero(np.isin(file["part"], parts))
        self.kind, self.doom = file["kind"][mine], file["doom"][mine]
        self.planned, self.name = file["planned"][mine], file["name"][mine]
        self.arch, self.number = file["arch"][mine], file["number"][mine]
        self.doomed = self.doom >= 0
        self.nonfinite = file["nonfinite"][mine]
        n = file["n"][mine]
        self.first = np.concatenate([[0], np.cumsum(n)])
        take = np.concatenate([np.arange(f, f + k) for f, k in zip(file["first"][mine], n)])
        self.step, self.left = file["step"][take], file["left"][take]
        self.x = file["x"][take].astype(float)
        self.run = np.repeat(np.arange(len(mine)), n)

    def __len__(self):
        return len(self.doom)

    def before_doom(self, every=1):
        """Returns the indices of the rows that a model is fitted to: rows before the
        doom, without the first samples of each run."""
        own = np.arange(len(self.step)) - self.first[self.run]
        end = np.where(self.doomed, self.doom, np.iinfo(np.int64).max)[self.run]
        return np.flatnonzero((self.step < end) & (own >= FIRST - 1) & (own % every == 0))

    def in_a_row(self, score, samples):
        """Returns for each step the minimum of the newest `samples` scores, without the
        first three samples of the run; minus infinity if there are fewer."""
        out = np.where(np.isnan(score), -np.inf, score)
        own = np.arange(len(self.step)) - self.first[self.run]
        for back in range(1, samples):
            out[back:] = np.minimum(out[back:], score[:-back])
        out[own < samples - 1 + FIRST - 1] = -np.inf
        return out

    def alarms(self, score, threshold, samples):
        """Returns the step of each run's first warning; -1 without a warning. A warning
        needs `samples` consecutive scores at or above the threshold."""
        hit = np.flatnonzero(self.in_a_row(score, samples) >= threshold)
        out = np.full(len(self), -1)
        runs, first = np.unique(self.run[hit], return_index=True)
        out[runs] = self.step[hit[first]]
        return out

    def warned(self, alarms, lead):
        """Returns true for each doomed run with a warning at least `lead` steps before
        the doom. lead None: 50 steps, or a fifth of the run's length if that is
        less."""
        doom = self.doom[self.doomed]
        need = np.minimum(50, FRACTION * doom) if lead is None else lead
        own = alarms[self.doomed]
        return (own >= 0) & (own <= doom - need) & (own < np.maximum(doom, 1))

    def false_alarms(self, alarms):
        return alarms[~self.doomed] >= 0


def wilson(k, n, z=1.959964):
    """Returns the 95 % confidence interval of a rate (Wilson)."""
    if n == 0:
        return float("nan"), float("nan")
    p, d = k / n, 1 + z * z / n
    centre, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max((centre - half) / d, 0.0), min((centre + half) / d, 1.0)


def weights(runs, rows):
    """Returns weights for rows that give every run the same total weight, whatever its
    length."""
    own = runs.run[rows]
    return 1 / np.bincount(own, minlength=len(runs))[own]


def calibration(p, y, w, n_bins=10):
    """Returns (expected calibration error, [(mean p, share, weight)] for bins of equal
    width)."""
    place = np.minimum((p * n_bins).astype(int), n_bins - 1)
    bins = []
    for b in range(n_bins):
        here = place == b
        if here.any():
            bins.append((np.average(p[here], weights=w[here]),
                         np.average(y[here], weights=w[here]), w[here].sum()))
    total = sum(n for _, _, n in bins)
    return sum(n * abs(a - b) for a, b, n in bins) / total, bins


def best_rule(runs, score, most=0.01, all_samples=(1, 2, 3, 5, 8)):
    """Returns the rule (threshold, samples, recall, share of false alarms) with the
    highest recall at the intended lead. most: the largest share of false alarms that is
    allowed."""
    best = (np.inf, 1, 0.0, 0.0)
    early = runs.step <= runs.doom[runs.run] - np.minimum(50, FRACTION * runs.doom[runs.run])
    for samples in all_samples:
        own = runs.in_a_row(score, samples)
        highest = np.maximum.reduceat(own, runs.first[:-1])
        in_time = np.maximum.reduceat(np.where(early, own, -np.inf), runs.first[:-1])
        healthy = np.sort(highest[~runs.doomed])[::-1]
        threshold = np.nextafter(healthy[int(most * len(healthy))], np.inf)
        recall = np.mean(in_time[runs.doomed] >= threshold)
        if recall > best[2]:
            best = (float(threshold), samples, float(recall), float(np.mean(healthy >= threshold)))
    return best
