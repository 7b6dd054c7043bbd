"""Functions for attention that anybody may call, wrapped while a watch is open:
scaled_dot_product_attention of torch. Such a call names no module: hooks keep
which one is running."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._operators import enabled, observe, slot_of
from ._wrappers import MARK, safely, shared

SDPA = "scaled_dot_product_attention"

# Of the modules that run, the innermost last; None for one that is not watched.
_running: list[Optional[Tensor]] = []


def enter(module: nn.Module, args: Any) -> None:
    _running.append(slot_of(module))


def enter_outside(module: nn.Module, args: Any) -> None:
    _running.append(None)


def leave(module: nn.Module, args: Any, output: Any) -> None:
    if _running:
        _running.pop()


def start(module: nn.Module, args: Any) -> None:
    """A forward pass that raised has left its modules behind."""
    if not torch.compiler.is_compiling():
        _running.clear()


def allow_checkpoints() -> None:
    """A compiled torch.utils.checkpoint refuses code that changes a list outside
    of it, as the hooks above do. They leave the list as it was, so that nothing
    is to be done again when the forward pass is."""
    import torch._dynamo

    name = "skip_fwd_side_effects_in_bwd_under_checkpoint"
    if hasattr(torch._dynamo.config, name):  # older ones do not refuse
        shared.attribute(torch._dynamo.config, name, True)


def _innermost() -> Tensor | None:
    return _running[-1] if _running else None


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
        if torch.compiler.is_compiling():
            _of_sdpa(query, key, attn_mask, dropout_p, is_causal, scale)
        elif enabled[0] or not torch.is_grad_enabled():
            given = (query, key, attn_mask, dropout_p, is_causal, scale)
            safely(_innermost(), _of_sdpa, *given)
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
    query: Tensor,
    key: Tensor,
    mask: Optional[Tensor],
    dropout_p: float,
    is_causal: bool,
    scale: Optional[float],
) -> None:
    slot = _innermost()
    if slot is None or query.dim() != 4:
        return
    while mask is not None and mask.dim() < 4:
        mask = mask[None]
    observe(
        slot,
        query,
        key,
        mask=mask,
        scale=scale,
        causal=is_causal,
        is_self=query.shape[2] == key.shape[2],
        training=torch.is_grad_enabled() or dropout_p > 0,
    )


_plain_sdpa = getattr(F, SDPA)


def wrap_sdpa(model: nn.Module) -> None:
    """The function of torch, and the names that model files have for it."""
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
