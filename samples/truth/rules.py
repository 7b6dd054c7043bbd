"""Reads and checks the rules of a replication, such as rules.toml.

Used by replicate.py. An incomplete or wrong claim is refused here, before any training.
"""
import hashlib
import math
import os
import re
import tomllib

import measures
from runs import Refused, Run

EXPECTED = ("below", "above", "near", "untestable")
CLAIM_KEYS = {"text", "papers", "published", "measure", "of", "than", "over", "expect",
              "value", "margin", "why", "instead"}


class Rules:
    """The seeds, learning rates, options, models by name and claims of a rules file, and the
    file's SHA-256.

    beside: the rules of the previous edition, to whose claims the claims of this edition are
    added.
    """

    def __init__(self, path, quick=False):
        try:
            with open(path, "rb") as file:
                content = file.read()
            table = tomllib.loads(content.decode())
        except OSError as error:
            raise Refused(f"{path}: {error.strerror}") from None
        except ValueError as error:
            raise Refused(f"{path}: {error}") from None
        self.path, self.sha256, self.quick = path, hashlib.sha256(content).hexdigest(), quick
        self.table = table
        try:
            self.take(table, table["quick"] if quick else {})
        except KeyError as error:
            raise Refused(f"{path}: no {error.args[0]}") from None
        except (AttributeError, TypeError) as error:
            raise Refused(f"{path}: a value of the wrong type: {error}") from None

    def take(self, table, changed):
        self.edition, self.alpha = table["edition"], table["alpha"]
        self.confidence, self.corpus = table["confidence"], table["corpus"]
        self.fewest = changed.get("fewest", table["fewest"])
        self.beside = None
        if "beside" in table and not self.quick:
            self.beside = Rules(os.path.join(os.path.dirname(self.path), table["beside"]))
        self.seeds = {**table["seeds"], **changed.get("seeds", {})}
        self.rates = {**table["rates"], **changed.get("rates", {})}
        self.options = {**table["options"], **changed.get("options", {})}
        self.changed_options = changed.get("options", {})
        self.models = {}
        for model in table["model"]:
            if model["name"] in self.models:
                raise Refused(f"{self.path}: model {model['name']}: defined twice")
            self.models[model["name"]] = {"arch": model["name"], "rate": "own",
                                          "options": {}, **model}
        self.claims = table["claim"]
        self.check()
        if "models" in changed:
            self.models = {name: self.models[name] for name in changed["models"]}
            self.claims = [claim for claim in self.claims
                           if all(name in self.models for name in names_of(claim))]

    def check(self):
        both = set(self.seeds["tuning"]) & set(self.seeds["judged"])
        if both:
            raise Refused(f"{self.path}: seed {min(both)}: a tuning seed cannot be a judged "
                          "seed too")
        grid = self.rates["grid"]
        if grid != sorted(set(grid)) or not set(self.rates["start"]) <= set(grid):
            raise Refused(f"{self.path}: rates: grid must ascend, and contain every start value")
        for name, model in self.models.items():
            source = model["rate"]
            if source not in ("own", *grid) and self.models.get(source, {}).get("rate") != "own":
                raise Refused(f"{self.path}: model {name}: rate '{source}': "
                              "expected own, a model with its own rate, or a rate of the grid")
        for claim in self.claims:
            self.check_claim(claim)
        replaced = [claim["instead"] for claim in self.claims if "instead" in claim]
        untested = {claim["text"] for claim in self.beside.claims
                    if claim["expect"] == "untestable"} if self.beside else set()
        for text in replaced:
            if text not in untested:
                raise Refused(f"{self.path}: instead of '{text}': the previous rules have no "
                              "untestable claim with this text")

    def check_claim(self, claim):
        def refuse(why):
            raise Refused(f"{self.path}: claim '{claim.get('text', '?')}': {why}")
        unknown = set(claim) - CLAIM_KEYS
        if unknown:
            refuse(f"{min(unknown)}: no such key")
        for key in ("text", "papers", "published", "expect"):
            if key not in claim:
                refuse(f"no {key}")
        if claim["expect"] not in EXPECTED:
            refuse(f"unknown expect '{claim['expect']}': expected one of {', '.join(EXPECTED)}")
        if claim["expect"] == "untestable":
            if "why" not in claim:
                refuse("no why")
            return
        if "measure" not in claim or ("of" in claim) == ("over" in claim):
            refuse("needs a measure, and either `of` or `over`")
        if claim["measure"] not in measures.ALL:
            refuse(f"{claim['measure']}: no such measure")
        if (claim["expect"] == "near") != (claim.get("margin", 0) > 0):
            refuse("expect = near needs a margin above 0, other claims must not have one")
        for name in names_of(claim):
            if name not in self.models:
                refuse(f"{name}: no such model")

    def run(self, name, rate, seed):
        """Returns the run of a model; the run's name contains model, learning rate and seed."""
        model = self.models[name]
        short = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")
        options = {**self.options, **model["options"], **self.changed_options,
                   "arch": model["arch"], "lr": rate, "seed": seed}
        return Run(f"{short}-lr{rate:g}-s{seed}", options)


def names_of(claim):
    """Returns the names of the models that a claim is about."""
    return ([claim[key] for key in ("of", "than") if key in claim] +
            [name for _, name in claim.get("over", [])])


def best_rate(perplexities):
    """Returns the learning rate with the lowest mean log perplexity, given {learning rate:
    perplexities}."""
    return min(sorted(perplexities), key=lambda rate: math.fsum(
        math.log(x) if x < math.inf else math.inf for x in perplexities[rate]))


def next_rates(tried, grid, start):
    """Returns the learning rates to try next, given {learning rate: perplexities}. The result is
    empty if the best learning rate is neither the lowest nor the highest tried."""
    missing = [rate for rate in start if rate not in tried]
    if missing:
        return missing
    best, rates = grid.index(best_rate(tried)), sorted(tried)
    if grid[best] == rates[0] and best > 0:
        return [grid[best - 1]]
    if grid[best] == rates[-1] and best + 1 < len(grid):
        return [grid[best + 1]]
    return []
