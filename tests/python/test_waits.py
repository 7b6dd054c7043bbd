"""Tests that recorded steps do not wait for a CUDA device, and that the values equal
those of CPU tensors. The device is a fake (fakecuda.py)."""

import fakecuda
import numpy as np
import pytest
import torch
from fakecuda import far
from test_statistics import triton_kernels
from torch.utils._pytree import tree_map

import entropyscan as es
from entropyscan import _device, _wrappers

H, KV, T, D = 2, 1, 12, 8


class Attention(torch.nn.Module):
    """A module that calls an attention function as transformers does. The function is
    wrapped by the watch and computes nothing."""

    is_causal = True

    def forward(self, query, key, mask, kind, options):
        entry = _wrappers._observed(lambda *_, **__: None, kind)
        entry(self, query, key, key, mask, **options)


class Model(torch.nn.Module):
    def __init__(self, n_layers=1):
        super().__init__()
        self.attention = torch.nn.ModuleList(Attention() for _ in range(n_layers))

    def forward(self, *given):
        for layer in self.attention:
            layer(*given)


def batch(b=2):
    return torch.randn(b, H, T, D), torch.randn(b, KV, T, D) * 2


def positions(*lengths):
    return dict(position_ids=torch.cat([torch.arange(n) for n in lengths])[None])


def starts(*places):
    n = torch.tensor(places, dtype=torch.int32)
    return dict(cu_seq_lens_q=n, cu_seq_lens_k=n)


def padding(b=2):
    """Returns a mask like the one that transformers passes to SDPA: causal, with
    padding at the end of the first sequence."""
    mask = torch.ones(b, 1, T, T, dtype=torch.bool).tril()
    mask[0, :, :, 9:] = False
    return mask


def added():
    return torch.zeros(2, 1, T, T).masked_fill(~padding(), torch.finfo().min)


CASES = {
    "causal": lambda: (*batch(), None, "sdpa", {}),
    "mask": lambda: (*batch(), padding(), "sdpa", {}),
    "added mask": lambda: (*batch(), added(), "eager", {}),
    "window and key mask": lambda: (
        *batch(),
        padding()[:, 0, -1],
        "flash_attention_2",
        dict(sliding_window=5),
    ),
    "sinks and bias": lambda: (
        *batch(),
        padding(),
        "eager",
        dict(s_aux=torch.randn(H), position_bias=torch.randn(1, H, T, T)),
    ),
    "one row": lambda: (*batch(1), None, "flash_attention_2", positions(T)),
    "later row": lambda: (
        *batch(1),
        None,
        "flash_attention_2",
        dict(position_ids=torch.arange(7, 7 + T)[None]),
    ),
    "packed": lambda: (*batch(1), None, "flash_attention_2", positions(4, 1, 7)),
    "starts": lambda: (*batch(1), None, "flash_attention_2", starts(0, 4, 5, T)),
}


def record(path, act, place=lambda x: x):
    """Records a step and an evaluation. Returns the watch and the recorded maps."""
    model, maps = Model(), []
    with es.watch(model, path, maps=4, map_heads=True) as rec:
        keep = rec._recording.map
        rec._recording.map = lambda *given: (maps.append(given), keep(*given))
        act(model, place)
        rec.step(loss=place(torch.tensor(2.5)), lr=0.5)
        model.eval()
        with torch.no_grad():
            act(model, place)
        rec.evaluation()
    return rec, maps


def compare(path, act, kernels, monkeypatch):
    """Compares the recording of the fake device with the recording of the CPU."""
    wanted, their_maps = record(path + ".cpu.db", act)
    with fakecuda.cuda(monkeypatch, kernels) as device:
        rec, maps = record(path, act, lambda x: tree_map(far, x))
    assert rec.trouble is None and wanted.trouble is None and _device._failed == []
    assert device.n_waits == 2  # waits for events, not for the device
    run, other = es.open(path), es.open(path + ".cpu.db")
    assert run.series == other.series and run.info["ctx"] == other.info["ctx"]
    assert run.info["batch"] == other.info["batch"]
    assert run.config.get("ceiling") == pytest.approx(other.config.get("ceiling"))
    for one in run.series:
        name, phase = one["name"], one["phase"]
        found, values = run.values(name, phase), other.values(name, phase)
        np.testing.assert_allclose(found, values, atol=1e-4, err_msg=name)
    assert [given[:4] for given in maps] == [given[:4] for given in their_maps]
    for given, theirs in zip(maps, their_maps):
        np.testing.assert_allclose(given[4], theirs[4], atol=1e-5)
    return run, maps


@pytest.fixture
def kernels(monkeypatch):
    monkeypatch.setattr(_device, "_failed", [])
    return triton_kernels()


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_step_does_not_wait_for_the_device(name, kernels, monkeypatch, run_file):
    given = CASES[name]()
    run, maps = compare(
        run_file, lambda model, place: model(*place(given)), kernels, monkeypatch
    )
    sizes = {"packed": (3, 7), "starts": (3, 7), "one row": (1, T), "later row": (1, T)}
    assert (run.info["batch"], run.info["ctx"]) == sizes.get(name, (2, T))
    assert bool(maps) == (name not in ("packed", "starts"))


def test_returned_weights_do_not_wait_for_the_device(kernels, monkeypatch, run_file):
    weights = torch.randn(2, H, T, T).softmax(-1)

    def act(model, place):
        for i, layer in enumerate(model.attention):
            layer_weights = weights if i == 0 else weights - 1  # not valid weights
            _wrappers.after_weights(layer, None, (None, place(layer_weights)))

    model = Model(2)
    with es.watch(model, run_file + ".cpu.db") as rec:
        act(model, lambda x: x)
        rec.step()
    with fakecuda.cuda(monkeypatch, kernels):
        model = Model(2)
        with es.watch(model, run_file) as rec:
            act(model, far)
            rec.step()
    assert rec.trouble is None
    found, values = (es.open(run_file + end).entropy() for end in ("", ".cpu.db"))
    assert found.shape == (1, 1, H)  # only the layer with valid weights
    np.testing.assert_allclose(found, values, atol=1e-6)


def test_a_graph_that_is_captured_by_hand_is_reported_as_not_measured(
    kernels, monkeypatch, run_file
):
    model, given = Model(), CASES["causal"]()
    with fakecuda.cuda(monkeypatch, kernels):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        with es.watch(model, run_file) as rec, pytest.warns(RuntimeWarning, match="captured"):
            model(*tree_map(far, given))
            rec.step()
    assert rec.lost == 1 and "CUDA graph" in rec.trouble
