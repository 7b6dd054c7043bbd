#!/usr/bin/env python3
"""Trains the small models for the fit and the evaluation of the forecast.

    trainings.py FOLDER --data TOKENS [--build DIR] [--jobs N] [--part PART] [--list]

Configurations are drawn at random from the lists below, with a fixed seed. Each is
trained with two seeds, and every step is recorded. Some runs end with collapsed heads
or NaN, and others stay healthy. Finished runs are not trained again. All seeds of a
configuration belong to the same part: fit, choice (of features and threshold) or test.
"""
import argparse
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "truth"))
from runs import Refused, Run, Trainer  # noqa: E402

N_CONFIGURATIONS, SEEDS = 760, (1, 2)
N_BOLD = 520  # configurations with rates of which many end a run within 20 steps
PARTS = ("fit", "fit", "choice", "test", "test")

BARE = ("SM", "SM+G", "SM+R", "SM+LR(0.05)", "SM+ScFFN", "SM+ScFuFFN", "SM(t)+G",
        "EReg(SM(t)+ScFuFFN)", "EReg(SM(t)+R)", "SM(gate)+R")
NORMED = ("SM+LN+G", "SM+LN+R", "SM+LN", "PSM(4)+LN+G", "SM(t)+LN+G", "SM+LN+GT")


def draw(random_, number):
    """Draws a configuration. Returns (part, options of entropy-train)."""
    normed = random_.random() < 0.35
    arch = random_.choice(NORMED if normed else BARE)
    pythia = "EReg" not in arch and "PSM" not in arch and random_.random() < 0.15
    layers = random_.choice((2, 3, 4, 5, 6, 8, 10, 12))
    heads = random_.choice((1, 2, 3, 4, 6, 8, 12))
    of_head = random_.choice((4, 8, 12, 16))
    if not 24 <= heads * of_head <= 64:
        of_head = max(4, 48 // heads // 4 * 4)
    low, high = (3e-3, 2e-1) if normed else (1.5e-3, 5e-2)
    steps = (120, 160, 200, 250, 300)
    if number >= N_BOLD:
        low, high, steps = low * 2 / 3, high * 0.4, (200, 250, 300, 350, 400)
    options = {
        "arch": arch, "n-layer": layers, "n-head": heads, "d-model": heads * of_head,
        "ctx": random_.choice((24, 32, 48)), "batch": random_.choice((4, 4, 8)),
        "lr": f"{low * (high / low) ** random_.random():.2g}",
        "steps": random_.choice(steps),
        "warm-up": random_.choice((0.01, 0.05, 0.1, 0.25)),
        "schedule": random_.choice(("linear", "cosine", "constant")),
        "beta2": random_.choice((0.999, 0.999, 0.99, 0.95)),
        "clip": random_.choice((1, 1, 1, 0)),
        "weight-decay": random_.choice((0.1, 0)),
    }
    if pythia:
        options["family"] = "pythia"
    if random_.random() < 0.1:
        options["emulate"] = "fp16"
    return PARTS[number % len(PARTS)], options


def trainings():
    """Yields (Run, number of its configuration, part) of every training."""
    random_ = random.Random(20)
    for number in range(N_CONFIGURATIONS):
        part, options = draw(random_, number)
        for seed in SEEDS:
            yield (Run(f"c{number:03d}-s{seed}",
                       {**options, "seed": seed, "record-every": 1, "eval-every": 0,
                        "after-nan": 5}), number, part)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--data", required=True)
    parser.add_argument("--build", default="build")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--part", choices=sorted(set(PARTS)), help="train only this part")
    parser.add_argument("--list", action="store_true", help="print what would be trained")
    given = parser.parse_args()
    chosen = [(run, part) for run, _, part in trainings() if given.part in (None, part)]
    if given.list:
        for run, part in chosen:
            print(run.name, part, *run.arguments())
        return 0
    try:
        Trainer(given.build, given.folder, given.data, given.jobs).train_all(
            [run for run, _ in chosen])
    except Refused as error:
        print(f"trainings.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
