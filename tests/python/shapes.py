"""Defines test cases of attention, by name, with the parameters of es_attention_shape,
and computes their expected results with the formula in double precision. Both the C
library and the Triton kernels are tested with all cases."""

import math

import torch

from entropyscan._device import Call
from entropyscan._statistics import NAMES

SIZES = dict(b=1, h=4, kv=2, t=19, s=19, d=12)


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def hidden(n, *places, b=1):
    mask = torch.ones(b, n, dtype=torch.uint8)
    for row, place in places:
        mask[row, place] = 0
    return mask


def case(number=torch.float32, spread=1.0, by_token=False, call=dict(), **sizes):
    """Describes a test case. If by_token is true, tensors have the order (B,T,H,D) in
    memory. `call` contains members of Call by their names in es_attention_shape."""
    return dict(number=number, spread=spread, by_token=by_token, call=call,
                sizes={**SIZES, **sizes})  # fmt: skip


STARTS = dict(query_starts=ints(0, 6, 6, 7, 19), causal=True)
PADDED = hidden(19, (0, slice(13, None)), (1, slice(0, 4)), b=2)
CASES = {
    "both ways": case(),
    "causal": case(call=dict(causal=True)),
    "bfloat16 by token": case(torch.bfloat16, by_token=True, call=dict(causal=True)),
    "float16 by token": case(torch.float16, 2.0, by_token=True),
    "a small scale": case(call=dict(scale=0.01)),
    "collapsed": case(spread=6.0, call=dict(scale=1.0, causal=True)),
    "collapsed in bfloat16": case(torch.bfloat16, 5.0, call=dict(scale=1.0)),
    "collapsed in float16": case(torch.float16, 5.0, call=dict(scale=1.0)),
    "the last queries": case(t=4, s=40, call=dict(causal=True, query_offset=36)),
    "rows before all keys": case(call=dict(causal=True, query_offset=-3)),
    "a window": case(call=dict(window=4)),
    "a window of the last queries": case(
        t=5, s=40, call=dict(causal=True, window=6, query_offset=35)
    ),
    "hidden keys": case(
        b=2, h=2, kv=1, call=dict(key_mask=PADDED, query_mask=PADDED, causal=True)
    ),
    "hidden keys amid others": case(
        call=dict(key_mask=hidden(19, (0, slice(2, 17, 3)), (0, slice(0, 2))), window=7)
    ),
    "hidden queries": case(call=dict(query_mask=hidden(19, (0, slice(3, 8))))),
    "lengths": case(b=2, h=2, kv=1, call=dict(key_lengths=ints(17, 5))),
    "offsets": case(
        b=2, h=2, kv=1, t=3, call=dict(query_offsets=ints(16, 2), causal=True)
    ),
    "packed": case(call=STARTS),
    "packed, other keys": case(
        t=7,
        call=dict(
            query_starts=ints(0, 3, 4, 7),
            key_starts=ints(0, 9, 10, 19),
            query_offsets=ints(6, 0, 6),
            causal=True,
        ),
    ),
    "packed, hidden": case(
        torch.bfloat16,
        call=dict(
            **STARTS,
            window=5,
            key_mask=hidden(19, (0, slice(0, 2)), (0, 15)),
            query_mask=hidden(19, (0, slice(9, 12))),
        ),
    ),
    "softcap": case(spread=3.0, call=dict(softcap=2.5, causal=True)),
    "softcap far above scores": case(call=dict(softcap=500.0, scale=0.3)),
    "temperatures": case(call=dict(temperature=0.2 + torch.rand(4, 19), causal=True)),
    "learnt sinks": case(
        call=dict(sink_logits=torch.tensor([0.0, 3, -2, -math.inf]), causal=True)
    ),
    "wide heads": case(h=2, kv=1, d=200, call=dict(causal=True)),
    "all of it": case(
        torch.bfloat16,
        2.0,
        True,
        b=2, h=2, kv=1,
        call=dict(
            causal=True,
            window=9,
            key_lengths=ints(19, 16),
            key_mask=hidden(19, (0, 0), (1, 3), b=2),
            query_mask=hidden(19, (1, slice(16, None)), b=2),
            query_offsets=ints(0, -1),
            softcap=4.0,
            scale=0.4,
            sink_logits=torch.tensor([1.0, -1]),
            temperature=0.5 + torch.rand(2, 19),
        ),
    ),
}  # fmt: skip
OURS = dict(query_offset="offset", query_offsets="offsets", sink_logits="sinks")


