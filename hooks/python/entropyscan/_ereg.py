"""The papers' entropy regularization as a module of PyTorch, without a matrix of
T x T: scores are made again, block of queries by block, in the backward pass."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

# Scores of one block: 32 MiB of float32.
BLOCK_SCORES = 1 << 23


class EntropyRegularization(nn.Module):
    """Penalises heads whose entropy is far from a threshold that they learn.

        ereg = es.EntropyRegularization(n_layers, n_heads, context)
        loss = loss + 1e-5 * ereg([(q, k), ...])       # one pair of each layer

    With E_max = ln(context), tolerance gamma E_max and the threshold theta of
    each head, the deviation of an entropy e is e - theta E_max; beyond the
    tolerance it costs its square, within it nothing.

    reduction   "token": sum over sequences and queries of the penalty, mean over
                layers and heads (the papers' listing); "mean": of the heads'
                mean entropy instead (their algorithm 1)
    gamma       tolerance, a share of E_max
    theta       thresholds to begin with; the parameter `thresholds` (L,H)

    q (B,H,T,D), k (B,H or fewer,T,D): causal unless causal=False. scale:
    1 / sqrt(D) unless given. Scores are float32, or float64 where q is.
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
            raise ValueError(f"reduction={reduction!r}: token or mean")
        if context < 2:
            raise ValueError(f"context={context}: 2 at least")
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
    ) -> Tensor:
        """layers: pairs (q, k), one of each layer. The loss, a scalar."""
        layers = list(layers)
        if len(layers) != self.thresholds.shape[0]:
            raise ValueError(
                f"{len(layers)} layers, made for {self.thresholds.shape[0]}"
            )
        total = None
        for (query, key), thresholds in zip(layers, self.thresholds):
            entropy = attention_entropy(query, key, causal=causal, scale=scale)
            penalty = self.penalty(entropy, thresholds)
            total = penalty if total is None else total + penalty
        return total / len(layers)

    def penalty(self, entropy: Tensor, thresholds: Tensor) -> Tensor:
        """Of one layer: entropies (B,H,T), thresholds (H)."""
        if self.reduction == "mean":
            deviation = entropy.mean((0, 2)) - thresholds * self.e_max
        else:
            deviation = entropy - thresholds[:, None] * self.e_max
        squares = torch.where(deviation.abs() > self.tolerance, deviation**2, 0.0)
        return squares.sum() / entropy.shape[1]


def attention_entropy(
    query: Tensor, key: Tensor, *, causal: bool = True, scale: float | None = None
) -> Tensor:
    """(B,H,T) nats of softmax attention, differentiable once;
    memory of a block of queries, whatever T is. A row with a score that is not
    finite is NaN."""
    if query.shape[1] % key.shape[1]:
        raise ValueError(
            f"{query.shape[1]} heads of queries, {key.shape[1]} of keys: the one "
            "has to divide the other"
        )
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return _Entropy.apply(query, key, causal, scale)


def _scores(
    query: Tensor, key: Tensor, first: int, last: int, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """Grouped queries (B,KV,G,R,D), their scores (B,KV,G,R,S), -inf where a key
    is not seen."""
    b, h, _, d = query.shape
    s = key.shape[2]
    number = torch.promote_types(query.dtype, torch.float32)
    block = query[:, :, first:last].to(number)
    block = block.reshape(b, key.shape[1], -1, last - first, d)
    scores = block @ key[:, :, None].to(number).transpose(-1, -2) * scale
    if causal:
        i = torch.arange(first, last, device=query.device)[:, None]
        j = torch.arange(s, device=query.device)
        scores = scores.masked_fill(j > i + s - query.shape[2], -math.inf)
    return block, scores


def _blocks(query: Tensor, key: Tensor) -> list[tuple[int, int]]:
    b, h, t, _ = query.shape
    step = max(1, min(t, BLOCK_SCORES // max(1, b * h * key.shape[2])))
    return [(i, min(t, i + step)) for i in range(0, t, step)]


class _Entropy(torch.autograd.Function):
    """e = lse - sum p s of each row; de/ds_j = -p_j (ln p_j + e)."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, causal: bool, scale: float
    ) -> Tensor:
        ctx.causal, ctx.scale = causal, scale
        ctx.save_for_backward(query, key)
        out = []
        with torch.autocast(query.device.type, enabled=False):
            for first, last in _blocks(query, key):
                _, scores = _scores(query, key, first, last, causal, scale)
                log_p = scores.log_softmax(-1)
                p = log_p.exp()
                rows = -(p * log_p.masked_fill(p == 0, 0)).sum(-1)
                out.append(rows.reshape(query.shape[0], query.shape[1], -1))
        return torch.cat(out, -1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key = ctx.saved_tensors
        b, h, t, d = query.shape
        groups = key.shape[1]
        number = torch.promote_types(query.dtype, torch.float32)
        d_query = torch.empty(query.shape, dtype=number, device=query.device)
        d_key = torch.zeros(key.shape, dtype=number, device=query.device)
        with torch.autocast(query.device.type, enabled=False):
            for first, last in _blocks(query, key):
                block, scores = _scores(query, key, first, last, ctx.causal, ctx.scale)
                log_p = scores.log_softmax(-1)
                p = log_p.exp()
                log_p = log_p.masked_fill(p == 0, 0)
                entropy = -(p * log_p).sum(-1, keepdim=True)
                above = gradient[:, :, first:last].to(number)
                above = above.reshape(b, groups, -1, last - first, 1)
                d_scores = -p * (log_p + entropy) * above * ctx.scale
                keys = key[:, :, None].to(number)
                d_query[:, :, first:last] = (d_scores @ keys).reshape(
                    b, h, last - first, d
                )
                d_key += (d_scores.transpose(-1, -2) @ block).sum(2)
        return d_query.to(query.dtype), d_key.to(key.dtype), None, None
