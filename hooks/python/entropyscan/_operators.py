"""Defines the custom operators that measure attention. Compiled graphs contain these
operators, which check at run time whether the step is recorded.

Each attention module gets a number, its slot, stored in a CPU tensor with one element,
which is not a buffer. Compiled graphs take this tensor as an input, so that layers can
share a graph without recompiling. The operators get the slot together with queries and
keys and have no outputs; the compiler keeps the operators because they are declared to
have an ordered effect. A failure in an operator is reported to the watch and never raises an
exception in the training."""

from __future__ import annotations

import dataclasses
import functools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._ereg import row_entropy
from ._maps import maps
from ._statistics import Attention, ceiling, measure, to_host
from ._weights import measure_weights

if torch.distributed.is_available():
    from torch.distributed.tensor import DTensor as _DTensor
else:

    class _DTensor:  # type: ignore[no-redef]
        """Replaces DTensor in builds of PyTorch without torch.distributed; it has no
        instances."""


# Names of the attributes that a watch sets on modules.
_SLOT = "_entropyscan_slot"
_STATE = "__getstate__"
# Two attributes of a module. The first is true if the penalty needs the entropies of
# the module's rows; the second contains these entropies.
_IS_PENALIZED = "_entropyscan_is_penalized"
_ROWS = "_entropyscan_rows"
# Attribute of a module: true if its name shows that its keys come from another
# sequence.
IS_CROSS = "_entropyscan_is_cross"
_OURS = (_SLOT, _STATE, _IS_PENALIZED, _ROWS, IS_CROSS)


def _is_exporting() -> bool:
    """Replaces torch.compiler.is_exporting(), which does not exist in PyTorch 2.6 and
    is always true in the graphs of PyTorch 2.11."""
    return bool(getattr(torch.compiler, "_is_exporting_flag", False))


@dataclasses.dataclass
class Seen:
    """The measurements of a forward pass, by the module's index. Measurements made on a
    CUDA device are copied to pinned memory in the background; an event marks the end of
    the copy."""

    heads: dict[int, Tensor] = dataclasses.field(default_factory=dict)
    maps: dict[int, Tensor] = dataclasses.field(default_factory=dict)
    # Indices of modules that could not be measured; these failures have already been
    # reported and counted.
    failed: set[int] = dataclasses.field(default_factory=set)
    is_empty: bool = False  # a batch had no rows
    shape: Tensor | None = None  # (2): number of sequences, tokens of the longest
    is_found: bool = False  # sequences were found from positions; may be a single one
    ceilings: dict[int, Tensor] = dataclasses.field(default_factory=dict)  # nats
    kinds: dict[int, str] = dataclasses.field(default_factory=dict)  # see _kind_of
    # Measurements of blocks and routers by the module's slot number (see _health).
    modules: dict[int, Tensor] = dataclasses.field(default_factory=dict)


class Tap:
    """Collects the measurements of one watched model, by phase ("train", "sampled" or
    "eval"). `enabled` is true if this step is recorded. Only the first result of a
    module in a step is kept; the results of later micro-batches and of the second
    forward pass of gradient checkpointing are ignored. A pass with gradients replaces a
    pass without gradients (see phase_of)."""

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        self.enabled = False
        self.is_open = True  # evaluations are measured at every step
        self.seen = {"train": Seen(), "sampled": Seen(), "eval": Seen()}
        self.is_described = False  # true once kinds and ceilings are known
        self.has_sinks = False
        self.map_size = 0  # cells a side of attention maps; 0: no maps
        self.wants_maps = False  # true if this step records maps
        self.on_error = on_error

    def take(self, phase: str) -> Seen:
        """Returns the measurements since the last call. For "train", returns the
        measurements of a "sampled" pass if there was no pass with gradients."""
        seen, self.seen[phase] = self.seen[phase], Seen()
        if phase == "train":
            sampled, self.seen["sampled"] = self.seen["sampled"], Seen()
            seen.is_empty |= sampled.is_empty
            seen.failed |= sampled.failed
            if sampled.heads and not seen.heads:
                sampled.is_empty, sampled.failed = seen.is_empty, seen.failed
                return sampled
        return seen


