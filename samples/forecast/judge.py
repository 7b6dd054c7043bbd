#!/usr/bin/env python3
"""Evaluates the forecast on the part `test`, whose runs were not used in the fit.

    judge.py FEATURES.npz --rule RULE.json [--reference FILE] -o FORECAST.md

RULE.json, which fit.py writes, contains the model, its thresholds, and the rules with
which the model is compared. This script chooses nothing.
"""
import argparse
import json
import pickle
import sys

import numpy as np
from fit import EVERY, SINGLE, predict, standard
from measures import LEADS, Runs, calibration, weights, wilson

SHOWN = {"model": "the model, stop", "model_5": "the model, warning",
         "boosting": "gradient boosting, all features", "theil_sen": "entropy by Theil-Sen"}


def rate(k, n):
    low, high = wilson(k, n)
    return f"{k / n:.3f} [{low:.3f}, {high:.3f}] ({k} of {n})" if n else "-"


def scores(runs, rule, reference):
    """Returns {name of a rule: its score at every step}."""
    model = rule["model"]
    columns = [runs.names.index(name) for name in model["features"]]
    z = standard(runs.x[:, columns], np.array(model["mean"]), np.array(model["scale"]))
    p = predict(z, model["bias"], np.array(model["coefficients"]))
    out = {"model": p, "model_5": p, "theil_sen": -runs.left}
    if reference:
        with open(reference, "rb") as file:
            out["boosting"] = pickle.load(file).predict_proba(runs.x)[:, 1]
    for name, sign in SINGLE.items():
        out[name] = np.nan_to_num(sign * runs.x[:, runs.names.index(name)], nan=-np.inf)
    return out


def comparison(runs, rule, all_scores, put):
    put("| rule | recall at the intended lead | healthy runs with a warning |", "| --- | --- | --- |")
    for name, score in all_scores.items():
        threshold, samples = rule["rules"][name][:2]
        alarms = runs.alarms(score, threshold, samples)
        put(f"| {SHOWN.get(name, name)} | {rate(int(runs.warned(alarms, None).sum()), int(runs.doomed.sum()))} | "
            f"{rate(int(runs.false_alarms(alarms).sum()), int((~runs.doomed).sum()))} |")


def lead_table(runs, alarms, put):
    doom = runs.doom[runs.doomed]
    put("| lead | recall, all doomed | recall, doomed at step 50 or later |", "| --- | --- | --- |")
    for lead in (*LEADS, None):
        warned = runs.warned(alarms, lead)
        late = doom >= 50
        said = f"{lead} steps" if lead is not None else "min(50 steps, 20 %)"
        put(f"| {said} | {rate(int(warned.sum()), len(warned))} | "
            f"{rate(int(warned[late].sum()), int(late.sum()))} |")
    fifth = runs.warned(alarms, 0) & (alarms[runs.doomed] <= 0.8 * doom)
    put(f"| 20 % of its length | {rate(int(fifth.sum()), len(fifth))} | "
        f"{rate(int(fifth[doom >= 50].sum()), int((doom >= 50).sum()))} |")


def kinds_table(runs, alarms, put):
    put("", "| kind of run | with a warning (doomed runs: before the doom) |", "| --- | --- |")
    for kind in ("nan", "collapse", "recovered", "healthy"):
        mine = runs.kind == kind
        own = alarms[mine]
        hit = (own >= 0) & ((runs.doom[mine] < 0) | (own < runs.doom[mine]))
        put(f"| {kind} | {rate(int(hit.sum()), len(own))} |")


def before_nonfinite(runs, alarms, put):
    """Writes how many steps the warning and the flags precede the first loss that is
    not finite."""
    ends = np.flatnonzero(runs.nonfinite >= 0)
    for said, at in (("warned", alarms[ends]), ("flagged (collapse or NaN)", runs.doom[ends])):
        lead = (runs.nonfinite[ends] - at)[(at >= 0) & (at < runs.nonfinite[ends])]
        spread = "" if not len(lead) else (
            f": a median of {np.median(lead):.0f} steps before it (quartiles "
            f"{np.percentile(lead, 25):.0f} and {np.percentile(lead, 75):.0f})")
        put("", f"Of the {len(ends)} runs whose loss became NaN or infinite, {len(lead)} were "
            f"{said} before the first such loss{spread}.")


