#!/usr/bin/env python3
"""Finds the values at which the learnt thresholds of EReg (entropy regularisation) stop
changing: trains the runs of thresholds.toml and writes a page about them.

    thresholds.py [--page]

--page only writes the page, from finished runs. Finished runs are kept.

    BUILD               folder of the programs (build)
    THRESHOLDS_DIR      folder of the run files (BUILD/thresholds)
    THRESHOLDS_RESULTS  folder of thresholds.md and its figures (samples/results)
    THRESHOLDS_TABLE    the runs (samples/truth/thresholds.toml)
    THRESHOLDS_JOBS     number of runs at a time, with one thread each (2)
    THRESHOLDS_NICE     niceness of the training processes (19)
    THRESHOLDS_DIRTY=1  allows sources that differ from the commit; the page mentions
                        this
"""
import argparse
import hashlib
import os
import subprocess
import sys
import tomllib

import report
from edition import HERE, begin, corpus, recorded, run_program, sources, whole
from measures import measured
from runs import Refused, Run, Trainer


def planned(table):
    """Returns {(reduction, gamma, seed): run} for the runs that a table such as
    thresholds.toml describes."""
    return {(reduce, gamma, seed): Run(
        f"{reduce}-gamma{gamma:.2f}-s{seed}",
        {**table["options"], **table["reduce"][reduce], "ereg-reduce": reduce,
         "gamma": gamma, "seed": seed})
        for reduce in table["reduce"] for gamma in table["gamma"] for seed in table["seed"]}


# --- the page ------------------------------------------------------------------

def spread(values, form):
    """Formats a list of values, one for each seed, as text."""
    return ", ".join(form.format(x) for x in values)


def rows(table, found):
    for reduce in table["reduce"]:
        for gamma in table["gamma"]:
            seeds = [found[reduce, gamma, seed] for seed in table["seed"]]
            yield (reduce, f"{gamma:.2f}",
                   spread([m["smallest threshold minus gamma"] + gamma for m in seeds], "{:.3f}"),
                   spread([100 * m["thresholds at gamma"] for m in seeds], "{:.0f} %"),
                   spread([100 * m["thresholds below gamma"] for m in seeds], "{:.0f} %"),
                   spread([100 * m["thresholds at their start"] for m in seeds], "{:.0f} %"),
                   spread([m["spread of thresholds"] for m in seeds], "{:.3f}"),
                   spread([m["perplexity"] for m in seeds], "{:.2f}"),
                   spread([100 * m["overloaded"] for m in seeds], "{:.0f} %"))


def counted(table, found, reduce):
    """Returns a sentence that says, for one value of --ereg-reduce, in how many runs the
    smallest learnt threshold ended at gamma."""
    keys = [key for key in found if key[0] == reduce]
    at = [key for key in keys if abs(found[key]["smallest threshold minus gamma"]) <= 0.001]
    below = [key for key in keys if found[key]["thresholds below gamma"] > 0]
    gammas = ", ".join(f"{gamma:.2f} in {sum(key[1] == gamma for key in at)} of "
                       f"{len(table['seed'])} runs" for gamma in table["gamma"]
                       if any(key[1] == gamma for key in at))
    return (f"- With `--ereg-reduce {reduce}`, the smallest threshold of a run is within 0.001 of gamma in {len(at)} of "
            f"{len(keys)} runs{f' (gamma {gammas})' if at else ''}. The number of runs with a threshold more than 0.001 below "
            f"gamma is {len(below)}.")


def page(table, edition, found, example, figures):
    options = table["options"]
    lines = ["# Where the thresholds of EReg stop", ""]
    if edition["dirty"]:
        lines += ["**The sources differed from the commit.**", ""]
    lines += [counted(table, found, reduce) for reduce in table["reduce"]]
    lines += [""]
    lines += report.table(["reduction", "gamma", "smallest threshold", "thresholds at gamma",
                           "below it", "at their start", "spread", "perplexity", "overloaded"], rows(table, found))
    first, last = list(table["reduce"])[0], list(table["reduce"])[-1]
    lines += [
        "", "Each cell contains one value per seed, in the order of the seeds. Thresholds are fractions of ln T. A threshold "
        "is \"at gamma\" or \"at its start\" if it is", "within 0.001 of gamma or of its initial value; \"spread\" is the "
        "standard deviation of the thresholds; overloaded heads are above three quarters of ln(T!)/T on held-out data.", "",
        "Each head learns a threshold theta. With `--ereg-reduce token`, every row is regularised: a row of entropy e is "
        "penalised if |e - theta ln T| > gamma ln T.", "The first row of every sequence has the entropy 0 and is therefore "
        "penalised if and only if theta > gamma; this row pulls theta down to gamma and no further.", "With `--ereg-reduce "
        "mean`, only the mean entropy of a head is regularised; theta stops when it is within gamma of the mean.", "",
        f"![Thresholds of every head at the end, seed {table['seed'][0]}: {first} at three values of gamma, "
        f"{last} at the largest](thresholds-heads.png)", "",
        f"![Thresholds of the last layer over the steps at the largest gamma: {first} on the left, "
        f"{last} on the right](thresholds-steps.png)", "",
        f"The model is {options['arch']} with L {options['n-layer']}, H {options['n-head']}, d {options['d-model']}, "
        f"T {options['ctx']}. Each run trains on bytes for {options['steps']} steps of {options['batch']} sequences at the "
        f"learning rate {options['lr']:g}; there are {len(found)} runs. The commit is",
        f"{edition['commit']}, the SHA-256 of [the table](../truth/thresholds.toml) is {edition['rules']},",
        f"and the SHA-256 of the corpus (samples/truth/corpus.list) is {edition['corpus']}.", "", "```", "make thresholds",
        *[" ".join(quoted(c)) for c in (example, *figures)], "```", ""]
    return "\n".join(lines)


