"""Tests attention outside of transformers: callers of scaled_dot_product_attention,
torch.nn.MultiheadAttention, and modules that return their weights."""

import formula
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import entropyscan as es

L, H, D, T = 3, 4, 12, 19


class Causal(nn.Module):
    """Causal attention as in nanoGPT."""

    def __init__(self, attend):
        super().__init__()
        self.c_attn = nn.Linear(H * D, 3 * H * D)
        nn.init.normal_(self.c_attn.weight, std=0.3)
        self.attend = attend
        self.seen = None

    def forward(self, x):
        parts = self.c_attn(x).split(H * D, dim=2)
        q, k, v = (part.view(*x.shape[:2], H, D).transpose(1, 2) for part in parts)
        self.seen = (q.detach(), k.detach())
        y = self.attend(q, k, v)
        return x + y.transpose(1, 2).flatten(2)


def by_attribute(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, None, 0.0, True)


def by_name(q, k, v):
    return scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.4)


class Direct(Causal):
    def forward(self, x):
        parts = self.c_attn(x).split(H * D, dim=2)
        q, k, v = (part.view(*x.shape[:2], H, D).transpose(1, 2) for part in parts)
        self.seen = (q.detach(), k.detach())
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + y.transpose(1, 2).flatten(2)


CALLERS = dict(
    method=lambda: Direct(None),
    helper=lambda: Causal(by_attribute),
    imported=lambda: Causal(by_name),
)


def expected(model, scale=None):
    rows = []
    for layer in model:
        a = formula.weights(*layer.seen, formula.causal(T), scale)
        rows.append(formula.head_entropy(a).numpy())
    return np.array(rows)


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_callers_of_scaled_dot_product_attention_are_measured(caller, is_compiled, run_file):
    torch._dynamo.reset()
    model = nn.Sequential(*[CALLERS[caller]() for _ in range(L)])
    x = torch.randn(2, T, H * D)
    plain = model(x)
    scale = 0.4 if caller == "imported" else None
    entropies = expected(model, scale)
    assert entropies.std() > 0.01
    with es.watch(model, run_file, every=2) as rec:
        call = torch.compile(model, backend="aot_eager") if is_compiled else model
        for _ in range(3):
            out = call(x)
            out.sum().backward()
            rec.step()
    assert rec.trouble is None
    assert torch.equal(plain, out)
    entropy = es.open(run_file).entropy()
    assert entropy.shape == (2, L, H)
    assert np.abs(entropy[0] - entropies).max() <= 1e-5


def test_a_forward_pass_that_raised_leaves_nothing_behind(run_file):
    class Raises(nn.Module):
        def forward(self, x):
            if x.shape[0] == 1:
                raise ValueError("mine")
            return x

    model = nn.Sequential(Direct(None), Raises(), Direct(None))
    with es.watch(model, run_file) as rec:
        with pytest.raises(ValueError):
            model(torch.randn(1, T, H * D))
        rec._tap.take("train")
        model(torch.randn(2, T, H * D))
        rec.step()
    assert rec.trouble is None
    assert es.open(run_file).entropy().shape == (1, 2, H)


class Stack(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.MultiheadAttention(H * D, H, **options) for _ in range(L)
        )
        for layer in self.layers:
            for name, parameter in layer.named_parameters():
                nn.init.normal_(parameter, std=0.2)

    def forward(self, x, **options):
        out = []
        for layer in self.layers:
            y, weights = layer(x, x, x, average_attn_weights=False, **options)
            x = x + y
            out.append(weights)
        return x, out


MASKS = dict(
    none={},
    causal=dict(attn_mask=~formula.causal(T)),
    added=dict(attn_mask=torch.linspace(-3, 3, T * T).view(T, T)),
    padding=dict(key_padding_mask=torch.arange(T)[None] >= torch.tensor([[T], [11]])),
)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention_of_torch_is_measured(mask, batch_first, need_weights, run_file):
    model = Stack(batch_first=batch_first).train()
    x = torch.randn(2, T, H * D)
    x = x if batch_first else x.transpose(0, 1).contiguous()
    options = MASKS[mask]
    plain, weights = model(x, **options)
    counted = ~options["key_padding_mask"] if mask == "padding" else None
    rows = [formula.head_entropy(a, counted).detach().numpy() for a in weights]
    with es.watch(model, run_file) as rec:
        out, _ = model(x, need_weights=need_weights, **options)
        out.sum().backward()
        rec.step()
    assert rec.trouble is None
    if need_weights:
        assert torch.equal(plain, out)
    assert np.abs(es.open(run_file).entropy()[0] - np.array(rows)).max() <= 1e-5


def test_an_encoder_layer_of_torch_stays_one_graph(run_file):
    torch._dynamo.reset()
    layer = nn.TransformerEncoderLayer(H * D, H, 64, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, L, enable_nested_tensor=False).train()
    x = torch.randn(2, T, H * D)
    plain = torch.compile(model, fullgraph=True, backend="aot_eager")(x)
    with es.watch(model, run_file, every=2) as rec:
        call = torch.compile(model, fullgraph=True, backend="aot_eager")
        for _ in range(3):
            out = call(x)
            rec.step()
    assert torch.equal(plain, out)
    entropy = es.open(run_file).entropy()
    assert entropy.shape == (2, L, H) and np.isfinite(entropy).all()


def test_modules_that_return_their_weights_are_measured(run_file):
    class OldAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(H * D, 3 * H * D)
            nn.init.normal_(self.qkv.weight, std=0.3)

        def forward(self, x):
            q, k, v = self.qkv(x).view(2, T, 3, H, D).permute(2, 0, 3, 1, 4)
            a = (q @ k.transpose(-1, -2)).softmax(-1)
            self.seen = a.detach()
            return x + (a @ v).transpose(1, 2).flatten(2), a

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(OldAttention() for _ in range(L))

        def forward(self, x):
            for layer in self.layers:
                x, _ = layer(x)
            return x

    model, x = Model(), torch.randn(2, T, H * D)
    plain = model(x)
    with es.watch(model, run_file) as rec:
        out = model(x)
        rec.step()
    assert torch.equal(plain, out)
    rows = [formula.head_entropy(layer.seen).numpy() for layer in model.layers]
    run = es.open(run_file)
    assert np.abs(run.entropy()[0] - np.array(rows)).max() <= 1e-5
    assert es.is_missing(run.values("max_logit")).all()
