"""Tests unusual batches. Batches without rows are ignored; for sequences of different
lengths (nested tensors) and per-sample gradients the watch warns once and counts the
missing samples. The model computes the same as without a watch."""

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import entropyscan as es

L, H, D = 2, 3, 4
E = H * D


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(E, 3 * E)
        nn.init.normal_(self.qkv.weight, std=0.8)

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (H, D)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + y.transpose(1, 2).flatten(2)


class Multihead(nn.Module):
    def __init__(self, n_heads=H):
        super().__init__()
        self.inner = nn.MultiheadAttention(E, n_heads, batch_first=True)

    def forward(self, x):
        return x + self.inner(x, x, x, need_weights=False)[0]


class OwnArguments(nn.MultiheadAttention):
    def __init__(self):
        super().__init__(E, H, batch_first=True)

    def forward(self, x):
        return x + super().forward(x, x, x, need_weights=False)[0]


def stack(layer):
    torch.manual_seed(3)
    return nn.Sequential(*[layer() for _ in range(L)])


def train(model, batches, rec=None):
    """Trains a model. Returns the outputs and the last gradients."""
    numbers = []
    for x in batches:
        model.zero_grad()
        out = model(x)
        loss = out.pow(2).sum()
        loss.backward()
        numbers.append(out.detach())
        if rec is not None:
            rec.step(loss=loss)
    return numbers + [p.grad.clone() for p in model.parameters()]


def watched(model, batches, path, act=train):
    """Returns the result of act(), the watch and its warnings."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with es.watch(model, path) as rec:
            numbers = act(model, batches, rec)
    return numbers, rec, [str(w.message) for w in said if "entropyscan" in str(w.message)]


def same(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b))


@pytest.mark.parametrize("layer", [Attention, Multihead])
@pytest.mark.parametrize("empty", [(0, 7, E), (2, 0, E)], ids=["samples", "tokens"])
@pytest.mark.parametrize("first", [False, True])
def test_a_batch_without_rows_is_neither_a_sample_nor_a_gap(layer, empty, first, run_file):
    full = torch.randn(2, 7, E)
    batches = [full, torch.empty(empty), full]
    batches = batches[1:] if first else batches
    plain = train(stack(layer), batches)
    numbers, rec, said = watched(stack(layer), batches, run_file)
    assert same(plain, numbers)
    assert said == [] and rec.trouble is None and rec.lost == 0
    run = es.open(run_file)
    assert list(run.steps("entropy")) == ([1] if first else [0, 2])
    assert np.isfinite(run.entropy()).all() and run.entropy().std() > 0.01
    assert list(run.steps("loss")) == list(range(len(batches)))


class Nested(nn.Module):
    """Passes nested queries (B,H,lengths,D) to SDPA. Returns the outputs, or the type
    of torch's error."""

    def forward(self, q):
        try:
            return list(F.scaled_dot_product_attention(q, q, q).unbind())
        except RuntimeError as error:  # jagged tensors without a CUDA driver
            return [type(error).__name__]


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_tensors_are_one_warning_and_counted(layout, run_file):
    parts = [torch.randn(n, H, 8) for n in (9, 4)]
    q = torch.nested.nested_tensor(parts, layout=layout).transpose(1, 2)

    def act(model, q, rec=None):
        out = []
        for _ in range(2):
            out += model(q)
            if rec is not None:
                rec.step()
        return out

    plain = act(Nested(), q)
    numbers, rec, said = watched(Nested(), q, run_file, act)
    assert len(plain) == len(numbers)
    for a, b in zip(plain, numbers):
        assert a == b if isinstance(a, str) else torch.equal(a, b)
    assert rec.lost == 2 and "nested tensors" in rec.trouble
    assert len(said) == 1 and "not measured" in said[0]


