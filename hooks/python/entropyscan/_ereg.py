"""Contains the papers' entropy regularization as a PyTorch module, and a differentiable
operator that computes the entropy of attention rows from queries and keys without a T x
T matrix. The backward pass recomputes the scores, with Triton kernels on CUDA devices
and in blocks of rows elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Optional

import torch
from torch import Tensor, nn

from ._device import by_kernels
from ._statistics import (
    LEAST_TEMPERATURE,
    Attention,
    blocks,
    missing,
    scales,
    sequences,
    settled,
    softened,
    understood,
)


class EntropyRegularization(nn.Module):
    """Penalises heads whose entropy is far from a learnt threshold.

        ereg = es.EntropyRegularization(n_layers, n_heads, context)
        loss = loss + 1e-5 * ereg([(q, k), ...])       # one pair of each layer

    With E_max = ln(context) and the threshold theta of a head, the deviation of an
    entropy e is e - theta E_max. The penalty of a deviation is 0 within the tolerance
    gamma E_max, and the square of the deviation beyond it.

    reduction   "token": computes the penalty of each row, sums over sequences and
                queries and averages over layers and heads (the papers' listing);
                "mean": computes the penalty of each head's mean entropy (their
                algorithm 1)
    gamma       tolerance as a share of E_max
    theta       initial value of the parameter `thresholds` (L,H)

    q (B,H,T,D), k (B,KV,T,D) with KV a divisor of H. Attention is causal unless
    causal=False; scale is 1 / sqrt(D) unless given. Scores are float32, or float64
    if q is float64.
    """

    def __init__(
        self,
        n_layers: int,
        n_heads: int,
        context: int,
        *,
        gamma: float = 0.2,
        theta: float = 0.5,
        reduction: str = "token",
    ) -> None:
        super().__init__()
        if reduction not in ("token", "mean"):
            raise ValueError(f"reduction={reduction!r}: expected 'token' or 'mean'")
        if context < 2:
            raise ValueError(f"context={context}: expected at least 2")
        self.thresholds = nn.Parameter(torch.full((n_layers, n_heads), float(theta)))
        self.e_max = math.log(context)
        self.tolerance = gamma * self.e_max
        self.reduction = reduction

    def forward(
        self,
        layers: Any,
        *,
        causal: bool = True,
        scale: float | None = None,
        window: int = 0,
        key_mask: Tensor | None = None,
    ) -> Tensor:
        """Returns the penalty, a scalar. `layers` contains (q, k) or (q, k, temperature)
        of each layer, in order. The other arguments are those of attention_entropy."""
        layers = list(layers)
        if len(layers) != self.thresholds.shape[0]:
            raise ValueError(
                f"{len(layers)} layers given, but thresholds are for "
                f"{self.thresholds.shape[0]}"
            )
        total = 0.0
        for (query, key, *rest), thresholds in zip(layers, self.thresholds):
            temperature = rest[0] if rest else None
            what = _attention(query, key, causal, scale, window, key_mask, temperature)
            rows = row_entropy(query, key, what)
            total = total + self.penalty(rows[0], thresholds, rows[1])
        return total / len(layers)

    def penalty(
        self, entropy: Tensor, thresholds: Tensor, counted: Tensor | None = None
    ) -> Tensor:
        """Returns the penalty of one layer. entropy (B,H,T), nats; thresholds (H);
        counted (B,H,T) bool is false for rows that see no key; these rows do not
        contribute."""
        if counted is not None:
            entropy = torch.where(counted, entropy, 0.0)
        if self.reduction == "mean":
            if counted is None:
                mean = entropy.mean((0, 2))
            else:  # a head may have no rows
                n = counted.sum((0, 2))
                mean, counted = entropy.sum((0, 2)) / n.clamp(min=1), n > 0
            deviation = mean - thresholds * self.e_max
        else:
            deviation = entropy - thresholds[:, None] * self.e_max
        is_outside = ~(deviation.abs() <= self.tolerance)  # NaN stays NaN
        if counted is not None:
            is_outside = is_outside & counted
        squares = torch.where(is_outside, deviation, 0.0) ** 2
        return squares.sum() / entropy.shape[1]


def attention_entropy(
    query: Tensor,
    key: Tensor,
    *,
    causal: bool = True,
    scale: float | None = None,
    window: int = 0,
    key_mask: Tensor | None = None,
    temperature: Tensor | None = None,
) -> Tensor:
    """Returns the entropy (B,H,T) of softmax attention, in nats; differentiable once.

    query        (B,H,T,D); the last query is at the position of the last key
    key          (B,KV,S,D), KV a divisor of H
    window       number of keys that a query sees, counting back from its own key; if not
                 causal, also the same number of keys ahead; 0: all keys
    key_mask     (B,S) bool, true for visible keys; if T = S, a query whose own key is
                 hidden is ignored
    temperature (H,T) or (H,1): divides the scores; values below 1e-4 are raised to 1e-4

    The result is float32, or float64 if query is float64. A row with a score that
    is not finite is NaN; a row that sees no key is missing (es.is_missing) and has
    no gradient. Needs memory for two floats per row on a CUDA device, and for the
    scores of a block of rows elsewhere."""
    what = _attention(query, key, causal, scale, window, key_mask, temperature)
    return row_entropy(query, key, what)[0]


def _attention(
    query: Tensor,
    key: Tensor,
    causal: bool,
    scale: float | None,
    window: int,
    key_mask: Tensor | None,
    temperature: Tensor | None,
) -> Attention:
    """Builds an Attention from the arguments of attention_entropy."""
    h, t, s = query.shape[1], query.shape[2], key.shape[2]
    return Attention(
        causal=causal,
        scale=scale,
        window=window,
        mask=key_mask,
        at_end=True,
        is_self=t == s,
        temperature=None if temperature is None else temperature.expand(h, t),
    )


def row_entropy(query: Tensor, key: Tensor, what: Attention) -> tuple[Tensor, Tensor]:
    """Returns the entropies (B,H,T) of any attention, and a mask (B,H,T), bool, which
    is true for rows that see a key. Sinks are ignored. Raises ValueError if a bias, a
    mask or slopes require a gradient, which this function cannot compute."""
    h, kv = query.shape[1], key.shape[1]
    if h % kv:
        raise ValueError(
            f"{h} query heads, {kv} key heads: the number of key heads must divide the "
            "number of query heads"
        )
    for name in ("bias", "mask", "slopes"):
        given = getattr(what, name)
        if given is not None and given.requires_grad:
            raise ValueError(
                f"entropy of an attention whose {name} is trained: its gradient is "
                "not supported; detach it"
            )
    what = settled(what, *query.shape[2:], key.shape[2])
    given = [getattr(what, name) for name in _MEMBERS]
    entropy, lse = _row_entropy(query, key, *given)
    return entropy, lse != -math.inf


# Members of Attention, in the order of the operator's arguments.
_MEMBERS = (
    "mask", "bias", "slopes", "query_starts", "key_starts", "temperature",
    "scale", "softcap", "causal", "offset", "at_end", "window", "is_self", "left",
    "right",
)  # fmt: skip


@torch.library.custom_op("entropyscan::row_entropy", mutates_args=())
def _row_entropy(
    query: Tensor,
    key: Tensor,
    mask: Optional[Tensor],
    bias: Optional[Tensor],
    slopes: Optional[Tensor],
    query_starts: Optional[Tensor],
    key_starts: Optional[Tensor],
    temperature: Optional[Tensor],
    scale: float,
    softcap: Optional[float],
    causal: bool,
    offset: int,
    at_end: bool,
    window: int,
    is_self: bool,
    left: int,
    right: int,
) -> tuple[Tensor, Tensor]:
    """Returns the entropy and the log-sum-exp (lse) of each row, (B,H,T) each. The
    arguments are the members of an Attention returned by settled()."""
    given = (mask, bias, slopes, query_starts, key_starts, temperature, scale, softcap,
             causal, offset, at_end, window, is_self, left, right)  # fmt: skip
    what = Attention(**dict(zip(_MEMBERS, given)))
    with torch.no_grad(), torch.autocast(query.device.type, enabled=False):
        rows = by_kernels("row_entropy", query, key, what)
        return _by_blocks(query, key, what) if rows is None else rows


@_row_entropy.register_fake
def _(query: Tensor, key: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    rows = query.new_empty(query.shape[:3], dtype=_number(query))
    return rows, torch.empty_like(rows)


@torch.library.custom_op("entropyscan::row_entropy_gradients", mutates_args=())
def _row_entropy_gradients(
    de: Tensor,
    entropy: Tensor,
    lse: Tensor,
    query: Tensor,
    key: Tensor,
    mask: Optional[Tensor],
    bias: Optional[Tensor],
    slopes: Optional[Tensor],
    query_starts: Optional[Tensor],
    key_starts: Optional[Tensor],
    temperature: Optional[Tensor],
    scale: float,
    softcap: Optional[float],
    causal: bool,
    offset: int,
    at_end: bool,
    window: int,
    is_self: bool,
    left: int,
    right: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of query, of key and of each row's temperature (B,H,T).
    Without a temperature, the last gradient is empty."""
    given = (mask, bias, slopes, query_starts, key_starts, temperature, scale, softcap,
             causal, offset, at_end, window, is_self, left, right)  # fmt: skip
    what = Attention(**dict(zip(_MEMBERS, given)))
    with torch.no_grad(), torch.autocast(query.device.type, enabled=False):
        more = (entropy, lse, de)
        gradients = by_kernels("row_entropy_gradients", query, key, what, *more)
        if gradients is None:
            gradients = _gradients_by_blocks(query, key, what, de)
    dq, dk, dt = gradients
    return dq, dk, de.new_empty(0) if dt is None else dt


