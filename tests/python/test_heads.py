"""Compares calls of scaled_dot_product_attention with all shapes and options with the
plain formula under torch's broadcasting rules. For calls whose heads cannot be
identified the watch warns once and counts the missing samples."""

import warnings

import formula
import numpy as np
import pytest
import torch
import torch.nn.functional as F

import entropyscan as es

L = 2


class Attention(torch.nn.Module):
    def __init__(self, calls, options, heads):
        super().__init__()
        self.calls, self.options = calls, options
        for name, value in heads.items():
            setattr(self, name, value)

    def forward(self, layer):
        q, k = self.calls[layer]
        return F.scaled_dot_product_attention(q, k, k, **self.options)


class Model(torch.nn.Module):
    def __init__(self, *args):
        super().__init__()
        self.layers = torch.nn.ModuleList(Attention(*args) for _ in range(L))

    def forward(self):
        return [layer(i) for i, layer in enumerate(self.layers)]


def seen(*shape):
    """Returns a mask that hides some keys in every head but shows each query at least
    one key."""
    mask = torch.rand(shape) < 0.6
    mask[..., 0] = True
    return mask


# For each call: shapes of queries and keys, options, attributes of the module, and the
# expected numbers of sequences and heads, (B,H).
CALLS = {
    "four": ((2, 3, 5, 4), (2, 3, 7, 4), {}, {}, (2, 3)),
    "one key for all samples": ((2, 3, 5, 4), (1, 3, 7, 4), {}, {}, (2, 3)),
    "keys without samples": ((2, 3, 5, 4), (3, 7, 4), {}, {}, (2, 3)),
    "one key for all heads": ((2, 3, 5, 4), (2, 1, 7, 4), {}, {}, (2, 3)),
    "one query for all": ((1, 1, 5, 4), (2, 3, 7, 4), {}, {}, (2, 3)),
    "grouped": ((2, 6, 5, 4), (2, 3, 7, 4), dict(enable_gqa=True), {}, (2, 6)),
    "grouped without samples": (
        (6, 5, 4), (3, 7, 4), dict(enable_gqa=True), {}, (1, 6)),
    "grouped of five": (
        (2, 3, 6, 5, 4), (2, 1, 2, 7, 4), dict(enable_gqa=True), {}, (6, 6)),
    "samples and heads folded": ((6, 5, 4), (6, 7, 4), {}, dict(num_heads=3), (2, 3)),
    "no samples": ((3, 5, 4), (3, 7, 4), {}, dict(n_head=3), (1, 3)),
    "one head": ((3, 5, 4), (3, 7, 4), {}, dict(nhead=1), (3, 1)),
    "a sequence alone": ((5, 4), (7, 4), {}, {}, (1, 1)),
    "windows": ((2, 4, 3, 5, 4), (2, 4, 3, 7, 4), {}, dict(num_heads=3), (8, 3)),
    "groups of heads": ((2, 3, 2, 5, 4), (2, 3, 1, 7, 4), {}, dict(num_heads=6), (2, 6)),
    "causal, more keys": ((2, 3, 5, 4), (2, 3, 7, 4), dict(is_causal=True), {}, (2, 3)),
    "causal, more queries": (
        (2, 3, 7, 4), (2, 3, 5, 4), dict(is_causal=True), {}, (2, 3)),
    "causal and folded": (
        (6, 5, 4), (6, 7, 4), dict(is_causal=True), dict(heads=2), (3, 2)),
    "a scale": ((2, 3, 5, 4), (2, 3, 7, 4), dict(scale=1.7), {}, (2, 3)),
    "a negative scale": ((2, 3, 5, 4), (2, 3, 7, 4), dict(scale=-0.8), {}, (2, 3)),
    "dropout": ((2, 3, 5, 4), (2, 3, 7, 4), dict(dropout_p=0.5), {}, (2, 3)),
    "double": ((2, 3, 5, 4), (2, 3, 7, 4), dict(is_causal=True), {}, (2, 3)),
    "a sum of heads": (
        (2, 3, 5, 4), (2, 3, 7, 4), dict(attn_mask=torch.randn(3, 1, 7)), {}, (2, 3)),
}  # fmt: skip
MASKS = dict(
    plain=(5, 7),
    keys=(1, 7),
    keys_of_samples=(2, 1, 1, 7),
    heads=(3, 5, 7),
    samples=(2, 1, 5, 7),
    one_sample=(1, 3, 5, 7),
    all=(2, 3, 5, 7),
)
for name, shape in MASKS.items():
    CALLS[f"mask of {name}"] = (
        (2, 3, 5, 4), (2, 3, 7, 4), dict(attn_mask=seen(*shape)), {}, (2, 3)
    )  # fmt: skip
for name, shape in dict(folded=(6, 5, 7), keys=(6, 1, 7), plain=(5, 7)).items():
    CALLS[f"folded, mask of {name}"] = (
        (6, 5, 4), (6, 7, 4), dict(attn_mask=seen(*shape)), dict(num_heads=3), (2, 3)
    )  # fmt: skip


