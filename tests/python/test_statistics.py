"""Tests statistics of heads from queries and keys: the same tests compare the C
library, the PyTorch code, which processes queries in blocks, and the Triton kernels in
Triton's interpreter with the formula in double precision. Because an interpreted pass
takes half a second, the interpreter runs with fewer heads and only a part of the
combinations."""

import functools
import itertools

import formula
import pytest
import shapes
import torch

from entropyscan import _c_library, _device, _statistics
from entropyscan._statistics import NAMES, Attention
from entropyscan._weights import are_weights, measure_weights

B, H, KV, T, D = 2, 6, 3, 37, 16
BY = ["library", "blocks", "triton"]
CALLED = ["library", "triton"]  # those that take the members of es_attention_shape
MISSING = 0x7FC007A2
# The kernels divide by zero on purpose, for which NumPy warns in the interpreter.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")


@functools.cache
def triton_kernels():
    """Returns the module that launches the kernels, in Triton's interpreter. Skips the
    test if there is no interpreter."""
    triton = pytest.importorskip("triton")
    if not hasattr(triton, "knobs"):
        reason = f"Triton {triton.__version__} has no knobs, which the tests need"
        pytest.skip(reason, allow_module_level=True)
    if not triton.knobs.runtime.interpret:
        pytest.skip("Triton's interpreter is off: set TRITON_INTERPRET=1")
    import interpreted

    interpreted.hurry()
    from entropyscan import _triton

    return _triton


def heads_of(by):
    """Returns the numbers of query heads and key heads."""
    return (2, 1) if by == "triton" else (H, KV)


def measure(by, query, key, what, monkeypatch):
    if by == "triton":
        triton_kernels()
        monkeypatch.setattr(_device, "serves", lambda device: True)
        monkeypatch.setattr(_statistics, "_by_library", None)
        monkeypatch.setattr(_statistics, "_by_blocks", None)
        out = _statistics.measure(query, key, what)
    elif by == "library":
        seen = []
        monkeypatch.setattr(_statistics, "_by_blocks", lambda *a: seen.append(a))
        out = _statistics.measure(query, key, what)
        assert out is not None and not seen, "the library refused"
    else:
        monkeypatch.setattr(_statistics, "_by_library", lambda *a: None)
        monkeypatch.setattr(_statistics, "BLOCK_SCORES", 3000)  # a few rows
        out = _statistics.measure(query, key, what)
    monkeypatch.undo()
    return dict(zip(NAMES, out))


# --- every member of a shape ------------------------------------------------------


# Members of a Call that are arrays, and their names in es_attention_shape.
ARRAYS = dict(
    key_mask="key_mask",
    query_mask="query_mask",
    key_lengths="key_lengths",
    offsets="query_offsets",
    query_starts="query_starts",
    key_starts="key_starts",
    sinks="sink_logits",
    temperature="temperature",
)


def shape_of(query, key, call):
    """Returns the members of es_attention_shape; the call owns the arrays."""
    b, h, t, d = query.shape
    shape = dict(
        n_batch=b if call.query_starts is None else call.query_starts.numel() - 1,
        n_heads=h,
        n_queries=t,
        n_keys=key.shape[2],
        head_width=d,
        n_kv_heads=key.shape[1],
        causal=call.causal,
        query_offset=call.offset,
        window=call.window,
        scale=call.scale,
        softcap=call.softcap,
    )
    tensors = {theirs: getattr(call, ours) for ours, theirs in ARRAYS.items()}
    return shape | {k: x.data_ptr() for k, x in tensors.items() if x is not None}


def by_the_c_call(query, key, call):
    inputs = [
        (x.data_ptr(), _statistics._ELEMENTS[x.dtype], x.stride()[:3])
        for x in (query, key)
    ]
    out = _c_library.head_statistics(*inputs, shape_of(query, key, call), 2)
    assert not isinstance(out, str), out
    return [torch.from_numpy(out[name]) for _, _, name in _statistics.SERIES]


