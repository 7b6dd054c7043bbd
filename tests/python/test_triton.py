"""Tests the kernels for CUDA devices: their results for rows, in Triton's interpreter;
attentions that they do not support; and their compilation without a device.
test_statistics.py tests the kernels' statistics of heads."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import formula
import pytest
import torch
from test_statistics import B, D, H, KV, T, triton_kernels

import entropyscan as es
from entropyscan import _device, _library, _statistics
from entropyscan._statistics import NAMES, Attention

_triton = triton_kernels()
kernels = sys.modules["entropyscan._triton_kernels"]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")


def rows_of(query, key, call):
    floats, nonfinite = _triton.row_statistics(query, key, call)
    names = ("entropy", "lse", "max_logit", "sink", "missing", "distance", "top")
    return dict(zip(names, floats)) | {"nonfinite": nonfinite}


def test_rows_with_large_rounding_errors_are_computed_again(monkeypatch):
    """The scores are in the thousands and differ by a few units."""
    query, key = (30 + torch.randn(1, n, T, 64) * 0.05 for n in (2, 1))
    call = _device._call(query, key, Attention(causal=True))
    a = formula.weights(query, key, formula.causal(T))
    entropy = -(a * a.clamp_min(1e-300).log()).sum(-1)
    got = rows_of(query, key, call)
    assert (got["entropy"] - entropy).abs().max() <= 1e-5
    assert (got["top"] - a.amax(-1)).abs().max() <= 1e-5
    exact = got["nonfinite"] == kernels.EXACT_ROW.value
    assert exact.any() and (exact | (got["nonfinite"] == 0)).all()  # no other mark
    first = _triton._passes(64, torch.float32)[:1]
    monkeypatch.setattr(_triton, "_passes", lambda *_: first)
    blurred = rows_of(query, key, call)["entropy"]
    assert (blurred - entropy).abs().max() > 1e-4  # the second pass is needed


FAR = {
    "causal": dict(causal=True),
    "both ways": dict(),
    "a window": dict(causal=True, window=140),
    "softcap": dict(causal=True, softcap=3.0),
    "packed": dict(causal=True, query_starts=torch.tensor([0, 7, 200, 230])),
    "at the end": dict(causal=True, at_end=True, t=70),
    "without a limit of 16 bits": dict(causal=True, number=torch.bfloat16),
}


@pytest.mark.parametrize("name", FAR)
def test_tiles_that_all_rows_see_agree_with_the_formula(name):
    """Uses sequences of several tiles of 64 keys, because the tiles in the middle have
    a separate loop without masks."""
    options = dict(FAR[name])
    number, s = options.pop("number", torch.float32), 230
    t = options.pop("t", s)
    query = (torch.randn(1, 1, t, 16) * 2).to(number)
    key = torch.randn(1, 1, s, 16).to(number)
    what = Attention(**options)
    call = _device._call(query, key, _statistics.settled(what, t, 16, s))
    got = rows_of(query, key, call)
    i, j = torch.arange(t)[:, None] + call.offset, torch.arange(s)
    seen = torch.ones(t, s, dtype=torch.bool)
    first = torch.zeros(t, 1, dtype=torch.long)
    if what.causal:
        seen &= j <= i
    if what.window:
        seen &= i - j < what.window
    if what.query_starts is not None:
        number = torch.bucketize(j, what.query_starts[1:], right=True)
        seen &= number[:, None] == number
        first = what.query_starts[number][:, None]
    a = formula.weights(query, key, seen, softcap=what.softcap)[0, 0]
    tolerance = 1e-4 if query.dtype == torch.bfloat16 else 1e-5
    for name, value in (
        ("entropy", -(a * a.clamp_min(1e-300).log()).sum(-1)),
        ("top", a.amax(-1)),
        ("sink", a.gather(1, first)[:, 0]),
        ("distance", (a * (i - j).abs()).sum(-1) / s),
    ):
        out = got[name][0, 0] / (s if name == "distance" else 1)
        assert (out - value).abs().max() <= tolerance, name


def test_trained_weights_of_16_bits_do_not_need_the_exact_pass(monkeypatch):
    """Rows of large queries and keys, and of keys with a common offset, are
    computed again in double only for float32 inputs. es.exact_share() returns
    the share of these rows."""
    monkeypatch.setattr(_device, "serves", lambda device: True)
    shares = {}
    for number in (torch.bfloat16, torch.float16, torch.float32):
        for name, size, offset in (("large", 4.0, 0.0), ("offset", 2.0, 4.0)):
            torch.manual_seed(3)
            query = (torch.randn(1, 2, T, 64) * size).to(number)
            key = (torch.randn(1, 1, T, 64) * size + offset).to(number)
            heads = _device.measure(query, key, Attention(causal=True, scale=0.125))
            a = formula.weights(query, key, formula.causal(T))
            entropy = -(a * a.clamp_min(1e-300).log()).sum(-1)
            error = (heads[0] - entropy.mean((0, 2))).abs().max()
            assert error <= (1e-5 if number == torch.float32 else 1e-4)
            shares[number, name] = es.exact_share()
    assert {shares[one] for one in shares if one[0] != torch.float32} == {0.0}
    assert all(0 < shares[torch.float32, name] <= 1 for name in ("large", "offset"))


def test_row_entropy_equals_the_entropy_of_all_statistics():
    query, key = torch.randn(1, 2, 9, 16), torch.randn(1, 2, 9, 16)
    call = _device._call(query, key, Attention(causal=True))
    entropy, lse = _triton.row_entropy(query, key, call)
    rows = rows_of(query, key, call)
    assert torch.equal(entropy, rows["entropy"]) and torch.equal(lse, rows["lse"])


def test_a_cap_far_above_all_scores_changes_nothing():
    """The result is unchanged also if rows are computed again in double (the
    exact pass), where the cap multiplies the tanh of tiny numbers."""
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


def test_a_kernel_that_fails_is_one_warning_and_blocks_are_used(monkeypatch):
    query, key = torch.randn(B, H, 9, D), torch.randn(B, KV, 9, D)

    def fail(*_):
        raise RuntimeError("no compiler\nmore lines")

    monkeypatch.setattr(_device, "serves", lambda device: True)
    monkeypatch.setattr(_triton, "head_statistics", fail)
    monkeypatch.setattr(_device, "_failed", [])
    with pytest.warns(RuntimeWarning, match="measured slowly: no compiler$"):
        assert _device.measure(query, key, Attention()) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _device.measure(query, key, Attention()) is None


def test_blocks_compute_what_the_kernels_do_not_support(monkeypatch):
    monkeypatch.setattr(_device, "_failed", [])
    monkeypatch.setattr(_device, "serves", lambda device: True)
    query, key = torch.randn(1, 2, 5, 300), torch.randn(1, 1, 5, 300)
    assert _device.measure(query, key, Attention()) is None  # wide heads
    query, key = query[..., :8].double(), key[..., :8].double()
    assert _device.measure(query, key, Attention()) is None
    assert _device._failed == []


OLDER = ["3.2.0", "3.6.0"]  # of torch 2.6, the oldest supported version, and 2.11


@pytest.mark.parametrize("version", [*OLDER, None])
def test_kernels_compile_without_a_device(version, tmp_path):
    package = os.path.dirname(os.path.dirname(_triton.__file__))
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET")
    if version is not None:
        folder = Path(sys.prefix) / f"triton-{version}"
        if not folder.exists():
            pytest.skip(f"{folder}: not found: tests/python/run.sh --venv makes it")
        environment["PYTHONPATH"] = str(folder)
    script = Path(__file__).with_name("compile_kernels.py")
    capabilities = ["80", "90"] if version is None else ["90"]
    run = subprocess.run(
        [sys.executable, script, package, *capabilities],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    said = json.loads(run.stdout.splitlines()[-1])
    assert said.pop("triton") == (version or triton_version())
    # Numbers of instructions that a warp runs for each score; the arithmetic
    # alone takes 6 instructions for 32 scores.
    assert all(count <= 0.5 for count in said.values()), said
    if version is None:
        assert said["entropy"] < said["heads"]


def triton_version():
    import triton

    return triton.__version__
