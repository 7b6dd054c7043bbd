"""Computes statistics of attention heads from queries and keys: on the CPU with the C
library, if it exists; on CUDA devices with Triton kernels (_device); otherwise with
PyTorch in blocks of queries. All three treat NaN and missing values in the way that
analyzer/entropy/entropy.h describes.

Letters: B batch, H heads of queries, T queries, S keys, D width of a head. Statistics
are a float32 tensor (len(SERIES), H)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import _library
from ._series import MEANS, NAMES, SERIES

# Maximum number of scores in one block; this is 32 MiB of float32.
BLOCK_SCORES = 1 << 23
LEAST_TEMPERATURE = 1e-4  # smaller temperatures count as this


@dataclasses.dataclass
class Attention:
    """The parameters of an attention. The members have the same meaning as in
    es_attention_shape."""

    scale: float | None = None
    softcap: float | None = None
    causal: bool = False
    offset: int = 0  # position of query 0 among the keys
    at_end: bool = False  # replaces offset: a sequence's last query is at its last key
    window: int = 0  # number of keys that a query sees, its own included; 0: all
    is_self: bool = True  # query i and key i + offset are the same token
    mask: Tensor | None = None  # bool, or added; (B|1,H|1,T,S) or (B,S)
    bias: Tensor | None = None  # added to scores, (B|1,H|1,T,S)
    sinks: Tensor | None = None  # (H) learnt logits
    left: int = -1  # number of keys that a query sees before its own; -1: all
    right: int = -1  # number of keys that it sees after its own; -1: all
    slopes: Tensor | None = None  # (H) or (B,H): ALiBi, -slope |i + offset - j|
    temperature: Tensor | None = None  # (H,T): divides the scores
    query_starts: Tensor | None = None  # (n+1): packed sequences, B is 1
    key_starts: Tensor | None = None  # (n+1); None: same as query_starts


_MEMBERS = tuple(Attention.__dataclass_fields__)


def changed(what: Attention, **members: Any) -> Attention:
    """Returns a copy of an attention with some members changed. Used instead of
    dataclasses.replace, which compiled graphs of PyTorch 2.6 do not support."""
    return Attention(**{**{name: getattr(what, name) for name in _MEMBERS}, **members})


@dataclasses.dataclass
class _Visible:
    """A mask expressed with the mask parameters of the C library. `dense` is set for
    masks that these parameters cannot express."""

    causal: bool = False
    window: int = 0
    key_mask: Tensor | None = None  # (B|1,S) bool
    query_mask: Tensor | None = None  # (B|1,T) bool
    dense: Tensor | None = None  # (B|1,H|1,T,S) bool


def missing(*shape: int, device: torch.device | None = None) -> Tensor:
    """Returns float32 values with the bit pattern that means "not measured"."""
    bits = torch.full(shape, _library.MISSING_BITS, dtype=torch.int32, device=device)
    return bits.view(torch.float32)


def measure(query: Tensor, key: Tensor, what: Attention) -> Tensor:
    """Computes the statistics of heads for query (B,H,T,D) and key (B,KV,S,D), where KV
    divides H."""
    what = settled(what, *query.shape[2:], key.shape[2])
    with torch.no_grad(), torch.autocast(query.device.type, enabled=False):
        from . import _device  # imported late, because it imports this module

        heads = _device.measure(query, key, what)
        if heads is not None:
            return heads
        visible, bias = understood(what, query.shape[2], key.shape[2])
        is_plain = bias is None and visible.dense is None and what.slopes is None
        is_plain = is_plain and what.left < 0 and what.right < 0
        has_library = query.device.type == "cpu" and not _library.IS_PYTHON
        if has_library and is_plain:
            heads = _by_library(query, key, what, visible)
            if heads is not None:
                return heads
        return _by_blocks(query, key, what)


def settled(what: Attention, t: int, d: int, s: int) -> Attention:
    """Fills in the scale and offset of an attention, expands its masks to all queries and
    keys, and expresses the limits `left` and `right` by `causal` and `window` where
    possible. There are t queries and s keys of width d."""
    causal, window, left, right = what.causal, what.window, what.left, what.right
    causal = causal or right == 0
    if causal:
        right = -1
    if left >= 0 and (causal or left == right):
        window = min(window, left + 1) if window else left + 1
        left = right = -1
    at_end = what.at_end and what.query_starts is None
    return changed(
        what,
        scale=d**-0.5 if what.scale is None else what.scale,
        offset=s - t if at_end else what.offset,
        causal=causal,
        window=window,
        left=left,
        right=right,
        mask=_of_all(what.mask, t, s),
        bias=_of_all(what.bias, t, s),
    )


def _of_all(mask: Tensor | None, t: int, s: int) -> Tensor | None:
    """Expands a mask (...,T|1,S|1) to all queries and keys."""
    if mask is None or mask.dim() < 4 or 1 not in mask.shape[-2:]:
        return mask
    rows, columns = mask.shape[-2:]
    sizes = (t if rows == 1 else rows, s if columns == 1 else columns)
    return mask.expand(*mask.shape[:-2], *sizes)


# --- masks --------------------------------------------------------------------


def understood(what: Attention, t: int, s: int) -> tuple[_Visible, Tensor | None]:
    """Returns which keys are visible, and the tensor that is added to the scores, or
    None."""
    bias, mask, visible = what.bias, what.mask, _understand(what, t, s)
    added = None
    if isinstance(visible, Tensor):  # the mask adds numbers other than 0 and -inf
        added, visible = visible, _Visible(causal=what.causal, window=what.window)
    elif visible.dense is not None and _is_unread(mask) and mask.is_floating_point():
        added = mask[..., :t, :s].masked_fill(_hidden(mask)[..., :t, :s], 0)
    if added is not None:
        bias = added if bias is None else bias + added
    return visible, bias


def _is_unread(mask: Tensor) -> bool:
    """Returns true if the mask must not be read, because the host would have to wait
    for a device.
    """
    return mask.device.type == "cuda"


def _hidden(mask: Tensor) -> Tensor:
    return mask <= torch.finfo(mask.dtype).min / 2


def _understand(what: Attention, t: int, s: int) -> _Visible | Tensor:
    """Converts a mask that hides keys to the visible keys. Returns a mask unchanged if
    it adds finite values to the scores."""
    mask = what.mask
    if mask is None:
        return _Visible(what.causal, what.window)
    if mask.is_floating_point():
        hidden = _hidden(mask)
        if not _is_unread(mask) and not bool((hidden | (mask == 0)).all()):
            return mask
        mask = ~hidden
    mask = mask.bool()
    if mask.dim() == 2:
        mask = mask[:, -s:] if mask.shape[1] > s else mask
        is_square = what.is_self and t == s
        return _Visible(what.causal, what.window, mask, mask if is_square else None)
    mask = mask[..., :t, :s]
    i = torch.arange(t, device=mask.device)[:, None] + what.offset
    j = torch.arange(s, device=mask.device)
    if what.causal:
        mask = mask & (j <= i)
    if what.window:
        mask = mask & ((i - j).abs() < what.window)
    return _in_terms(mask, what, i, j)


def _in_terms(mask: Tensor, what: Attention, i: Tensor, j: Tensor) -> _Visible:
    """Recognises a mask (B|1,H|1,T,S) on the CPU that consists only of causality, a
    window and padding, for which the library needs no T x S array. Other masks stay
    dense."""
    t, s = mask.shape[-2:]
    rows = mask.any(-1)  # (B|1,H|1,T)
    if what.is_self and t == s:
        rows = mask.diagonal(dim1=-2, dim2=-1)
    if mask.shape[1] != 1 or _is_unread(mask):
        return _Visible(dense=mask, query_mask=rows.any(1))
    flat, rows = mask[:, 0], rows[:, 0]
    keys = flat.any(1)  # (B|1,S)
    causal = not bool((flat & (j > i)).any())
    farthest = int(((i - j).abs() * flat).max()) if flat.numel() else 0
    reach = int(i.max()) if causal else int((i - j).abs().max())
    window = farthest + 1 if farthest < reach else 0
    again = keys[:, None, :] & flat.any(-1)[:, :, None]
    if causal:
        again = again & (j <= i)
    if window:
        again = again & ((i - j).abs() < window)
    if not torch.equal(again, flat):
        return _Visible(dense=mask, query_mask=rows)
    return _Visible(
        causal,
        window,
        None if bool(keys.all()) else keys,
        None if bool(rows.all()) else rows & flat.any(-1),
    )


def ceiling(what: Attention, t: int, s: int) -> Tensor:
    """Returns the largest possible mean entropy of a head, in nats: the mean of
    ln(visible keys) over the rows that see a key and are not padding. For a causal head
    this is ln(T!)/T. The result is a scalar on the device of the attention's tensors;
    NaN if no row sees a key."""
    if what.query_starts is None:
        counts = _visible_keys(what, t, s)
    else:
        counts = _packed_keys(what, t, s)
    logs = counts.clamp(min=1).to(wide_type(counts)).log()
    return logs.sum() / (counts > 0).sum()


def _packed_keys(what: Attention, t: int, s: int) -> Tensor:
    """Same as _visible_keys, but for packed sequences, which have no masks."""
    what = settled(what, t, 1, s)
    starts = what.query_starts
    keys = starts if what.key_starts is None else what.key_starts
    rows = torch.arange(t, device=starts.device, dtype=starts.dtype)
    n = (torch.searchsorted(starts, rows, right=True) - 1).clamp(0, starts.numel() - 2)
    n_keys, own = keys.diff()[n], rows - starts[n]
    place = own + (n_keys - starts.diff()[n] if what.at_end else what.offset)
    first, end = _ends(what, place, n_keys)
    is_row = (rows >= starts[n]) & (rows < starts[n + 1])
    return torch.where(is_row, end - first, 0).clamp(min=0)


def _ends(what: Attention, i: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Returns two tensors for rows at positions i among s keys: each row's first
    visible key, and the end of its visible keys (last + 1)."""
    first, end = torch.zeros_like(i), s

    def inside(x: Tensor) -> Tensor:
        return torch.minimum(x.clamp(min=0), s)

    if what.causal:
        end = inside(i + 1)
    if what.window:
        first = inside(i - what.window + 1)
        end = torch.minimum(end, inside(i + what.window))
    if what.left >= 0:
        first = torch.maximum(first, inside(i - what.left))
    if what.right >= 0:
        end = torch.minimum(end, inside(i + what.right + 1))
    return first, end