@pytest.mark.parametrize("by", CALLED)
@pytest.mark.parametrize("name", shapes.CASES)
def test_every_call_of_the_table_agrees_with_the_formula(name, by):
    query, key, call = shapes.make(name)
    if by == "triton":
        out = triton_kernels().head_statistics(query, key, call)
    else:
        out = by_the_c_call(query, key, call)
    got = dict(zip(NAMES, out))
    for statistic, value in shapes.expected(query, key, call).items():
        tolerance = 1e-5
        if statistic in ("max_logit", "distance"):
            tolerance *= max(1.0, float(value.abs().max()))
        worst = (got[statistic].double() - value).abs().max()
        assert worst <= tolerance, statistic


def test_the_table_has_every_member_of_a_shape():
    members = dict(_c_library.ffi.typeof("es_attention_shape").fields)
    used = {name for case in shapes.CASES.values() for name in case["call"]}
    sizes = {"n_batch", "n_heads", "n_kv_heads", "n_queries", "n_keys", "head_width"}
    assert set(members) - sizes - {"size", "time_limit"} == used
    for size in ("b", "h", "kv", "t", "s", "d"):
        assert len({case["sizes"][size] for case in shapes.CASES.values()}) > 1
    sharp = [min(shapes.expected(*shapes.make(n))["entropy_min"]) for n in shapes.CASES]
    assert min(sharp) < 0.02 < 2 < max(sharp)


# --- attentions as models call them -----------------------------------------------


def padding(kind):
    seen = torch.ones(B, T, dtype=torch.bool)
    if kind == "right":
        seen[1, 25:] = False
    if kind == "left":
        seen[1, :5] = False
    return seen


def expected(query, key, seen, what):
    """Returns all statistics, computed by the formula without the rows of padding.
    `seen` (B,1,T,T) is true for visible keys."""
    sinks = what.sinks
    options = dict(scale=what.scale, softcap=what.softcap, bias=what.bias)
    a = formula.weights(query, key, seen, **options)
    with_sink = formula.weights(query, key, seen, sinks=sinks, **options)
    n_heads = query.shape[1]
    rows = seen.diagonal(dim1=-2, dim2=-1).expand(B, n_heads, T)
    i = torch.arange(T, dtype=torch.float64)
    first = seen.any(2, keepdim=True).int().argmax(-1, keepdim=True)
    sink = a.gather(-1, first.expand(B, n_heads, T, 1))[..., 0]
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


COMBINATIONS = list(
    itertools.product(
        [False, True], [0, 5], ["none", "right", "left"], [None, 5.0], [0, 1], [0.2, 9]
    )
)
# For each type, Triton's interpreter runs a different part of the combinations.
# Together the parts contain all pairs of options.
PARTS = {torch.float32: 9, torch.bfloat16: 11, torch.float16: 25}


def combinations(by, number):
    return COMBINATIONS[PARTS[number] :: 29] if by == "triton" else COMBINATIONS


def test_the_parts_contain_all_pairs_of_options():
    parts = [one for number in PARTS for one in combinations("triton", number)]
    for i, j in itertools.combinations(range(6), 2):
        pairs = {(one[i], one[j]) for one in COMBINATIONS}
        assert {(one[i], one[j]) for one in parts} == pairs


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("number", PARTS)
def test_every_combination_agrees_with_the_formula(by, number, monkeypatch):
    """Every third case passes a dense mask; the others pass equivalent options (causal,
    window, padding)."""
    h, kv = heads_of(by)
    lowest = 1.0
    for index, one in enumerate(combinations(by, number)):
        causal, window, pad, softcap, has_sinks, scale = one
        query = (torch.randn(B, T, h, D) * 2).to(number).transpose(1, 2)
        key = torch.randn(B, kv, T, D).to(number)
        seen = padding(pad)[:, None, None, :].expand(B, 1, T, T)
        i = torch.arange(T)
        if causal:
            seen = seen & formula.causal(T)
        if window:
            seen = seen & ((i[:, None] - i).abs() < window)
        sinks = torch.randn(h) * 3 if has_sinks else None
        options = dict(scale=scale, softcap=softcap, sinks=sinks)
        what = as_mask = Attention(mask=seen, **options)
        if index % 3:
            mask = None if pad == "none" else padding(pad)
            what = Attention(mask=mask, causal=causal, window=window, **options)
        got = measure(by, query, key, what, monkeypatch)
        for name, value in expected(query, key, seen, as_mask).items():
            worst = (got[name].double() - value).abs().max()
            assert worst <= 1e-5 * (T if name == "distance" else 1), (name, one)
        lowest = min(lowest, float(got["entropy_min"].min()))
    assert lowest < 0.2  # peaked rows were among them


