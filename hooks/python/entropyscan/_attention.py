"""Where a model's attention is seen at its queries and keys, in training, under
torch.compile and under checkpointing, without changing what it computes.

Each attention module gets a number, kept as a tensor of one element that is no
buffer: graphs take it as an input, so that layers which share a graph do not
compile again. The entries that modules call are wrapped in place; a wrapper
hands queries and keys to an operator without outputs, which the compiler keeps
because its effect is ordered. The operator looks at run time whether this step
is recorded; the graph does not depend on it."""

from __future__ import annotations

import inspect
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._statistics import Attention, measure, measure_weights

SLOT = "_entropyscan_slot"
_FLASH = ("flash_attention_2", "flash_attention_3", "flash_attention_4")
_HUGGING_FACE = ("sdpa", "flex_attention", *_FLASH)


class Tap:
    """What one watched model hands over. `enabled`: this step is recorded.
    Results by phase and place of the module, the first of a step alone: those
    of the first micro-batch, so that a second forward pass of a layer, for
    gradient checkpointing, changes nothing."""

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        self.enabled = False
        self.is_open = True  # evaluations are wanted at every step
        self.results: dict[str, dict[int, Tensor]] = {"train": {}, "eval": {}}
        self.shape: tuple[int, int] | None = None  # batch, context
        self.has_sinks = False
        self.on_error = on_error
        self.stack: list[Tensor | None] = []

    def clear(self, phase: str) -> None:
        self.results[phase] = {}


class Slot:
    def __init__(self, tap: Tap, place: int, module: nn.Module) -> None:
        self.tap, self.place, self.module = tap, place, weakref.ref(module)


_slots: dict[int, Slot] = {}
_enabled: list[bool] = [False]  # of any tap: read on the fast path


def _update_enabled() -> None:
    _enabled[0] = any(slot.tap.enabled for slot in _slots.values())


def enable(tap: Tap, enabled: bool) -> None:
    tap.enabled = enabled
    _update_enabled()


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
    return None if found.place in tap.results[phase] else found


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
    tap.results["train" if training else "eval"][slot.place] = heads
    if tap.shape is None:
        tap.shape = (query.shape[0], query.shape[2])


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
    scale: Optional[float],
    softcap: Optional[float],
    window: int,
    causal: bool,
    at_end: bool,
    is_self: bool,
    training: bool,
) -> None:
    found = _is_wanted(slot, training)
    if found is None:
        return
    try:
        what = Attention(
            scale=scale,
            softcap=softcap,
            causal=causal,
            offset=key.shape[2] - query.shape[2] if at_end else 0,
            window=window,
            is_self=is_self,
            mask=mask,
            bias=bias,
            sinks=sinks,
            query_starts=query_starts,
            key_starts=key_starts,
        )
        _keep(found, training, query, key, what)
    except Exception as error:
        found.tap.on_error(error)


