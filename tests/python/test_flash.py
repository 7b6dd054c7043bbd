"""Tests callers of flash-attn's functions, including the attention functions of
transformers."""

import sys
import types
import warnings

import flash
import formula
import models
import numpy as np
import pytest
import torch
from torch import nn

import entropyscan as es

L, H, KV, D = 3, 4, 2, 12


@pytest.fixture
def package(monkeypatch):
    return flash.install(monkeypatch)


def model_file(monkeypatch, source):
    """Makes a Python module that imports flash-attn's functions by name, as a user's
    model does."""
    module = types.ModuleType("somebodys_model")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(source, module.__dict__)
    return module


LAYER = """
import torch
from torch import nn
from flash_attn import flash_attn_func, flash_attn_varlen_func
from flash_attn import flash_attn_kvpacked_func, flash_attn_qkvpacked_func
from flash_attn import flash_attn_varlen_kvpacked_func
from flash_attn import flash_attn_varlen_qkvpacked_func

class Attention(nn.Module):
    def __init__(self, call, n_heads, n_kv, width):
        super().__init__()
        self.call, self.n_heads = call, n_heads
        self.q = nn.Linear(n_heads * width, n_heads * width)
        self.kv = nn.Linear(n_heads * width, 2 * n_kv * width)
        nn.init.normal_(self.q.weight, std=0.25)
        nn.init.normal_(self.kv.weight, std=0.25)
        self.width = width

    def forward(self, x):
        q = self.q(x).unflatten(-1, (self.n_heads, self.width))
        kv = self.kv(x).unflatten(-1, (2, -1, self.width))
        y = self.attend(q, kv)
        return x + y.flatten(-2)

    def attend(self, q, kv):
        k, v = kv.unbind(-3)
        qkv = lambda: torch.stack([q, k, v], -3)
        return self.call(q, k, v, kv, qkv, globals())
"""

STARTS = torch.tensor([0, 7, 8, 19], dtype=torch.int32)
LATER = torch.tensor([0, 4, 5, 11], dtype=torch.int32)  # fewer queries than keys


CALLS = dict(
    plain=lambda q, k, v, kv, qkv, f: f["flash_attn_func"](q, k, v),
    causal=lambda q, k, v, kv, qkv, f: f["flash_attn_func"](
        q, k, v, 0.0, 0.4, True, softcap=3.0
    ),
    window=lambda q, k, v, kv, qkv, f: f["flash_attn_func"](
        q, k, v, causal=True, window_size=(5, 0)
    ),
    two_windows=lambda q, k, v, kv, qkv, f: f["flash_attn_func"](
        q, k, v, window_size=(6, 2)
    ),
    alibi=lambda q, k, v, kv, qkv, f: f["flash_attn_func"](
        q, k, v, causal=True, alibi_slopes=torch.linspace(0.1, 0.5, H)
    ),
    alibi_of_batch=lambda q, k, v, kv, qkv, f: f["flash_attn_func"](
        q, k, v, alibi_slopes=torch.linspace(0.1, 0.9, 2 * H).view(2, H)
    ),
    kvpacked=lambda q, k, v, kv, qkv, f: f["flash_attn_kvpacked_func"](
        q, kv, causal=True
    ),
    more_keys=lambda q, k, v, kv, qkv, f: nn.functional.pad(
        f["flash_attn_func"](q[:, 8:], k, v, causal=True), (0, 0, 0, 0, 8, 0)
    ),
    more_queries=lambda q, k, v, kv, qkv, f: f["flash_attn_func"](
        q, k[:, 5:], v[:, 5:], causal=True
    ),
    varlen=lambda q, k, v, kv, qkv, f: f["flash_attn_varlen_func"](
        q, k, v, STARTS, STARTS, 11, 11, causal=True, window_size=(6, 6)
    ),
    varlen_later=lambda q, k, v, kv, qkv, f: nn.functional.pad(
        f["flash_attn_varlen_func"](q[8:], k, v, LATER, STARTS, 6, 11, causal=True),
        (0, 0, 0, 0, 8, 0),
    ),
    varlen_alibi=lambda q, k, v, kv, qkv, f: f["flash_attn_varlen_func"](
        q, k, v, STARTS, STARTS, 11, 11,
        alibi_slopes=torch.linspace(0.1, 0.9, 3 * H).view(3, H),
    ),
    varlen_kvpacked=lambda q, k, v, kv, qkv, f: f["flash_attn_varlen_kvpacked_func"](
        q, kv, STARTS, STARTS, 11, 11, softcap=2.0
    ),
)  # fmt: skip
OF_ALL_HEADS = dict(
    qkvpacked=lambda q, k, v, kv, qkv, f: f["flash_attn_qkvpacked_func"](
        qkv(), causal=True
    ),
    varlen_qkvpacked=lambda q, k, v, kv, qkv, f: f["flash_attn_varlen_qkvpacked_func"](
        qkv(), STARTS, 11
    ),
)


