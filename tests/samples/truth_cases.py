#!/usr/bin/env python3
"""Tests statistics and verdicts of samples/truth with known results. Prints TAP.

The expected values are closed forms where they exist, otherwise values of scipy 1.17.1,
statsmodels 0.14 (as noted) and tables of Student's t.
"""
import math
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                                "samples", "truth"))
import inference as i  # noqa: E402
import judge  # noqa: E402
import replicate  # noqa: E402
import report  # noqa: E402
import rules  # noqa: E402
from runs import Refused, Run, Trainer  # noqa: E402

RULES = os.path.join(sys.path[0], "rules.toml")
LATER = os.path.join(sys.path[0], "rules-3.toml")
LAST = os.path.join(sys.path[0], "rules-4.toml")
RESULTS = os.path.join(sys.path[0], "..", "results")
# Differences for 8 seeds, with a mean slightly below 0.
SOME = [-0.031, -0.012, 0.004, -0.027, -0.019, -0.044, -0.001, -0.022]
INF = math.inf


def close(got, want, tolerance=1e-12):
    assert abs(got - want) <= tolerance * max(1, abs(want)), f"{got}, not {want}"


def relative(got, want, tolerance=1e-10):
    assert abs(got - want) <= tolerance * abs(want), f"{got}, not {want}"


def students_distribution_agrees_with_scipy():
    for t, freedom, want in [
            (0, 1, 0.5), (1.3, 1, 0.7912855998398473), (-2.5, 2.5, 0.0522849815390777),
            (-7.2, 7, 8.872807916631412e-05), (-30, 5, 3.8593243102480265e-07),
            (4.1, 11, 0.9991203035240145), (1e-3, 30, 0.5003956321167575),
            (-60, 200, 3.855789292028285e-130), (-12, 3, 0.0006225079003946681)]:
        relative(i.t_below(t, freedom), want)


def students_distribution_with_one_degree_of_freedom_is_cauchys():
    for t in (-50, -3, -0.1, 0, 0.7, 12):
        close(i.t_below(t, 1), 0.5 + math.atan(t) / math.pi)
        close(i.t_above(t, 1), 0.5 - math.atan(t) / math.pi)


def quantiles_agree_with_published_tables():
    for p, freedom, want in [(0.975, 1, 12.706), (0.975, 5, 2.571), (0.975, 11, 2.201),
                             (0.95, 7, 1.895), (0.9995, 3, 12.924), (0.5, 4, 0)]:
        assert abs(i.t_quantile(p, freedom) - want) < 6e-4
        close(i.t_quantile(1 - p, freedom), -i.t_quantile(p, freedom))


def a_t_test_agrees_with_scipy():
    evidence = i.test_below(SOME)
    relative(evidence.p_for, 0.005685027926566877)
    relative(evidence.p, 0.011370055853133753)
    close(evidence.p_for + evidence.p_against, 1)
    close(evidence.interval[0], -0.03219597141753129)
    close(evidence.interval[1], -0.005804028582468706)


def an_equivalence_test_is_the_worse_of_two():
    evidence = i.test_within(SOME, 0, 0.04)
    relative(evidence.p_for, 0.0035233467062189745)
    assert evidence.p_against > 0.99 and evidence.method == "two t"


def an_equivalence_test_does_not_depend_on_the_centre():
    a = i.test_within(SOME, 0, 0.03)
    b = i.test_within([x + 5 for x in SOME], 5, 0.03)
    close(a.p_for, b.p_for, 1e-9)


def a_mean_beyond_the_margin_refutes_equivalence():
    for sign in (1, -1):
        evidence = i.test_within([sign * (x - 1) for x in SOME], 0, 0.5)
        assert evidence.p_against < 1e-6 and evidence.p_for > 0.999


def holms_correction_agrees_with_statsmodels():
    for got, want in zip(i.holm([.01, .04, .03, .005, .2]), [0.04, 0.09, 0.09, 0.025, 0.2]):
        close(got, want)
    assert i.holm([]) == [] and i.holm([0.7, 0.9]) == [1, 1]


def signs_decide_where_a_run_became_nan():
    evidence = i.test_below([-INF, -0.2, -0.1, -INF, -0.3, 0.1, -INF, -1])
    assert evidence.method == "signs" and evidence.interval is None
    close(evidence.p_for, 9 / 256)      # 7 of 8
    close(evidence.p_against, 255 / 256)


