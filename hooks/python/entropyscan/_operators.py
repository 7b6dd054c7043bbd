"""Operators that graphs keep and that look at run time whether a step is
recorded.

Each attention module gets a number, kept as a tensor of one element that is no
buffer: graphs take it as an input, so that layers which share a graph do not
compile again. An operator without outputs takes it with queries and keys; the
compiler keeps it because its effect is ordered. Whatever fails in one of them
goes to the watch, never into the training."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._maps import maps
from ._statistics import Attention, ceiling, measure
from ._weights import measure_weights

if torch.distributed.is_available():
    from torch.distributed.tensor import DTensor as _DTensor
else:

    class _DTensor:  # type: ignore[no-redef]
        """None is one."""


_SLOT = "_entropyscan_slot"
_STATE = "__getstate__"
_is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # from 2.7 on


class Tap:
    """What one watched model hands over. `enabled`: this step is recorded.
    Results by phase and place of the module, the first of a step alone: those
    of the first micro-batch, so that a second forward pass of a layer, for
    gradient checkpointing, changes nothing."""

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        self.enabled = False
        self.is_open = True  # evaluations are wanted at every step
        self.results: dict[str, dict[int, Tensor]] = {"train": {}, "eval": {}}
        # Places of those that are not measured, which was said and counted.
        self.failed: dict[str, set[int]] = {"train": set(), "eval": set()}
        self.is_empty = {"train": False, "eval": False}  # no rows were seen
        self.shape: tuple[int, int] | None = None  # batch, context
        self.is_described = False  # the file has these
        self.ceiling = float("nan")  # nats, the layers' largest; of `shape`'s step
        self.has_sinks = False
        self.map_size = 0  # cells a side of attention maps; 0: none
        self.wants_maps = False  # of this step
        self.maps: dict[str, dict[int, Tensor]] = {"train": {}, "eval": {}}
        self.on_error = on_error

    def clear(self, phase: str) -> None:
        self.results[phase] = {}
        self.maps[phase] = {}
        self.failed[phase] = set()
        self.is_empty[phase] = False


class Slot:
    def __init__(self, tap: Tap, place: int, module: nn.Module) -> None:
        self.tap, self.place, self.module = tap, place, weakref.ref(module)


_slots: dict[int, Slot] = {}
_next_slot = 0
enabled: set[Tap] = set()  # whether there are any is read on the fast path


def enable(tap: Tap, is_recorded: bool) -> None:
    tap.enabled = is_recorded
    if is_recorded:
        enabled.add(tap)
    else:
        enabled.discard(tap)


def add_slot(tap: Tap, place: int, module: nn.Module) -> int:
    """Gives a module its number; one that an earlier watch gave it is gone."""
    global _next_slot
    number = _next_slot
    _next_slot += 1
    _slots[number] = Slot(tap, place, module)
    module.__dict__[_SLOT] = torch.tensor(number, device="cpu")
    module.__dict__[_STATE] = functools.partial(_state, weakref.ref(module))
    return number


def _state(reference: weakref.ref[nn.Module]) -> Any:
    """What a copy or a pickle has of a module: neither its number nor hooks of
    ours, which would want this package where it is loaded."""
    module = reference()
    of_class = getattr(type(module), _STATE, None)  # object's, from Python 3.11 on
    state = of_class(module) if of_class else vars(module)
    if not isinstance(state, dict):
        return state
    state = {k: v for k, v in state.items() if k not in (_SLOT, _STATE)}
    hooks = [*module._forward_pre_hooks.items(), *module._forward_hooks.items()]
    ours = {number for number, hook in hooks if _is_ours(hook)}
    for name, value in state.items():
        if name.startswith(("_forward_hooks", "_forward_pre_hooks")):
            state[name] = type(value)((k, v) for k, v in value.items() if k not in ours)
    return state


def _is_ours(hook: Callable[..., Any]) -> bool:
    return str(getattr(hook, "__module__", "")).startswith(f"{__package__}.")


def remove_slot(number: int) -> None:
    slot = _slots.pop(number, None)
    module = slot.module() if slot is not None else None
    if module is not None:
        own = module.__dict__.get(_SLOT)
        if own is not None and int(own) == number:  # no later watch's
            del module.__dict__[_SLOT], module.__dict__[_STATE]


def taps_of(model: nn.Module) -> list[Tap]:
    """Those that watch modules of a model now."""
    slots = (_slots.get(int(m.__dict__.get(_SLOT, -1))) for m in model.modules())
    return list({id(slot.tap): slot.tap for slot in slots if slot}.values())


def slot_of(module: nn.Module) -> Tensor | None:
    """None for a module that is not watched; a copy of one is not, nor a program
    that torch.export makes of one."""
    slot = module.__dict__.get(_SLOT)
    if _is_exporting():
        return None
    if slot is None or torch.compiler.is_compiling():
        return slot
    found = _slots.get(int(slot))
    return slot if found is not None and found.module() is module else None


def is_training(module: nn.Module | None) -> bool:
    """Reentrant checkpointing runs the first pass without gradients, so a
    module that trains is in training whatever the gradients are."""
    return torch.is_grad_enabled() or (module is not None and module.training)


def report(slot: Tensor | None, error: BaseException) -> None:
    """To the watch whose module it is."""
    found = _slots.get(int(slot)) if slot is not None else None
    if found is not None:
        found.tap.on_error(error)


# --- operators ----------------------------------------------------------------


def _is_wanted(slot: Tensor, training: bool) -> Slot | None:
    """The slot, if this step is recorded and has nothing of it so far."""
    found = _slots.get(int(slot))
    if found is None:
        return None
    tap = found.tap
    if not (tap.enabled if training else tap.is_open):
        return None
    phase = "train" if training else "eval"
    is_done = found.place in tap.results[phase] or found.place in tap.failed[phase]
    return None if is_done else found


def _fail(slot: Slot, training: bool, error: Exception) -> None:
    slot.tap.failed["train" if training else "eval"].add(slot.place)
    slot.tap.on_error(error)


def _is_empty(slot: Slot, training: bool, *tensors: Tensor) -> bool:
    """A batch without samples or tokens has no rows: neither a sample nor a gap."""
    if all(tensor.numel() for tensor in tensors):
        return False
    slot.tap.is_empty["train" if training else "eval"] = True
    return True


def _keep(
    slot: Slot, training: bool, query: Tensor, key: Tensor, what: Attention
) -> None:
    tap = slot.tap
    heads = measure(query, key, what)
    if what.sinks is not None:
        tap.has_sinks = True
    if heads.device.type == "cuda":
        pinned = torch.empty(heads.shape, dtype=heads.dtype, pin_memory=True)
        heads = pinned.copy_(heads, non_blocking=True)
    if tap.map_size and (tap.wants_maps or not training):
        found = maps(query, key, what, tap.map_size)
        if found is not None:
            tap.maps["train" if training else "eval"].setdefault(slot.place, found)
    # Of threads that are here at once, the first.
    tap.results["train" if training else "eval"].setdefault(slot.place, heads)
    if tap.shape is None:
        tap.shape = (query.shape[0], query.shape[2])
        if what.query_starts is not None:
            lengths = what.query_starts.diff()
            tap.shape = (lengths.numel(), int(lengths.max()))
    if not tap.is_described:
        largest = ceiling(what, query.shape[2], key.shape[2])
        if largest > tap.ceiling or math.isnan(tap.ceiling):
            tap.ceiling = largest


@torch.library.custom_op("entropyscan::observe", mutates_args=())
def _observe(
    slot: Tensor,
    query: Tensor,
    key: Tensor,
    mask: Optional[Tensor],
    bias: Optional[Tensor],
    sinks: Optional[Tensor],
    query_starts: Optional[Tensor],
    key_starts: Optional[Tensor],
    positions: Optional[Tensor],
    slopes: Optional[Tensor],
    scale: Optional[float],
    softcap: Optional[float],
    left: int,
    right: int,
    causal: bool,
    at_end: bool,
    is_self: bool,
    training: bool,
) -> None:
    found = _is_wanted(slot, training)
    if found is None or _is_empty(found, training, query, key):
        return
    try:
        if query_starts is None and positions is not None and mask is None:
            query_starts = _starts(positions)
        if query_starts is not None:
            query, key = _in_a_row(query), _in_a_row(key)
        what = Attention(
            scale=scale,
            softcap=softcap,
            causal=causal,
            at_end=at_end,
            left=left,
            right=right,
            slopes=slopes,
            is_self=is_self,
            mask=mask,
            bias=bias,
            sinks=sinks,
            query_starts=query_starts,
            key_starts=key_starts,
        )
        _keep(found, training, query, key, what)
    except Exception as error:
        _fail(found, training, error)


def _starts(positions: Tensor) -> Tensor | None:
    """Where sequences begin that are packed in one row, by the rule of
    transformers: (1,T) positions that do not count on from the first."""
    if positions.dim() != 2 or positions.shape[0] != 1 or positions.shape[1] == 1:
        return None
    row = positions[0]
    first, n = row.min(), row.numel()
    if torch.equal(row, torch.arange(n, device=row.device, dtype=row.dtype) + first):
        return None
    starts = (row == first).nonzero()[:, 0]
    return torch.cat([starts, starts.new_tensor([n])]).int()


def _in_a_row(x: Tensor) -> Tensor:
    """(B,H,T,D) as (1,H,B T,D): packed sequences follow each other."""
    return x if x.shape[0] == 1 else x.transpose(0, 1).flatten(1, 2)[None]


def unmeasurable(*tensors: Tensor) -> str | None:
    """Why tensors have no numbers that an operator could read, None if they do."""
    if any(tensor.is_nested for tensor in tensors):
        return "attention of nested tensors (torch.nested): it is not measured"
    return None


def observe(
    slot: Tensor,
    query: Tensor,
    key: Tensor,
    *,
    training: bool,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    sinks: Tensor | None = None,
    query_starts: Tensor | None = None,
    key_starts: Tensor | None = None,
    positions: Tensor | None = None,
    slopes: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    left: int = -1,
    right: int = -1,
    causal: bool = False,
    at_end: bool = False,
    is_self: bool = True,
) -> None:
    """query (B,H,T,D), key (B,H or fewer,S,D); positions (B,T) that begin again
    where packed sequences do, if no starts say it. The rest as in Attention. Of
    DTensors this rank's heads or sequences. Nothing here gets a gradient."""
    reason = unmeasurable(query, key)
    if reason is not None:
        refuse(slot, reason, training)
        return
    if is_distributed(query, key):
        if not _has_own_heads(query, key):
            refuse(slot, _OTHERWISE_DIVIDED, training)
            return
        query, key = query.to_local(), key.to_local()
        mask, bias, sinks = _local(mask), _local(bias), _local(sinks)
        query_starts, key_starts = _local(query_starts), _local(key_starts)
        positions, slopes = _local(positions), _local(slopes)
    _observe(
        slot,
        query.detach(),
        key.detach(),
        _detached(mask),
        _detached(bias),
        _detached(sinks),
        query_starts,
        key_starts,
        positions,
        _detached(slopes),
        scale,
        softcap,
        left,
        right,
        causal,
        at_end,
        is_self,
        training,
    )


