"""The kernels of CUDA devices, by Triton's interpreter on the CPU, against the
formula in double precision and against the library; and by Triton's compiler for
devices that are not here. Each interpreted pass takes most of a second: cases
combine options so that every one of them is there."""

import math
import os
import subprocess
import sys
import warnings

import formula
import pytest
import torch
from test_statistics import B, D, H, KV, T, expected, padding

triton = pytest.importorskip("triton")

import interpreted  # noqa: E402

from entropyscan import _device, _library, _statistics  # noqa: E402
from entropyscan._statistics import NAMES, Attention  # noqa: E402

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("Triton does not interpret here", allow_module_level=True)
interpreted.hurry()
from entropyscan import _triton  # noqa: E402

MISSING = 0x7FC007A2
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")


def measure(query, key, what):
    call = _device._call(query, key, what)
    assert _device._can(query, key, call)
    return dict(zip(NAMES, _triton.head_statistics(query, key, call)))


def rows_of(query, key, call):
    floats, nonfinite = _triton.row_statistics(query, key, call)
    names = ("entropy", "lse", "max_logit", "sink", "missing", "distance", "top")
    return dict(zip(names, floats)) | {"nonfinite": nonfinite}


CASES = [
    # number, causal, window, padding, softcap, sinks, scale, as a dense mask
    (torch.float32, True, 0, "none", None, False, 9, False),
    (torch.float32, False, 5, "right", 5.0, True, 0.2, True),
    (torch.bfloat16, True, 5, "left", 5.0, True, 9, False),
    (torch.bfloat16, True, 0, "right", None, False, 0.2, True),
    (torch.float16, False, 0, "left", None, True, 9, False),
    (torch.float16, True, 5, "none", None, False, 0.2, False),
]


@pytest.mark.parametrize("case", CASES)
def test_kernels_agree_with_the_formula(case):
    number, causal, window, pad, softcap, has_sinks, scale, dense = case
    query = (torch.randn(B, T, H, D) * 2).to(number).transpose(1, 2)
    key = torch.randn(B, KV, T, D).to(number)
    seen = padding(pad)[:, None, None, :].expand(B, 1, T, T)
    i = torch.arange(T)
    if causal:
        seen = seen & formula.causal(T)
    if window:
        seen = seen & ((i[:, None] - i).abs() < window)
    sinks = torch.randn(H) * 3 if has_sinks else None
    options = dict(scale=scale, softcap=softcap, sinks=sinks)
    what = Attention(mask=seen, **options)
    if not dense:
        mask = None if pad == "none" else padding(pad)
        what = Attention(mask=mask, causal=causal, window=window, **options)
    got = measure(query, key, what)
    as_formula = Attention(mask=seen, **options)
    for name, value in expected(query, key, seen, as_formula).items():
        worst = (got[name].double() - value).abs().max()
        assert worst <= 1e-5 * (T if name == "distance" else 1), name


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


def test_an_entropy_of_a_hundredth_is_exact():
    query, key = torch.randn(B, 2, T, 24) * 4, torch.randn(B, 1, T, 24) * 4
    got = rows_of(query, key, _device._call(query, key, Attention(causal=True)))
    a = formula.weights(query, key, formula.causal(T))
    entropy = -(a * a.clamp_min(1e-300).log()).sum(-1)
    small = (entropy > 0.003) & (entropy < 0.03)
    assert small.any()
    assert (got["entropy"] - entropy).abs()[small].max() <= 1e-5


def test_an_added_bias_is_part_of_the_scores():
    query, key = torch.randn(B, H, T, D), torch.randn(B, KV, T, D)
    bias = torch.randn(1, H, T, T) * 2
    hidden = torch.zeros(1, 1, T, T).masked_fill(~formula.causal(T), -math.inf)
    a = formula.weights(query, key, formula.causal(T), bias=bias)
    for what in (
        Attention(mask=bias + hidden),
        Attention(mask=formula.causal(T)[None, None], bias=bias),
    ):
        got = measure(query, key, what)
        assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-5