def ties_say_nothing():
    close(i.test_below([0, 0, 0, -1, -1, -1], yes_or_no=True).p_for, 1 / 8)
    evidence = i.test_below([0.0] * 6)
    assert evidence.p == 1 and evidence.p_for == evidence.p_against == 1


def equal_values_are_tested_by_signs():
    evidence = i.test_below([-0.1] * 12)
    close(evidence.p, 2 / 4096)
    assert evidence.method == "signs"
    evidence = i.test_within([0.01] * 12, 0, 0.02)
    close(evidence.p_for, 1 / 4096)
    assert i.test_within([0.03] * 12, 0, 0.02).p_against == 1 / 4096


def one_value_is_no_evidence():
    for evidence in (i.test_below([3.0]), i.test_within([], 0, 1)):
        assert evidence.p == 1 and evidence.method == "too few"


def a_slope_is_the_change_over_the_range_of_x():
    close(i.slope([(0, 1), (0.05, 3), (0.1, 2), (0.3, 7)]), 5.710843373493975)
    close(i.slope([(2, 5), (4, 1)]), -4)


# --- verdicts -----------------------------------------------------------------

HEADER = """
edition = 9
alpha = 0.05
confidence = 0.95
fewest = 6
[corpus]
sha256 = "none"
[seeds]
tuning = [101]
judged = [1, 2, 3, 4, 5, 6, 7, 8]
[rates]
grid = [1e-3, 2e-3, 4e-3, 8e-3]
start = [2e-3]
[options]
n-layer = 3
n-head = 2
d-model = 8
ctx = 4
batch = 1
accumulate = 1
steps = 10
[quick]
[[model]]
name = "A"
[[model]]
name = "B"
rate = "A"
"""
BELOW = """
[[claim]]
text = "A is below B"
papers = "P1"
published = "1 and 2"
measure = "perplexity"
of = "A"
than = "B"
expect = "below"
"""


def rules_of(text, quick=False):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        return rules.Rules(file.name, quick)


def changed(text, **values):
    for key, value in values.items():
        text = "\n".join(f"{key} = {value}" if line.startswith(f"{key} = ") else line
                         for line in text.split("\n"))
    return text


def judged(text, a, b, measure="perplexity"):
    """Returns the row of the first claim, given the values of seeds 1, 2, ..."""
    results = {name: {seed: ({measure: x} if x is not None else {})
                      for seed, x in enumerate(values, 1)}
               for name, values in (("A", a), ("B", b))}
    return judge.judge(rules_of(HEADER + text), results)[0]


LOW, HIGH = [7.0, 7.1, 7.3, 7.2, 7.05, 7.15, 7.25, 7.1], [8.0, 8.2, 8.1, 8.3, 7.9, 8.2, 8.1, 8.0]


def a_claim_that_holds_is_replicated():
    row = judged(BELOW, LOW, HIGH)
    assert row["verdict"] == "replicated" and row["adjusted"] < 1e-4
    close(row["evidence"].mean, math.fsum(math.log(a / b) for a, b in zip(LOW, HIGH)) / 8)


def a_claim_whose_reverse_holds_is_refuted():
    assert judged(BELOW, HIGH, LOW)["verdict"] == "refuted"
    assert judged(changed(BELOW, expect='"above"'), HIGH, LOW)["verdict"] == "replicated"


def a_claim_about_equal_models_is_undecided():
    assert judged(BELOW, LOW, LOW[::-1])["verdict"] == "undecided"


def a_model_that_becomes_nan_is_the_worse_one():
    assert judged(BELOW, LOW, [INF] * 8)["verdict"] == "replicated"
    assert judged(BELOW, [INF] * 8, LOW)["verdict"] == "refuted"
    assert judged(BELOW, [INF] * 8, [INF] * 8)["verdict"] == "undecided"


def seeds_for_which_both_models_become_nan_are_ties():
    for extra in ("", "margin = 0.5\n"):
        claim = changed(BELOW, expect='"near"') + extra if extra else BELOW
        row = judged(claim, [INF] * 3 + LOW[3:], [INF] * 3 + HIGH[3:])
        assert row["evidence"].method == "signs" and row["evidence"].interval is None
        close(row["p"], 2 / 32)
        assert math.isnan(row["evidence"].mean)


def a_claim_with_a_missing_run_is_undecided():
    row = judged(BELOW, LOW[:7], HIGH)
    assert row["verdict"] == "undecided" and row["note"] == "1 run is missing"
    assert row["p"] == 1


