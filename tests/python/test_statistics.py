"""Heads of queries and keys: the library and the query blocks, each against the
formula in double precision."""

import itertools

import formula
import pytest
import torch

from entropyscan import _statistics
from entropyscan._statistics import NAMES, Attention

B, H, KV, T, D = 2, 6, 3, 37, 16
BY = ["library", "blocks"]


def measure(by, query, key, what, monkeypatch):
    if by == "library":
        seen = []
        monkeypatch.setattr(_statistics, "_by_blocks", lambda *a: seen.append(a))
        out = _statistics.measure(query, key, what)
        assert out is not None and not seen, "the library refused"
    else:
        monkeypatch.setattr(_statistics, "_by_library", lambda *a: None)
        monkeypatch.setattr(_statistics, "BLOCK_SCORES", 3000)  # of a few rows
        out = _statistics.measure(query, key, what)
    monkeypatch.undo()
    return dict(zip(NAMES, out))


def padding(kind):
    seen = torch.ones(B, T, dtype=torch.bool)
    if kind == "right":
        seen[1, 25:] = False
    if kind == "left":
        seen[1, :5] = False
    return seen


def expected(query, key, seen, what):
    """All statistics by the formula: seen (B,1,T,T); rows of padding left out."""
    sinks = what.sinks
    options = dict(scale=what.scale, softcap=what.softcap, bias=what.bias)
    a = formula.weights(query, key, seen, **options)
    with_sink = formula.weights(query, key, seen, sinks=sinks, **options)
    rows = seen.diagonal(dim1=-2, dim2=-1).expand(B, H, T)
    i = torch.arange(T, dtype=torch.float64)
    first = seen.any(2, keepdim=True).int().argmax(-1, keepdim=True)
    sink = a.gather(-1, first.expand(B, H, T, 1))[..., 0]
    values = dict(
        entropy=-(a * a.clamp_min(1e-300).log()).sum(-1),
        sink=sink,
        top=a.amax(-1),
        distance=(a * (i[:, None] - i).abs()).sum(-1),
        missing_mass=1 - with_sink.sum(-1),
    )
    out = {
        name: value.masked_fill(~rows, 0).sum((0, 2)) / rows.sum((0, 2))
        for name, value in values.items()
    }
    entropy = values["entropy"].masked_fill(~rows, 0).sum(2) / rows.sum(2)
    out["entropy_min"], out["entropy_max"] = entropy.amin(0), entropy.amax(0)
    return out


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("number", [torch.float32, torch.bfloat16, torch.float16])
def test_every_combination_agrees_with_the_formula(by, number, monkeypatch):
    lowest = 1.0
    for causal, window, pad, softcap, has_sinks, scale in itertools.product(
        [False, True], [0, 5], ["none", "right", "left"], [None, 5.0], [0, 1], [0.2, 9]
    ):
        query = (torch.randn(B, T, H, D) * 2).to(number).transpose(1, 2)
        key = torch.randn(B, KV, T, D).to(number)
        seen = padding(pad)[:, None, None, :].expand(B, 1, T, T)
        i = torch.arange(T)
        if causal:
            seen = seen & formula.causal(T)
        if window:
            seen = seen & ((i[:, None] - i).abs() < window)
        sinks = torch.randn(H) * 3 if has_sinks else None
        what = Attention(scale=scale, mask=seen, softcap=softcap, sinks=sinks)
        got = measure(by, query, key, what, monkeypatch)
        case = f"{causal} {window} {pad} {softcap} {has_sinks} {scale}"
        for name, value in expected(query, key, seen, what).items():
            worst = (got[name].double() - value).abs().max()
            assert worst <= 1e-5 * (T if name == "distance" else 1), (name, case)
        lowest = min(lowest, float(got["entropy_min"].min()))
    assert lowest < 0.2  # peaked rows were among them


def test_masks_that_are_no_pattern_are_read_as_they_are(monkeypatch):
    query, key = torch.randn(B, H, T, D), torch.randn(B, KV, T, D)
    seen = torch.rand(B, H, T, T) < 0.4
    seen.diagonal(dim1=-2, dim2=-1).fill_(True)
    what = Attention(mask=seen)
    got = dict(zip(NAMES, _statistics.measure(query, key, what)))
    a = formula.weights(query, key, seen)
    difference = got["entropy"] - formula.head_entropy(a)
    assert difference.abs().max() <= 1e-5
    shared = seen[:, :1]
    got = dict(zip(NAMES, _statistics.measure(query, key, Attention(mask=shared))))
    a = formula.weights(query, key, shared)
    assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-5


def test_an_added_bias_is_part_of_the_scores():
    query, key = torch.randn(B, H, T, D), torch.randn(B, KV, T, D)
    bias = torch.randn(1, H, T, T) * 2
    hidden = torch.zeros(1, 1, T, T).masked_fill(~formula.causal(T), -float("inf"))
    for what in (
        Attention(bias=bias, causal=True),
        Attention(mask=bias + hidden),
        Attention(mask=formula.causal(T)[None, None], bias=bias),
    ):
        got = dict(zip(NAMES, _statistics.measure(query, key, what)))
        a = formula.weights(query, key, formula.causal(T), bias=bias)
        assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-5


