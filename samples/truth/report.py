"""truth.md and truth.json: what a replication found.

For replicate.py. Numbers that are not there are "-" in Markdown and null in
JSON; infinity, which JSON has not, is the string "infinite".
"""
import json
import math
import os

from inference import interval_of
from measures import LOGARITHMIC
from runs import Refused


def replace_file(path, text):
    """Whole or not at all."""
    try:
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None


def plain(x):
    """For JSON."""
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(value) for value in x]
    if isinstance(x, float) and not math.isfinite(x):
        return None if math.isnan(x) else "infinite" if x > 0 else "-infinite"
    return x


def shown(claim, x):
    """A number of a claim; perplexity's logarithms as percent."""
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
    """The rule in words, from what is judged."""
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


def claim_rows(rows):
    for row in rows:
        claim, evidence = row["claim"], row["evidence"]
        yield (claim["text"], claim["papers"], claim["published"], rule_text(claim),
               interval_text(claim, evidence), evidence.n if evidence else "-",
               "-" if row["adjusted"] is None else f"{row['adjusted']:.2g}",
               f"**{row['verdict']}**" + (f": {row['note']}" if row["note"] else ""))


def mean_of(measures, name):
    values = [m[name] for m in measures if name in m]
    return math.fsum(values) / len(values) if values else None


def model_rows(rules, rates, results):
    for name in rules.models:
        measures = list(results.get(name, {}).values())
        rate = rates.get(name)
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
               sum(m["collapsed"] == 1 for m in measures) or "")


def head(rules, edition):
    options = rules.options
    tokens = options["steps"] * options["batch"] * options["accumulate"] * options["ctx"]
    pinned = edition["corpus"] == rules.corpus["sha256"]
    lines = ["# The four papers' claims, trained again on a CPU", ""]
    if rules.quick:
        lines += ["**The quick edition: it shows that the machinery works, and nothing else.**", ""]
    if edition["dirty"]:
        lines += ["**Of sources that are not those of the commit: no evidence.**", ""]
    lines += [
        f"- edition {rules.edition}; rules: samples/truth/rules.toml, SHA-256 {rules.sha256},",
        "  fixed before the runs",
        f"- commit {edition['commit']}" + (", changed" if edition["dirty"] else ""),
        f"- corpus: {'samples/truth/corpus.list' if pinned else 'another than the rules'}, "
        f"SHA-256 {edition['corpus']}",
        f"- model: L {options['n-layer']}, H {options['n-head']}, d {options['d-model']}, "
        f"d_k {options['d-model'] // options['n-head']}, T {options['ctx']}, bytes; "
        f"{tokens:,} tokens a run",
        f"- seeds: {rules.seeds['tuning']} choose each model's rate of {rules.rates['grid']}; "
        f"{rules.seeds['judged']} are judged",
        f"- {edition['n_runs']} runs, {edition['hours']:.2g} hours of one thread in all"]
    return lines


def markdown(rules, edition, rates, results, rows):
    counts = {}
    for row in rows:
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
    lines = head(rules, edition)
    lines += ["", "## Claims", "",
              ", ".join(f"{n} {verdict}" for verdict, n in counts.items()) +
              f". Means with {100 * rules.confidence:g} % intervals, one number a seed; p is "
              "two-sided and adjusted", "by Holm over all that are testable. Perplexities are "
              "compared by logarithms.", ""]
    lines += table(["claim", "papers", "published", "rule", "found", "n", "p", "verdict"],
                   claim_rows(rows))
    lines += ["", "## Models", "", "At the rate that the tuning seeds chose; heads on held-out "
              "data, overloaded above three quarters", "of ln(T!)/T, low below a quarter.", ""]
    lines += table(["model", "rate", "runs", "perplexity", "overloaded", "balanced", "low",
                    "NaN", "collapse"], model_rows(rules, rates, results))
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