def a_claim_with_too_few_numbers_is_undecided():
    row = judged(BELOW, [7.0] + LOW[1:5] + [None] * 3, HIGH)
    assert row["verdict"] == "undecided" and row["note"].startswith("5 of 8 seeds")
    assert judged(BELOW, LOW[:6] + [None] * 2, HIGH)["verdict"] == "replicated"


def equivalence_can_be_replicated_refuted_or_undecided():
    near = changed(BELOW, expect='"near"') + "margin = 0.02\n"
    same = [x * (1 + 0.001 * (-1) ** n) for n, x in enumerate(LOW)]
    assert judged(near, LOW, same)["verdict"] == "replicated"
    assert judged(near, LOW, HIGH)["verdict"] == "refuted"
    noisy = [x * (1 + 0.05 * (-1) ** n) for n, x in enumerate(LOW)]
    assert judged(near, LOW, noisy)["verdict"] == "undecided"


LEVEL = changed(BELOW, measure='"broke"').replace('than = "B"\n', "value = 0.5\n")


def a_yes_or_no_is_judged_by_signs():
    above = changed(LEVEL, expect='"above"')
    row = judged(above, [1.0] * 8, LOW, "broke")
    assert row["verdict"] == "replicated" and row["evidence"].method == "signs"
    close(row["p"], 2 / 256)
    assert judged(above, [0.0] * 8, LOW, "broke")["verdict"] == "refuted"
    assert judged(above, [1.0] * 6 + [0.0] * 2, LOW, "broke")["verdict"] == "undecided"


def a_trend_is_judged_by_one_slope_per_seed():
    over = changed(BELOW, expect='"above"').replace('of = "A"\nthan = "B"\n',
                                                  'over = [[0.1, "A"], [0.3, "B"]]\n')
    row = judged(over, LOW, HIGH)
    assert row["verdict"] == "replicated"
    close(row["evidence"].mean, math.fsum(math.log(b / a) for a, b in zip(LOW, HIGH)) / 8)


def holms_correction_is_over_all_claims():
    a, b = [-0.2, 0.3, -0.5, -0.4, -0.3, -0.6, -0.1, -0.4], [0.0] * 8
    claim = changed(BELOW, measure='"low"')
    assert judged(claim, a, b, "low")["verdict"] == "replicated"
    row = judged(claim + claim * 9, a, b, "low")
    close(row["adjusted"], min(1, 10 * row["p"]))
    assert row["verdict"] == "undecided"


def an_untestable_claim_is_not_in_the_correction():
    why = BELOW.split("measure")[0] + 'expect = "untestable"\nwhy = "size"\n'
    rows = judge.judge(rules_of(HEADER + BELOW + why), {
        name: {seed: {"perplexity": x} for seed, x in enumerate(values, 1)}
        for name, values in (("A", LOW), ("B", HIGH))})
    assert rows[1]["verdict"] == "not testable here" and rows[1]["adjusted"] is None
    close(rows[0]["adjusted"], rows[0]["p"])


# --- rates and rules -----------------------------------------------------------

def the_best_rate_has_the_least_mean_logarithm():
    assert rules.best_rate({1e-3: [9.0, 9.0], 2e-3: [8.0, 10.0], 4e-3: [7.0, INF]}) == 2e-3
    assert rules.best_rate({2e-3: [9.0], 1e-3: [9.0]}) == 1e-3
    assert rules.best_rate({2e-3: [INF], 1e-3: [INF]}) == 1e-3


def the_search_continues_while_the_best_rate_is_at_the_edge():
    grid, start = [1, 2, 4, 8], [2, 4]
    assert rules.next_rates({}, grid, start) == [2, 4]
    assert rules.next_rates({2: [5.0], 4: [6.0]}, grid, start) == [1]
    assert rules.next_rates({2: [6.0], 4: [5.0]}, grid, start) == [8]
    assert rules.next_rates({2: [6.0], 4: [5.0], 8: [7.0]}, grid, start) == []
    assert rules.next_rates({1: [4.0], 2: [5.0], 4: [6.0]}, grid, start) == []


def refused(text, why, quick=False):
    try:
        rules_of(text, quick)
    except Refused as error:
        assert why in str(error) and "\n" not in str(error), error
    else:
        raise AssertionError("accepted")