@pytest.mark.parametrize("by", BY)
def test_packed_sequences_do_not_see_each_other(by, monkeypatch):
    starts = torch.tensor([0, 9, 10, 30, T], dtype=torch.int32)
    query, key = torch.randn(1, H, T, D), torch.randn(1, KV, T, D)
    what = Attention(causal=True, query_starts=starts)
    got = measure(by, query, key, what, monkeypatch)
    number = torch.bucketize(torch.arange(T), starts[1:], right=True)
    seen = formula.causal(T) & (number[:, None] == number)
    a = formula.weights(query, key, seen)
    assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-5
    assert got["entropy_min"].abs().max() == 0  # a sequence of one token


@pytest.mark.parametrize("by", BY)
def test_new_queries_stand_at_the_end_of_the_keys(by, monkeypatch):
    query, key = torch.randn(B, H, 4, D), torch.randn(B, KV, T, D)
    got = measure(
        by, query, key, Attention(causal=True, offset=T - 4), monkeypatch
    )
    a = formula.weights(query, key, formula.causal(4, T))
    assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-5


@pytest.mark.parametrize("by", BY)
def test_nan_missing_and_numbers_are_three_things(by, monkeypatch):
    query, key = torch.randn(B, H, T, D), torch.randn(B, H, T, D)
    query[:, 1] = float("nan")
    query[0, 2, 5] = float("inf")
    got = measure(by, query, key, Attention(causal=True), monkeypatch)
    assert got["entropy"][1].isnan() and got["entropy"][[0, 2, 3]].isfinite().all()
    assert got["nonfinite_rows"].tolist() == [0, B * T, 1, 0, 0, 0]
    assert got["nonfinite_weights"].tolist() == [0, B * T * (T + 1) / 2, 6, 0, 0, 0]
    nothing = torch.zeros(B, 1, T, T, dtype=torch.bool)
    empty = measure(by, query, key, Attention(mask=nothing), monkeypatch)
    bits = empty["entropy"].view(torch.int32)
    assert (bits == 0x7FC007A2).all()
    bits = got["entropy"].view(torch.int32)
    assert not (bits == 0x7FC007A2).any()


def test_a_collapsed_head_is_exact(monkeypatch):
    """Entropy 0.01 at large scores, where lse minus the mean score is wrong."""
    query, key = torch.randn(B, H, T, D) * 20, torch.randn(B, H, T, D) * 20
    for by in BY:
        what = Attention(causal=True)
        got = measure(by, query, key, what, monkeypatch)
        a = formula.weights(query, key, formula.causal(T))
        plain = -(a * a.clamp_min(1e-300).log()).sum(-1).mean((0, 2))
        assert plain.max() < 0.05
        assert (got["entropy"] - plain).abs().max() <= 1e-5


def test_weights_are_distinguished_from_other_tensors():
    a = formula.weights(torch.randn(B, H, T, D), torch.randn(B, H, T, D)).float()
    got = dict(zip(NAMES, _statistics.measure_weights(a)))
    assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-6
    assert (got["max_logit"].view(torch.int32) == 0x7FC007A2).all()
    assert _statistics.measure_weights(torch.randn(B, H, T, T)) is None
    assert _statistics.measure_weights(torch.rand(B, H, T, T)) is None


CEILINGS = {
    "causal": dict(causal=True),
    "both ways": dict(),
    "a window": dict(causal=True, window=5),
    "a window both ways": dict(window=4),
    "padding": dict(mask=padding("right")),
    "causal and padding": dict(causal=True, mask=padding("left")),
    "no pattern": dict(mask=torch.rand(1, 1, T, T) < 0.3),
    "added numbers": dict(causal=True, mask=torch.full((1, 1, T, T), 0.25)),
    "a lopsided window": dict(left=6, right=2),
    "at the end": dict(causal=True, at_end=True),
    "packed": dict(causal=True, query_starts=torch.tensor([0, 12, 30, T])),
}


@pytest.mark.parametrize("name", CEILINGS)
def test_a_head_that_looks_everywhere_reaches_the_ceiling(name):
    what = Attention(**CEILINGS[name])
    b = 1 if what.query_starts is not None else B
    heads = _statistics.measure(torch.zeros(b, H, T, D), torch.randn(b, KV, T, D), what)
    entropy = dict(zip(NAMES, heads))["entropy"]
    ceiling = _statistics.ceiling(what, T, T)
    assert 0 < ceiling < 4
    torch.testing.assert_close(entropy, torch.full((H,), ceiling), atol=1e-5, rtol=0)


def test_the_ceiling_of_a_causal_head_is_that_of_the_readers():
    assert _statistics.ceiling(Attention(causal=True), T, T) == pytest.approx(
        torch.lgamma(torch.tensor(T + 1.0, dtype=torch.float64)).item() / T
    )