def _visible_keys(what: Attention, t: int, s: int) -> Tensor:
    """Returns the number of keys that each row sees, (rows); 0 for rows of padding."""
    what = settled(what, t, 1, s)
    visible = _understand(what, t, s)
    if isinstance(visible, Tensor):  # an added mask hides no keys
        visible = _Visible(causal=what.causal, window=what.window)
    if visible.dense is not None:
        i = torch.arange(t, device=visible.dense.device)[:, None] + what.offset
        j = torch.arange(s, device=visible.dense.device)
        seen = visible.dense
        if what.left >= 0:
            seen = seen & (j >= i - what.left)
        if what.right >= 0:
            seen = seen & (j <= i + what.right)
        counts = seen.sum(-1)  # (B|1,H|1,T)
        if visible.query_mask is not None:
            counts = counts * visible.query_mask[:, None]
        return counts.flatten()
    mask = visible.key_mask
    device = None if mask is None else mask.device
    seen = torch.ones(1, s, dtype=torch.bool) if mask is None else mask
    sums = torch.nn.functional.pad(seen.long().cumsum(-1), (1, 0))
    i = torch.arange(t, device=device) + what.offset
    shown = changed(what, causal=visible.causal, window=visible.window)
    first, end = _ends(shown, i, torch.full_like(i, s))
    counts = (sums[:, end] - sums[:, first]).clamp(min=0)  # (B|1,T)
    if visible.query_mask is not None:
        counts = counts * visible.query_mask
    return counts.flatten()


