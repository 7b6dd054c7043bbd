#!/usr/bin/env python3
"""Replicates the claims of the four papers with new training runs, for `make replicate`.

    replicate.py [--quick] [--plan] [--report] [--page]

--quick: trains a few small runs in minutes, which are not evidence; --plan: prints the
smallest and largest possible number of runs; --report: trains nothing and judges the
finished runs; --page: writes truth-claims.md again from the JSON files of this edition
of the rules and of earlier editions. Finished runs are kept, so that a killed
replication can be resumed.

    BUILD              folder of the programs (build)
    REPLICATE_DIR      folder of the run files (BUILD/replicate, or
                       BUILD/replicate-quick)
    REPLICATE_RESULTS  folder of truth-claims.md, truth.json, truth-heads.png
                       (samples/results; with --quick: REPLICATE_DIR/results), and of
                       truth-N.json for an edition N that extends another one
    REPLICATE_RULES    the rules (samples/truth/rules.toml); rules-3.toml extends them
    REPLICATE_DATA     a token file instead of the corpus of corpus.list (--quick only)
    REPLICATE_JOBS     number of runs at a time, with one thread each (2)
    REPLICATE_NICE     niceness of the training processes (19)
    REPLICATE_DIRTY=1  allows sources that differ from the commit; the results mention
                       this
"""
import argparse
import json
import math
import os
import subprocess
import sys

import judge
import report
from edition import begin, corpus, run_program, sources, whole
from measures import measured, summary
from rules import Rules, best_rate, next_rates
from runs import Refused, Run, Trainer

HERE = os.path.dirname(os.path.abspath(__file__))
BASELINES = ("SM+LN+G", "SM+LN+R", "SM+LN", "SM+G", "SM+R", "SM")


class Replication:
    def __init__(self, rules, trainer, build):
        self.rules, self.trainer, self.build = rules, trainer, build
        self.known = {}         # measures of runs by name

    def measures(self, run):
        if run.name not in self.known:
            self.known[run.name] = measured(self.build, self.trainer.path(run, ".db"))
        return self.known[run.name]

    def tried(self, name):
        """Returns {learning rate: perplexities} for the learning rates whose tuning runs are all
        finished."""
        found = {}
        for rate in self.rules.rates["grid"]:
            runs = [self.rules.run(name, rate, seed) for seed in self.rules.seeds["tuning"]]
            if all(self.trainer.is_done(run) for run in runs):
                found[rate] = [self.measures(run)["perplexity"] for run in runs]
        return found

    def own(self):
        return [name for name, model in self.rules.models.items() if model["rate"] == "own"]

    def tune(self, train):
        """Searches for the best learning rate of each model. Returns {model: learning rate};
        models with missing runs are not included."""
        while True:
            tried = {name: self.tried(name) for name in self.own()}
            grid, start = self.rules.rates["grid"], self.rules.rates["start"]
            wanted = {name: next_rates(tried[name], grid, start) for name in tried}
            runs = [self.rules.run(name, rate, seed) for name, rates in wanted.items()
                    for rate in rates for seed in self.rules.seeds["tuning"]]
            if not runs or not train:
                break
            self.trainer.train_all(runs)
        chosen = {name: best_rate(tried[name]) for name in tried if not wanted[name]}
        self.tuning = tried
        chosen |= {rate: rate for rate in grid}
        return {name: chosen[source] for name, model in self.rules.models.items()
                if (source := name if model["rate"] == "own" else model["rate"]) in chosen}

    def judged(self, rates):
        return {name: {seed: self.rules.run(name, rate, seed)
                       for seed in self.rules.seeds["judged"]}
                for name, rate in rates.items()}

    def results(self, runs):
        return {name: {seed: self.measures(run) for seed, run in seeds.items()
                       if self.trainer.is_done(run)} for name, seeds in runs.items()}

    def hours(self):
        """Returns the total duration of all runs in hours. The result does not depend on the order
        in which the runs ended."""
        hours = []
        for name in self.known:
            said = subprocess.run(
                [os.path.join(self.build, "entropy-scan"), "sql",
                 os.path.join(self.trainer.folder, name + ".db"),
                 "SELECT julianday(ended_at) - julianday(started_at) AS days FROM run", "--json"],
                capture_output=True, text=True, check=True).stdout
            hours.append(24 * (json.loads(said)[0]["days"] or 0))
        return math.fsum(hours)

    def kernels(self):
        """Returns the kernels and libraries with which the runs were trained. A
        repetition gives the same numbers, to the last digit, only with the same kernels
        and libraries."""
        configs = [summary(self.build, self.trainer.path(Run(name), ".db"))["config"]
                   for name in self.known]
        return sorted({f"{c['kernels']}, {c['products']}" for c in configs})


