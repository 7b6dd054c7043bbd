#!/usr/bin/env python3
"""Extracts labels and features from run files, for the fit of the forecast.

    features.py FOLDER -o FEATURES.npz [--build DIR]

entropy-scan's flags determine the label of a run:

    doomed   the run has a flag nan, or a flag collapse that stands at the end or lasted
             for a tenth of its steps. The onset of the first such flag is the step of
             the doom
    healthy  all other runs, including runs that soon recovered from a collapse

The features of every step are those of the program: this script compiles
analyzer/flags/forecast.c unchanged and gives it the samples in the order of steps.
"""
import argparse
import ctypes
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
INPUTS = ("entropy", "max_logit", "act_rms", "loss", "grad_norm", "lr")
SOURCES = ("forecast", "forecast_features", "flags_judge", "flags", "flags_overload",
           "flags_collapse", "flags_history", "bands")
N_FEATURES = 28
COLLAPSED = 0.1  # share of the steps from which on a collapse counts as doom


class JudgeRun(ctypes.Structure):
    _fields_ = [("n_layers", ctypes.c_int), ("n_heads", ctypes.c_int), ("ctx", ctypes.c_int),
                ("planned_steps", ctypes.c_int64), ("ceiling", ctypes.c_double)]


def library():
    """Compiles the code with which the program computes features into a library for
    Python."""
    path = os.path.join(tempfile.mkdtemp(), "forecast.so")
    sources = [os.path.join(ROOT, "analyzer", "flags", f"{name}.c") for name in SOURCES]
    subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-fopenmp-simd", "-shared", "-fPIC",
                    "-I", ROOT, "-o", path, *sources, "-lm"], check=True)
    made = ctypes.CDLL(path, mode=os.RTLD_LAZY)
    made.es_forecast_size.restype = ctypes.c_size_t
    made.es_forecast_feature_name.restype = ctypes.c_char_p
    made.es_forecast_push.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int64,
                                      ctypes.c_void_p, ctypes.c_size_t]
    return made


def names(made):
    return [made.es_forecast_feature_name(ctypes.c_size_t(i)).decode() for i in range(N_FEATURES)]


def label(run):
    """Returns (doomed, step of the doom or -1, kind of flag) for a run, given as in
    entropy-scan --json."""
    bad = [flag for flag in run["flags"] if flag["kind"] in ("nan", "collapse")]
    collapses = [flag for flag in bad if flag["kind"] == "collapse"]
    n = sum(flag["last"] - flag["onset"] + 1 for flag in collapses)
    nan = any(flag["kind"] == "nan" for flag in bad)
    if not (nan or any(flag["stands"] for flag in collapses)
            or n >= COLLAPSED * (run["step"] + 1)):
        return False, -1, "recovered" if collapses else "healthy"
    return True, min(flag["onset"] for flag in bad), "nan" if nan else "collapse"


def summaries(build, paths):
    for i in range(0, len(paths), 200):
        said = subprocess.run([os.path.join(build, "entropy-scan"), "--json", *paths[i:i + 200]],
                              capture_output=True, text=True, check=True)
        yield from json.loads(said.stdout)["runs"]


def series(path):
    """Returns {series that the features use: {step: values}} of a run file."""
    found = {name: {} for name in INPUTS}
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
        marks = ",".join("?" * len(INPUTS))
        for name, step, value in file.execute(
                "SELECT name, step, value FROM sample JOIN series USING (series_id) "
                f"WHERE phase = 'train' AND name IN ({marks})", INPUTS):
            found[name][step] = value
    file.close()
    return found


def first_nonfinite(losses):
    """Returns the first step whose loss is NaN or infinite; -1 if all are finite."""
    bad = [step for step, value in losses.items()
           if not np.isfinite(np.frombuffer(value, "<f4")).all()]
    return min(bad, default=-1)


def features(made, path, run):
    """Returns a run's steps (n), features (n, 28), forecasts of theil_sen (n), and the
    first step whose loss is not finite."""
    config = run["config"]
    judged = JudgeRun(run["n_layer"], run["n_head"], run["ctx"], config["steps"], 0.0)
    space = ctypes.create_string_buffer(made.es_forecast_size(ctypes.byref(judged)))
    made.es_forecast_init(space, ctypes.byref(judged))
    inputs = series(path)
    steps = sorted(set().union(*inputs.values()))
    out = np.empty((len(steps), N_FEATURES))
    row = (ctypes.c_double * N_FEATURES)()
    for i, step in enumerate(steps):
        for n, name in enumerate(INPUTS):
            value = inputs[name].get(step)
            if value is not None:
                made.es_forecast_push(space, n, step, value, len(value) // 4)
        made.es_forecast_features(row, space)
        out[i] = row
    return (np.array(steps), out, theil_sen(inputs, run, steps),
            first_nonfinite(inputs["loss"]))


def theil_sen(inputs, run, steps, window=32):
    """Computes the forecast of a rule with a single feature: for each step, the number
    of steps until some layer's mean entropy reaches the level of a collapse,
    extrapolated with the median slope of its logarithm over the newest samples; inf for
    never."""
    n_layers, ceiling = run["n_layer"], run["ceiling"]
    low, out = np.log(0.05), np.full(len(steps), np.inf)
    found = [s for s in steps if s in inputs["entropy"]]
    x = np.array(found, float)
    if len(x) < window or not ceiling:
        return out
    y = np.stack([np.frombuffer(inputs["entropy"][s], "<f4").reshape(n_layers, -1).mean(1)
                  for s in found]) / ceiling
    y = np.log(np.maximum(np.nan_to_num(y, nan=1.0), 1e-6))
    i, j = np.triu_indices(window, 1)
    place = {step: n for n, step in enumerate(steps)}
    for end in range(window, len(x) + 1):
        own_x, own_y = x[end - window:end], y[end - window:end]
        slope = np.median((own_y[j] - own_y[i]) / (own_x[j] - own_x[i])[:, None], axis=0)
        level = np.median(own_y - slope * (own_x - own_x[-1])[:, None], axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.where(level <= low, 0, np.where(slope < 0, (low - level) / slope, np.inf))
        out[place[found[end - 1]]] = left.min()
    return out


def main():
    sys.path.insert(0, HERE)
    from trainings import trainings
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--build", default="build")
    given = parser.parse_args()
    made = library()
    wanted = {run.name: (number, part) for run, number, part in trainings()
              if os.path.exists(os.path.join(given.folder, run.name + ".done"))}
    paths = [os.path.join(given.folder, name + ".db") for name in wanted]
    columns = {key: [] for key in ("name", "number", "part", "kind", "doom", "last", "planned",
                                   "arch", "n_layer", "n_head", "lr", "first", "n",
                                   "nonfinite")}
    steps, table, lefts, total = [], [], [], 0
    for run in summaries(given.build, paths):
        _, doom, kind = label(run)
        own_steps, own, left, nonfinite = features(made, run["path"], run)
        number, part = wanted[run["name"]]
        for key, value in zip(columns, (run["name"], number, part, kind, doom, run["step"],
                                        run["config"]["steps"], run["arch"], run["n_layer"],
                                        run["n_head"], run["config"]["lr"], total, len(own),
                                        nonfinite)):
            columns[key].append(value)
        total += len(own)
        steps.append(own_steps)
        table.append(own.astype("f4"))
        lefts.append(left)
    np.savez(given.output, names=names(made), step=np.concatenate(steps),
             x=np.concatenate(table), left=np.concatenate(lefts),
             **{key: np.array(value) for key, value in columns.items()})
    print(f"{len(paths)} runs, {total} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