@_row_entropy_gradients.register_fake
def _(
    de: Tensor, entropy: Tensor, lse: Tensor, query: Tensor, key: Tensor, *given: Any
) -> tuple[Tensor, Tensor, Tensor]:
    has_temperature = given[_MEMBERS.index("temperature")] is not None
    dt = torch.empty_like(lse) if has_temperature else de.new_empty(0)
    return query.new_empty(query.shape), key.new_empty(key.shape), dt


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.numbers = inputs[8:]
    ctx.save_for_backward(*output, *inputs[:8])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, de: Tensor | None, _: Any) -> tuple[Any, ...]:
    nothing = (None,) * (2 + len(_MEMBERS))
    if de is None:
        return nothing
    entropy, lse, query, key, *tensors = ctx.saved_tensors
    given = (*tensors, *ctx.numbers)
    dq, dk, dt = _row_entropy_gradients(de, entropy, lse, query, key, *given)
    if tensors[-1] is None:
        return (dq, dk, *nothing[2:])
    return (dq, dk, None, None, None, None, None, dt.sum(0).to(tensors[-1].dtype), *nothing[8:])


_row_entropy.register_autograd(_backward, setup_context=_setup)


# --- blocks of rows ---------------------------------------------------------------


def _number(query: Tensor) -> torch.dtype:
    return torch.promote_types(query.dtype, torch.float32)


