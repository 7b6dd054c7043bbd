"""Wraps the attention functions of transformers in place, and defines the hooks for
torch.nn.MultiheadAttention and for modules that return their weights. Wrappers and
hooks pass queries, keys and masks to an operator (_operators.py); the original function
is called with unchanged arguments. _functions.py wraps the functions that any code may
call."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ._operators import (
    IS_CROSS,
    enabled,
    generating,
    is_distributed,
    keep_rows,
    observe,
    observe_projected,
    observe_weights,
    penalized,
    phase_of,
    refuse,
    report,
    slot_of,
    unmeasurable,
)

_FLASH = ("flash_attention_2", "flash_attention_3", "flash_attention_4")
_HUGGING_FACE = ("sdpa", "flex_attention", *_FLASH)


class Patches:
    """Replaces attributes and table entries, and restores them in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        before = getattr(owner, name)
        setattr(owner, name, value)

        def undo() -> None:
            # Do not remove a wrapper that other code has put around ours; our wrapper
            # does nothing without an open watch.
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

    def functions(self, replaced: dict[Callable[..., Any], Any]) -> None:
        """Replaces functions under all their names in all modules. undo() also restores
        names that were bound to a replacement in the meantime."""
        _rebind(replaced)
        self._undo.append(lambda: _rebind({new: old for old, new in replaced.items()}))

    def call(self, undo: Callable[[], None]) -> None:
        self._undo.append(undo)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


def _rebind(replaced: dict[Callable[..., Any], Any]) -> None:
    by_id = {id(old): new for old, new in replaced.items()}
    for module in list(sys.modules.values()):
        if isinstance(module, types.ModuleType):
            names = module.__dict__
            for name, value in list(names.items()):
                if id(value) in by_id:
                    names[name] = by_id[id(value)]


# Patches that all watches share: functions are wrapped once and restored when the last
# watch ends.
shared = Patches()
MARK = "_is_entropyscan"  # attribute of functions that this package has wrapped


def safely(
    slot: Tensor | None, function: Callable[..., Any], *args: Any, **options: Any
) -> Any:
    try:
        return function(*args, **options)
    except Exception as error:
        report(slot, error)
        return None


def is_wanted() -> bool:
    """Returns true if the current attention call may have to be measured, either now or
    later when the compiled graph runs."""
    if torch.compiler.is_compiling():
        return True
    return bool(enabled or penalized) or not torch.is_grad_enabled()


def hand_over(
    slot: Tensor | None,
    module: nn.Module | None,
    understand: Callable[..., dict[str, Any] | None],
    *args: Any,
) -> None:
    """Passes an attention call to the operator `observe` and, if it has gradients, to
    the penalty. `understand` converts args to the arguments of `observe`, or returns
    None."""
    if slot is None or module is None:
        return
    if torch.compiler.is_compiling():
        given = understand(slot, *args)
        if given is not None:
            if getattr(module, IS_CROSS, False):
                given["is_self"] = False
            observe(slot, **given)
            keep_rows(module, **given)
        return
    given = safely(slot, understand, slot, *args)
    if given is not None:
        if getattr(module, IS_CROSS, False):
            given["is_self"] = False
        if enabled or not torch.is_grad_enabled():
            safely(slot, observe, slot, **given)
        keep_rows(module, **given)


# --- transformers --------------------------------------------------------------