def test_multihead_attention_of_nested_tensors_is_one_warning(run_file):
    model = stack(lambda: Multihead(2)).eval()  # torch needs an even number of heads
    batch = torch.nested.nested_tensor([torch.randn(n, E) for n in (4, 6)])

    def evaluate(model, batch, rec):
        with torch.no_grad():
            out = [one for _ in range(2) for one in model(batch).unbind()]
        rec.evaluation()
        return out

    with torch.no_grad():
        plain = model(batch).unbind()
    numbers, rec, said = watched(model, batch, run_file, evaluate)
    assert same([*plain] * 2, numbers)
    assert len(said) == 1 and "nested tensors" in said[0]
    assert rec.lost == L


def test_a_subclass_with_different_arguments_is_one_warning(run_file):
    x = torch.randn(2, 7, E)
    numbers, rec, said = watched(stack(OwnArguments), [x, x], run_file)
    assert same(train(stack(OwnArguments), [x, x]), numbers)
    assert len(said) == 1 and "OwnArguments takes arguments other than" in said[0]
    assert rec.lost == 2 * L


@pytest.mark.parametrize("layer", [Attention, Multihead])
def test_gradients_of_single_samples_are_one_warning_and_counted(layer, run_file):
    def per_sample(model, x, rec=None):
        parameters = dict(model.named_parameters())

        def loss(parameters, one):
            return torch.func.functional_call(model, parameters, one[None]).pow(2).sum()

        for _ in range(2):
            found = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
            if rec is not None:
                rec.step(loss=1.0)
        return list(found.values())

    x = torch.randn(3, 7, E)
    plain = per_sample(stack(layer), x)
    numbers, rec, said = watched(stack(layer), x, run_file, per_sample)
    assert same(plain, numbers)
    assert len(said) == 1 and "torch.func.vmap" in said[0] and "not measured" in said[0]
    assert rec.lost == 2 * L


@pytest.mark.parametrize("layer", [Attention, Multihead])
def test_a_graph_with_vmap_is_one_warning_and_counted(layer, run_file):
    def act(model, x, rec=None):
        torch._dynamo.reset()
        alone = torch.vmap(lambda one: model(one[None])[0])
        call = torch.compile(alone, fullgraph=True, backend="aot_eager")
        out = []
        for _ in range(2):
            out.append(call(x))
            out[-1].pow(2).sum().backward()
            if rec is not None:
                rec.step(loss=1.0)
        return out + [p.grad for p in model.parameters()]

    x = torch.randn(3, 7, E)
    plain = act(stack(layer), x)
    numbers, rec, said = watched(stack(layer), x, run_file, act)
    assert same(plain, numbers)
    assert len(said) == 1 and "torch.func.vmap" in said[0] and "not measured" in said[0]
    assert rec.lost == 2 * L


def test_a_gradient_without_vmap_is_measured(run_file):
    def act(model, x, rec=None):
        parameters = dict(model.named_parameters())

        def loss(parameters):
            return torch.func.functional_call(model, parameters, x).pow(2).sum()

        found = torch.func.grad(loss)(parameters)
        if rec is not None:
            rec.step(loss=1.0)
        return list(found.values())

    x = torch.randn(2, 7, E)
    numbers, rec, said = watched(stack(Attention), x, run_file, act)
    assert same(act(stack(Attention), x), numbers)
    assert said == [] and rec.lost == 0
    assert np.isfinite(es.open(run_file).entropy()).all()


def test_a_graph_of_nested_tensors_is_one_warning_and_counted(run_file):
    torch._dynamo.reset()
    parts = [torch.randn(n, H, 8) for n in (9, 4)]
    q = torch.nested.nested_tensor(parts, layout=torch.jagged).transpose(1, 2)

    def ours(model, q, rec):
        call = (q, q, None, 0.0, False, None, False)
        slot, of_sdpa = es._operators.slot_of(model), es._functions._of_sdpa
        hooked = torch.compile(lambda: of_sdpa(slot, *call), backend="eager")
        es._functions.enter(model, None)
        hooked()
        es._functions.leave(model, None, None)
        rec.step()
        return []

    _, rec, said = watched(Nested(), q, run_file, ours)
    assert rec.lost == 1 and len(said) == 1 and "nested tensors" in said[0]