def _by_blocks(query: Tensor, key: Tensor, what: Attention) -> tuple[Tensor, Tensor]:
    entropy = torch.empty(query.shape[:3], dtype=_number(query), device=query.device)
    lse = torch.empty_like(entropy)
    for _, to, _, _, rows in _blocks(query, key, what):
        log = rows.total.log()
        own = log - torch.linalg.vecdot(rows.weight, rows.below) / rows.total
        own = own.masked_fill(~rows.finite, math.nan)
        if own.dtype == torch.float32:  # the only type that can express `missing`
            absent = missing(*own.shape, device=own.device)
            own = torch.where(rows.has_key, own, absent)
        entropy[:, :, to] = own
        lse[:, :, to] = torch.where(rows.has_key, rows.peak + log, -math.inf)
    return entropy, lse


def _gradients_by_blocks(
    query: Tensor, key: Tensor, what: Attention, de: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Returns the gradients of query, key and temperatures, computed from recomputed
    scores. The entropy e of a row with scores s_j and weights p_j has the derivatives
    de/ds_j = -p_j * (ln p_j + e)."""
    b, h, _, d = query.shape
    groups = key.shape[1]
    number = _number(query)
    dq = torch.empty(query.shape, dtype=number, device=query.device)
    dk = torch.zeros(key.shape, dtype=number, device=query.device)
    for products, to, keys, scale, rows in _blocks(query, key, what):
        log_p = rows.below - rows.total.log()[..., None]
        p = rows.weight / rows.total[..., None]
        log_p.masked_fill_(p == 0, 0)
        entropy = -torch.linalg.vecdot(p, log_p)
        above = de[:, :, to, None].to(number) * scale
        d_products = p.mul_(log_p.add_(entropy[..., None])).mul_(-above)
        if what.softcap:
            capped = torch.tanh(products * scale / what.softcap)
            d_products = d_products * (1 - capped**2)
        if not torch.equal(rows.finite, rows.has_key):
            d_products = d_products.masked_fill(~rows.finite[..., None], math.nan)
            d_products = d_products.masked_fill(~rows.seen, 0)
        elif not rows.has_key.all():  # rows without keys have NaN weights
            d_products = d_products.masked_fill(~rows.has_key[..., None], 0)
        n, s = d_products.shape[2:]
        d_products = d_products.reshape(b, groups, -1, n, s)
        seen_keys = key[:, :, None, keys].to(number)
        dq[:, :, to] = (d_products @ seen_keys).reshape(b, h, n, d)
        own = query[:, :, to].to(number).reshape(b, groups, -1, n, d)
        dk[:, :, keys] += (d_products.transpose(-1, -2) @ own).sum(2)
    dt = None
    if what.temperature is not None:
        divisor = what.temperature.to(number).clamp(min=LEAST_TEMPERATURE)
        dt = -(dq * query.to(number)).sum(-1) / divisor
    return dq.to(query.dtype), dk.to(key.dtype), dt


def _blocks(query: Tensor, key: Tensor, what: Attention) -> Iterator[tuple[Any, ...]]:
    """Yields, for each block of R rows, the products q k (B,H,R,S), the slices of the
    block's rows and keys, the factor that turns products into scores, and the softmax
    (_Rows)."""
    for queries, keys, one in sequences(what):
        q, k = query[:, :, queries], key[:, :, keys]
        visible, bias = understood(one, q.shape[2], k.shape[2])
        begin = queries.start or 0
        for first, products in blocks(q, k):
            to = slice(begin + first, begin + first + products.shape[2])
            rows = softened(products, one, visible, bias, first)
            yield products, to, keys, scales(one, products, first), rows