def test_packed_sequences_do_not_see_each_other():
    starts = torch.tensor([0, 9, 9, 10, 30, T], dtype=torch.int32)
    query, key = torch.randn(1, H, T, D), torch.randn(1, KV, T, D)
    got = measure(query, key, Attention(causal=True, query_starts=starts))
    number = torch.bucketize(torch.arange(T), starts[1:], right=True)
    seen = formula.causal(T) & (number[:, None] == number)
    a = formula.weights(query, key, seen)
    assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-5
    assert got["entropy_min"].abs().max() == 0  # a sequence of one token
    sink = a.gather(-1, starts.long()[number][None, None, :, None].expand(1, H, T, 1))
    assert (got["sink"] - sink.mean((0, 2, 3))).abs().max() <= 1e-5


def test_new_queries_stand_where_their_sequences_end():
    query, key = torch.randn(B, H, 4, D), torch.randn(B, KV, T, D)
    call = _device._call(query, key, Attention(causal=True))
    lengths = torch.tensor([T, 20], dtype=torch.int32)
    call.key_lengths, call.offsets = lengths, lengths - 4
    call.temperature = torch.rand(H, 4) + 0.5
    got = rows_of(query, key, call)["entropy"].double()
    query = query / call.temperature[None, :, :, None]
    for b, n in enumerate(lengths.tolist()):
        a = formula.weights(query[b, None], key[b, None, :, :n], formula.causal(4, n))
        assert (got[b] - formula.row_entropy(a)[0]).abs().max() <= 1e-5


def test_nan_missing_and_numbers_are_three_things():
    query, key = torch.randn(B, H, T, D), torch.randn(B, H, T, D)
    query[:, 1] = float("nan")
    query[0, 2, 5] = float("inf")
    key[1, 3, 20] = 3e38  # of which products overflow
    query[1, 3, 30] = 1e10
    got = measure(query, key, Attention(causal=True, sinks=torch.zeros(H)))
    assert got["entropy"][1].isnan() and got["entropy"][[0, 2, 4, 5]].isfinite().all()
    assert got["nonfinite_rows"].tolist()[:3] == [0, B * T, 1]
    assert got["nonfinite_weights"].tolist()[:3] == [0, B * T * (T + 1) / 2, 6]
    assert got["nonfinite_rows"][3] >= 1 and got["entropy"][3].isfinite()
    assert not (got["entropy"].view(torch.int32) == MISSING).any()


def test_rows_that_see_nothing_are_missing():
    query, key = torch.randn(B, 2, T, D), torch.randn(B, 1, T, D)
    seen = torch.zeros(B, T, dtype=torch.bool)
    empty = measure(query, key, Attention(mask=seen))
    for name in NAMES:
        bits = empty[name].view(torch.int32)
        assert (bits == (0 if "finite" in name else MISSING)).all(), name
    seen[0, 3:] = True
    got = measure(query, key, Attention(mask=seen, causal=True))
    a = formula.weights(query[:1, :, 3:], key[:1, :, 3:], formula.causal(T - 3))
    assert (got["entropy"] - formula.head_entropy(a)).abs().max() <= 1e-5
    sink = a[..., 0].mean((0, 2))  # the first key that is not masked
    assert (got["sink"] - sink).abs().max() <= 1e-5


def test_a_sink_that_is_no_number_makes_rows_nonfinite():
    query, key = torch.randn(B, 3, 9, D), torch.randn(B, 3, 9, D)
    sinks = torch.tensor([float("nan"), -math.inf, 1.0])
    got = measure(query, key, Attention(causal=True, sinks=sinks))
    assert got["nonfinite_rows"].tolist() == [B * 9, 0, 0]
    assert got["missing_mass"][1] == 0 and 0 < got["missing_mass"][2] < 1


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


def emulated_plugin():
    """The plugin's kernels on the CPU; they are built by make test."""
    path = _library.home() / "tests/libentropytrain_cuda_host.so"
    library = _library.open_plugin(path) if path.exists() else None
    if library is None:
        pytest.skip(f"{path}: not there: make test builds it")
    return library


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