def inconsistent_rules_are_refused():
    good = HEADER + BELOW
    refused(good.replace("tuning = [101]", "tuning = [3]"), "seed 3")
    refused(good.replace('than = "B"', 'than = "C"'), "C: no such model")
    refused(good.replace('"below"', '"beneath"'), "'beneath'")
    refused(good + "margin = 0.1\n", "needs a margin above 0")
    refused(good + "colour = 1\n", "colour: no such key")
    refused(good.replace('measure = "perplexity"\n', ""), "needs a measure")
    refused(good.replace('rate = "A"', 'rate = "Z"'), "rate 'Z'")
    refused(good.replace('rate = "A"', 'rate = 3e-3'), "rate '0.003'")
    assert rules_of(good.replace('rate = "A"', 'rate = 4e-3')).models["B"]["rate"] == 4e-3
    refused(good.replace("start = [2e-3]", "start = [3e-3]"), "grid must ascend")
    refused(good.replace("[rates]", "[rate]"), "no rates")
    refused(good.replace("[101]", "101"), "a value of the wrong type")
    refused(good.replace("[quick]", "[quick]\nmodels = ['C']"), "toml", quick=True)
    refused("edition = ", "toml")


def an_unknown_measure_is_refused():
    refused(HEADER + changed(BELOW, measure='"perplexty"'), "perplexty: no such measure")


def the_rules_of_the_edition_are_accepted():
    for quick in (False, True):
        mine = rules.Rules(RULES, quick)
        assert len(mine.sha256) == 64 and mine.claims and mine.models
    mine = rules.Rules(RULES)
    options = mine.options
    assert options["d-model"] / options["n-head"] >= 16
    assert options["n-layer"] != options["n-head"]
    assert len(mine.seeds["judged"]) >= 6
    # If all seeds agree, the sign test must be significant even after Holm's
    # correction.
    n_tested = sum(claim["expect"] != "untestable" for claim in mine.claims)
    assert n_tested * 2 / 2 ** len(mine.seeds["judged"]) <= mine.alpha


def a_later_edition_has_the_same_settings_and_different_seeds():
    later = rules.Rules(LATER)
    before = later.beside
    assert before.sha256 == rules.Rules(RULES).sha256
    assert later.options == before.options and later.corpus == before.corpus
    assert not set(later.seeds["judged"]) & set(before.seeds["judged"] + before.seeds["tuning"])
    n_tested = sum(claim["expect"] != "untestable" for claim in before.claims + later.claims)
    assert n_tested * 2 / 2 ** len(later.seeds["judged"]) <= later.alpha
    last = rules.Rules(LAST)
    assert last.beside.sha256 == later.sha256
    assert last.options == later.options | {"t-init": 0.01} and last.corpus == later.corpus
    assert not set(last.seeds["judged"]) & set(later.seeds["judged"] + before.seeds["judged"] +
                                               before.seeds["tuning"])


