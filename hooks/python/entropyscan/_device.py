"""Computes statistics of attention heads on a CUDA device: translates an Attention
into the arguments of the Triton kernels and runs them where possible. Nothing here
waits for the device; masks are never copied to the host."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext

import torch
from torch import Tensor

from ._recording import warn
from ._series import NAMES
from ._statistics import _ELEMENTS, Attention

WIDEST = 256
MOST_POSITIONS = 1 << 28  # sums of positions stay below 2^31
_FLOAT_LOWEST = torch.finfo(torch.float32).min / 2

@dataclasses.dataclass
class Call:
    """Arguments of the Triton kernels. All tensors are on the device of the queries."""

    scale: float
    softcap: float = 0.0
    causal: bool = False
    offset: int = 0
    window: int = 0
    key_mask: Tensor | None = None  # (B,S) uint8; (1,S) for packed sequences
    query_mask: Tensor | None = None  # (B,T) uint8; (1,T) for packed sequences
    key_lengths: Tensor | None = None  # (N) int32
    offsets: Tensor | None = None  # (N) int32, replaces offset
    query_starts: Tensor | None = None  # (N+1) int32: packed sequences, B is 1
    key_starts: Tensor | None = None  # (N+1) int32; None: same as query_starts
    sinks: Tensor | None = None  # (H) float32
    temperature: Tensor | None = None  # (H,T) float32
    first_key: Tensor | None = None  # (B,H) int32: first visible key, for dense masks
    dense: Tensor | None = None  # (B,H,T,S): uint8 mask, or floats added to scores
    lowest: float = 0.0  # a float in `dense` hides its key if it is not above this


# Error message of the first kernel failure; after a failure the kernels are not used
# again.
_failed: list[str] = []
_exact: Tensor | None = None  # (2,H): numbers of finite rows and of exact-pass rows


def serves(device: torch.device) -> bool:
    """Returns true if the kernels can read tensors on this device. Tests replace this
    function to run the kernels on the CPU with Triton's interpreter."""
    return device.type == "cuda"


def by_kernels(
    name: str, query: Tensor, key: Tensor, what: Attention, *more: Tensor
) -> Any:
    """Calls the function `name` of `_triton` with queries, keys and an Attention
    returned by settled(). Returns None if the kernels do not support the attention or
    cannot run."""
    is_lopsided = what.left >= 0 or what.right >= 0
    if _failed or is_lopsided or what.slopes is not None or not serves(query.device):
        return None
    query = query if query.stride(-1) == 1 else query.contiguous()
    key = key if key.stride(-1) == 1 else key.contiguous()
    call = _call(query, key, what)
    if not _can(query, key, call):
        return None
    is_cuda = query.device.type == "cuda"
    try:
        from . import _triton

        with torch.cuda.device(query.device) if is_cuda else nullcontext():
            return getattr(_triton, name)(query, key, call, *more)
    except torch.cuda.OutOfMemoryError:
        raise  # the fallback, blocks of queries, would need more memory
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        _failed.append(reason)
        warn(f"no kernel for this device: attention is measured slowly: {reason}")
        return None


def measure(query: Tensor, key: Tensor, what: Attention) -> Tensor | None:
    """Computes the statistics of heads, float32 (len(SERIES),H), on the device. Returns
    None if the kernels do not support the attention or cannot run."""
    global _exact
    heads = by_kernels("head_statistics", query, key, what)
    if heads is None:
        return None
    _exact = heads[-2:]
    return heads[: len(NAMES)]


def exact_share() -> float:
    """Returns the share of rows of the last attention on a CUDA device that were
    computed again in double, because rounding in float32 may have changed their entropy
    by more than 2.5e-6 nats (1e-4 for bfloat16 and float16). Counts finite rows only;
    returns NaN if there are none. Waits for the device."""
    if _exact is None:
        return float("nan")
    finite, exact = _exact.double().sum(1).tolist()
    return exact / finite if finite else float("nan")


def _can(query: Tensor, key: Tensor, call: Call) -> bool:
    positions = max(query.shape[2], key.shape[2], abs(call.offset), call.window)
    return (
        query.dtype in _ELEMENTS
        and key.dtype == query.dtype
        and query.shape[-1] <= WIDEST
        and positions < MOST_POSITIONS
        and call.scale > 0
        and query.numel() > 0
        and key.numel() > 0
    )


# --- arguments of the kernels -------------------------------------------------


def _call(query: Tensor, key: Tensor, what: Attention) -> Call:
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
    if what.at_end and call.query_starts is not None and call.key_starts is not None:
        call.offsets = call.key_starts.diff() - call.query_starts.diff()
    if what.temperature is not None:
        call.temperature = what.temperature.detach().float().contiguous()
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
    """Sets the dense mask of a call from `mask` (B|1,H|1,T,S), which is bool or is
    added to the scores, and from `bias` of the same shape, which is added to the
    scores."""
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