class Slot:
    """A watched module: its Tap, which collects its measurements, and its index among the
    attention modules (-1 for modules without attention)."""

    def __init__(self, tap: Tap, place: int, module: nn.Module) -> None:
        self.tap, self.place, self.module = tap, place, weakref.ref(module)


_slots: dict[int, Slot] = {}
_next_slot = 0
enabled: set[Tap] = set()  # taps whose step is recorded; often empty, for the fast path
penalized: set[Tap] = set()  # taps that need the rows' entropies of every training step


def enable(tap: Tap, is_recorded: bool) -> None:
    tap.enabled = is_recorded
    if is_recorded:
        enabled.add(tap)
    else:
        enabled.discard(tap)


# Name components by which cross-attention modules are recognised, in transformers and
# other libraries.
_CROSS = {"encoder_attn", "crossattention", "EncDecAttention", "cross_attn"}


def add_slot(tap: Tap, place: int, module: nn.Module, name: str = "") -> int:
    """Gives a module a new slot number, which replaces the slot number of an earlier
    watch."""
    global _next_slot
    number = _next_slot
    _next_slot += 1
    _slots[number] = Slot(tap, place, module)
    module.__dict__[_SLOT] = torch.tensor(number, device="cpu")
    module.__dict__[_STATE] = functools.partial(_state, weakref.ref(module))
    module.__dict__[_IS_PENALIZED] = tap in penalized
    module.__dict__[IS_CROSS] = not _CROSS.isdisjoint(name.split("."))
    return number


def _state(reference: weakref.ref[nn.Module]) -> Any:
    """Returns the state of a module for copies and pickles, without our attributes and
    hooks, because loading these would require this package."""
    module = reference()
    of_class = getattr(type(module), _STATE, None)  # object's, from Python 3.11 on
    state = of_class(module) if of_class else vars(module)
    if not isinstance(state, dict):
        return state
    state = {k: v for k, v in state.items() if k not in _OURS}
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
        if own is not None and int(own) == number:  # not the slot of a later watch
            for name in _OURS:
                module.__dict__.pop(name, None)


def taps_of(model: nn.Module) -> list[Tap]:
    """Returns the Tap objects that currently collect measurements of the model's modules."""
    slots = (_slots.get(int(m.__dict__.get(_SLOT, -1))) for m in model.modules())
    return list({id(slot.tap): slot.tap for slot in slots if slot}.values())


def slot_of(module: nn.Module) -> Tensor | None:
    """Returns the slot of a watched module; None for other modules, including copies of
    a watched module and programs that torch.export makes of it."""
    # Use getattr rather than __dict__. Otherwise torch.compile would compile a graph for
    # a module that has no slot and reuse this graph for a module that has one.
    slot = getattr(module, _SLOT, None)
    if _is_exporting():
        return None
    if slot is None or torch.compiler.is_compiling():
        return slot
    found = _slots.get(int(slot))
    return slot if found is not None and found.module() is module else None


def phase_of(is_in_training: bool) -> str:
    """Returns the phase of a forward pass. "train": the pass has gradients. "sampled":
    the module is in training mode, but without gradients, as for a policy that samples,
    a reference model, or the first pass of a reentrant checkpoint; this pass is used
    only if the step has no pass with gradients. "eval": all other passes."""
    if torch.is_grad_enabled():
        return "train"
    return "sampled" if is_in_training else "eval"


# `depth` is the number of nested generate() calls of transformers that this thread is
# running.
generating = threading.local()


def report(slot: Tensor | None, error: BaseException) -> None:
    """Reports an error to the watch that measures the module with this slot number."""
    found = _slots.get(int(slot)) if slot is not None else None
    if found is not None:
        found.tap.on_error(error)


# --- operators ----------------------------------------------------------------


def open_slot(slot: Tensor, phase: str) -> Slot | None:
    """Returns the Slot if this step is recorded, else None."""
    found = _slots.get(int(slot))
    if found is None:
        return None
    if phase == "eval":
        is_open = found.tap.is_open
    else:  # generated tokens are not a batch of the training
        is_open = found.tap.enabled and not getattr(generating, "depth", 0)
    return found if is_open else None


def seen_so_far(tap: Tap, phase: str) -> list[Seen]:
    """Returns the measurements from earlier passes of this step that a pass of this
    phase need not repeat."""
    phases = ("sampled", "train") if phase == "sampled" else (phase,)
    return [tap.seen[one] for one in phases]


