#!/usr/bin/env python3
"""Fits the forecast's model and chooses its features and thresholds.

    fit.py FEATURES.npz --coefficients FILE.inc.h --rule RULE.json [--reference FILE]

The model is a logistic regression, fitted by iteratively reweighted least squares;
every run of the part `fit` has the same weight. Features are added one after the other,
always the one that lowers the log loss on the part `choice` most, until no feature
lowers it by one per cent. Then the model is fitted to both parts. The threshold, and
the number of consecutive samples that must reach it, give the highest recall on both
parts with at most one false alarm in a hundred healthy runs (stop) or in twenty
(warning). The thresholds of the rules with a single feature are chosen in the same way,
and so is the threshold of gradient boosting on all features, a reference that the
program does not contain. The part `test` is not read.

The learning rate and the share of remaining steps are not features, because a model
could learn only for runs of this size which rate is too high and when the danger is
over.
"""
import argparse
import json
import pickle
import sys

import numpy as np
from measures import Runs, best_rule, calibration, weights
from sklearn.ensemble import HistGradientBoostingClassifier

EVERY, RIDGE, FAR, WORTH = 3, 1.0, 4, 0.01
SINGLE = {"logit_growth": 1, "logit_ahead": 1, "entropy": -1, "typical_ahead": -1,
          "loss_rise": 1, "grad": 1}


def rows_of(runs):
    rows = runs.before_doom(every=EVERY)
    return rows, runs.doomed[runs.run[rows]].astype(float), weights(runs, rows)


def scales(x, rows):
    mean, scale = np.nanmean(x[rows], axis=0), np.nanstd(x[rows], axis=0)
    return mean, np.maximum(scale, 1e-3)


def standard(x, mean, scale):
    """Standardises features; an unknown value is replaced by the mean of its feature,
    as in the program."""
    return np.clip(np.nan_to_num((x - mean) / scale, nan=0.0), -FAR, FAR)


def irls(z, y, w):
    """Fits a logistic regression with a ridge penalty on the coefficients. Returns
    (bias, coefficients)."""
    a = np.column_stack([np.ones(len(z)), z])
    penalty = np.diag([0.0] + [RIDGE] * z.shape[1])
    b = np.zeros(a.shape[1])
    for _ in range(100):
        p = 1 / (1 + np.exp(-a @ b))
        h = (a * (w * p * (1 - p))[:, None]).T @ a + penalty
        step = np.linalg.solve(h, a.T @ (w * (y - p)) - penalty @ b)
        b += step
        if np.abs(step).max() < 1e-9:
            break
    return b[0], b[1:]


def predict(z, bias, coefficients):
    return 1 / (1 + np.exp(-(bias + z @ coefficients)))


def log_loss(p, y, w):
    p = np.clip(p, 1e-9, 1 - 1e-9)
    return -np.average(y * np.log(p) + (1 - y) * np.log(1 - p), weights=w)


def choose(fit, choice, allowed):
    """Selects features by forward selection. Returns (columns of the features, log
    losses)."""
    (rows, y, w), (other, y2, w2) = rows_of(fit), rows_of(choice)
    mean, scale = scales(fit.x, rows)
    z, z2 = standard(fit.x[rows], mean, scale), standard(choice.x[other], mean, scale)
    chosen, losses = [], []
    while True:
        tried = []
        for column in set(allowed) - set(chosen):
            own = chosen + [column]
            tried.append((log_loss(predict(z2[:, own], *irls(z[:, own], y, w)), y2, w2), column))
        if not tried or (losses and min(tried)[0] > (1 - WORTH) * losses[-1]):
            return chosen, losses
        losses.append(min(tried)[0])
        chosen.append(min(tried)[1])
        print(f"  {losses[-1]:.4f}  {fit.names[chosen[-1]]}", file=sys.stderr)


def write_coefficients(path, names, model, rules):
    with open(path, "w", encoding="utf-8") as out:
        out.write("/* Made by samples/forecast/fit.py: not to be edited. */\n"
                  f"#define FORECAST_WARNING {rules['model_5'][0]:.6g}\n"
                  f"#define FORECAST_WARNING_SAMPLES {rules['model_5'][1]}\n"
                  f"#define FORECAST_STOP {rules['model'][0]:.6g}\n"
                  f"#define FORECAST_STOP_SAMPLES {rules['model'][1]}\n"
                  f"#define FORECAST_BIAS {model['bias']:.9g}\n\n"
                  "static const forecast_weight forecast_weights[] = {\n")
        for i, name in enumerate(names):
            line = ", ".join(f"{model[key][i]:.9g}" for key in ("coefficients", "mean", "scale"))
            out.write(f'    {{"{name}", {line}}},\n')
        out.write("};\n")


def boosting(runs):
    rows, y, w = rows_of(runs)
    made = HistGradientBoostingClassifier(max_iter=150, learning_rate=0.06, max_leaf_nodes=12,
                                          min_samples_leaf=200, l2_regularization=1,
                                          random_state=1)
    return made.fit(runs.x[rows], y, sample_weight=w * len(w) / w.sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features")
    parser.add_argument("--coefficients", required=True)
    parser.add_argument("--rule", required=True)
    parser.add_argument("--without", default="lr,remaining", help="features to exclude, separated by commas")
    parser.add_argument("--reference", help="file to store the boosted reference for judge.py")
    given = parser.parse_args()
    fit, choice = Runs(given.features, ["fit"]), Runs(given.features, ["choice"])
    both = Runs(given.features, ["fit", "choice"])
    names = both.names
    allowed = [i for i, name in enumerate(names)
               if name not in given.without.split(",")]
    columns, losses = choose(fit, choice, allowed)
    rows, y, w = rows_of(both)
    mean, scale = scales(both.x[:, columns], rows)
    bias, coefficients = irls(standard(both.x[rows][:, columns], mean, scale), y, w)
    score = predict(standard(both.x[:, columns], mean, scale), bias, coefficients)
    model = {"features": [names[i] for i in columns], "bias": bias,
             "coefficients": coefficients.tolist(), "mean": mean.tolist(), "scale": scale.tolist()}
    rules = {"model": best_rule(both, score), "model_5": best_rule(both, score, most=0.05)}
    write_coefficients(given.coefficients, model["features"], model, rules)
    for name, sign in SINGLE.items():
        x = np.nan_to_num(sign * both.x[:, names.index(name)], nan=-np.inf)
        rules[name] = best_rule(both, x)
    rules["theil_sen"] = best_rule(both, -both.left)
    if given.reference:
        reference = boosting(both)
        apart = boosting(fit).predict_proba(choice.x)[:, 1]  # not fitted to these runs
        rules["boosting"] = best_rule(choice, apart)
        with open(given.reference, "wb") as out:
            pickle.dump(reference, out)
    with open(given.rule, "w", encoding="utf-8") as out:
        json.dump({"runs": len(both), "doomed": int(both.doomed.sum()), "model": model,
                   "choice_loss": losses, "rules": rules,
                   "calibration": calibration(score[rows], y, w)[0]}, out, indent=1)
        out.write("\n")
    for name, (threshold, samples, recall, wrong) in rules.items():
        print(f"{name:14} >= {threshold:.4g} x {samples}: recall {recall:.3f}, false {wrong:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