_OTHERWISE_DIVIDED = (
    "queries and keys are DTensors that are not divided by heads or sequences "
    "alike: this attention is not measured"
)


def is_distributed(*tensors: Tensor) -> bool:
    return any(isinstance(tensor, _DTensor) for tensor in tensors)


def _has_own_heads(query: Tensor, key: Tensor) -> bool:
    """Whether what each rank has of two DTensors is an attention of its own."""
    if not (isinstance(query, _DTensor) and isinstance(key, _DTensor)):
        return False
    placements = query.placements
    if placements != key.placements:
        return False
    return all(p.is_replicate() or p.is_shard(0) or p.is_shard(1) for p in placements)


def _local(tensor: Tensor | None) -> Tensor | None:
    return tensor.to_local() if isinstance(tensor, _DTensor) else tensor


def _detached(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach()


@torch.library.custom_op("entropyscan::observe_projected", mutates_args=())
def observe_projected(
    slot: Tensor,
    query: Tensor,
    key: Tensor,
    query_weight: Tensor,
    key_weight: Tensor,
    query_bias: Optional[Tensor],
    key_bias: Optional[Tensor],
    mask: Optional[Tensor],
    hidden_keys: Optional[Tensor],
    n_heads: int,
    causal: bool,
    is_self: bool,
    training: bool,
) -> None:
    """torch.nn.MultiheadAttention: query (B,T,E), key (B,S,K) before their
    projections; what hides keys is true there."""
    found = _is_wanted(slot, training)
    if found is None or _is_empty(found, training, query, key):
        return
    try:
        device = query.device.type
        with torch.no_grad(), torch.autocast(device, enabled=False):
            q = _heads(F.linear(query, query_weight, query_bias), n_heads)
            k = _heads(F.linear(key, key_weight, key_bias), n_heads)
            mask = _one_mask(mask, hidden_keys, q, k)
            what = Attention(causal=causal, mask=mask, is_self=is_self)
            _keep(found, training, q, k, what)
    except Exception as error:
        _fail(found, training, error)


def _heads(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _one_mask(
    mask: Tensor | None, hidden: Tensor | None, q: Tensor, k: Tensor
) -> Tensor | None:
    """attn_mask (T,S) or (B H,T,S) and key_padding_mask (B,S) of torch.nn as
    one: bool, true where a key is seen, or added."""
    b, h, t, _ = q.shape
    if mask is not None:
        mask = mask[None, None] if mask.dim() == 2 else mask.view(b, h, t, -1)
        mask = ~mask if mask.dtype == torch.bool else mask.float()
    if hidden is None:
        return mask
    hidden = hidden[:, None, None, :]
    if hidden.dtype != torch.bool:
        hidden = hidden == -float("inf")
    if mask is None:
        return (~hidden).expand(b, 1, t, k.shape[2])
    if mask.dtype == torch.bool:
        return mask & ~hidden
    return mask.masked_fill(hidden, -float("inf"))


@torch.library.custom_op("entropyscan::refuse", mutates_args=())
def refuse(slot: Tensor, reason: str, training: bool) -> None:
    """An attention that is not measured: as an error at recorded steps, also of a
    graph, which would raise in the training."""
    found = _is_wanted(slot, training)
    if found is not None:
        _fail(found, training, ValueError(reason))


@torch.library.custom_op("entropyscan::observe_weights", mutates_args=())
def observe_weights(slot: Tensor, weights: Tensor, training: bool) -> None:
    """Weights (B,H,T,S) that a module returned."""
    found = _is_wanted(slot, training)
    if found is None or _is_empty(found, training, weights):
        return
    try:
        heads = measure_weights(weights)
        if heads is not None:
            results = found.tap.results["train" if training else "eval"]
            results.setdefault(found.place, heads)
            if found.tap.shape is None:
                found.tap.shape = (weights.shape[0], weights.shape[2])
    except Exception as error:
        _fail(found, training, error)


def _nothing(*_: Any) -> None:
    return None


def _under_vmap(info: Any, dims: Any, slot: Tensor, *others: Any) -> tuple[None, None]:
    """In graphs, too, where an operator without a rule would raise."""
    reason = "attention under torch.func.vmap: this attention is not measured"
    refuse(slot, reason, others[-1])  # training is the last of each operator
    return None, None


def _register() -> None:
    from torch._library.effects import EffectType

    measuring = (_observe, observe_projected, observe_weights)
    for operator in (*measuring, refuse):
        operator.register_fake(_nothing)
        operator.register_effect(EffectType.ORDERED)
    for operator in measuring:
        operator.register_vmap(_under_vmap)


_register()
