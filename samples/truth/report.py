"""Writes the results of a replication: truth-claims.md and truth.json.

Used by replicate.py. Missing numbers are "-" in Markdown and null in JSON; infinity,
which JSON does not have, is the string "infinite".
"""
import json
import math
import os

import judge
from inference import Evidence, interval_of
from measures import LOGARITHMIC
from runs import Refused


def replace_file(path, text):
    """Replaces the content of a file, which appears complete or not at all."""
    try:
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None


def plain(x):
    """Converts a value to a type that JSON can store."""
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(value) for value in x]
    if isinstance(x, float) and not math.isfinite(x):
        return None if math.isnan(x) else "infinite" if x > 0 else "-infinite"
    return x


def read(path):
    """Converts text that as_json() wrote back to values; "infinite" becomes a number
    again."""
    def number(x):
        if isinstance(x, dict):
            return {key: number(value) for key, value in x.items()}
        if isinstance(x, list):
            return [number(value) for value in x]
        return {"infinite": math.inf, "-infinite": -math.inf}.get(x, x) \
            if isinstance(x, str) else x
    try:
        with open(path, encoding="utf-8") as file:
            found = number(json.load(file))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise Refused(f"{path}: {error}") from None
    for claim in found["claims"]:
        if "n" in claim and claim["mean"] is None:
            claim["mean"] = math.nan
    return found


def shown(claim, x):
    """Formats a number of a claim; differences of log perplexities are printed as per
    cent."""
    if x is None or math.isnan(x):
        return "-"
    if math.isinf(x):
        return "NaN" if x > 0 else "NaN of the other"
    if claim["measure"] in LOGARITHMIC and ("than" in claim or "over" in claim):
        return f"{100 * math.expm1(x):+.1f} %"
    return f"{x:+.3g}" if "than" in claim or "over" in claim else f"{x:.3g}"


def interval_text(claim, evidence):
    if evidence is None:
        return "-"
    text = shown(claim, evidence.mean)
    if evidence.interval:
        text += " ({} to {})".format(*(shown(claim, x) for x in evidence.interval))
    return text


def rule_text(claim):
    """Returns a sentence that describes the rule of a claim."""
    if claim["expect"] == "untestable":
        return "-"
    if "over" in claim:
        what = f"change of {claim['measure']} over {len(claim['over'])} models"
    elif "than" in claim:
        what = f"{claim['measure']}: {claim['of']} less {claim['than']}"
    else:
        what = f"{claim['measure']} of {claim['of']}"
    value = claim.get("value", 0)
    if claim["expect"] == "near":
        return f"{what}: within {claim['margin']:g} of {value:g}"
    return f"{what}: {claim['expect']} {value:g}"


def cell(text):
    return str(text).replace("|", "\\|")


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows]


def row_of(claim, edition):
    """Converts a claim that as_json() has written to a row as returned by
    judge.judge()."""
    evidence = None
    if "n" in claim:
        evidence = Evidence(claim["n"], claim["mean"], claim["interval"], claim["p_for"],
                            claim["p_against"], claim["test"])
    return {"claim": claim, "edition": edition, "evidence": evidence, "p": claim["p"],
            "adjusted": None, "verdict": claim["verdict"], "note": claim["note"]}


def claim_rows(rows, several):
    """Yields one row of the table for each claim. several: true if the claims were judged by
    several editions of the rules; each row then begins with the edition."""
    for row in rows:
        claim, evidence = row["claim"], row["evidence"]
        yield (*([row["edition"]] if several else []),
               claim["text"], claim["papers"], claim["published"], rule_text(claim),
               interval_text(claim, evidence), evidence.n if evidence else "-",
               "-" if row["adjusted"] is None else f"{row['adjusted']:.2g}",
               f"**{row['verdict']}**" + (f": {row['note']}" if row["note"] else ""))


def mean_of(measures, name):
    values = [m[name] for m in measures if name in m]
    return math.fsum(values) / len(values) if values else None


def count_of(measures, name):
    """Returns the number of runs for which a yes-or-no measure is true; "" for 0, and
    "-" if an earlier edition did not compute the measure."""
    if not all(name in m for m in measures):
        return "-"
    return sum(m[name] == 1 for m in measures) or ""


def model_rows(rules, found):
    for name in rules.models:
        measures = [run for run in found["runs"] if run["model"] == name]
        rate = found["rates"].get(name)
        edge = rate in (rules.rates["grid"][0], rules.rates["grid"][-1])
        logs = [math.log(m["perplexity"]) for m in measures if m["perplexity"] < math.inf]
        interval = interval_of(logs, rules.confidence) if len(logs) == len(measures) else None
        perplexity = f"{math.exp(math.fsum(logs) / len(logs)):.3f}" if logs else "-"
        if interval:
            perplexity += " ({:.3f} to {:.3f})".format(*map(math.exp, interval))
        percents = [mean_of(measures, m) for m in ("overloaded", "balanced", "low")]
        yield (name, "-" if rate is None else f"{rate:g}" + (", edge of the grid" if edge else ""),
               len(measures), perplexity,
               *["-" if x is None else f"{100 * x:.0f} %" for x in percents],
               sum(m["became NaN"] == 1 for m in measures) or "",
               count_of(measures, "collapsed at the end"), count_of(measures, "collapsed"))