def two_editions(later, folder):
    """Writes two editions of the rules, the second of which extends the first, and results for
    their seeds. Returns the rules of the second edition."""
    before = BELOW + BELOW.split("measure")[0].replace("A is below B", "Large") + \
        'expect = "untestable"\nwhy = "size"\n'
    for name, text in (("one.toml", before), ("two.toml", later)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(("" if name == "one.toml" else 'beside = "one.toml"\n') + HEADER + text)
    mine = rules.Rules(os.path.join(folder, "two.toml"))
    for edition, low in ((mine.beside, LOW), (mine, HIGH[::-1])):
        results = {name: {seed: {"perplexity": x, "became NaN": 0.0, "collapsed": 0.0}
                          for seed, x in enumerate(values, 1)}
                   for name, values in (("A", low), ("B", HIGH))}
        about = {"commit": "c", "dirty": False, "corpus": "none", "rules": edition.sha256,
                 "n_runs": 2, "hours": 1.0}
        with open(replicate.json_of(edition, folder), "w", encoding="utf-8") as file:
            file.write(report.as_json(edition, about, {"A": 2e-3, "B": 2e-3}, results,
                                      judge.judge(edition, results)))
    return mine


def a_page_of_two_editions_corrects_their_claims_together():
    later = BELOW.replace('"A is below B"', '"Large, now"').replace(
        "papers", 'instead = "Large"\npapers')
    with tempfile.TemporaryDirectory() as folder:
        mine = two_editions(later, folder)
        found = [(one, report.read(replicate.json_of(one, folder))) for one in (mine.beside, mine)]
        rows = report.joined(found)
        assert [row["claim"]["text"] for row in rows] == ["A is below B", "Large, now"]
        assert [row["edition"] for row in rows] == [9, 9]
        p = [row["p"] for row in rows]
        assert p[0] < p[1]
        close(rows[0]["adjusted"], 2 * p[0])
        close(rows[1]["adjusted"], p[1])
        page = report.markdown(found)
        assert page.count("- edition 9, with the rules in samples/truth/") == 2 and "not testable here" not in page
        assert "with the rules in samples/truth/two.toml, SHA-256" in page


STABLE = """
[[claim]]
text = "A is stable"
papers = "P1"
published = "-"
of = "A"
measure = "broke"
expect = "below"
value = 0.5
"""


def a_claim_of_stability_where_nothing_breaks_is_not_tested():
    for broken, at, verdict in ((0.0, 2e-3, "not tested"), (1.0, 1e-3, "not tested"),
                                (1.0, 2e-3, "replicated")):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "one.toml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(HEADER + STABLE)
            mine = rules.Rules(path)
            results = {name: {seed: {"broke": x, "perplexity": 2.0, "became NaN": 0.0,
                                     "collapsed": 0.0} for seed in mine.seeds["judged"]}
                       for name, x in (("A", 0.0), ("B", broken))}
            about = {"commit": "c", "dirty": False, "corpus": "none", "rules": mine.sha256,
                     "n_runs": 2, "hours": 1.0}
            with open(replicate.json_of(mine, folder), "w", encoding="utf-8") as file:
                file.write(report.as_json(mine, about, {"A": 2e-3, "B": at}, results,
                                          judge.judge(mine, results)))
            found = report.read(replicate.json_of(mine, folder))
            assert [row["verdict"] for row in report.joined([(mine, found)])] == [verdict]


def results_of_changed_rules_are_refused():
    with tempfile.TemporaryDirectory() as folder:
        mine = two_editions(BELOW, folder)
        replicate.write_page(mine, folder)
        with open(mine.beside.path, "a", encoding="utf-8") as file:
            file.write("# changed\n")
        try:
            replicate.write_page(rules.Rules(mine.path), folder)
        except Refused as error:
            assert "not be changed after their runs" in str(error)
        else:
            raise AssertionError("accepted")


def a_claim_can_only_replace_an_untestable_one():
    for text in ("A is below B", "None"):
        with tempfile.TemporaryDirectory() as folder:
            try:
                two_editions(BELOW.replace("papers", f'instead = "{text}"\npapers'), folder)
            except Refused as error:
                assert f"instead of '{text}'" in str(error)
            else:
                raise AssertionError("accepted")


def the_committed_page_agrees_with_the_committed_results():
    """Checks that the committed page shows the committed results, and that the results contain the
    checksums of their rules."""
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(RESULTS):
            if name.startswith("truth") and name.endswith(".json"):
                os.symlink(os.path.abspath(os.path.join(RESULTS, name)),
                           os.path.join(folder, name))
        replicate.write_page(rules.Rules(LAST), folder)
        with open(os.path.join(folder, "truth-claims.md"), encoding="utf-8") as mine, \
                open(os.path.join(RESULTS, "truth-claims.md"), encoding="utf-8") as committed:
            assert mine.read() == committed.read()


def runs_have_different_names():
    for path in (RULES, LATER, LAST):
        mine = rules.Rules(path)
        names = {mine.run(name, 1e-3, seed).name for name in mine.models for seed in (1, 2)}
        assert len(names) == 2 * len(mine.models)


def two_runs_with_the_same_name_are_refused():
    trainer = Trainer.__new__(Trainer)
    try:
        trainer.train_all([Run("a"), Run("a")])
    except Refused as error:
        assert "two runs" in str(error)
    else:
        raise AssertionError("accepted")


def numbers_are_formatted_by_their_kind():
    percent = {"measure": "perplexity", "than": "B"}
    assert report.shown(percent, math.log(1.1)) == "+10.0 %"
    assert report.shown(percent, INF) == "NaN" and report.shown(percent, math.nan) == "-"
    assert report.shown({"measure": "low"}, 0.25) == "0.25"
    assert report.plain({"a": [INF, -INF, math.nan, 1.5]}) == {
        "a": ["infinite", "-infinite", None, 1.5]}


if __name__ == "__main__":
    cases = [(name, case) for name, case in globals().copy().items()
             if callable(case) and getattr(case, "__module__", "") == "__main__" and
             case.__code__.co_argcount == 0]
    for number, (name, case) in enumerate(cases, 1):
        try:
            case()
            print(f"ok {number} - {name}")
        except Exception as error:  # a case fails by raising
            print(f"not ok {number} - {name}\n# {type(error).__name__}: {error}")
    print(f"1..{len(cases)}")