def _is_wanted(slot: Tensor, phase: str) -> Slot | None:
    """Returns the Slot if this step is recorded and the module is not yet measured,
    else None."""
    found = open_slot(slot, phase)
    if found is None:
        return None
    for seen in seen_so_far(found.tap, phase):
        if found.place in seen.heads or found.place in seen.failed:
            return None
    return found


def _fail(slot: Slot, phase: str, error: Exception) -> None:
    slot.tap.seen[phase].failed.add(slot.place)
    slot.tap.on_error(error)


def _has_rows(slot: Slot, phase: str, *tensors: Tensor) -> bool:
    """Returns true if there are rows to measure. A batch without samples or tokens has
    no rows and is ignored. While the user captures a CUDA graph, values are not
    computed yet, and replays of the graph do not run this operator; therefore the
    capture is reported as a failure."""
    if not all(tensor.numel() for tensor in tensors):
        slot.tap.seen[phase].is_empty = True
        return False
    if tensors[0].device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        _fail(slot, phase, RuntimeError(_IS_CAPTURED))
        return False
    return True


_IS_CAPTURED = (
    "attention in a CUDA graph that is captured by hand: its replays are not measured: "
    'use torch.compile(mode="reduce-overhead"), which keeps the measurement out of its '
    "graphs"
)


def _keep(
    slot: Slot,
    phase: str,
    query: Tensor,
    key: Tensor,
    what: Attention,
    is_found: bool = False,
) -> None:
    tap = slot.tap
    seen = tap.seen[phase]
    heads = to_host(measure(query, key, what))
    if what.sinks is not None:
        tap.has_sinks = True
    if tap.map_size and (tap.wants_maps or phase == "eval"):
        whole = dataclasses.replace(what, query_starts=None) if is_found else what
        found = maps(query, key, whole, tap.map_size)
        if found is not None:
            seen.maps.setdefault(slot.place, to_host(found))
    # If several threads measure the same module, keep the first result.
    seen.heads.setdefault(slot.place, heads)
    if seen.shape is None:
        seen.is_found = is_found
        seen.shape = _shape(query, what.query_starts)
    if not tap.is_described:
        largest = ceiling(what, query.shape[2], key.shape[2])
        seen.ceilings.setdefault(slot.place, to_host(largest))
        seen.kinds.setdefault(slot.place, _kind_of(slot.module(), what))


def _kind_of(module: nn.Module | None, what: Attention) -> str:
    """Returns the kind of a layer for the run file: "full", "window", "cross" or
    "encoder". The kind follows from the members of the Attention or, if the pattern is
    only in the mask, from the attributes of transformers' modules."""
    if not what.is_self:
        return "cross"
    config = getattr(module, "config", None)
    window = getattr(module, "sliding_window", None)
    if not hasattr(module, "sliding_window") and not hasattr(config, "layer_types"):
        window = getattr(config, "sliding_window", None)  # applies to all layers
    if what.window or what.left >= 0 or window:
        return "window"
    is_causal = what.causal or what.right == 0 or getattr(module, "is_causal", False)
    return "full" if is_causal else "encoder"


def _shape(query: Tensor, starts: Tensor | None) -> Tensor:
    """Returns a tensor of two elements: the number of sequences and the length of the
    longest one."""
    if starts is None:
        return torch.tensor([query.shape[0], query.shape[2]])
    lengths = starts.diff()
    return to_host(torch.stack([(lengths > 0).sum(), lengths.max()]))


def operator(name: str) -> Callable[[Callable[..., None]], Any]:
    """Makes a custom operator that stays out of CUDA graphs, because replays of a graph
    would not run it. Recent compilers cut the CUDA graph at the operator, which they
    recognise by its tag or its name (see _traced); older compilers make no CUDA graph
    if the code has a CPU tensor as input, such as the slot."""
    tag = getattr(torch.Tag, "cudagraph_unsafe", None)  # PyTorch 2.9 and later
    options = {} if tag is None else {"tags": (tag,)}
    return torch.library.custom_op(f"entropyscan::{name}", mutates_args=(), **options)


