"""The reference for the tests: computes attention entropy with the plain formula in
double precision."""

import torch


def weights(query, key, seen=None, scale=None, softcap=None, bias=None, sinks=None):
    """Returns attention weights (B,H,T,S) in double precision: the softmax over the
    keys for which `seen` is true. With sinks, the rows sum to less than 1."""
    query, key = query.double(), key.double()
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.transpose(-1, -2) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if seen is not None:
        scores = scores.masked_fill(~seen, -float("inf"))
    if sinks is not None:
        sink = sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)
        return torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
    return scores.softmax(-1)


def row_entropy(a):
    """Returns the entropy (B,H,T) of weights a (B,H,T,S), as in AERO, eq. 10."""
    return -(a * (a + 1e-9).log()).sum(-1)


def head_entropy(a, counted=None):
    """Returns the mean entropy of each head (H) over the rows for which `counted` (B,T)
    is true; default: all rows."""
    entropy = row_entropy(a.double())
    if counted is None:
        return entropy.mean((0, 2))
    counted = counted[:, None, :]
    return (entropy * counted).nan_to_num(0).sum((0, 2)) / counted.sum((0, 2))


def causal(t, s=None):
    s = t if s is None else s
    return torch.ones(t, s, dtype=torch.bool).tril(s - t)