# --- the library --------------------------------------------------------------

_ELEMENTS = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}


def _of_batch(mask: Tensor | None, b: int) -> Tensor | None:
    if mask is None:
        return None
    return mask.expand(b, -1).to(torch.uint8).contiguous()


def _by_library(
    query: Tensor, key: Tensor, what: Attention, visible: _Visible
) -> Tensor | None:
    """Computes the statistics with the C library. Returns None if the library is
    missing or does not support the attention."""
    from . import _c_library  # imported late, because it needs cffi

    if query.dtype not in _ELEMENTS or key.dtype != query.dtype:
        return None
    if not what.scale > 0 or query.numel() == 0 or key.numel() == 0:
        return None
    query = query if query.stride(-1) == 1 else query.contiguous()
    key = key if key.stride(-1) == 1 else key.contiguous()
    b, h, t, d = query.shape
    shape = {
        "n_batch": b,
        "n_heads": h,
        "n_queries": t,
        "n_keys": key.shape[2],
        "head_width": d,
        "n_kv_heads": key.shape[1],
        "causal": visible.causal,
        "query_offset": what.offset,
        "window": visible.window,
        "scale": what.scale,
        "softcap": what.softcap or 0.0,
    }
    keep = {
        "key_mask": _of_batch(visible.key_mask, b),
        "query_mask": _of_batch(visible.query_mask, b),
    }
    if what.temperature is not None:
        keep["temperature"] = what.temperature.detach().float().contiguous()
    if what.sinks is not None:
        keep["sink_logits"] = what.sinks.detach().float().contiguous()
    if what.query_starts is not None:
        starts = what.query_starts.to("cpu", torch.int32).contiguous()
        keep["query_starts"] = starts
        shape["n_batch"] = starts.numel() - 1
        if what.key_starts is not None:
            keys = what.key_starts.to("cpu", torch.int32).contiguous()
            keep["key_starts"] = keys
            if what.at_end:
                keep["query_offsets"] = keys.diff() - starts.diff()
    for name, tensor in keep.items():
        if tensor is not None:
            shape[name] = tensor.data_ptr()
    element = _ELEMENTS[query.dtype]
    try:
        out = _c_library.head_statistics(
            (query.data_ptr(), element, query.stride()[:3]),
            (key.data_ptr(), element, key.stride()[:3]),
            shape,
            torch.get_num_threads(),
        )
    except _library.Error:
        return None
    if isinstance(out, str):
        return None
    rows = [np.asarray(out[name], np.float32) for _, _, name in SERIES]
    return torch.from_numpy(np.stack(rows))