def build(monkeypatch, name):
    file = model_file(monkeypatch, LAYER)
    call = {**CALLS, **OF_ALL_HEADS}[name]
    n_kv = H if name in OF_ALL_HEADS else KV
    layers = [file.Attention(call, H, n_kv, D) for _ in range(L)]
    shape = (19, H * D) if name.startswith("varlen") else (2, 19, H * D)
    return file, nn.Sequential(*layers), torch.randn(shape)


def of_calls(calls):
    """Returns the head entropies (L,H), computed from the weights that the fake package
    has kept."""
    rows = []
    for sequences in calls:
        entropy = [formula.row_entropy(a[None])[0] for a in sequences]
        counted = [a.sum(-1) > 0 for a in sequences]  # a row may see no key
        total = sum((e * c).sum(-1) for e, c in zip(entropy, counted))
        rows.append((total / sum(c.sum(-1) for c in counted)).numpy())
    return np.array(rows)


@pytest.mark.parametrize("name", [*CALLS, *OF_ALL_HEADS])
def test_callers_of_flash_attention_are_measured(name, package, monkeypatch, run_file):
    file, model, x = build(monkeypatch, name)
    plain = model(x)
    expected = of_calls(flash.calls)
    assert expected.std() > 0.01
    own = [vars(file)[n] for n in vars(file) if n.startswith("flash_")]
    with es.watch(model, run_file) as rec:
        out = model(x)
        out.sum().backward()
        rec.step()
        assert file.flash_attn_func is not own[0]
        assert file.flash_attn_func is package.flash_attn_func
    assert rec.trouble is None
    assert torch.equal(plain, out)
    entropy = es.open(run_file).entropy()
    assert entropy.shape == (1, L, H)
    assert np.abs(entropy[0] - expected).max() <= 1e-5
    assert [vars(file)[n] for n in vars(file) if n.startswith("flash_")] == own
    assert package.flash_attn_func is own[0]


def test_a_function_imported_during_a_watch_is_restored(package, monkeypatch, run_file):
    before = package.flash_attn_func
    _, model, x = build(monkeypatch, "causal")
    with es.watch(model, run_file) as rec:
        late = types.ModuleType("imported_late")
        monkeypatch.setitem(sys.modules, "imported_late", late)
        exec("from flash_attn import flash_attn_func as attend", late.__dict__)
        assert late.attend is not before
        model(x)
        rec.step()
    assert late.attend is before and rec.trouble is None


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_an_unsupported_call_is_reported_once(backend, package, monkeypatch, run_file):
    """The second of three layers makes the unsupported call, both eagerly and in a
    compiled graph; the other two layers are measured."""
    torch._dynamo.reset()
    file, model, x = build(monkeypatch, "varlen")
    table = torch.zeros(3, 1, dtype=torch.int32)
    model[1].call = lambda q, k, v, kv, qkv, f: f["flash_attn_varlen_func"](
        q, k, v, STARTS, STARTS, 11, 11, block_table=table
    )
    plain = model(x)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with es.watch(model, run_file, every=2) as rec:
            call = torch.compile(model, backend=backend) if backend else model
            for _ in range(3):
                out = call(x)
                call(x)  # another micro-batch
                rec.step()
    assert torch.equal(plain, out)
    assert "block_table: this attention is not measured" in rec.trouble
    assert rec.lost == 2  # one layer in two recorded steps
    assert len([w for w in seen if "entropyscan" in str(w.message)]) == 1
    run = es.open(run_file)
    assert run.entropy().shape == (2, L - 1, H)
    gaps = [event for event in run.events if event["kind"] == "gap"]
    assert [gap["step"] for gap in gaps] == [None, 0]
    assert gaps[0]["message"].startswith("2 samples are not in the file: ")
    assert "block_table" in gaps[1]["message"]


