"""Judges the claims: computes the numbers of each claim, their evidence and the
verdict.

Used by replicate.py. Results have the form {model: {seed: measures}}. A missing run has
no entry, and a claim that needs a missing run gets no verdict.
"""
import math

import inference
from measures import LOGARITHMIC, YES_OR_NO
from rules import names_of


def value_of(claim, measures):
    """Returns the measure of a run that a claim uses; None if the run does not have the
    measure."""
    x = measures.get(claim["measure"])
    if x is not None and claim["measure"] in LOGARITHMIC:
        return math.log(x) if x < math.inf else math.inf
    return x


def difference(a, b):
    """Returns a - b; NaN for two infinities, which the sign test counts as a tie."""
    return a - b


def numbers(claim, results, seeds):
    """Returns one number for each seed. Leaves out the seeds for which one of the
    claim's runs does not have the measure."""
    found = []
    for seed in seeds:
        values = [value_of(claim, results[name][seed]) for name in names_of(claim)]
        if any(x is None for x in values):
            continue
        if "over" in claim:
            if all(map(math.isfinite, values)):
                found.append(inference.slope(
                    list(zip([x for x, _ in claim["over"]], values))))
        elif "than" in claim:
            found.append(difference(*values))
        else:
            found.append(values[0])
    return found


def evidence_of(claim, values, confidence):
    limit = claim.get("value", 0.0)
    if claim["expect"] == "near":
        return inference.test_within(values, limit, claim["margin"], confidence)
    evidence = inference.test_below(values, limit, confidence,
                                    claim["measure"] in YES_OR_NO and "of" in claim)
    if claim["expect"] == "above":
        evidence.p_for, evidence.p_against = evidence.p_against, evidence.p_for
    return evidence


def judge_claim(rules, claim, results):
    """Returns the evidence for a claim, and the reason why no verdict is possible (''
    if a verdict is possible)."""
    seeds = rules.seeds["judged"]
    missing = sum(seed not in results.get(name, {})
                  for name in names_of(claim) for seed in seeds)
    if missing:
        return None, f"{missing} {'run is' if missing == 1 else 'runs are'} missing"
    values = numbers(claim, results, seeds)
    evidence = evidence_of(claim, values, rules.confidence)
    if len(values) < rules.fewest:
        return evidence, (f"{len(values)} of {len(seeds)} seeds have this number, "
                          f"{rules.fewest} are needed")
    return evidence, ""


def judge(rules, results):
    """Returns a row for each claim with the keys claim, evidence, p, adjusted, verdict
    and note."""
    rows = []
    for claim in rules.claims:
        row = {"claim": claim, "evidence": None, "p": None, "adjusted": None, "note": ""}
        if claim["expect"] == "untestable":
            row |= {"verdict": "not testable here", "note": claim["why"]}
        else:
            row["evidence"], row["note"] = judge_claim(rules, claim, results)
            row["p"] = 1.0 if row["note"] else row["evidence"].p
        rows.append(row)
    return corrected(rows, rules.alpha)


def is_of_stability(claim):
    """Returns true for a claim of stability, which says that most runs of a model do
    not break.
    """
    return (claim["expect"] == "below" and claim["measure"] in YES_OR_NO and
            "of" in claim and "than" not in claim)


def is_empty(claim, rates, runs):
    """Returns true for a claim of stability if no run of any model broke (became NaN or
    collapsed) at the learning rate of the claim's model. The claim is then no evidence that the
    model is more stable than others.

    rates: {model: learning rate}; runs: measures with the keys model and rate
    """
    return is_of_stability(claim) and not any(
        run.get(claim["measure"]) == 1 for run in runs
        if run["rate"] == rates.get(claim["of"]))


def corrected(rows, alpha):
    """Fills in the adjusted p and the verdict of each testable claim."""
    tested = [row for row in rows if row["p"] is not None]
    for row, adjusted in zip(tested, inference.holm([row["p"] for row in tested])):
        row["adjusted"] = adjusted
        row["verdict"] = ("undecided" if row["note"] else
                          inference.verdict(row["evidence"], adjusted, alpha))
    return rows
