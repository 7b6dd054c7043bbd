#!/usr/bin/env python3
"""Searches for a learning rate with Optuna; each trial is a training run.

    entropy-corpus -o python.tok
    samples/schedulers/study.py trials --data python.tok
    samples/schedulers/study.py more --data python.tok -- --n-layer 8

Options after -- are passed to entropy-train and override the options of this script. A
trial whose heads collapse or become NaN is pruned at once, by entropy_pruning.py in
this folder. The run files are kept: `entropy-scan trials/*.db` and its figures show
them."""
import argparse
import os
import sys

import optuna

import entropy_pruning


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="folder of the run files")
    parser.add_argument("--data", required=True, help="made by entropy-corpus")
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--arch", default="SM+LN+G")
    parser.add_argument("--rules", help="judge by this file of rules instead of the defaults")
    parser.add_argument("--try", type=float, nargs="*", default=[1e-3, 0.3],
                        dest="first", metavar="LR", help="rates to try first")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    given = parser.parse_args(words[:end])
    given.more = words[end + 1:]
    return given


def objective(trial, given):
    rate = trial.suggest_float("lr", 1e-4, 1.0, log=True)
    run = os.path.join(given.folder, f"trial-{trial.number}.db")
    return entropy_pruning.train(trial, [
        "entropy-train", "--quiet", "--arch", given.arch, "--data", given.data,
        "--out", run, "--steps", str(given.steps), "--lr", str(rate),
        "--n-layer", "4", "--n-head", "4", "--d-model", "32", "--ctx", "32",
        "--record-every", "5", "--threads", "1", *given.more,
    ], run, rules=given.rules, every=0.2)["eval_loss"]


def main():
    given = options()
    os.makedirs(given.folder, exist_ok=True)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    for rate in given.first:
        study.enqueue_trial({"lr": rate})
    try:
        study.optimize(lambda trial: objective(trial, given), given.trials)
    except (OSError, RuntimeError) as error:
        sys.exit(f"study.py: {error}")
    for trial in study.trials:
        print(f"trial {trial.number}  lr {trial.params['lr']:.2e}  "
              f"{trial.state.name.lower():8}  ",
              trial.user_attrs.get("entropy_alert",
                                   f"eval loss {trial.value}"))


if __name__ == "__main__":
    main()
