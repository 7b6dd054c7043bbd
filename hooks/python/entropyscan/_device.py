"""Statistics of attention heads on a CUDA device: what an attention does, in
the terms of the kernels, and which of them run. Nothing waits for the device:
masks stay there and are read as they are."""

from __future__ import annotations

import torch
from torch import Tensor

from ._recording import warn
from ._statistics import Attention

_FLOAT_LOWEST = torch.finfo(torch.float32).min / 2

# Kernels that failed are not tried again: the reason, said once.
_failed: list[str] = []


def measure(query: Tensor, key: Tensor, what: Attention) -> Tensor | None:
    """float32 (len(SERIES),H) on the device; None where the kernels do not take
    it, or cannot run."""
    if _failed:
        return None
    try:
        from . import _triton

        call = _call(query, key, what)
        query = query if query.stride(-1) == 1 else query.contiguous()
        key = key if key.stride(-1) == 1 else key.contiguous()
        if not _triton.can(query, key, call):
            return None
        return _triton.head_statistics(query, key, call)
    except torch.cuda.OutOfMemoryError:
        raise  # query blocks would need more
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        _failed.append(reason)
        warn(f"no kernel for this device, attention is measured slowly: {reason}")
        return None


def _call(query: Tensor, key: Tensor, what: Attention) -> _triton.Call:  # noqa: F821
    from ._triton import Call

    b, h, t, d = query.shape
    s = key.shape[2]

    def numbers(values: Tensor | None) -> Tensor | None:
        if values is None:
            return None
        return values.to(query.device, torch.int32).contiguous()

    call = Call(
        scale=d**-0.5 if what.scale is None else what.scale,
        softcap=what.softcap or 0.0,
        causal=what.causal,
        offset=what.offset,
        window=what.window,
        query_starts=numbers(what.query_starts),
        key_starts=numbers(what.key_starts),
    )
    if what.sinks is not None:
        call.sinks = what.sinks.detach().float().contiguous()
    mask, bias = what.mask, what.bias
    if mask is not None and mask.dim() == 2:
        _hide_keys(call, mask, what.is_self and t == s, b, s)
        mask = None
    if mask is not None or bias is not None:
        _hide_pairs(call, mask, bias, what.is_self and t == s, (b, h, t, s))
    return call


def _bytes(mask: Tensor) -> Tensor:
    return mask.contiguous().view(torch.uint8)


def _is_seen(mask: Tensor) -> Tensor:
    if mask.is_floating_point():
        return ~(mask <= torch.finfo(mask.dtype).min / 2)
    return mask.bool()


def _hide_keys(call, mask: Tensor, is_square: bool, b: int, s: int) -> None:
    seen = _is_seen(mask[:, -s:] if mask.shape[1] > s else mask).expand(b, -1)
    call.key_mask = _bytes(seen)
    if is_square:
        call.query_mask = call.key_mask


def _hide_pairs(
    call,
    mask: Tensor | None,
    bias: Tensor | None,
    is_square: bool,
    shape: tuple[int, int, int, int],
) -> None:
    """Of mask (B|1,H|1,T,S), bool or added, and bias likewise, added."""
    b, h, t, s = shape
    if mask is not None:
        mask = mask[..., :t, :s]
        seen = _is_seen(mask)
        if call.causal:
            i = torch.arange(t, device=mask.device)[:, None] + call.offset
            seen = seen & (torch.arange(s, device=mask.device) <= i)
        first = seen.any(2).int().argmax(-1)
        call.first_key = first.int().expand(b, h).contiguous()
        if is_square:
            rows = seen.diagonal(dim1=-2, dim2=-1).any(1)
            call.query_mask = _bytes(rows.expand(b, t))
    if bias is not None:
        bias = bias[..., :t, :s].float()
        if mask is not None:
            hidden = bias.masked_fill(~_is_seen(mask), -float("inf"))
            bias = hidden + mask if mask.is_floating_point() else hidden
        call.dense, call.lowest = bias.expand(shape), _FLOAT_LOWEST
    elif mask.is_floating_point():
        call.dense = mask.expand(shape)
        call.lowest = torch.finfo(mask.dtype).min / 2
    else:
        call.dense = mask.bool().view(torch.uint8).expand(shape)