def plan(rules):
    """Returns the smallest and the largest possible number of runs."""
    n_own = sum(model["rate"] == "own" for model in rules.models.values())
    judged = len(rules.seeds["judged"]) * len(rules.models)
    n_tuning = len(rules.seeds["tuning"])
    return (n_own * n_tuning * len(rules.rates["start"]) + judged,
            n_own * n_tuning * len(rules.rates["grid"]) + judged)


def draw(replication, runs, results):
    """Draws the heads of the baseline models with entropy-scan. Each model is drawn with the first
    finished seed of those that decide claims."""
    paths = [replication.trainer.path(runs[name][min(results[name])], ".db")
             for name in BASELINES if results.get(name)]
    if paths and not replication.rules.beside:
        subprocess.run([os.path.join(replication.build, "entropy-scan"), *paths, "-q",
                        "--max", "ceiling", "--phase", "eval", "--for", "screen",
                        f"--heatmap={os.path.join(replication.results_dir, 'truth-heads.png')}"],
                       check=True)


def json_of(rules, folder):
    return os.path.join(folder, f"truth-{rules.edition}.json" if rules.beside else "truth.json")


def write_page(rules, folder):
    """Writes truth-claims.md from the results of the edition and of earlier ones."""
    editions = []
    while rules:
        path = json_of(rules, folder)
        found = report.read(path)
        if found["rules"] != rules.sha256:
            raise Refused(f"{path}: made with rules {found['rules']}, but {rules.path} is "
                          f"{rules.sha256}: rules must not be changed after their runs")
        editions.insert(0, (rules, found))
        rules = rules.beside
    path = os.path.join(folder, "truth-claims.md")
    report.replace_file(path, report.markdown(editions))
    print(path, file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few minutes, without evidence")
    parser.add_argument("--plan", action="store_true", help="print the number of runs")
    parser.add_argument("--report", action="store_true", help="judge without training")
    parser.add_argument("--page", action="store_true", help="write truth-claims.md from earlier results")
    options = parser.parse_args()
    build = os.path.abspath(os.environ.get("BUILD", "build"))
    rules = Rules(os.environ.get("REPLICATE_RULES", os.path.join(HERE, "rules.toml")),
                  options.quick)
    if options.plan:
        least, most = plan(rules)
        print(f"{len(rules.models)} models, {len(rules.claims)} claims, {least} to {most} runs")
        return
    folder = os.environ.get("REPLICATE_DIR", os.path.join(
        build, "replicate-quick" if options.quick else "replicate"))
    results_dir = os.environ.get("REPLICATE_RESULTS", os.path.join(folder, "results")
                                 if options.quick else os.path.join(HERE, "..", "results"))
    if options.page:
        write_page(rules, results_dir)
        return
    os.makedirs(folder, exist_ok=True)
    os.makedirs(results_dir, exist_ok=True)
    given = os.environ.get("REPLICATE_DATA")
    if given and not options.quick:
        raise Refused("REPLICATE_DATA: the rules require another corpus; different data need --quick")
    edition = sources("REPLICATE", not options.quick)
    data, edition["corpus"] = corpus(build, folder, rules.corpus["sha256"], given)
    edition["rules"] = rules.sha256
    begin(folder, "REPLICATE", edition, not options.quick)
    trainer = Trainer(build, folder, data, whole("REPLICATE_JOBS", 2, 1, 1024),
                      whole("REPLICATE_NICE", 19, 0, 19))
    replication = Replication(rules, trainer, build)
    replication.results_dir = results_dir
    for name in rules.models:   # let entropy-train refuse a model before hours of runs
        trainer.settings(rules.run(name, rules.rates["start"][0], rules.seeds["tuning"][0]))
    rates = replication.tune(not options.report)
    runs = replication.judged(rates)
    if not options.report:
        trainer.train_all([run for seeds in runs.values() for run in seeds.values()])
    results = replication.results(runs)
    rows = judge.judge(rules, results)
    if not options.report and \
            sources("REPLICATE", not options.quick)["commit"] != edition["commit"]:
        raise Refused("the commit changed during the runs: check out the first commit and use --report")
    edition |= {"n_runs": len(replication.known), "hours": replication.hours(),
                "kernels": replication.kernels(), "tuning": replication.tuning}
    report.replace_file(json_of(rules, results_dir),
                        report.as_json(rules, edition, rates, results, rows))
    draw(replication, runs, results)
    write_page(rules, results_dir)


if __name__ == "__main__":
    run_program(main)
