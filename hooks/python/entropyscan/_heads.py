"""Finds which dimensions in a call of scaled_dot_product_attention are heads. torch
accepts (...,T,D) and broadcasts the leading dimensions; we need (B,H,T,D). Tensors with
four dimensions have this shape. With three dimensions, the caller has folded samples
and heads into the first, omitted the batch, or has a single head; the number of heads
that the calling module declares distinguishes these cases.

Letters: B batch, H heads of queries, T queries, S keys, D width of a head."""

from __future__ import annotations

import math
from typing import Optional

import torch
from torch import Tensor, nn

_NAMES = ("num_heads", "n_heads", "n_head", "num_attention_heads", "nhead", "heads")


def _heads_of(module: nn.Module | None) -> int | None:
    """Returns the number of heads that a module or its configuration declares."""
    for owner in (module, getattr(module, "config", None)):
        for name in _NAMES:
            n = getattr(owner, name, None)
            if type(n) is int and n > 0:
                return n
    return None


def with_heads(
    query: Tensor,
    key: Tensor,
    mask: Optional[Tensor],
    module: Optional[nn.Module],
    is_grouped: bool,
) -> tuple[Tensor, Tensor, Optional[Tensor]] | None:
    """Converts query (...,T,D), key (...,S,D) and mask (...,T,S), after broadcasting,
    to (B,H,T,D), (B,KV,S,D) and (B|1,H|1,T|1,S|1). Returns None if neither the shapes
    nor the calling module determine which dimensions are heads. is_grouped: the call
    has torch's enable_gqa=True, for which heads are the last dimension before the
    tokens."""
    # In a grouped call queries and keys have different numbers of heads, so the
    # dimension of heads cannot be broadcast.
    kept = 3 if is_grouped else 2
    outer = query.shape[:-kept]
    if outer != key.shape[:-kept]:
        outer = torch.broadcast_shapes(outer, key.shape[:-kept])
        query = query.expand(*outer, *query.shape[-kept:])
        key = key.expand(*outer, *key.shape[-kept:])
    batch = query.shape[:-2]
    if len(batch) != 2:
        h = batch[-1] if is_grouped else _heads_among(batch, module)
        if h is None:
            return None
        mask = _folded(mask, batch, h)
        h_key = key.shape[-3] if is_grouped else h
        n = math.prod(batch) // h
        query = query.reshape(n, h, *query.shape[-2:])
        key = key.reshape(n, h_key, *key.shape[-2:])
    while mask is not None and mask.dim() < 4:
        mask = mask[None]
    return query, key, mask


def _heads_among(batch: torch.Size, module: nn.Module | None) -> int | None:
    """Returns the number of heads in the leading dimensions `batch`: the size of the
    last dimension if there are several, or a divisor of the only dimension. Returns
    None if the number is unknown."""
    n = math.prod(batch)
    if n == 1:
        return 1
    n_heads = _heads_of(module)
    if n_heads is None:
        return None
    if len(batch) == 1:
        return n_heads if n % n_heads == 0 else None
    ends = [math.prod(batch[i:]) for i in range(len(batch) + 1)]
    return n_heads if n_heads in ends else None


def _folded(mask: Tensor | None, batch: torch.Size, n_heads: int) -> Tensor | None:
    if mask is None or all(size == 1 for size in mask.shape[:-2]):
        return None if mask is None else mask.reshape(1, 1, *mask.shape[-2:])
    mask = mask.expand(*batch, *mask.shape[-2:])
    n = math.prod(batch) // n_heads
    return mask.reshape(n, n_heads, *mask.shape[-2:])
