"""The kernels of CUDA devices: their rows by Triton's interpreter, which kernels are
taken, and Triton's compiler for devices that are not here. What they say of heads is
among test_statistics.py's cases."""

import os
import subprocess
import sys
import warnings

import formula
import pytest
import torch
from test_statistics import B, D, H, KV, T, emulated_plugin, padding, triton_kernels

from entropyscan import _device, _library, _statistics
from entropyscan._statistics import NAMES, Attention

_triton = triton_kernels()
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")


def rows_of(query, key, call):
    floats, nonfinite = _triton.row_statistics(query, key, call)
    names = ("entropy", "lse", "max_logit", "sink", "missing", "distance", "top")
    return dict(zip(names, floats)) | {"nonfinite": nonfinite}


def test_rows_that_float32_blurs_are_exact(monkeypatch):
    """Products of thousands whose scores differ by a few units."""
    query, key = (30 + torch.randn(1, n, T, 64) * 0.05 for n in (2, 1))
    call = _device._call(query, key, Attention(causal=True))
    a = formula.weights(query, key, formula.causal(T))
    entropy = -(a * a.clamp_min(1e-300).log()).sum(-1)
    got = rows_of(query, key, call)
    assert (got["entropy"] - entropy).abs().max() <= 1e-5
    assert (got["top"] - a.amax(-1)).abs().max() <= 1e-5
    assert (got["nonfinite"] == 0).all()  # no mark of a blurred row is left
    first = _triton._passes(64, torch.float32)[:1]
    monkeypatch.setattr(_triton, "_passes", lambda *_: first)
    blurred = rows_of(query, key, call)["entropy"]
    assert (blurred - entropy).abs().max() > 1e-4  # the second pass is needed


def test_a_cap_far_above_all_scores_changes_nothing():
    """Also in the second pass, where tanh of what is tiny is multiplied by it."""
    query, key = (30 + torch.randn(1, n, 9, 64) * 0.05 for n in (2, 1))
    a = formula.weights(query, key, formula.causal(9))
    call = _device._call(query, key, Attention(causal=True, softcap=1e20))
    got = rows_of(query, key, call)
    assert (got["top"] - a.amax(-1)).abs().max() <= 1e-5
    assert (a.amax(-1) < 0.9).any()


def test_an_entropy_of_a_hundredth_is_exact():
    query, key = torch.randn(B, 2, T, 24) * 4, torch.randn(B, 1, T, 24) * 4
    got = rows_of(query, key, _device._call(query, key, Attention(causal=True)))
    a = formula.weights(query, key, formula.causal(T))
    entropy = -(a * a.clamp_min(1e-300).log()).sum(-1)
    small = (entropy > 0.003) & (entropy < 0.03)
    assert small.any()
    assert (got["entropy"] - entropy).abs()[small].max() <= 1e-5


def test_a_kernel_that_fails_is_reported_once_and_blocks_are_taken(monkeypatch):
    query, key = torch.randn(B, H, 9, D), torch.randn(B, KV, 9, D)

    def fail(*_):
        raise RuntimeError("no compiler\nmore lines")

    monkeypatch.setattr(_library, "plugin", lambda: None)
    monkeypatch.setattr(_triton, "head_statistics", fail)
    monkeypatch.setattr(_device, "_failed", [])
    with pytest.warns(RuntimeWarning, match="measured slowly: no compiler$"):
        assert _device.measure(query, key, Attention()) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _device.measure(query, key, Attention()) is None


def test_what_the_kernels_do_not_take_is_left_to_blocks(monkeypatch):
    monkeypatch.setattr(_device, "_failed", [])
    monkeypatch.setattr(_library, "plugin", lambda: None)
    query, key = torch.randn(1, 2, 5, 300), torch.randn(1, 1, 5, 300)
    assert _device.measure(query, key, Attention()) is None  # wide heads
    query, key = query[..., :8].double(), key[..., :8].double()
    assert _device.measure(query, key, Attention()) is None
    assert _device._failed == []


@pytest.mark.parametrize("number", [torch.float32, torch.bfloat16])
def test_the_plugin_says_what_the_library_says(number, monkeypatch):
    monkeypatch.setattr(_library, "plugin", emulated_plugin)
    query = (torch.randn(B, T, H, D) * 2).to(number).transpose(1, 2)
    key = torch.randn(B, KV, T, D).to(number)
    packed = torch.tensor([0, 9, 30, T], dtype=torch.int32)
    for what in (
        Attention(mask=padding("left"), causal=True, softcap=5.0, scale=2.0),
        Attention(causal=True, window=6, sinks=torch.randn(H)),
        Attention(causal=True, query_starts=packed),
    ):
        q, k = query, key
        if what.query_starts is not None:
            q, k = query[:1], key[:1]
        got = _device._by_plugin(q, k, _device._call(q, k, what))
        assert got is not None
        wanted = _statistics.measure(q, k, what)
        worst = (got - wanted).abs().amax(1)
        for name, error in zip(NAMES, worst):
            assert error <= 1e-5 * (T if name == "distance" else 1), name


def test_what_the_plugin_refuses_triton_does(monkeypatch):
    monkeypatch.setattr(_library, "plugin", emulated_plugin)
    query, key = torch.randn(B, H, 9, D), torch.randn(B, KV, 9, D)
    call = _device._call(query, key, Attention(mask=torch.ones(B, 1, 9, 9).tril() > 0))
    assert _device._by_plugin(query, key, call) is None


COMPILE = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from entropyscan import _triton
_triton.compile_for(int(sys.argv[2]), getattr(torch, sys.argv[3]))
"""


@pytest.mark.parametrize("device", [("80", "bfloat16"), ("90", "float32")])
def test_kernels_compile_for_devices_that_are_not_here(device, tmp_path):
    package = os.path.dirname(os.path.dirname(_triton.__file__))
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET")
    run = subprocess.run(
        [sys.executable, "-c", COMPILE, package, *device],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