def quoted(command):
    return [f"'{word}'" if set(word) & set("() ") else word for word in command]


def figures_of(table, runs):
    """Returns the entropy-scan commands that draw the figures; they must run in the
    folder of the runs."""
    gammas, seed = table["gamma"], table["seed"][0]
    last = str(table["options"]["n-layer"] - 1)
    reductions = list(table["reduce"])

    def file(reduce, gamma):
        return runs[reduce, gamma, seed].name + ".db"
    panels = [file(reductions[0], gamma) for gamma in (gammas[0], gammas[len(gammas) // 2],
                                                       gammas[-1])]
    ends = [file(reduce, gammas[-1]) for reduce in reductions]
    return [["entropy-scan", *panels, ends[-1], "-q", "--figure", "thresholds", "-o",
             "thresholds-heads.png"],
            ["entropy-scan", *ends, "-q", "--curves=thresholds-steps.png", "--series", "theta",
             "--heads", last]]


def write_page(table, trainer, runs, edition, build, results):
    missing = [run.name for run in runs.values() if not trainer.is_done(run)]
    if missing:
        raise Refused(f"{missing[0]}: not finished ({len(missing)} of {len(runs)} runs are "
                      "missing); train them without --page")
    found = {key: measured(build, trainer.path(run, ".db")) for key, run in runs.items()}
    figures = figures_of(table, runs)
    for command in figures:
        words = [os.path.join(os.path.abspath(results), word.removeprefix("--curves="))
                 if word.endswith(".png") else word for word in command]
        words = ["--curves=" + word if old.startswith("--curves=") else word
                 for old, word in zip(command, words)]
        subprocess.run([os.path.join(build, words[0]), *words[1:]], check=True,
                       cwd=trainer.folder)
    run = runs[next(iter(reversed(runs)))]
    example = ["entropy-train", *run.arguments(), "--data=corpus.tok", "--threads=1",
               "-o", run.name + ".db"]
    text = page(table, edition, found, example, figures)
    path = os.path.join(results, "thresholds.md")
    report.replace_file(path, text)
    print(path, file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--page", action="store_true", help="write the page without training")
    options = parser.parse_args()
    build = os.path.abspath(os.environ.get("BUILD", "build"))
    folder = os.environ.get("THRESHOLDS_DIR", os.path.join(build, "thresholds"))
    results = os.environ.get("THRESHOLDS_RESULTS", os.path.join(HERE, "..", "results"))
    path = os.environ.get("THRESHOLDS_TABLE", os.path.join(HERE, "thresholds.toml"))
    try:
        with open(path, "rb") as file:
            content = file.read()
        table = tomllib.loads(content.decode())
        runs = planned(table)
        wanted = table["corpus"]["sha256"]
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    except KeyError as error:
        raise Refused(f"{path}: no {error.args[0]}") from None
    except ValueError as error:
        raise Refused(f"{path}: {error}") from None
    os.makedirs(folder, exist_ok=True)
    os.makedirs(results, exist_ok=True)
    data, checksum = corpus(build, folder, wanted)
    mine = {"corpus": checksum, "rules": hashlib.sha256(content).hexdigest()}
    if options.page:
        edition = recorded(folder)
        if edition is None or {key: edition[key] for key in mine} != mine:
            raise Refused(f"{folder}: contains no runs of this table and corpus; train them "
                          "without --page")
    else:
        edition = {**sources("THRESHOLDS"), **mine}
        begin(folder, "THRESHOLDS", edition)
    trainer = Trainer(build, folder, data, whole("THRESHOLDS_JOBS", 2, 1, 1024),
                      whole("THRESHOLDS_NICE", 19, 0, 19))
    if not options.page:
        trainer.train_all(list(runs.values()))
    write_page(table, trainer, runs, edition, build, results)


if __name__ == "__main__":
    run_program(main)