def make(name):
    """Returns queries (B,H,T,D), keys (B,KV,S,D) and the Call of a case."""
    one = CASES[name]
    b, h, kv, t, s, d = one["sizes"].values()

    def tensor(heads, n):
        shape = (b, n, heads, d) if one["by_token"] else (b, heads, n, d)
        x = (torch.randn(shape) * one["spread"]).to(one["number"])
        return x.transpose(1, 2) if one["by_token"] else x

    members = {OURS.get(given, given): value for given, value in one["call"].items()}
    return tensor(h, t), tensor(kv, s), Call(**{"scale": d**-0.5, **members})


# --- the formula ------------------------------------------------------------------


def _sequences(query, key, call):
    """Yields, for each sequence, its number, its row in the batch, its queries and
    keys, and the offset of its first query."""
    starts, keys = call.query_starts, call.key_starts
    if starts is None:
        pairs = [(i, slice(None), slice(None)) for i in range(query.shape[0])]
    else:
        keys = starts if keys is None else keys
        pairs = [
            (0, slice(*starts[i : i + 2].tolist()), slice(*keys[i : i + 2].tolist()))
            for i in range(len(starts) - 1)
        ]
    for n, (b, rows, columns) in enumerate(pairs):
        offset = call.offset if call.offsets is None else int(call.offsets[n])
        yield n, b, rows, columns, offset


def _of_sequence(query, key, call, n, b, rows, columns, offset):
    """Returns, by the name of the statistic, the values (H,rows) of one sequence,
    without rows that are not counted."""
    q, k = query[b, :, rows].double(), key[b, :, columns].double()
    k = k.repeat_interleave(q.shape[0] // k.shape[0], 0)
    scores = q @ k.transpose(1, 2) * call.scale
    if call.temperature is not None:
        scores = scores / call.temperature[:, rows, None].double()
    if call.softcap:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    place = torch.arange(q.shape[1])[:, None] + offset
    j = torch.arange(k.shape[1])
    seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool)
    if call.causal:
        seen &= j <= place
    if call.window:
        seen &= (place - j).abs() < call.window
    if call.key_lengths is not None:
        seen &= j < call.key_lengths[n]
    first = 0
    if call.key_mask is not None:
        mask = call.key_mask[b, columns] != 0
        seen &= mask
        first = int(mask.int().argmax()) if mask.numel() else 0
    counted = seen.any(-1)
    if call.query_mask is not None:
        counted &= call.query_mask[b, rows] != 0
    scores = scores.masked_fill(~seen, -math.inf)[:, counted]
    a, log = scores.softmax(-1), scores.log_softmax(-1)
    share = torch.zeros(a.shape[:2], dtype=torch.float64)
    if call.sinks is not None:
        share = torch.sigmoid(call.sinks.double()[:, None] - scores.logsumexp(-1))
    away = (place - j).abs()[counted]
    return dict(
        entropy=-(a * log.masked_fill(a == 0, 0)).sum(-1),
        max_logit=scores.amax(-1) if a.numel() else share,
        sink=a[..., first] if a.numel() else share,
        missing_mass=share,
        distance=(a * away).sum(-1),
        top=a.amax(-1) if a.numel() else share,
    )


def expected(query, key, call):
    """Returns the expected values (H) by the names of series in a run file. All rows of
    the test cases are finite."""
    parts = [_of_sequence(query, key, call, *one) for one in _sequences(query, key, call)]
    rows = {name: torch.cat([part[name] for part in parts], 1) for name in parts[0]}
    means = [p["entropy"].mean(1) for p in parts if p["entropy"].shape[1]]
    out = {name: values.mean(1) for name, values in rows.items()}
    out["max_logit"] = rows["max_logit"].amax(1)
    out["entropy_min"] = torch.stack(means).amin(0)
    out["entropy_max"] = torch.stack(means).amax(0)
    out["finite_rows"] = torch.full((query.shape[1],), rows["entropy"].shape[1])
    out["nonfinite_rows"] = out["nonfinite_weights"] = torch.zeros(query.shape[1])
    assert set(out) == set(NAMES)
    return out