@pytest.mark.parametrize("by", ["blocks", "triton"])
def test_masks_without_a_pattern_are_supported(by, monkeypatch):
    h, kv = heads_of(by)
    query, key = torch.randn(B, h, T, D), torch.randn(B, kv, T, D)
    seen = torch.rand(B, h, T, T) < 0.4
    seen.diagonal(dim1=-2, dim2=-1).fill_(True)
    for mask in (seen, seen[:, :1]):
        got = measure(by, query, key, Attention(mask=mask), monkeypatch)
        a = formula.weights(query, key, mask)
        assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-5


@pytest.mark.parametrize("by", ["blocks", "triton"])
def test_an_added_bias_is_part_of_the_scores(by, monkeypatch):
    h, kv = heads_of(by)
    query, key = torch.randn(B, h, T, D), torch.randn(B, kv, T, D)
    bias = torch.randn(1, h, T, T) * 2
    hidden = torch.zeros(1, 1, T, T).masked_fill(~formula.causal(T), -float("inf"))
    for what in (
        Attention(bias=bias, causal=True),
        Attention(mask=bias + hidden),
        Attention(mask=formula.causal(T)[None, None], bias=bias),
    ):
        got = measure(by, query, key, what, monkeypatch)
        a = formula.weights(query, key, formula.causal(T), bias=bias)
        assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-5


@pytest.mark.parametrize("by", BY)
def test_packed_sequences_do_not_see_each_other(by, monkeypatch):
    h, kv = heads_of(by)
    starts = torch.tensor([0, 9, 9, 10, 30, T], dtype=torch.int32)
    query, key = torch.randn(1, h, T, D), torch.randn(1, kv, T, D)
    what = Attention(causal=True, query_starts=starts)
    got = measure(by, query, key, what, monkeypatch)
    number = torch.bucketize(torch.arange(T), starts[1:], right=True)
    seen = formula.causal(T) & (number[:, None] == number)
    a = formula.weights(query, key, seen)
    assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-5
    assert got["entropy_min"].abs().max() == 0  # a sequence of one token
    sink = a.gather(-1, starts.long()[number][None, None, :, None].expand(1, h, T, 1))
    assert (got["sink"] - sink.mean((0, 2, 3))).abs().max() <= 1e-5


@pytest.mark.parametrize("by", BY)
def test_new_queries_are_at_the_end_of_the_keys(by, monkeypatch):
    h, kv = heads_of(by)
    query, key = torch.randn(B, h, 4, D), torch.randn(B, kv, T, D)
    a = formula.weights(query, key, formula.causal(4, T))
    for place in (dict(offset=T - 4), dict(at_end=True)):
        got = measure(by, query, key, Attention(causal=True, **place), monkeypatch)
        assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-5


@pytest.mark.parametrize("by", BY)
def test_scores_are_divided_by_temperatures(by, monkeypatch):
    h, kv = heads_of(by)
    query, key = torch.randn(B, h, T, D), torch.randn(B, kv, T, D)
    temperature = 0.3 + torch.rand(h, T)
    what = Attention(causal=True, temperature=temperature)
    got = measure(by, query, key, what, monkeypatch)
    divided = query.double() / temperature[None, :, :, None]
    a = formula.weights(divided, key, formula.causal(T))
    assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-5


@pytest.mark.parametrize("by", BY)
def test_nan_missing_and_numbers_are_distinguished(by, monkeypatch):
    query, key = torch.randn(B, 4, T, D), torch.randn(B, 4, T, D)
    query[:, 1] = float("nan")
    query[0, 2, 5] = float("inf")
    key[1, 3, 20] = 3e38  # large enough for products to overflow
    query[1, 3, 30] = 1e10
    sinks = torch.zeros(4)
    got = measure(by, query, key, Attention(causal=True, sinks=sinks), monkeypatch)
    assert got["entropy"][1].isnan() and got["entropy"][[0, 2, 3]].isfinite().all()
    assert got["nonfinite_rows"].tolist()[:3] == [0, B * T, 1]
    assert got["nonfinite_weights"].tolist()[:3] == [0, B * T * (T + 1) / 2, 6]
    assert got["nonfinite_rows"][3] >= 1
    assert not (got["entropy"].view(torch.int32) == MISSING).any()