def edition_lines(rules, found):
    options = rules.options
    tokens = options["steps"] * options["batch"] * options["accumulate"] * options["ctx"]
    pinned = found["corpus"] == rules.corpus["sha256"]
    lines = []
    if rules.quick:
        lines += ["**The quick edition: it shows that the machinery works, and nothing else.**", ""]
    if found["dirty"]:
        lines += ["**The sources differed from the commit: these results are no evidence.**", ""]
    return lines + [
        f"- edition {rules.edition}, with the rules in samples/truth/{os.path.basename(rules.path)}, "
        f"SHA-256 {rules.sha256}.", "  The rules were committed before the runs.",
        f"- commit {found['commit']}" + (", changed" if found["dirty"] else ""),
        f"- corpus: {'samples/truth/corpus.list' if pinned else 'not that of the rules'}, "
        f"SHA-256 {found['corpus']}",
        f"- models with {options['n-layer']} layers, {options['n-head']} heads, model width {options['d-model']}, "
        f"head width {options['d-model'] // options['n-head']} and context {options['ctx']}, whose tokens are bytes; "
        f"{tokens:,} tokens per run",
        f"- seeds: runs with seeds {rules.seeds['tuning']} select each model's learning rate from {rules.rates['grid']}; "
        f"the claims are judged by runs with seeds {rules.seeds['judged']}",
        f"- {found['n_runs']} runs, which took {found['hours']:.2g} hours of one thread in total",
        *[f"- kernels: {kernels}" for kernels in found.get("kernels", ())]]


def joined(editions):
    """Returns the claims of all editions, with a common correction of the p values. A
    claim of a later edition with the key `instead` replaces the earlier claim. A claim of stability
    counts as not tested, although it keeps its p value, if no run collapsed or became NaN at its
    learning rate."""
    rows = []
    for rules, found in editions:
        for claim in found["claims"]:
            row, before = row_of(claim, rules.edition), claim.get("instead")
            place = next((i for i, other in enumerate(rows)
                          if other["claim"]["text"] == before), len(rows))
            rows[place:place + 1] = [row]
    rows = judge.corrected(rows, editions[-1][0].alpha)
    found = {rules.edition: found for rules, found in editions}
    for row in rows:
        runs = found[row["edition"]]
        if (row["verdict"] == "replicated" and
                judge.is_empty(row["claim"], runs["rates"], runs["runs"])):
            row["verdict"], row["note"] = "not tested", "at this rate nothing broke"
    return rows


def markdown(editions):
    """Returns the page truth-claims.md. editions: [(rules, content of truth.json)], the
    earliest edition first."""
    rows, counts = joined(editions), {}
    for row in rows:
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
    lines = ["# The four papers' claims, trained again on a CPU", ""]
    for rules, found in editions:
        lines += [*edition_lines(rules, found), ""]
    lines += ["## Claims", "",
              ", ".join(f"{n} {verdict}" for verdict, n in counts.items()) +
              f". A mean is over one number per seed and has a {100 * editions[-1][0].confidence:g} % confidence interval; "
              "p is two-sided and adjusted", "by Holm's method over all testable claims. Perplexities are "
              "compared by their logarithms.", ""]
    lines += table([*(["edition"] if len(editions) > 1 else []), "claim", "papers", "published", "rule", "found", "n", "p", "verdict"],
                   claim_rows(rows, len(editions) > 1))
    lines += ["", "## Models", "", "Each model has the learning rate that the tuning seeds selected. The shares of heads were measured on "
              "held-out data.", "A head is overloaded if its entropy is above three quarters of ln(T!)/T, and low "
              "if its entropy is below a quarter of it."]
    for rules, found in editions:
        lines += ["", *([f"Edition {rules.edition}:", ""] if len(editions) > 1 else [])]
        lines += table(["model", "rate", "runs", "perplexity", "overloaded", "balanced", "low",
                        "NaN", "collapsed at the end", "at any time"], model_rows(rules, found))
    lines += ["", "![Heads of the six baselines, first judged seed](truth-heads.png)", ""]
    return "\n".join(lines)


def as_json(rules, edition, rates, results, rows):
    return json.dumps(plain({
        "schema": 1, "quick": rules.quick, **edition,
        "rates": rates,
        "claims": [{**row["claim"], "verdict": row["verdict"], "note": row["note"],
                    "p": row["p"], "p_holm": row["adjusted"],
                    **({} if row["evidence"] is None else {
                        "n": row["evidence"].n, "mean": row["evidence"].mean,
                        "interval": row["evidence"].interval,
                        "p_for": row["evidence"].p_for, "p_against": row["evidence"].p_against,
                        "test": row["evidence"].method})} for row in rows],
        "runs": [{"model": name, "rate": rates[name], "seed": seed, **measures}
                 for name, seeds in results.items() for seed, measures in seeds.items()],
    }), indent=1) + "\n"
