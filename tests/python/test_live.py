"""Tests what a watch reports in addition to its file: the last values, a figure, and
one line at the end."""

import os

import models
import numpy as np
import pytest
import torch
from waiting import until_true

import entropyscan as es
from entropyscan import _live


def test_the_last_values_equal_those_in_the_file(run_file):
    torch.manual_seed(2)
    model, given = models.gpt2(), models.inputs("gpt2")
    with es.watch(model, run_file, every=2) as rec:
        assert rec.last() == {} and rec.last("max_logit") is None
        for _ in range(4):
            model(**given)
            rec.step(loss=1.0)
        last, heads = rec.last(), rec.last(heads=True)
        logits = rec.last("max_logit")
        with pytest.raises(ValueError, match="last.'logit'.: unknown series; step 2 has entropy, "):
            rec.last("logit")
    run = es.open(run_file)
    entropy = run.entropy()[-1]
    assert np.array_equal(logits, run.values("max_logit")[-1]) and logits.shape == (3, 4)
    assert last["attn/step"] == 2
    assert last["attn/L2/entropy_mean"] == pytest.approx(entropy[2].mean())
    assert last["attn/L0/max_logit"] == pytest.approx(logits[0].max())
    assert last["attn/entropy_min"] == pytest.approx(entropy.min())
    assert heads["attn/L1/H3/entropy"] == entropy[1, 3]
    assert heads["attn/L2/H0/sink"] == run.values("sink")[-1, 2, 0]
    assert {k: v for k, v in heads.items() if "/H" not in k and "flags" not in k} == {
        k: v for k, v in last.items() if "flags" not in k
    }


def test_series_of_layers_are_among_the_last_values(run_file):
    model, given = models.gpt2(), models.inputs("gpt2")
    with es.watch(model, run_file, record="standard") as rec:
        model(**given)
        rec.step(loss=1.0)
        last, largest = rec.last(), rec.last("act_max")
    assert np.array_equal(largest, es.open(run_file).values("act_max")[-1])
    assert [last[f"attn/L{layer}/act_max"] for layer in range(3)] == largest.tolist()


def test_a_missing_value_has_no_key_but_nan_has():
    missing = np.uint32([0x7FC007A2]).view(np.float32)[0]
    latest = _live.Latest()
    entropy = np.float32([[1, np.nan], [missing, missing], [missing, 0.5], [0, 0]])
    latest.keep(7, {"entropy": entropy, "grad_norm": np.float32([1, missing, 0, 2])})
    found = latest.flat(heads=True)
    assert np.isnan(found["attn/L0/entropy_mean"]) and np.isnan(found["attn/entropy_mean"])
    assert "attn/L1/entropy_mean" not in found and "attn/L1/H0/entropy" not in found
    assert found["attn/L2/entropy_mean"] == 0.5 and found["attn/L3/entropy_mean"] == 0
    assert [found.get(f"attn/L{i}/grad_norm") for i in range(4)] == [1, None, 0, 2]


def test_standing_flags_are_counted_during_the_training(run_file, monkeypatch):
    monkeypatch.setattr(_live.Standing, "LEAST_SECONDS", 0.0)
    model, given = models.gpt2(), models.inputs("gpt2")
    with es.watch(model, run_file) as rec:
        for step in range(4):
            model(**given)
            rec.step(loss=float("nan") if step > 1 else 1.0)
        until_true(lambda: rec.last().get("attn/flags") == 1, "the NaN did not become a flag")


def test_one_line_at_the_end_summarises_the_run(run_file, monkeypatch, capsys):
    monkeypatch.chdir(os.path.dirname(run_file))
    model, given = models.gpt2(), models.inputs("gpt2")

    def said(steps, **options):
        with es.watch(model, run_file, **options) as rec:
            for _ in range(steps):
                model(**given)
                rec.step(loss=1.0)
        return capsys.readouterr().err

    short = "overload (too short to judge) since step 0"
    assert said(3) == f"run.db: 3 x 4 heads, 3 samples, {short} (entropy-scan run.db --heatmap)\n"
    assert said(3, quiet=True) == ""
    assert said(0) == ""


def test_a_figure_is_drawn_while_the_training_runs(run_file):
    model, given = models.gpt2(), models.inputs("gpt2")
    with es.watch(model, run_file) as rec:
        with pytest.raises(es.Error, match="nothing has been recorded yet"):
            rec.figure()
        for _ in range(3):
            model(**given)
            rec.step(loss=1.0)

        def is_drawn():
            try:
                return b"<svg" in rec.figure("heatmap").data
            except es.Error:  # the recorder has not written the sample yet
                return False

        until_true(is_drawn, "no picture")
    assert rec.figure("loss", "png").data.startswith(b"\x89PNG")