def _of_hugging_face(
    slot: Tensor,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    attention_mask: Any,
    kind: str,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Converts the arguments of an attention function of transformers to the arguments of
    `observe`. Derives omitted arguments by transformers' rules."""
    causal = options.get("is_causal")
    if causal is None:
        causal = getattr(module, "is_causal", True)
    window = 0
    starts = key_starts = positions = None
    softcap = options.get("softcap")
    if kind in _FLASH:
        window = options.get("sliding_window") or 0
        if attention_mask is None:
            starts = options.get("cu_seq_lens_q")
            key_starts = options.get("cu_seq_lens_k")
            positions = options.get("position_ids")
    elif kind == "sdpa":
        causal = bool(causal) and attention_mask is None and query.shape[2] > 1
        softcap = None
    else:  # eager, flex: the mask expresses causality
        causal = False
    if kind == "flex_attention" and not isinstance(attention_mask, Tensor):
        attention_mask = _of_block_mask(attention_mask, query, key)
    if causal and kind == "sdpa" and key.shape[2] > query.shape[2]:
        key = key[:, :, : query.shape[2]]
    return dict(
        query=query,
        key=key,
        mask=attention_mask,
        bias=options.get("position_bias"),
        sinks=options.get("s_aux"),
        query_starts=starts,
        key_starts=key_starts,
        positions=positions,
        scale=options.get("scaling"),
        softcap=softcap,
        left=window - 1,
        right=window - 1,
        causal=bool(causal),
        at_end=kind in _FLASH,
        is_self=not getattr(module, "is_cross_attention", False),
        phase=phase_of(module.training),
    )


def _of_block_mask(mask: Any, query: Tensor, key: Tensor) -> Tensor | None:
    """Returns the dense mask (B|1,H|1,T,S) of flex attention's BlockMask."""
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
        if is_wanted():
            given = (module, query, key, attention_mask, kind, options)
            hand_over(slot_of(module), module, _of_hugging_face, *given)
        return original(module, query, key, value, attention_mask, *args, **options)

    setattr(attention, MARK, True)
    return attention


def _without_samples(generate: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps generate() to count its running calls, because nothing is measured while it runs."""
    @functools.wraps(generate)
    def counted(*args: Any, **options: Any) -> Any:
        generating.depth = getattr(generating, "depth", 0) + 1
        try:
            return generate(*args, **options)
        finally:
            generating.depth -= 1

    return counted


def wrap_hugging_face() -> None:
    modeling = sys.modules.get("transformers.modeling_utils")
    if modeling is None:
        return
    generation = sys.modules.get("transformers.generation.utils")
    mixin = getattr(generation, "GenerationMixin", None)
    if mixin is not None and not hasattr(mixin.generate, MARK):
        counted = _without_samples(mixin.generate)
        setattr(counted, MARK, True)
        shared.attribute(mixin, "generate", counted)
    tables = [modeling.AttentionInterface._global_mapping]
    # A model's Python file may define its own AttentionInterface, with a separate
    # table of functions.
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
            if kind in table and not hasattr(table[kind], MARK):
                shared.entry(table, kind, _observed(table[kind], kind))


EAGER = "eager_attention_forward"


def wrap_eager(model: nn.Module) -> None:
    """Wraps eager attention, which is a function in each model's file rather than an
    entry in transformers' table of attention functions."""
    done: set[str] = set()
    for module in model.modules():
        for cls in type(module).__mro__:
            file = sys.modules.get(cls.__module__)
            if cls.__module__ in done or file is None:
                continue
            done.add(cls.__module__)
            function = file.__dict__.get(EAGER)
            if callable(function) and not hasattr(function, MARK):
                shared.attribute(file, EAGER, _observed(function, "eager"))


# --- torch.nn.MultiheadAttention ---------------------------------------------


def before_multihead(
    module: nn.MultiheadAttention, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    if torch.compiler.is_compiling():
        _of_multihead(module, args, options)
    elif enabled or not torch.is_grad_enabled():
        safely(slot_of(module), _of_multihead, module, args, options)


def _of_multihead(
    module: nn.MultiheadAttention, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    names = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask")
    given = {**dict(zip(names, args)), **options}
    slot = slot_of(module)
    if slot is None:
        return
    if "query" not in given or "key" not in given:
        reason = (
            f"{type(module).__name__} takes arguments other than those of "
            "torch.nn.MultiheadAttention: this attention is not measured"
        )
        refuse(slot, reason, phase_of(module.training))
        return
    query, key = given["query"], given["key"]
    is_self = query is key
    mask, hidden = given.get("attn_mask"), given.get("key_padding_mask")
    reason = unmeasurable(query, key)
    if reason is not None:
        refuse(slot, reason, phase_of(module.training))
        return
    if is_distributed(query, key, *module.parameters(recurse=False)):
        reason = "torch.nn.MultiheadAttention with DTensors: this attention is not measured"
        refuse(slot, reason, phase_of(module.training))
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
    observe_projected(
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
        phase_of(module.training),
    )


# --- modules that return their weights -----------------------------------------


def after_weights(module: nn.Module, args: Any, output: Any) -> None:
    if torch.compiler.is_compiling():
        _of_weights(module, output)
    elif enabled or not torch.is_grad_enabled():
        safely(slot_of(module), _of_weights, module, output)


def _of_weights(module: nn.Module, output: Any) -> None:
    slot = slot_of(module)
    if slot is None or not isinstance(output, (tuple, list)):
        return
    for value in output[1:]:
        if isinstance(value, Tensor) and value.dim() == 4 and value.is_floating_point():
            reason = unmeasurable(value)
            if reason is not None:
                refuse(slot, reason, phase_of(module.training))
                return
            observe_weights(slot, value.detach(), phase_of(module.training))
            return