@torch.library.custom_op("entropyscan::observe_projected", mutates_args=())
def _observe_projected(
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
    if found is None:
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
        found.tap.on_error(error)


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


@torch.library.custom_op("entropyscan::observe_weights", mutates_args=())
def _observe_weights(slot: Tensor, weights: Tensor, training: bool) -> None:
    """Weights (B,H,T,S) that a module returned."""
    found = _is_wanted(slot, training)
    if found is None:
        return
    try:
        heads = measure_weights(weights)
        if heads is not None:
            found.tap.results["train" if training else "eval"][found.place] = heads
            if found.tap.shape is None:
                found.tap.shape = (weights.shape[0], weights.shape[2])
    except Exception as error:
        found.tap.on_error(error)


def _nothing(*_: Any) -> None:
    return None


def _register() -> None:
    from torch._library.effects import EffectType

    for operator in (_observe, _observe_projected, _observe_weights):
        operator.register_fake(_nothing)
        operator.register_effect(EffectType.ORDERED)


_register()


def _slot_of(module: nn.Module) -> Tensor | None:
    """None for a module that is not watched; a copy of one is not."""
    slot = module.__dict__.get(SLOT)
    if slot is None or torch.compiler.is_compiling():
        return slot
    found = _slots.get(int(slot))
    return slot if found is not None and found.module() is module else None


def _is_training(module: nn.Module | None) -> bool:
    """Reentrant checkpointing runs the first pass without gradients, so a
    module that trains is in training whatever the gradients are."""
    return torch.is_grad_enabled() or (module is not None and module.training)


# --- wrappers -----------------------------------------------------------------


def _of_hugging_face(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    attention_mask: Any,
    kind: str,
    options: dict[str, Any],
) -> None:
    """What an entry of transformers does with its arguments, said once more."""
    slot = _slot_of(module)
    if slot is None:
        return
    causal = options.get("is_causal")
    if causal is None:
        causal = getattr(module, "is_causal", True)
    window = 0
    at_end = False
    starts = key_starts = None
    softcap = options.get("softcap")
    if kind in _FLASH:
        window = options.get("sliding_window") or 0
        at_end = True
        starts = options.get("cu_seq_lens_q")
        key_starts = options.get("cu_seq_lens_k")
    elif kind == "sdpa":
        causal = bool(causal) and attention_mask is None and query.shape[2] > 1
        softcap = None
    else:  # eager, flex: the mask says it
        causal = False
    if kind == "flex_attention" and not isinstance(attention_mask, Tensor):
        attention_mask = _of_block_mask(attention_mask, query, key)
    if causal and kind == "sdpa" and key.shape[2] > query.shape[2]:
        key = key[:, :, : query.shape[2]]
    bias = options.get("position_bias")
    sinks = options.get("s_aux")
    _observe(
        slot,
        query.detach(),
        key.detach(),
        attention_mask,
        None if bias is None else bias.detach(),
        None if sinks is None else sinks.detach(),
        starts,
        key_starts,
        options.get("scaling"),
        softcap,
        window,
        bool(causal),
        at_end,
        not getattr(module, "is_cross_attention", False),
        _is_training(module),
    )


def _of_block_mask(mask: Any, query: Tensor, key: Tensor) -> Tensor | None:
    """The dense mask (B|1,H|1,T,S) of flex attention's BlockMask."""
    if mask is None:
        return None
    from torch.nn.attention.flex_attention import create_mask

    shape = mask.shape
    return create_mask(
        mask.mask_mod,
        shape[0],
        shape[1],
        query.shape[2],
        key.shape[2],
        device=query.device,
    )


def _observed(original: Callable[..., Any], kind: str) -> Callable[..., Any]:
    def attention(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any,
        *args: Any,
        **options: Any,
    ) -> Any:
        if torch.compiler.is_compiling():
            _of_hugging_face(module, query, key, attention_mask, kind, options)
        elif _enabled[0] or not torch.is_grad_enabled():
            _safely(
                module, _of_hugging_face, module, query, key, attention_mask, kind,
                options,
            )  # fmt: skip
        return original(module, query, key, value, attention_mask, *args, **options)

    setattr(attention, _MARK, True)
    return attention


def _safely(
    module: nn.Module | None, function: Callable[..., None], *args: Any
) -> None:
    try:
        function(*args)
    except Exception as error:
        slot = module.__dict__.get(SLOT) if module is not None else None
        found = _slots.get(int(slot)) if slot is not None else None
        if found is not None:
            found.tap.on_error(error)


class Patches:
    """Attributes and entries replaced, and put back in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        before = getattr(owner, name)
        setattr(owner, name, value)

        def undo() -> None:
            # Somebody who wrapped ours stays; ours has nothing to do then.
            if getattr(owner, name) is value:
                setattr(owner, name, before)

        self._undo.append(undo)

    def entry(self, table: dict[str, Any], name: str, value: Any) -> None:
        before = table[name]
        table[name] = value

        def undo() -> None:
            if table.get(name) is value:
                table[name] = before

        self._undo.append(undo)

    def call(self, undo: Callable[[], None]) -> None:
        self._undo.append(undo)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


# Shared by all watches, whatever the order in which they end: what is wrapped is
# wrapped once, and put back when the last of them ends.
_shared = Patches()
_MARK = "_is_entropyscan"
_n_watches = 0


def _wrap_hugging_face() -> None:
    modeling = sys.modules.get("transformers.modeling_utils")
    if modeling is None:
        return
    tables = [modeling.AttentionInterface._global_mapping]
    # A model file may have an interface with entries of its own.
    for loaded in list(sys.modules.values()):
        interface = getattr(loaded, "__dict__", {}).get("ALL_ATTENTION_FUNCTIONS")
        if isinstance(interface, modeling.AttentionInterface):
            tables.append(interface._local_mapping)
    done: set[int] = set()
    for table in tables:
        if id(table) in done:
            continue
        done.add(id(table))
        for kind in _HUGGING_FACE:
            if kind in table and not hasattr(table[kind], _MARK):
                _shared.entry(table, kind, _observed(table[kind], kind))


_EAGER = "eager_attention_forward"


def _wrap_eager(model: nn.Module) -> None:
    """Eager attention is no entry but a function of each model file."""
    done: set[str] = set()
    for module in model.modules():
        for cls in type(module).__mro__:
            file = sys.modules.get(cls.__module__)
            if cls.__module__ in done or file is None:
                continue
            done.add(cls.__module__)
            function = file.__dict__.get(_EAGER)
            if callable(function) and not hasattr(function, _MARK):
                _shared.attribute(file, _EAGER, _observed(function, "eager"))


# --- callers of torch's own function ---------------------------------------------

_current: list[Optional[Tensor]] = []


def _observed_sdpa(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def scaled_dot_product_attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Optional[Tensor] = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: Optional[float] = None,
        enable_gqa: bool = False,
        **others: Any,
    ) -> Tensor:
        if torch.compiler.is_compiling():
            _of_sdpa(query, key, attn_mask, dropout_p, is_causal, scale)
        elif _enabled[0] or not torch.is_grad_enabled():
            _safely(
                None, _of_sdpa, query, key, attn_mask, dropout_p, is_causal, scale
            )
        return original(
            query,
            key,
            value,
            attn_mask=attn_mask,
            dropout_p=dropout_p,
            is_causal=is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
            **others,
        )

    setattr(scaled_dot_product_attention, _MARK, True)
    return scaled_dot_product_attention


def _of_sdpa(
    query: Tensor,
    key: Tensor,
    mask: Optional[Tensor],
    dropout_p: float,
    is_causal: bool,
    scale: Optional[float],
) -> None:
    slot = _current[-1] if _current else None
    if slot is None or query.dim() != 4:
        return
    while mask is not None and mask.dim() < 4:
        mask = mask[None]
    _observe(
        slot,
        query.detach(),
        key.detach(),
        None if mask is None else mask.detach(),
        None,
        None,
        None,
        None,
        scale,
        None,
        0,
        is_causal,
        False,
        query.shape[2] == key.shape[2],
        torch.is_grad_enabled() or dropout_p > 0,
    )


def _enter(module: nn.Module, args: Any) -> None:
    _current.append(_slot_of(module))


def _enter_outside(module: nn.Module, args: Any) -> None:
    _current.append(None)


def _leave(module: nn.Module, args: Any, output: Any) -> None:
    if _current:
        _current.pop()


def _start(module: nn.Module, args: Any) -> None:
    """A forward pass that raised has left its modules behind."""
    if not torch.compiler.is_compiling():
        _current.clear()


_SDPA = "scaled_dot_product_attention"


_plain_sdpa = getattr(F, _SDPA)


def _wrap_sdpa(model: nn.Module) -> None:
    """The function of torch, and the names that model files have for it."""
    global _plain_sdpa
    original = getattr(F, _SDPA)
    if hasattr(original, _MARK):
        original, wrapped = _plain_sdpa, original
    else:
        _plain_sdpa, wrapped = original, _observed_sdpa(original)
        _shared.attribute(F, _SDPA, wrapped)
    for file in {type(module).__module__ for module in model.modules()}:
        names = getattr(sys.modules.get(file), "__dict__", {})
        for name, value in list(names.items()):
            if value is original:
                _shared.attribute(sys.modules[file], name, wrapped)


# --- torch.nn.MultiheadAttention ---------------------------------------------


def _before_multihead(
    module: nn.MultiheadAttention, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    if torch.compiler.is_compiling():
        _of_multihead(module, args, options)
    elif _enabled[0] or not torch.is_grad_enabled():
        _safely(module, _of_multihead, module, args, options)


def _of_multihead(
    module: nn.MultiheadAttention, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    names = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask")
    given = {**dict(zip(names, args)), **options}
    query, key = given["query"], given["key"]
    is_self = query is key
    mask, hidden = given.get("attn_mask"), given.get("key_padding_mask")
    slot = _slot_of(module)
    if slot is None or query.is_nested:
        return
    if query.dim() == 2:
        query, key = query[None], key[None]
        hidden = None if hidden is None else hidden[None]
    elif not module.batch_first:
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    width = module.embed_dim
    if module._qkv_same_embed_dim:
        q_weight, k_weight, _ = module.in_proj_weight.chunk(3)
    else:
        q_weight, k_weight = module.q_proj_weight, module.k_proj_weight
    bias = module.in_proj_bias
    _observe_projected(
        slot,
        query.detach(),
        key.detach(),
        q_weight.detach(),
        k_weight.detach(),
        None if bias is None else bias[:width].detach(),
        None if bias is None else bias[width : 2 * width].detach(),
        None if mask is None else mask.detach(),
        hidden,
        module.num_heads,
        bool(given.get("is_causal", False)) and mask is None,
        is_self,
        _is_training(module),
    )


# --- modules that return their weights -----------------------------------------


def _after_weights(module: nn.Module, args: Any, output: Any) -> None:
    if torch.compiler.is_compiling():
        _of_weights(module, output)
    elif _enabled[0] or not torch.is_grad_enabled():
        _safely(module, _of_weights, module, output)


def _of_weights(module: nn.Module, output: Any) -> None:
    slot = _slot_of(module)
    if slot is None or not isinstance(output, (tuple, list)):
        return
    for value in output[1:]:
        if isinstance(value, Tensor) and value.dim() == 4 and value.is_floating_point():
            _observe_weights(slot, value.detach(), _is_training(module))
            return


# --- a model --------------------------------------------------------------------


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _names(cls: type) -> frozenset[str]:
    """Names that the methods of a class use, those of torch.nn left out."""
    found: set[str] = set()
    for base in cls.__mro__:
        if base.__module__.split(".")[0] in ("torch", "builtins"):
            continue
        for value in vars(base).values():
            code = getattr(inspect.unwrap(value), "__code__", None)
            if code is not None:
                for part in _codes(code):
                    found.update(part.co_names)
    return frozenset(found)


def _kind(module: nn.Module, names: frozenset[str]) -> str | None:
    if isinstance(module, nn.MultiheadAttention):
        return "multihead"
    if "ALL_ATTENTION_FUNCTIONS" in names or _EAGER in names:
        upcast = getattr(module, "reorder_and_upcast_attn", False)
        return "weights" if upcast else "interface"
    if _SDPA in names:
        return "sdpa"
    title = type(module).__name__.lower()
    if type(module).__module__.startswith("torch."):
        return None
    return "weights" if "attention" in title or "attn" in title else None


def _kinds(model: nn.Module) -> list[tuple[str, nn.Module, str]]:
    """(name, module, kind) of what may be attention, in the model's order."""
    names: dict[type, frozenset[str]] = {}
    found = []
    for name, module in model.named_modules():
        cls = type(module)
        if cls not in names:
            names[cls] = _names(cls)
        kind = _kind(module, names[cls])
        if kind is not None:
            found.append((name, module, kind))
    # A module that contains one of the others returns what that one had.
    found = [
        (name, module, kind)
        for name, module, kind in found
        if kind != "weights"
        or not any(other.startswith(name + ".") for other, _, _ in found)
    ]
    if any(kind != "weights" for _, _, kind in found):
        return found
    # Attention called by a function of somebody's own: any module may do it.
    outer = [
        (name, module, "sdpa")
        for name, module in model.named_modules()
        if not type(module).__module__.startswith("torch.")
    ]
    taken = {name for name, _, _ in found}
    return found + [one for one in outer if one[0] not in taken]


_next_slot = 0


class Hook:
    """Hooks a model until close(). names: the modules by place."""

    def __init__(self, model: nn.Module, tap: Tap) -> None:
        global _n_watches
        self._tap = tap
        self._patches = Patches()
        self._slots: list[int] = []
        self.names: list[str] = []
        self._model = weakref.ref(model)
        kinds = _kinds(model)
        order = {name: i for i, (name, _) in enumerate(model.named_modules())}
        kinds.sort(key=lambda one: order[one[0]])
        try:
            _n_watches += 1
            self._is_open = True
            _wrap_hugging_face()
            _wrap_eager(model)
            has_sdpa = any(kind == "sdpa" for _, _, kind in kinds)
            if has_sdpa:
                _wrap_sdpa(model)
                self._hook(model.register_forward_pre_hook(_start))
            for name, module, kind in kinds:
                self._add(name, module, kind, has_sdpa)
            if has_sdpa or any(kind == "multihead" for _, _, kind in kinds):
                # Graphs compiled before do not look for hooks again.
                if "torch._dynamo" in sys.modules:
                    torch._dynamo.reset()
        except BaseException:
            self.close()
            raise

    def _hook(self, handle: Any) -> None:
        self._patches.call(handle.remove)

    def _add(self, name: str, module: nn.Module, kind: str, has_sdpa: bool) -> None:
        global _next_slot
        number = _next_slot
        _next_slot += 1
        _slots[number] = Slot(self._tap, len(self.names), module)
        self._slots.append(number)
        self.names.append(name)
        module.__dict__[SLOT] = torch.tensor(number, device="cpu")
        self._patches.call(lambda: module.__dict__.pop(SLOT, None))
        if kind == "multihead":
            self._hook(
                module.register_forward_pre_hook(_before_multihead, with_kwargs=True)
            )
        if kind == "weights":
            self._hook(module.register_forward_hook(_after_weights))
        if has_sdpa:
            enter = _enter if kind == "sdpa" else _enter_outside
            self._hook(module.register_forward_pre_hook(enter))
            self._hook(module.register_forward_hook(_leave))

    def close(self) -> None:
        """Undoes all of it. More than once is fine."""
        global _n_watches
        self._tap.is_open = False
        enable(self._tap, False)
        self._patches.undo()
        for number in self._slots:
            _slots.pop(number, None)
        self._slots = []
        if getattr(self, "_is_open", False):
            self._is_open = False
            _n_watches -= 1
            if _n_watches == 0:
                _shared.undo()
        _update_enabled()
