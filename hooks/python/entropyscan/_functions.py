"""While a watch is open, wraps the attention functions that any code may call: torch's
scaled_dot_product_attention and the functions of the flash-attn packages. Their
arguments do not identify the calling module, so hooks track which module is running."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._heads import with_heads
from ._operators import phase_of, refuse, slot_of, unmeasurable
from ._wrappers import MARK, hand_over, is_wanted, shared

SDPA = "scaled_dot_product_attention"
FLASH = (
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
)
NAMES = frozenset((SDPA, *FLASH))


class _Running(threading.local):
    """The modules of a watched model that this thread is running, innermost last. Each
    entry contains the module's slot, a tensor that identifies a watched module, or None
    for other modules. A compiled graph reads this attribute in the calling thread, so
    that threads can share a graph."""

    __slots__ = ()  # older versions of dynamo need it to read the attribute

    def __init__(self) -> None:
        self.stack: list[tuple[Optional[Tensor], nn.Module]] = []


_running = _Running()


def enter(module: nn.Module, args: Any) -> None:
    _enter(slot_of(module), module)


def enter_outside(module: nn.Module, args: Any) -> None:
    _enter(None, module)


def _enter(slot: Optional[Tensor], module: nn.Module) -> None:
    stack = _running.stack
    if not torch.compiler.is_compiling():
        # Drop entries of an earlier pass that did not reach its end: in autograd's
        # thread a checkpoint raises an exception to stop its recomputed forward pass.
        for i, (_, other) in enumerate(stack):
            if other is module:
                del stack[i:]
                break
    stack.append((slot, module))


def leave(module: nn.Module, args: Any, output: Any) -> None:
    stack = _running.stack
    if stack:
        stack.pop()


def start(module: nn.Module, args: Any) -> None:
    """Drops the entries of modules whose forward pass raised an exception."""
    if not torch.compiler.is_compiling():
        _running.stack.clear()


def allow_checkpoints() -> None:
    """Makes a compiled torch.utils.checkpoint accept the side effects of our hooks,
    which it otherwise refuses. The side effects need not be repeated when the forward
    pass is recomputed: the hooks above restore their list of running modules, and a
    module stores its row entropies for the penalty only in the first pass."""
    import torch._dynamo

    name = "skip_fwd_side_effects_in_bwd_under_checkpoint"
    if hasattr(torch._dynamo.config, name):  # older versions allow side effects
        shared.attribute(torch._dynamo.config, name, True)


def _innermost() -> Tensor | None:
    stack = _running.stack
    return stack[-1][0] if stack else None


def _module() -> nn.Module | None:
    stack = _running.stack
    return stack[-1][1] if stack else None


# --- torch ---------------------------------------------------------------------


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
        if is_wanted():
            given = (query, key, attn_mask, dropout_p, is_causal, scale, enable_gqa)
            hand_over(_innermost(), _module(), _of_sdpa, *given)
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

    setattr(scaled_dot_product_attention, MARK, True)
    return scaled_dot_product_attention


def _of_sdpa(
    slot: Tensor,
    query: Tensor,
    key: Tensor,
    mask: Optional[Tensor],
    dropout_p: float,
    is_causal: bool,
    scale: Optional[float],
    enable_gqa: bool,
) -> dict[str, Any] | None:
    phase = phase_of(dropout_p > 0)
    reason = unmeasurable(query, key)
    if reason is not None:
        refuse(slot, reason, phase)
        return None
    found = with_heads(query, key, mask, _module(), enable_gqa)
    if found is None:
        reason = (
            f"{SDPA} with {query.dim()} dimensions: it is unknown which of them are heads: "
            "this attention is not measured: give the module an attribute num_heads, or "
            "call with (batch, heads, tokens, width)"
        )
        refuse(slot, reason, phase)
        return None
    query, key, mask = found
    return dict(
        query=query,
        key=key,
        mask=mask,
        scale=scale,
        causal=is_causal,
        is_self=query.shape[2] == key.shape[2],
        phase=phase,
    )


_plain_sdpa = getattr(F, SDPA)


def wrap_sdpa(model: nn.Module) -> None:
    """Wraps scaled_dot_product_attention in torch and in the files of the model that
    have imported it by name."""
    global _plain_sdpa
    original = getattr(F, SDPA)
    if hasattr(original, MARK):
        original, wrapped = _plain_sdpa, original
    else:
        _plain_sdpa, wrapped = original, _observed_sdpa(original)
        shared.attribute(F, SDPA, wrapped)
    for file in {type(module).__module__ for module in model.modules()}:
        names = getattr(sys.modules.get(file), "__dict__", {})
        for name, value in list(names.items()):
            if value is original:
                shared.attribute(sys.modules[file], name, wrapped)


# --- flash-attn -----------------------------------------------------------------

# Parameters of flash-attn 2, 3 and 4 that change the attention in ways this package
# cannot measure.
_NOT_MEASURED = (
    "qv",
    "q_descale",
    "seqused_q",
    "seqused_k",
    "block_table",
    "page_table",
    "attention_chunk",
    "num_heads_q",
    "mask_mod",
    "score_mod",
)
_SINKS = ("s_aux", "learnable_sink")


def wrap_flash() -> None:
    """Wraps the functions of all loaded flash-attn packages, under every name under
    which a module has imported them."""
    found: dict[Callable[..., Any], Any] = {}
    for module in list(sys.modules.values()):
        if isinstance(module, types.ModuleType):
            for name in FLASH:
                function = module.__dict__.get(name)
                if isinstance(function, types.FunctionType) and _is_flash(function):
                    found.setdefault(function, None)
    shared.functions({function: _observed_flash(function) for function in found})


def _is_flash(function: Callable[..., Any]) -> bool:
    """Returns true for a function of a package flash_attn, flash_attn_interface,
    flash_attn_3 or similar that is not wrapped yet."""
    place = getattr(function, "__module__", None) or ""
    return place.startswith("flash_attn") and not hasattr(function, MARK)


def _observed_flash(original: Callable[..., Any]) -> Callable[..., Any]:
    names = tuple(inspect.signature(original).parameters)

    @functools.wraps(original)
    def attend(*args: Any, **options: Any) -> Any:
        if is_wanted():
            hand_over(_innermost(), _module(), _of_flash, names, args, options)
        return original(*args, **options)

    setattr(attend, MARK, True)
    return attend


def _of_flash(
    slot: Tensor,
    names: tuple[str, ...],
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> dict[str, Any] | None:
    given = {**dict(zip(names, args)), **options}
    dropout = given.get("dropout_p") or 0.0
    phase = phase_of(dropout > 0)
    for name in _NOT_MEASURED:
        value = given.get(name)
        if value is not None and not (isinstance(value, int) and value == 0):
            reason = f"flash-attn called with {name}: this attention is not measured"
            refuse(slot, reason, phase)
            return None
    query, key = _query_and_key(given)
    starts = given.get("cu_seqlens_q", given.get("cu_seqlens"))
    left, right = given.get("window_size") or (-1, -1)
    sinks = [given[name] for name in _SINKS if given.get(name) is not None]
    return dict(
        query=query,
        key=key,
        sinks=sinks[0] if sinks else None,
        query_starts=starts,
        key_starts=given.get("cu_seqlens_k", starts),
        slopes=given.get("alibi_slopes"),
        scale=given.get("softmax_scale"),
        softcap=given.get("softcap") or None,
        left=-1 if left is None else left,
        right=-1 if right is None else right,
        causal=bool(given.get("causal")),
        at_end=True,
        phase=phase,
    )


def _query_and_key(given: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Returns query and key as (B,H,T,D). The arguments are (B,T,H,D), or (T,H,D)
    for packed sequences; tensors that also contain the values have one more
    dimension before the heads."""
    if "qkv" in given:
        query, key = given["qkv"].select(-3, 0), given["qkv"].select(-3, 1)
    elif "kv" in given:
        query, key = given["q"], given["kv"].select(-3, 0)
    else:
        query, key = given["q"], given["k"]
    if query.dim() == 3:
        query, key = query[None], key[None]
    return query.transpose(1, 2), key.transpose(1, 2)
