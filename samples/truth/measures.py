"""Computes the measures of a run, {name: number}, with entropy-scan from the run file.

Used by replicate.py and thresholds.py. A measure is a number, or infinity (worse than
any number) if the loss became NaN. The dict has no entry for a measure that the run
does not have, for example if it has no thresholds or no collapse. Bands refer to the
ceiling ln(T!)/T; "early" is the first half of the layers, "deep" the second.
"""
import json
import math
import os
import subprocess

import inference
from runs import Refused

YES_OR_NO = ("broke", "became NaN", "collapsed", "collapsed at the end")
LOGARITHMIC = ("perplexity", "perplexity at a quarter")
ALL = (*YES_OR_NO, *LOGARITHMIC, "broke at", "collapse deeper than the middle",
       "first NaN deeper than the middle", "overloaded", "low", "balanced",
       "overloaded early minus deep", "low early minus deep", "entropy early",
       "overloaded early", "distance", "distance with depth", "alpha with depth", "beta with depth",
       "largest slope", "slope early minus deep", "smallest threshold minus gamma",
       "spread of thresholds", "spread of layers' thresholds", "thresholds at gamma", "thresholds below gamma",
       "thresholds at their start")

# SQL that selects the entropies of all heads in the last sample that has only finite
# values. The sample is of the held-out data, or of the training data if the loss
# became NaN.
HEADS = """SELECT layer, value FROM es_values('entropy', '{phase}')
    WHERE step = (SELECT max(step) FROM (SELECT step
        FROM es_values('entropy', '{phase}') GROUP BY step
        HAVING sum(state <> 'value') = 0)) ORDER BY layer, head"""
LAST = """SELECT layer, value FROM es_values('{series}', 'train') WHERE state = 'value'
    AND step = (SELECT max(step) FROM es_values('{series}', 'train')
                WHERE state = 'value') ORDER BY layer, head"""
QUARTER = """SELECT layer, value FROM es_values('ce', 'eval')
    WHERE state = 'value' AND step = {step}"""
MEAN = """SELECT layer, avg(value) AS value FROM es_values('slope', 'train')
    WHERE state = 'value' GROUP BY layer ORDER BY layer"""
FIRST_NAN = """SELECT layer, value FROM es_values('nan_activations', 'train')
    WHERE value > 0 AND step = (SELECT min(step)
        FROM es_values('nan_activations', 'train') WHERE value > 0)"""


def query(build, path, sql):
    said = subprocess.run([os.path.join(build, "entropy-scan"), "sql", path, sql, "--json"],
                          capture_output=True, text=True)
    if said.returncode:
        raise Refused(said.stderr.strip() or f"{path}: cannot be queried")
    return [(row["layer"], row["value"]) for row in json.loads(said.stdout)]


def summary(build, path):
    said = subprocess.run([os.path.join(build, "entropy-scan"), path, "--json",
                           "--max", "ceiling"], capture_output=True, text=True)
    if said.returncode:
        raise Refused(said.stderr.strip() or f"{path}: cannot be read")
    return json.loads(said.stdout)["runs"][0]


def mean(values):
    return math.fsum(values) / len(values)


def early_minus_deep(pairs, n_layer, value=lambda x: x):
    early = [value(x) for layer, x in pairs if layer < n_layer / 2]
    deep = [value(x) for layer, x in pairs if layer >= n_layer / 2]
    return mean(early) - mean(deep)


def of_heads(heads, n_layer, ceiling):
    def high(x):
        return x >= 0.75 * ceiling

    def low(x):
        return x < 0.25 * ceiling
    found = {"overloaded": mean([high(x) for _, x in heads]),
             "low": mean([low(x) for _, x in heads]),
             "overloaded early minus deep": early_minus_deep(heads, n_layer, high),
             "low early minus deep": early_minus_deep(heads, n_layer, low),
             "entropy early": mean([x for layer, x in heads if layer < n_layer / 2]) / ceiling,
             "overloaded early": mean([high(x) for layer, x in heads if layer < n_layer / 2])}
    found["balanced"] = 1 - found["overloaded"] - found["low"]
    return found


def with_depth(pairs):
    """Fits a least-squares line to the pairs (layer, value). Returns the change of this line from
    the first to the last layer."""
    return inference.slope(pairs) if len({layer for layer, _ in pairs}) > 1 else math.nan