@models.needs_torch("2.7", "functions that exec made are not traced")
def test_a_compiled_caller_of_flash_attention_is_measured(package, monkeypatch, run_file):
    torch._dynamo.reset()
    _, model, x = build(monkeypatch, "causal")
    plain = model(x)
    expected = of_calls(flash.calls)
    # The same call of the kernel is also measured in a compiled graph.
    flash.calls.clear()
    with es.watch(model, run_file, every=2) as rec:
        call = torch.compile(model, backend="aot_eager")
        for _ in range(3):
            out = call(x)
            rec.step()
    assert rec.trouble is None and torch.equal(plain, out)
    entropy = es.open(run_file).entropy()
    assert entropy.shape == (2, L, H)
    assert np.abs(entropy - expected).max() <= 1e-5


# --- transformers --------------------------------------------------------------


def of_version(package, version, monkeypatch):
    """Makes transformers believe that flash-attn is installed."""
    utils = pytest.importorskip("transformers.modeling_flash_attention_utils")
    found = sys.modules["transformers"].__version__
    if version == 2 and found < "5":
        pytest.skip(f"transformers {found} needs more of flash-attn than our fake has")
    for number in (2, 3, 4):
        monkeypatch.setattr(
            utils,
            f"is_flash_attn_{number}_available",
            lambda n=number: n == version,
            raising=number < 4,  # version 4 needs transformers 5
        )
    if version == 2:
        padding = sys.modules["flash_attn.bert_padding"]
        padding.pad_input, padding.unpad_input = utils._pad_input, utils._unpad_input
    for name in ("_loaded_implementation", "_flash_fn", "_flash_varlen_fn"):
        monkeypatch.setattr(utils, name, None, raising=False)
    for name in ("_flash_with_kvcache_fn", "_pad_fn", "_unpad_fn"):
        monkeypatch.setattr(utils, name, None, raising=False)
    for name in ("_process_flash_kwargs_fn", "_process_with_kvcache_kwargs_fn"):
        monkeypatch.setattr(utils, name, None, raising=False)


PACKED = torch.cat([torch.arange(9), torch.arange(4), torch.arange(11)])[None]
STARTS_OF = dict(
    cu_seq_lens_q=torch.tensor([0, 9, 13, 24], dtype=torch.int32),
    cu_seq_lens_k=torch.tensor([0, 9, 13, 24], dtype=torch.int32),
    max_length_q=11,
    max_length_k=11,
)


ENTRIES = [
    ("llama", "rows", 2),
    ("llama", "padding", 2),
    ("llama", "positions", 2),
    ("llama", "starts", 2),
    ("llama", "padding", 3),
    ("gemma", "rows", 2),
    ("gemma", "positions", 3),
    ("bert", "padding", 2),
]


@pytest.mark.parametrize("name, case, version", ENTRIES)
def test_transformers_flash_attention_is_measured(
    name, case, version, package, monkeypatch, run_file
):
    of_version(package, version, monkeypatch)
    model = models.spread(models.MAKERS[name]()).train()
    for module in model.modules():
        if hasattr(module, "config"):
            module.config._attn_implementation = f"flash_attention_{version}"
    given = models.inputs(name, padding=7 if case == "padding" else 0)
    if case in ("positions", "starts"):
        given = models.inputs(name, batch=1)
        given["position_ids"] = PACKED
    if case == "starts":
        given.update(STARTS_OF)
    plain = model(**given).loss
    expected = of_calls(flash.calls)
    assert expected.shape == (3, 4) and expected.std() > 0.01
    assert len(flash.calls[0]) == {"rows": 2, "padding": 2}.get(case, 3)
    with es.watch(model, run_file) as rec:
        loss = model(**given).loss
        loss.backward()
        rec.step(loss=loss)
    assert rec.trouble is None
    assert torch.equal(plain, loss)
    run = es.open(run_file)
    assert np.abs(run.entropy()[0] - expected).max() <= 1e-5
    if case in ("positions", "starts"):
        assert run.info["ctx"] == 11 and run.info["batch"] == 3