@pytest.mark.parametrize("by", BY)
def test_rows_that_see_no_key_are_missing(by, monkeypatch):
    h, kv = heads_of(by)
    query, key = torch.randn(B, h, T, D), torch.randn(B, kv, T, D)
    seen = torch.zeros(B, T, dtype=torch.bool)
    for mask in (seen, torch.zeros(B, 1, T, T, dtype=torch.bool)):
        empty = measure(by, query, key, Attention(mask=mask), monkeypatch)
        for name in NAMES:
            bits = empty[name].view(torch.int32)
            assert (bits == (0 if "finite" in name else MISSING)).all(), name
    seen[0, 3:] = True
    got = measure(by, query, key, Attention(mask=seen, causal=True), monkeypatch)
    a = formula.weights(query[:1, :, 3:], key[:1, :, 3:], formula.causal(T - 3))
    assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-5
    sink = a[..., 0].mean((0, 2))  # the first key that is not masked
    assert (got["sink"] - sink).abs().max() <= 1e-5


@pytest.mark.parametrize("by", BY)
def test_a_sink_of_nan_makes_rows_nonfinite(by, monkeypatch):
    query, key = torch.randn(B, 3, 9, D), torch.randn(B, 3, 9, D)
    sinks = torch.tensor([float("nan"), -float("inf"), 1.0])
    got = measure(by, query, key, Attention(causal=True, sinks=sinks), monkeypatch)
    assert got["nonfinite_rows"].tolist() == [B * 9, 0, 0]
    assert got["missing_mass"][1] == 0 and 0 < got["missing_mass"][2] < 1


@pytest.mark.parametrize("by", BY)
def test_a_collapsed_head_is_exact(by, monkeypatch):
    """The entropy is 0.01 and the scores are large, so the formula "log-sum-exp minus
    mean score" would have a large rounding error."""
    h, kv = heads_of(by)
    query, key = torch.randn(B, h, T, D) * 20, torch.randn(B, kv, T, D) * 20
    got = measure(by, query, key, Attention(causal=True), monkeypatch)
    a = formula.weights(query, key, formula.causal(T))
    plain = -(a * a.clamp_min(1e-300).log()).sum(-1).mean((0, 2))
    assert plain.max() < 0.05
    assert (got["entropy"] - plain).abs().max() <= 1e-5


def test_weights_are_distinguished_from_other_tensors():
    a = formula.weights(torch.randn(B, H, T, D), torch.randn(B, H, T, D)).float()
    got = dict(zip(NAMES, measure_weights(a)))
    assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-6
    assert (got["max_logit"].view(torch.int32) == 0x7FC007A2).all()
    assert are_weights(measure_weights(a))
    assert not are_weights(measure_weights(torch.randn(B, H, T, T)))
    assert not are_weights(measure_weights(torch.rand(B, H, T, T)))


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
def test_a_head_with_uniform_attention_reaches_the_ceiling(name):
    what = Attention(**CEILINGS[name])
    b = 1 if what.query_starts is not None else B
    heads = _statistics.measure(torch.zeros(b, H, T, D), torch.randn(b, KV, T, D), what)
    entropy = dict(zip(NAMES, heads))["entropy"]
    ceiling = float(_statistics.ceiling(what, T, T))
    assert 0 < ceiling < 4
    torch.testing.assert_close(entropy, torch.full((H,), ceiling), atol=1e-5, rtol=0)


def test_the_ceiling_of_a_causal_head_is_the_one_that_readers_use():
    assert float(_statistics.ceiling(Attention(causal=True), T, T)) == pytest.approx(
        torch.lgamma(torch.tensor(T + 1.0, dtype=torch.float64)).item() / T
    )