@operator("observe")
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
    phase: str,
) -> None:
    found = _is_wanted(slot, phase)
    if found is None or not _has_rows(found, phase, query, key):
        return
    try:
        is_found = False
        if query_starts is None and positions is not None and mask is None:
            if query.shape[2] == key.shape[2]:
                query_starts = _starts(positions)
            if query_starts is not None and query_starts.device.type == "cpu":
                query_starts = query_starts.unique()
                if query_starts.tolist() == [0, query.shape[2]]:
                    query_starts = None
            is_found = query_starts is not None
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
        _keep(found, phase, query, key, what, is_found)
    except Exception as error:
        _fail(found, phase, error)


def _starts(positions: Tensor) -> Tensor | None:
    """Returns the start index of each sequence that is packed in one row. As in
    transformers, a sequence starts where `positions` (1,T) has its minimum. The result
    is (T+1) int32: because the host does not know the number of sequences, the entries
    after the last sequence are T, which describes empty sequences. Returns None for
    other shapes of positions."""
    if positions.dim() != 2 or positions.shape[0] != 1:
        return None
    row, n = positions[0], positions.shape[1]
    places = torch.arange(n, device=row.device)
    starts = torch.where(row == row.min(), places, n).sort().values
    return F.pad(starts, (0, 1), value=n).int()


def _in_a_row(x: Tensor) -> Tensor:
    """Reshapes (B, H, T, D) to (1, H, B*T, D), one row of packed sequences."""
    return x if x.shape[0] == 1 else x.transpose(0, 1).flatten(1, 2)[None]


def keep_rows(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    *,
    mask: Tensor | None = None,
    query_starts: Tensor | None = None,
    positions: Tensor | None = None,
    sinks: Tensor | None = None,
    phase: str = "train",
    **options: Any,
) -> None:
    """Computes the entropies of the rows of a training pass, with a gradient, and keeps
    them in the module for the penalty. The arguments are those of `observe`. Errors are
    raised, because the loss would otherwise lack a part of the penalty."""
    if not getattr(module, _IS_PENALIZED, False):
        return
    if not (module.training and torch.is_grad_enabled()):
        return
    if unmeasurable(query, key) is not None or is_distributed(query, key):
        return  # penalty() raises because a layer is missing
    if query_starts is None and positions is not None and mask is None:
        if query.shape[2] == key.shape[2]:
            query_starts = _starts(positions)
    if query_starts is not None:
        query, key = _in_a_row(query), _in_a_row(key)
    what = Attention(mask=mask, query_starts=query_starts, **options)
    rows = row_entropy(query, key, what)
    # Ignore the second forward pass that gradient checkpointing runs during the
    # backward pass.
    if torch.compiler.is_compiling() or torch._C._current_graph_task_id() == -1:
        setattr(module, _ROWS, rows)


def take_rows(tap: Tap) -> list[tuple[Tensor, Tensor]]:
    """Returns a pair (entropy, counted), (B,H,T) each, for each watched module in the
    order of the modules' indices, from the last forward pass, and removes them from the
    modules."""
    slots = sorted((s for s in _slots.values() if s.tap is tap), key=lambda s: s.place)
    modules = (slot.module() for slot in slots)
    found = (m.__dict__.pop(_ROWS, None) for m in modules if m is not None)
    return [rows for rows in found if rows is not None]


def unmeasurable(*tensors: Tensor) -> str | None:
    """Returns the reason why an operator cannot read the tensors; None if it can read
    them."""
    if any(tensor.is_nested for tensor in tensors):
        return "attention of nested tensors (torch.nested): this attention is not measured"
    return None


def observe(
    slot: Tensor,
    query: Tensor,
    key: Tensor,
    *,
    phase: str,
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
    """Measures an attention at recorded steps. query (B,H,T,D), key (B,KV,S,D); positions (B,T)
    restart at each packed sequence, and determine where sequences start if query_starts is
    None. The other arguments are those of Attention. For DTensors, only this rank's
    heads or sequences are measured. Computes no gradients."""
    reason = unmeasurable(query, key)
    if reason is not None:
        refuse(slot, reason, phase)
        return
    if is_distributed(query, key):
        if not _has_own_heads(query, key):
            refuse(slot, _OTHERWISE_DIVIDED, phase)
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
        phase,
    )


_OTHERWISE_DIVIDED = (
    "queries and keys are DTensors that are not both divided by heads or both by "
    "sequences: this attention is not measured"
)