def of_flags(run):
    """Returns the measures that describe whether, when and in which layers a run broke. A run broke
    at its first critical flag, which is a collapse or a NaN. A run is "collapsed" if heads
    collapsed at any time, and "collapsed at the end" if some heads are still collapsed when the run
    ends."""
    steps, middle = run["config"]["steps"], (run["n_layer"] - 1) / 2
    nan = [f for f in run["flags"] if f["kind"] == "nan"]
    collapse = [f for f in run["flags"]
                if f["kind"] == "collapse" and f["severity"] == "critical"]
    first = min((f["onset"] for f in nan + collapse), default=steps)
    found = {"became NaN": float(bool(nan)), "collapsed": float(bool(collapse)),
             "collapsed at the end": float(any(f["stands"] for f in collapse)),
             "broke": float(bool(nan + collapse)), "broke at": first / steps}
    layers = min(collapse, key=lambda f: f["onset"])["layers"] if collapse else []
    if layers:
        found["collapse deeper than the middle"] = (mean(layers) - middle) / run["n_layer"]
    return found


def measured(build, path):
    """Returns all measures of a run."""
    run = summary(build, path)
    n_layer, found = run["n_layer"], of_flags(run)
    nan = found["became NaN"] == 1
    perplexity = run["eval_ppl"]
    found["perplexity"] = math.inf if nan or perplexity is None else perplexity
    heads = query(build, path, HEADS.format(phase="train" if nan else "eval"))
    if heads:
        found |= of_heads(heads, n_layer, run["ceiling"])
    distance = query(build, path, HEADS.format(phase="eval").replace("'entropy'", "'distance'"))
    if distance:
        found["distance"] = mean([x for _, x in distance])
        found["distance with depth"] = with_depth(distance)
    quarter = query(build, path, QUARTER.format(step=run["config"]["steps"] // 4))
    if quarter:
        found["perplexity at a quarter"] = math.exp(quarter[0][1])
    if nan:
        layers = [layer for layer, _ in query(build, path, FIRST_NAN)]
        if layers:
            found["first NaN deeper than the middle"] = \
                (min(layers) - (n_layer - 1) / 2) / n_layer
    found |= of_parameters(build, path, run)
    assert set(found) <= set(ALL), set(found) - set(ALL)
    return {name: value for name, value in found.items() if not math.isnan(value)}


def of_parameters(build, path, run):
    """Returns measures of the learnt parameters alpha, beta, slopes and thresholds, if
    the architecture has them."""
    arch, n_layer, found = run["arch"], run["n_layer"], {}
    if "Sc" in arch:
        for name in ("alpha", "beta"):
            pairs = query(build, path, LAST.format(series=name))
            if pairs:
                found[f"{name} with depth"] = with_depth(pairs)
    if "LR(layer" in arch or "LR(global" in arch:
        pairs = query(build, path, LAST.format(series="slope"))
        if pairs:
            found["largest slope"] = max(abs(x) for _, x in pairs)
    if "LR(layer" in arch:
        pairs = query(build, path, MEAN)
        if pairs:
            found["slope early minus deep"] = early_minus_deep(pairs, n_layer)
    if arch.startswith("EReg"):
        pairs = query(build, path, LAST.format(series="theta"))
        if pairs:
            found |= of_thresholds([x for _, x in pairs], **{
                key: run["config"][key] for key in ("gamma", "theta_init")})
            found["spread of layers' thresholds"] = deviation(
                [mean([x for layer, x in pairs if layer == l]) for l in range(n_layer)])
    return found


def deviation(values):
    """Returns the population standard deviation of the values."""
    return math.sqrt(mean([(x - mean(values)) ** 2 for x in values]))


def of_thresholds(thetas, gamma, theta_init):
    """Returns measures of the learnt thresholds. A threshold is a fraction of ln T,
    like gamma. A threshold counts as "at gamma" or "at its start" if it differs from
    gamma, or from its initial value, by at most 0.001."""
    return {"smallest threshold minus gamma": min(thetas) - gamma,
            "spread of thresholds": deviation(thetas),
            "thresholds at gamma": mean([abs(x - gamma) <= 0.001 for x in thetas]),
            "thresholds below gamma": mean([x < gamma - 0.001 for x in thetas]),
            "thresholds at their start": mean([abs(x - theta_init) <= 0.001 for x in thetas])}