# --- blocks of queries --------------------------------------------------------


@dataclasses.dataclass
class Sums:
    """Numbers of rows, and sums over the rows, for each sequence and head (B,H)."""

    rows: Tensor  # number of rows that count and see a key
    finite: Tensor  # number of those rows that are finite
    weights: Tensor  # number of visible weights of the rows that are not finite
    largest: Tensor  # largest logit of the finite rows
    mean: dict[str, Tensor]  # sums over the finite rows, by name in MEANS


def _by_blocks(query: Tensor, key: Tensor, what: Attention) -> Tensor:
    parts = []
    for rows, keys, one in sequences(what):
        q, k = query[:, :, rows], key[:, :, keys]
        if q.shape[2]:
            parts.append(_sums(q, k, one, *understood(one, q.shape[2], k.shape[2])))
    return reduce(parts) if parts else missing(len(SERIES), query.shape[1])


def sequences(what: Attention) -> Iterator[tuple[slice, slice, Attention]]:
    """Yields the queries, keys and attention of each packed sequence; without packing,
    yields the queries, keys and attention of the whole batch."""
    if what.query_starts is None:
        yield slice(None), slice(None), what
        return
    queries = what.query_starts.tolist()
    keys = queries if what.key_starts is None else what.key_starts.tolist()
    for i in range(len(queries) - 1):
        rows, columns = slice(*queries[i : i + 2]), slice(*keys[i : i + 2])
        one = changed(what, query_starts=None, key_starts=None)
        if what.at_end:
            lengths = (columns.stop - columns.start, rows.stop - rows.start)
            one = changed(one, offset=lengths[0] - lengths[1])
        if what.slopes is not None and what.slopes.dim() == 2:
            one = changed(one, slopes=what.slopes[i])
        if what.temperature is not None:
            one = changed(one, temperature=what.temperature[:, rows])
        yield rows, columns, one


def to_host(tensor: Tensor) -> Tensor:
    """Copies a tensor to the CPU. A copy from a CUDA device goes to pinned memory and
    may still be running on return."""
    if tensor.device.type != "cuda":
        return tensor.cpu()
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return pinned.copy_(tensor, non_blocking=True)


