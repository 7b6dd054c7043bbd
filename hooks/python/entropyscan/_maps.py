"""Computes attention maps: each cell is the mean weight of a block of queries on a
block of keys, over the first sequences of a batch (store/map.h in the sources)."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor

from . import _library, _statistics
from ._statistics import Attention, missing

SEQUENCES = 16  # maps use at most so many sequences of a batch


def maps(query: Tensor, key: Tensor, what: Attention, size: int) -> Tensor | None:
    """Returns the maps (H,C,C) float32 on the device, C = min(size, T, S). A cell is
    the mean weight over the sequences and over the (query, key) pairs of its block in
    which the query sees the key. The cell is missing if there is no such pair, and NaN
    if a row is not finite. query (B,H,T,D), key (B,KV,S,D). Returns None for packed
    sequences, because a token's position in its sequence differs from its position in
    the packed row."""
    if what.query_starts is not None:
        return None
    query, key = query[:SEQUENCES], key[:SEQUENCES]
    t, s = query.shape[2], key.shape[2]
    with torch.no_grad(), torch.autocast(query.device.type, enabled=False):
        what = _statistics.settled(_first(what), t, query.shape[3], s)
        visible, bias = _statistics.understood(what, t, s)
        n = min(size, t, s)
        shape = (query.shape[1], n, n)
        sums = torch.zeros(shape, dtype=_statistics.wide_type(query), device=query.device)
        pairs = torch.zeros_like(sums)
        lines = torch.arange(t, device=query.device) * n // t
        columns = torch.arange(s, device=query.device) * n // s
        for first, scores in _statistics.blocks(query, key):
            rows = _statistics.softened(scores, what, visible, bias, first)
            weights = rows.weight / rows.total[..., None]
            if rows.missing is not None:
                weights = weights * (1 - rows.missing[..., None])
            weights = weights.masked_fill(~rows.finite[..., None], torch.nan)
            weights = weights.masked_fill(~rows.seen, 0)
            at = lines[first : first + scores.shape[2]]
            _add(sums, weights, at, columns)
            _add(pairs, rows.seen, at, columns)
        mean = (sums / pairs).float()
        absent = missing(*shape, device=query.device).view(torch.int32)
        bits = torch.where(pairs == 0, absent, mean.view(torch.int32))
        return bits.view(torch.float32)


def of_layer(heads: np.ndarray) -> np.ndarray:
    """Returns a map (C,C): each cell is the mean of `maps` (H,C,C) over the heads in
    which this cell is not missing."""
    is_there = heads.view(np.uint32) != _library.MISSING_BITS
    with np.errstate(invalid="ignore"):
        mean = np.where(is_there, heads, 0).sum(0) / is_there.sum(0)
    found = mean.astype(np.float32)
    found.view(np.uint32)[~is_there.any(0)] = _library.MISSING_BITS
    return found


def _first(what: Attention) -> Attention:
    """Restricts the masks, biases and slopes of an attention layer to the
    first SEQUENCES sequences of the batch. Tensors that all sequences share
    stay unchanged."""
    slopes, bias, mask = what.slopes, what.bias, what.mask
    return dataclasses.replace(
        what,
        mask=None if mask is None else mask[:SEQUENCES],
        bias=None if bias is None or bias.dim() < 4 else bias[:SEQUENCES],
        slopes=slopes if slopes is None or slopes.dim() == 1 else slopes[:SEQUENCES],
    )


def _add(out: Tensor, values: Tensor, lines: Tensor, columns: Tensor) -> None:
    """Adds values (B,H,R,S), summed over B, to the cells of the maps out
    (H,C,C). lines (R) is the row in the map for each query; columns (S) is the
    column in the map for each key."""
    h, r, n = out.shape[0], lines.numel(), out.shape[2]
    across = out.new_zeros(h, r, n)
    across.index_add_(2, columns, values.sum(0, dtype=out.dtype))
    out.index_add_(1, lines, across)
