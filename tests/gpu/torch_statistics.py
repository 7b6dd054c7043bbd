"""usage: torch_statistics.py

Compares the entropies that the Python package's Triton kernels compute on a device with the
formula in double, for every row and head, each number type, each kind of attention, and several
kinds of queries and keys. A column of the table belongs to one kind of queries and
keys, and contains the largest error in nats and the share of rows that the kernels
recomputed exactly. Then compares the time of the kernels with the forward pass of
scaled_dot_product_attention. Exit code 1 if the error of an entropy exceeds LIMITS.

The kernels of each number type and kind of attention are compiled in a separate
process. As many processes run at a time as there are processors.

  ENTROPYSCAN_HOME          folder of the libraries
  ENTROPY_BENCH_DEVICE      cpu, to test this file with Triton's interpreter
  ENTROPY_BENCH_STATISTICS  types and kinds to test, for example "bf16:plain fp32:packed"
                            (default: all)
"""

import math
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from torch_common import DEVICE, setting, stretch, time_rounds, torch

if DEVICE != "cuda":
    os.environ["TRITON_INTERPRET"] = "1"
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
    import interpreted

    interpreted.hurry()

from entropyscan import _device, _triton
from entropyscan._statistics import NAMES, Attention

F = torch.nn.functional
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
LIMITS = {"bf16": 1e-4, "fp16": 1e-4, "fp32": 1e-5}  # nats
B, T = (2, 300) if DEVICE == "cuda" else (1, 20)
# Kinds of attention: the number of query heads, the number of key heads, the head
# width, and options of the attention.
KINDS = {
    "plain": (4, 4, 64, {}),
    "grouped": (6, 2, 128, {}),
    "window": (4, 4, 64, {"window": T // 4}),
    "softcap": (4, 4, 80, {"softcap": 20.0}),
    "key mask": (4, 4, 64, {}),
    "packed": (4, 4, 64, {}),
}
CASES = setting(
    "STATISTICS", " ".join(f"{t}:{k.replace(' ', '_')}" for t in TYPES for k in KINDS)
).split()


# --- measurement -------------------------------------------------------------------


def normal(*shape):
    return torch.randn(shape, device=DEVICE)


def with_offset(*shape):
    """Returns random numbers with properties of trained models: each channel has an offset, and two
    channels are far larger than the others."""
    channels = torch.zeros(shape[-1], device=DEVICE)
    channels[::2], channels[1::2] = 0.6, -0.6
    channels[3], channels[11] = 9.0, -7.0
    return 0.7 * normal(*shape) + channels


# Kinds of queries and keys: functions that return random queries and keys with the
# shapes q and k.
DATA = {
    "N(0,1)": lambda q, k: (normal(*q), normal(*k)),
    "deviation 3": lambda q, k: (3 * normal(*q), 3 * normal(*k)),
    "collapsed": lambda q, k: (8 * normal(*q), 8 * normal(*k)),
    "offset keys": lambda q, k: (normal(*q), with_offset(*k)),
}


def attention_of(kind):
    """Returns for a kind of attention: its options; a mask of the keys that each query sees, as
    (B,1,T,T) or (1,1,T,T); and a mask of the rows that are compared, as (B,T)."""
    options = dict(KINDS[kind][3])
    i = torch.arange(T, device=DEVICE)
    seen = (i[None, :] <= i[:, None])[None]
    rows = torch.ones(B, T, dtype=torch.bool, device=DEVICE)
    if kind == "window":
        seen = seen & (i[:, None] - i[None, :] < options["window"])
    if kind == "key mask":  # padding, on the left in the first sequence
        rows[0, : T // 3] = False
        rows[-1, -T // 4 :] = False
        options["mask"] = rows
        seen = seen & rows[:, None, :]
    if kind == "packed":
        starts = torch.tensor([0, T // 5, T // 2, T], dtype=torch.int32, device=DEVICE)
        options["query_starts"] = starts
        sequence = torch.bucketize(i, starts[1:-1], right=True)
        seen = seen & (sequence[None, :] == sequence[:, None])
        rows = rows[:1]
    return Attention(causal=True, **options), seen[:, None], rows


def entropies(query, key, call, seen):
    """Returns the entropies (B,H,T) in nats, computed by the formula in double. A row that sees no
    key has the entropy NaN."""
    key = key.double().repeat_interleave(query.shape[1] // key.shape[1], 1)
    scores = query.double() @ key.transpose(-1, -2) * call.scale
    if call.softcap:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    a = scores.masked_fill(~seen, -math.inf).softmax(-1)
    return -(a * a.clamp_min(1e-300).log()).sum(-1)


def error_of(number, kind, data):
    """Returns the largest error of any row's or head's entropy in nats, and the share
    of rows that the kernels recomputed exactly."""
    torch.manual_seed(1)
    h, kv, d, _ = KINDS[kind]
    what, seen, rows = attention_of(kind)
    n = rows.shape[0]
    query, key = (
        x.to(TYPES[number]).transpose(1, 2)
        for x in DATA[data]((n, T, h, d), (n, T, kv, d))
    )
    call = _device._call(query, key, what)
    wanted = entropies(query, key, call, seen)
    counted = rows[:, None].expand_as(wanted)
    floats, _ = _triton.row_statistics(query, key, call)
    error = (floats[0].double() - wanted)[counted].abs().max()
    found = _triton.head_statistics(query, key, call)
    heads, (n_finite, n_exact) = found[NAMES.index("entropy")], found[-2:].sum(1)
    mean = wanted.masked_fill(~counted, 0).sum((0, 2)) / counted.sum((0, 2))
    error = torch.maximum(error, (heads.double() - mean).abs().max())
    return float(error), f"{100 * float(n_exact / n_finite):.0f} %"


def row_of(case):
    """Returns a line of the table, and True if its errors are within the limit. Runs in a separate
    process. If an exception occurs, the line contains its message."""
    number, kind = case.replace("_", " ").split(":")
    try:
        found = [error_of(number, kind, data) for data in DATA]
    except Exception as error:
        why = (str(error).splitlines() or [""])[0][:150]
        return f"| {number} | {kind} | {type(error).__name__}: {why} | | | |", False
    cells = [f"{error:.1e}, {share}" for error, share in found]
    is_good = all(error <= LIMITS[number] for error, _ in found)
    return f"| {number} | {kind} | {' | '.join(cells)} |", is_good


def parity():
    print(f"Largest error in nats (limits: {LIMITS}), share of exact rows. T {T}.\n")
    print(f"| type | kind | {' | '.join(DATA)} |\n|" + " --- |" * 6, flush=True)
    is_good = True
    # Each process is forked from a process that has only imported the package, so
    # that CUDA has not been initialised before the fork.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["entropyscan._triton"])
    n_processes = min(len(CASES), os.cpu_count() or 1)
    with ProcessPoolExecutor(n_processes, mp_context=context) as pool:
        found = {case: pool.submit(row_of, case) for case in CASES}
        for case, future in found.items():
            try:
                line, is_within = future.result()
            except BrokenProcessPool:  # a process that dies ends the others
                line, is_within = f"| {case} | its process died | | | | |", False
            print(line, flush=True)
            is_good = is_good and is_within
    return is_good


# --- cost -----------------------------------------------------------------


def times():
    print("\nMilliseconds, bf16, causal, H 12, d 64.\n")
    print("| T | B | data | SDPA forward | statistics |\n| --- | --- | --- | --- | --- |")
    sizes = ((1024, 16), (4096, 4)) if DEVICE == "cuda" else ((16, 1),)
    for t, b in sizes:
        for data in ("N(0,1)", "deviation 3") if DEVICE == "cuda" else ("N(0,1)",):
            query, key = (
                x.bfloat16().transpose(1, 2) for x in DATA[data](*[(b, t, 12, 64)] * 2)
            )
            sdpa = time_rounds(
                lambda: F.scaled_dot_product_attention(query, key, key, is_causal=True)
            )
            call = _device._call(query, key, Attention(causal=True))
            took = time_rounds(lambda: _triton.head_statistics(query, key, call))
            print(f"| {t} | {b} | {data} | {sdpa:.3f} | {took:.3f} |", flush=True)
            stretch(f"statistics of {data}, T {t}: SDPA's forward over them", sdpa / took)


if __name__ == "__main__":
    holds = parity()
    times()
    sys.exit(0 if holds else 1)