def wide_type(tensor: Tensor) -> torch.dtype:
    """Returns the type for sums: double, or float32 if the device does not support
    double."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _sums(
    query: Tensor, key: Tensor, what: Attention, visible: _Visible, bias: Tensor | None
) -> Sums:
    b, h = query.shape[:2]
    wide = wide_type(query)
    zeros = torch.zeros(b, h, dtype=wide, device=query.device)
    sums = Sums(
        zeros.clone(),
        zeros.clone(),
        zeros.clone(),
        zeros - math.inf,
        {name: zeros.clone() for name in MEANS},
    )
    for first, scores in blocks(query, key):
        _add_block(sums, scores, what, visible, bias, first)
    return sums


def blocks(query: Tensor, key: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yields (first query, products q k (B,H,R,S)) of all blocks of queries in
    order."""
    b, h, t, d = query.shape
    s = key.shape[2]
    number = query.dtype if query.dtype == torch.float64 else torch.float32
    key = key.to(number)
    step = max(1, min(t, BLOCK_SCORES // max(1, b * h * s)))
    for first in range(0, t, step) if s else ():
        last = min(t, first + step)
        block = query[:, :, first:last].to(number)
        block = block.reshape(b, key.shape[1], -1, last - first, d)
        scores = _product(block, key[:, :, None].transpose(-1, -2))
        yield first, scores.reshape(b, h, last - first, s)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Multiplies matrices without TF32, regardless of the training's settings, because
    TF32's ten bits of mantissa are too few for collapsing heads."""
    if a.device.type != "cuda":
        return a @ b
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        return a @ b
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _seen(visible: _Visible, what: Attention, scores: Tensor, first: int) -> Tensor:
    """Returns the keys that each row of a block sees, (R,S) or (B|1,H|1,R,S) bool."""
    r, s = scores.shape[-2:]
    i = torch.arange(first, first + r, device=scores.device)[:, None] + what.offset
    j = torch.arange(s, device=scores.device)
    seen = torch.ones(r, s, dtype=torch.bool, device=scores.device)
    if visible.causal:
        seen = seen & (j <= i)
    if visible.window:
        seen = seen & ((i - j).abs() < visible.window)
    if what.left >= 0:
        seen = seen & (j >= i - what.left)
    if what.right >= 0:
        seen = seen & (j <= i + what.right)
    if visible.key_mask is not None:
        seen = seen & visible.key_mask[:, None, None, :]
    if visible.dense is not None:
        seen = seen & visible.dense[:, :, first : first + r]
    if visible.query_mask is not None:
        seen = seen & visible.query_mask[:, None, first : first + r, None]
    return seen


def _first_key(visible: _Visible) -> Tensor | None:
    """Returns the first unmasked key of each sequence and head, (B|1,H|1) int64; None
    if it is always key 0."""
    if visible.dense is not None:
        return visible.dense.any(2).int().argmax(-1)
    if visible.key_mask is not None:
        return visible.key_mask.int().argmax(-1)[:, None]
    return None


@dataclasses.dataclass
class _Rows:
    """The softmax of a block of rows; members have the shape (B,H,R) or (B,H,R,S).
    weight / total are the attention weights of the visible keys; they are valid for
    finite rows."""

    seen: Tensor  # bool: the key is visible
    has_key: Tensor  # bool: the row sees a key
    finite: Tensor  # bool: the row sees a key and all its scores are finite
    away: Tensor  # (R,S) distance between query and key, tokens
    peak: Tensor  # largest score
    below: Tensor  # score minus peak
    weight: Tensor  # exp(below)
    total: Tensor  # sum of weight over the keys
    missing: Tensor | None  # share of each row that the sinks take


def scales(what: Attention, scores: Tensor, first: int) -> float | Tensor:
    """Returns the factor that turns the products q k (B,H,R,S) into scores: scale,
    divided by the temperature of each row. Row 0 is query `first`."""
    if what.temperature is None:
        return what.scale
    rows = what.temperature[:, first : first + scores.shape[2], None]
    return what.scale / rows.to(scores.dtype).clamp(min=LEAST_TEMPERATURE)


def softened(
    scores: Tensor,
    what: Attention,
    visible: _Visible,
    bias: Tensor | None,
    first: int,
) -> _Rows:
    """Computes the softmax of a block of rows. scores (B,H,R,S) are the products q k
    without the scale; row 0 is query `first`."""
    _, h, r, s = scores.shape
    scores = scores * scales(what, scores, first)
    given = _seen(visible, what, scores, first)
    seen, hidden = given.expand(scores.shape), ~given
    has_key = given.any(-1).expand(scores.shape[:3])
    # On the CPU a finite sum proves that all scores are finite; on a device, reading
    # the sum would make the host wait.
    bad = None
    if scores.device.type != "cpu" or not math.isfinite(scores.sum()):
        bad = seen & ~scores.isfinite()
    if what.softcap:
        scores = what.softcap * torch.tanh(scores / what.softcap)
    i = torch.arange(first, first + r, device=scores.device)[:, None] + what.offset
    away = (i - torch.arange(s, device=scores.device)).abs().to(scores.dtype)
    if what.slopes is not None:
        slopes = what.slopes.to(scores.dtype)
        scores = scores - slopes.reshape(-1, h, 1, 1) * away
        own = seen & ~scores.isfinite()
        bad = own if bad is None else bad | own
    if bias is not None:
        scores = scores + bias[..., first : first + r, :s].to(scores.dtype)
        own = seen & ~(scores.isfinite() | (scores == -math.inf))
        bad = own if bad is None else bad | own
    finite = has_key if bad is None else has_key & ~bad.any(-1)
    below = scores.masked_fill(hidden, -math.inf)
    peak = below.amax(-1, keepdim=True)
    below.sub_(peak).masked_fill_(hidden, 0)
    weight = below.exp().masked_fill_(hidden, 0)
    below.masked_fill_(weight == 0, 0)
    total = weight.sum(-1)
    peak = peak[..., 0]
    lost = None
    if what.sinks is not None:
        logits = what.sinks.to(scores.dtype)[None, :, None]
        lost = torch.sigmoid(logits - peak - total.log())
        finite = finite & ((logits == -math.inf) | logits.isfinite())
    return _Rows(seen, has_key, finite, away, peak, below, weight, total, lost)


def _add_block(
    sums: Sums,
    scores: Tensor,
    what: Attention,
    visible: _Visible,
    bias: Tensor | None,
    first: int,
) -> None:
    rows = softened(scores, what, visible, bias, first)
    finite, total, weight = rows.finite, rows.total, rows.weight
    values = {
        "entropy": total.log() - (weight * rows.below).sum(-1) / total,
        "top": 1 / total,
        **means_over_keys(weight, rows.away, total),
        "sink": _weight_of(_first_key(visible), weight) / total,
        "missing_mass": torch.zeros_like(total) if rows.missing is None else rows.missing,
    }
    wide = sums.finite.dtype
    sums.rows += rows.has_key.sum(-1, dtype=wide)
    sums.finite += finite.sum(-1, dtype=wide)
    bad_row = rows.has_key & ~finite
    sums.weights += (rows.seen & bad_row[..., None]).sum((-1, -2), dtype=wide)
    peak = rows.peak.masked_fill(~finite, -math.inf).to(wide).amax(-1)
    sums.largest = torch.maximum(sums.largest, peak)
    for name, value in values.items():
        sums.mean[name] += value.to(wide).masked_fill(~finite, 0).sum(-1)


def means_over_keys(weight: Tensor, away: Tensor, total: Tensor) -> dict[str, Tensor]:
    """Returns a dict of the statistics that are weighted means over the keys of each row,
    each of shape (...,R). weight (...,R,S) contains the weights and total (...,R) their
    sums; away (R,S) is the distance between query and key."""
    return {"distance": (weight * away).sum(-1) / total}


def _weight_of(index: Tensor | None, weight: Tensor) -> Tensor:
    if index is None:
        return weight[..., 0]
    b, h, r, _ = weight.shape
    index = index[:, :, None, None].expand(b, h, r, 1)
    return weight.gather(-1, index)[..., 0]


def reduce(parts: list[Sums]) -> Tensor:
    """Reduces sums (B,H) to the statistics of heads in the same way as
    analyzer/heads."""
    rows, finite, weights = (
        torch.cat([getattr(part, name) for part in parts])
        for name in ("rows", "finite", "weights")
    )
    largest = torch.cat([part.largest for part in parts]).amax(0)
    nan = float("nan")
    n_finite = finite.sum(0)
    is_known = n_finite > 0

    def known(values: Tensor) -> Tensor:
        return torch.where(is_known, values, nan)

    out = {}
    for name in MEANS:
        total = torch.cat([part.mean[name] for part in parts])
        out[name] = known(total.sum(0) / n_finite)
        if name == "entropy":
            mean = total / finite
            low = torch.where(finite > 0, mean, math.inf).amin(0)
            high = torch.where(finite > 0, mean, -math.inf).amax(0)
            out["entropy_min"], out["entropy_max"] = known(low), known(high)
    out["max_logit"] = known(largest)
    n_rows = rows.sum(0)
    out["finite_rows"] = n_finite
    out["nonfinite_rows"] = n_rows - n_finite
    out["nonfinite_weights"] = weights.sum(0)
    stacked = torch.stack([out[name] for name in NAMES]).float()
    is_none = n_rows == 0
    counts = ("finite_rows", "finite_weights")
    nothing = torch.stack([is_none & (not name.endswith(counts)) for name in NAMES])
    absent = missing(*stacked.shape, device=stacked.device)
    bits = torch.where(nothing, absent.view(torch.int32), stacked.view(torch.int32))
    return bits.view(torch.float32)
