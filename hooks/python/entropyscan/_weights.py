"""Computes statistics of attention heads from the weights that a module returned."""

from __future__ import annotations

import torch
from torch import Tensor

from ._series import NAMES
from ._statistics import Sums, means_over_keys, missing, reduce, wide_type


def measure_weights(weights: Tensor) -> Tensor:
    """Computes the statistics of weights a (B,H,T,S); the entropy is -sum(a * ln(a +
    1e-9)) (AERO, eq. 10). The series max_logit is missing. A row of zeros counts as a
    row that sees no key. A tensor in which most rows have negative elements or do not
    sum to 1 does not contain weights. are_weights checks this later, because a check
    here would wait for a device."""
    with torch.no_grad(), torch.autocast(weights.device.type, enabled=False):
        wide = wide_type(weights)
        a = weights.to(wide)
        seen = a.abs().sum(-1) != 0
        finite = seen & a.isfinite().all(-1)
        sums = a.sum(-1)
        regular = finite & ((sums - 1).abs() < 0.02) & (a >= 0).all(-1)
        others = (regular.sum() * 2 <= finite.sum()) & finite.any()
        t, s = a.shape[-2:]
        i = torch.arange(t, device=a.device)[:, None] + s - t
        away = (i - torch.arange(s, device=a.device)).abs().to(wide)
        values = {
            "entropy": -(a * (a + 1e-9).log()).sum(-1),
            "sink": a[..., 0],
            "top": a.amax(-1),
            **means_over_keys(a, away, sums),
            "missing_mass": 1 - sums,
        }
        sums_of = Sums(
            seen.sum(-1, dtype=wide),
            finite.sum(-1, dtype=wide),
            (~a.isfinite()).sum((-1, -2), dtype=wide),
            torch.zeros(a.shape[:2], dtype=wide, device=a.device),
            {
                name: value.masked_fill(~finite, 0).sum(-1)
                for name, value in values.items()
            },
        )
        heads = reduce([sums_of])
        heads[NAMES.index("max_logit")] = missing(a.shape[1], device=a.device)
        heads[_ROWS] = torch.where(others, -1, heads[_ROWS])
        return heads


_ROWS = NAMES.index("finite_rows")


def are_weights(heads: Tensor) -> bool:
    """Returns false if `heads` (len(SERIES),H), a result of measure_weights, was
    computed from a tensor that does not contain weights."""
    return bool(heads[_ROWS, 0] >= 0)