def is_distributed(*tensors: Tensor) -> bool:
    return any(isinstance(tensor, _DTensor) for tensor in tensors)


def _has_own_heads(query: Tensor, key: Tensor) -> bool:
    """Returns true if the local shards of query and key contain the complete attention
    of some heads or sequences."""
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


@operator("observe_projected")
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
    phase: str,
) -> None:
    """Measures a torch.nn.MultiheadAttention from query (B,T,E) and key (B,S,K) before
    their projections. Bool masks are true for hidden keys."""
    found = _is_wanted(slot, phase)
    if found is None or not _has_rows(found, phase, query, key):
        return
    try:
        device = query.device.type
        with torch.no_grad(), torch.autocast(device, enabled=False):
            q = _heads(F.linear(query, query_weight, query_bias), n_heads)
            k = _heads(F.linear(key, key_weight, key_bias), n_heads)
            mask = _one_mask(mask, hidden_keys, q, k)
            what = Attention(causal=causal, mask=mask, is_self=is_self)
            _keep(found, phase, q, k, what)
    except Exception as error:
        _fail(found, phase, error)


def _heads(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _one_mask(
    mask: Tensor | None, hidden: Tensor | None, q: Tensor, k: Tensor
) -> Tensor | None:
    """Combines the arguments attn_mask (T,S) or (B H,T,S) and key_padding_mask (B,S) of
    torch.nn into one mask: either bool, true for visible keys, or float, added to the
    scores."""
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


@operator("refuse")
def refuse(slot: Tensor, reason: str, phase: str) -> None:
    """Reports, at recorded steps, that an attention cannot be measured. This is an
    operator because a compiled graph has no other way to report at run time."""
    found = _is_wanted(slot, phase)
    if found is not None:
        _fail(found, phase, ValueError(reason))


@operator("observe_weights")
def observe_weights(slot: Tensor, weights: Tensor, phase: str) -> None:
    """Measures weights (B,H,T,S) that a module returned."""
    found = _is_wanted(slot, phase)
    if found is None or not _has_rows(found, phase, weights):
        return
    try:
        heads = to_host(measure_weights(weights))
        seen = found.tap.seen[phase]
        seen.heads.setdefault(found.place, heads)
        if seen.shape is None:
            seen.shape = _shape(weights, None)
    except Exception as error:
        _fail(found, phase, error)


def _traced(*_: Any) -> None:
    """The fake implementation of all operators; it has no outputs. It also adds the
    operators' names to the list of operators at which Inductor cuts CUDA graphs,
    because some versions ignore the tag of an operator with effects. The names are
    there in time, because this function runs before Inductor compiles a graph."""
    config = sys.modules.get("torch._inductor.config")
    before = getattr(config, "custom_should_partition_ops", None)  # since 2.9.1
    if before is not None and not set(_names) <= set(before):
        setattr(config, "custom_should_partition_ops", [*before, *_names])


def _under_vmap(info: Any, dims: Any, slot: Tensor, *others: Any) -> tuple[None, None]:
    """The vmap rule of the operators. Reports that the attention is not measured; without this rule
    an operator would raise an exception."""
    reason = "attention under torch.func.vmap: this attention is not measured"
    refuse(slot, reason, others[-1])  # the phase is each operator's last argument
    return None, None


_names: list[str] = []  # qualified names of all operators


def _has_effects(operator: Any) -> None:
    """Declares an ordered effect, so that graphs keep the operator and the order of
    its calls."""
    try:
        from torch._library.effects import EffectType
    except ImportError:  # earlier than PyTorch 2.10
        from torch._higher_order_ops import effects

        ordered = effects._EffectType.ORDERED
        effects._register_effectful_op(operator._opoverload, ordered)
    else:
        operator.register_effect(EffectType.ORDERED)


def register(*operators: Any, under_vmap: Callable[..., Any] | None = None) -> None:
    """Registers the fake implementation, the effect and the vmap rule of each
    operator."""
    for one in operators:
        _names.append(one._qualname)
        one.register_fake(_traced)
        _has_effects(one)
        if under_vmap is not None:
            one.register_vmap(under_vmap)


register(_observe, observe_projected, observe_weights, under_vmap=_under_vmap)
register(refuse)