def expected(q, k, options, b, h):
    """Returns the entropies (H), in nats."""
    q, k = q.double(), k.double()
    if options.get("enable_gqa"):
        k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
    scale = options.get("scale", q.shape[-1] ** -0.5)
    scores = q @ k.transpose(-1, -2) * scale
    mask = options.get("attn_mask")
    if options.get("is_causal"):  # torch aligns the causal mask at the upper left
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -float("inf"))
    elif mask is not None:
        scores = scores + mask
    return formula.row_entropy(scores.softmax(-1)).reshape(b, h, -1).mean((0, 2))


def numbers(name):
    q, k, options, heads, folds = CALLS[name]
    number = torch.float64 if name == "double" else torch.float32
    calls = [
        (torch.randn(q, dtype=number) * 2, torch.randn(k, dtype=number))
        for _ in range(L)
    ]
    return calls, options, heads, folds


@pytest.mark.parametrize("name", CALLS)
def test_every_call_is_measured(name, run_file):
    calls, options, heads, (b, h) = numbers(name)
    model = Model(calls, options, heads)
    torch.manual_seed(1)  # the same dropout
    plain = model()
    with es.watch(model, run_file) as rec:
        torch.manual_seed(1)
        watched = model()
        rec.step()
    assert rec.trouble is None, rec.trouble
    assert all(map(torch.equal, plain, watched))
    run = es.open(run_file)
    wanted = np.array([expected(q, k, options, b, h).numpy() for q, k in calls])
    assert run.entropy().shape == (1, L, h)
    assert np.abs(run.entropy()[0] - wanted).max() <= 1e-5
    assert len(np.unique(run.entropy())) == L * h


@pytest.mark.parametrize("name", ["samples and heads folded", "windows", "grouped"])
def test_calls_in_a_graph_are_measured(name, run_file):
    torch._dynamo.reset()
    calls, options, heads, (b, h) = numbers(name)
    model = Model(calls, options, heads)
    with es.watch(model, run_file, every=2) as rec:
        call = torch.compile(model, backend="aot_eager", fullgraph=True)
        for _ in range(3):
            call()
            rec.step()
    assert rec.trouble is None, rec.trouble
    run = es.open(run_file)
    wanted = np.array([expected(q, k, options, b, h).numpy() for q, k in calls])
    assert list(run.steps()) == [0, 2]
    assert np.abs(run.entropy() - wanted).max() <= 1e-5


UNKNOWN = dict(
    three=((6, 5, 4), {}),
    other_heads=((6, 5, 4), dict(num_heads=4)),
    five=((2, 4, 3, 5, 4), {}),
    five_of_others=((2, 4, 3, 5, 4), dict(num_heads=8)),
)


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("name", UNKNOWN)
def test_heads_that_cannot_be_identified_are_one_warning_and_counted(
    name, is_compiled, run_file
):
    torch._dynamo.reset()
    shape, heads = UNKNOWN[name]

    class Both(torch.nn.Module):
        """A model with two layers. The queries of the layer `known` have four dimensions,
        so this layer is measured; those of `other` have another shape."""

        def __init__(self):
            super().__init__()
            known, other = torch.randn(2, 3, 5, 4), torch.randn(shape)
            self.known = Attention([(known, known)], {}, {})
            self.other = Attention([(other, other)], {}, heads)

        def forward(self):
            return self.known(0), self.other(0)

    model = Both()
    plain = model()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with es.watch(model, run_file) as rec:
            call = torch.compile(model, backend="aot_eager") if is_compiled else model
            for _ in range(3):
                watched = call()
                rec.step()
    assert all(map(torch.equal, plain, watched))
    ours = [str(one.message) for one in said if "entropyscan" in str(one.message)]
    assert len(ours) == 1 and f"with {len(shape)} dimensions" in ours[0]
    assert rec.lost == 3
    run = es.open(run_file)
    assert run.entropy().shape == (3, 1, 3) and np.isfinite(run.entropy()).all()
    assert "gap" in {event["kind"] for event in run.events}


@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (6, 5, 4)])
def test_an_attribute_that_raises_does_not_disturb_the_model(shape, run_file):
    class Raises(Attention):
        @property
        def num_heads(self):
            raise RuntimeError("not yet known")

    known, other = torch.randn(2, 3, 5, 4), torch.randn(shape)
    model = torch.nn.ModuleList(
        [Attention([(known, known)], {}, {}), Raises([(other, other)], {}, {})]
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with es.watch(model, run_file) as rec:
            for layer in model:
                layer(0)
            rec.step()
    is_known = len(shape) == 4
    ours = [str(one.message) for one in said if "entropyscan" in str(one.message)]
    assert len(ours) == rec.lost == (0 if is_known else 1)
    assert all("not yet known" in one for one in ours)
    assert es.open(run_file).entropy().shape == (1, 2 if is_known else 1, 3)
