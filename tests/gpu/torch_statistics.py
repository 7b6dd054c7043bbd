"""usage: torch_statistics.py

The package's statistics of queries and keys on a device: Triton's kernels against the formula in double, and what they cost beside
scaled_dot_product_attention's forward pass. Exit code 1 if a head is off by more
than 1e-5 nats.

  ENTROPYSCAN_HOME      where the libraries lie
  ENTROPY_BENCH_DEVICE  cpu: to try this file out, with Triton's interpreter"""

import math
import os
import sys

from torch_common import DEVICE, SKIPPED, stretch, time_rounds, torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../hooks/python"))
try:
    from entropyscan import _device, _triton
    from entropyscan._statistics import NAMES, Attention
except ImportError as why:
    print(f"skipped: the package or what it needs is not installed here: {why}")
    sys.exit(SKIPPED)

F = torch.nn.functional


def by_triton(query, key, call):
    return _triton.head_statistics(query, key, call)


def ways():
    return {"triton": by_triton}


def draw(number, b, h, kv, t, d, size=1.0):
    query = (torch.randn(b, t, h, d, device=DEVICE) * size).to(number).transpose(1, 2)
    key = (torch.randn(b, t, kv, d, device=DEVICE) * size).to(number).transpose(1, 2)
    return query, key


def entropy(query, key, call, hidden):
    """(H) by the formula."""
    key = key.double().repeat_interleave(query.shape[1] // key.shape[1], 1)
    scores = query.double() @ key.transpose(-1, -2) * call.scale
    if call.softcap:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    a = scores.masked_fill(hidden, -math.inf).softmax(-1)
    return -(a * a.clamp_min(1e-300).log()).sum(-1).mean((0, 2))


def parity():
    failed = False
    t = 300 if DEVICE == "cuda" else 40
    j = torch.arange(t, device=DEVICE)
    print("| way | type | d | options | error, nats |\n| --- | --- | --- | --- | --- |")
    for number in (torch.float32, torch.bfloat16, torch.float16):
        for d, size, options in (
            (64, 1.0, {}),
            (128, 3.0, {"window": 70}),
            (80, 8.0, {"softcap": 50.0}),
        ):
            query, key = draw(number, 2, 6, 2, t, d, size)
            call = _device._call(query, key, Attention(causal=True, **options))
            hidden = j[None, :] > j[:, None]
            if call.window:
                hidden = hidden | (j[:, None] - j[None, :] >= call.window)
            wanted = entropy(query, key, call, hidden)
            for name, way in ways().items():
                got = way(query, key, call)[NAMES.index("entropy")]
                error = float((got.double() - wanted).abs().max())
                failed = failed or not error <= 1e-5
                kind = str(number).removeprefix("torch.")
                print(f"| {name} | {kind} | {d} | {options or 'none'} | {error:.1e} |")
    return failed


def times():
    print("\nMilliseconds, bf16, causal, H 12, d 64.\n")
    print("| T | B | SDPA forward | way | statistics |\n| --- | --- | --- | --- | --- |")
    for t, b in ((512, 32), (1024, 16), (4096, 4)) if DEVICE == "cuda" else ((16, 1),):
        query, key = draw(torch.bfloat16, b, 12, 12, t, 64)
        sdpa = time_rounds(
            lambda: F.scaled_dot_product_attention(query, key, key, is_causal=True)
        )
        call = _device._call(query, key, Attention(causal=True))
        for name, way in ways().items():
            took = time_rounds(lambda: way(query, key, call))
            print(f"| {t} | {b} | {sdpa:.3f} | {name} | {took:.3f} |")
            stretch(f"statistics by {name}, T {t}, SDPA's forward over them", sdpa / took)


if __name__ == "__main__":
    is_off = parity()
    times()
    sys.exit(1 if is_off else 0)