def savings(runs, alarms, put):
    doomed = np.flatnonzero(runs.doomed)
    warned = doomed[(alarms[doomed] >= 0) & (alarms[doomed] < runs.doom[doomed])]
    ahead = runs.doom[warned] - alarms[warned]
    planned, doom = runs.planned, runs.doom
    saved = np.where(np.isin(doomed, warned), planned[doomed] - alarms[doomed], 0)
    at_flag = planned[doomed] - doom[doomed]
    gained = np.where(np.isin(doomed, warned), doom[doomed] - alarms[doomed], 0)
    if len(warned):
        put("", f"In the {len(warned)} runs with a warning before the doom, the median lead "
            f"is {np.median(ahead):.0f} steps (quartiles {np.percentile(ahead, 25):.0f} and {np.percentile(ahead, 75):.0f}), "
            f"{np.median(ahead / doom[warned]):.0%} of the steps before the doom.")
    put("", "Stopping at the warning saves "
        f"{saved.sum() / planned[doomed].sum():.1%} of all steps planned for doomed runs; "
        "stopping at the onset of the flag itself would save "
        f"{at_flag.sum() / planned[doomed].sum():.1%}. The warning saves "
        f"{gained.sum() / doom[doomed].sum():.1%} of the steps before the doom.")
    before_nonfinite(runs, alarms, put)
    lost = (~runs.doomed) & (alarms >= 0)
    siblings = {}
    for i in range(len(runs)):
        siblings.setdefault(runs.number[i], []).append(i)
    near = sum(any(runs.kind[j] != "healthy" for j in siblings[runs.number[i]])
               for i in np.flatnonzero(lost))
    put("", f"Healthy runs stopped: {int(lost.sum())}, of which {int((lost & (runs.kind == 'recovered')).sum())} "
        "had a collapse and recovered; for "
        f"{near}, the run or the other seed of its configuration had a collapse or was doomed.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features")
    parser.add_argument("--rule", required=True)
    parser.add_argument("--reference")
    parser.add_argument("--part", default="test", help="another part, to try this script")
    parser.add_argument("-o", "--output", required=True)
    given = parser.parse_args()
    runs = Runs(given.features, [given.part])
    with open(given.rule, encoding="utf-8") as file:
        rule = json.load(file)
    lines = []

    def put(*more):
        lines.extend(more)

    all_scores = scores(runs, rule, given.reference)
    n = {kind: int((runs.kind == kind).sum()) for kind in ("nan", "collapse", "healthy", "recovered")}
    put(f"{len(runs)} runs: {n['nan']} NaN and {n['collapse']} collapse (median step of the doom "
        f"{np.median(runs.doom[runs.doomed]):.0f}), {n['healthy']} healthy, {n['recovered']} "
        "healthy that recovered from a collapse. Rates have 95 % Wilson intervals.", "",
        "### Rules", "")
    comparison(runs, rule, all_scores, put)
    for name, title in (("model_5", "Warning"), ("model", "Stop")):
        threshold, samples = rule["rules"][name][:2]
        alarms = runs.alarms(all_scores[name], threshold, samples)
        put("", f"### {title}: probability at least {threshold:.4f}, {samples} in a row", "")
        lead_table(runs, alarms, put)
        kinds_table(runs, alarms, put)
        savings(runs, alarms, put)
    rows = runs.before_doom(every=EVERY)
    ece, bins = calibration(all_scores["model"][rows], runs.doomed[runs.run[rows]].astype(float),
                            weights(runs, rows))
    put("", "### Calibration", "",
        f"Expected calibration error {ece:.4f} over the steps before the doom, with equal weights of runs.", "",
        "| probability | share doomed | weight, runs |", "| --- | --- | --- |")
    put(*(f"| {p:.3f} | {share:.3f} | {weight:.1f} |" for p, share, weight in bins))
    with open(given.output, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
