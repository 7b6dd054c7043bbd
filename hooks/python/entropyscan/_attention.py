"""Finds the attention modules of a model and hooks each of them, including under
torch.compile and checkpointing, without changing what the model computes. _wrappers.py
replaces the functions that these modules call under their existing names, because
transformers drops masks if an attention function has a new name."""

from __future__ import annotations

import inspect
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from . import _functions, _operators, _wrappers
from ._operators import Tap


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def names_of(cls: type) -> frozenset[str]:
    """Returns the identifiers that occur in the code of a class's methods; methods
    inherited from torch are left out."""
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
    """Returns how a module computes attention; None for a module without attention.

    "multihead": a torch.nn.MultiheadAttention; "interface": a module that uses an
    attention function of transformers; "calls": a module that calls SDPA or flash-attn
    itself; "weights": a module that returns its attention weights. names: the result of
    names_of for the module's class."""
    if isinstance(module, nn.MultiheadAttention):
        return "multihead"
    if "ALL_ATTENTION_FUNCTIONS" in names or _wrappers.EAGER in names:
        upcast = getattr(module, "reorder_and_upcast_attn", False)
        return "weights" if upcast else "interface"
    if not _functions.NAMES.isdisjoint(names):
        return "calls"
    title = type(module).__name__.lower()
    if type(module).__module__.startswith("torch."):
        return None
    return "weights" if "attention" in title or "attn" in title else None


def _kinds(model: nn.Module) -> list[tuple[str, nn.Module, str]]:
    """Returns (name, module, kind) of each module that may compute attention."""
    names: dict[type, frozenset[str]] = {}
    found = []
    for name, module in model.named_modules():
        cls = type(module)
        if cls not in names:
            names[cls] = names_of(cls)
        kind = _kind(module, names[cls])
        if kind is not None:
            found.append((name, module, kind))
    # Drop a module that only returns attention weights (kind "weights") if it contains
    # another attention module, because the weights come from that inner module.
    found = [
        (name, module, kind)
        for name, module, kind in found
        if kind != "weights"
        or not any(other.startswith(name + ".") for other, _, _ in found)
    ]
    if any(kind != "weights" for _, _, kind in found):
        return found
    # The model may call SDPA or flash-attn through a user's function, so include all
    # modules that are not torch's own.
    outer = [
        (name, module, "calls")
        for name, module in model.named_modules()
        if not type(module).__module__.startswith("torch.")
    ]
    taken = {name for name, _, _ in found}
    return found + [one for one in outer if one[0] not in taken]


_n_open = 0
_lock = threading.RLock()  # guards the state that watches in several threads share
_WATCHED_AGAIN = (
    "a later watch of the same model takes over its attention: close this watch before "
    "you begin another"
)


class Hook:
    """Hooks a model until close(). names: the names of the hooked modules. Other files
    call a module's index in this list its `place`."""

    def __init__(self, model: nn.Module, tap: Tap) -> None:
        self._tap = tap
        self._patches = _wrappers.Patches()
        self._slots: list[int] = []
        self._is_open = False
        self.names: list[str] = []
        with _lock:
            try:
                self._open(model)
            except BaseException:
                self.close()
                raise

    def _open(self, model: nn.Module) -> None:
        global _n_open
        kinds = _kinds(model)
        order = {name: i for i, (name, _) in enumerate(model.named_modules())}
        kinds.sort(key=lambda one: order[one[0]])
        for other in _operators.taps_of(model):
            other.on_error(RuntimeError(_WATCHED_AGAIN))
        _n_open += 1
        self._is_open = True
        _wrappers.wrap_hugging_face()
        _wrappers.wrap_eager(model)
        # A module that returns weights may also call SDPA through a helper function.
        has_calls = any(kind in ("calls", "weights") for _, _, kind in kinds)
        if has_calls or self._tap in _operators.penalized:
            _functions.allow_checkpoints()
        if has_calls:
            _functions.wrap_sdpa(model)
            _functions.wrap_flash()
            self._hook(model.register_forward_pre_hook(_functions.start))
        for name, module, kind in kinds:
            self._add(name, module, kind, has_calls)
        if "" not in self.names:
            # The model is not an attention module, but the operators identify
            # every hooked module by a slot.
            self._slots.append(_operators.add_slot(self._tap, -1, model))
        if has_calls or any(kind == "multihead" for _, _, kind in kinds):
            # Graphs that were compiled earlier would not notice the new hooks.
            if "torch._dynamo" in sys.modules:
                torch._dynamo.reset()

    def _hook(self, handle: Any) -> None:
        self._patches.call(handle.remove)

    def _add(self, name: str, module: nn.Module, kind: str, has_calls: bool) -> None:
        self._slots.append(_operators.add_slot(self._tap, len(self.names), module, name))
        self.names.append(name)
        before, after = module.register_forward_pre_hook, module.register_forward_hook
        if kind == "multihead":
            self._hook(before(_wrappers.before_multihead, with_kwargs=True))
        if kind == "weights":
            self._hook(after(_wrappers.after_weights))
        if has_calls:
            is_caller = kind in ("calls", "weights")
            self._hook(
                before(_functions.enter if is_caller else _functions.enter_outside)
            )
            self._hook(after(_functions.leave))

    def close(self) -> None:
        """Removes all hooks and wrappers. May be called more than once."""
        global _n_open
        self._tap.is_open = False
        with _lock:
            self._patches.undo()
            for number in self._slots:
                _operators.remove_slot(number)
            self._slots = []
            if self._is_open:
                self._is_open = False
                _n_open -= 1
                if _n_open == 0:
                    _wrappers.shared.undo()
        _operators.enable(self._tap, False)
        _operators.penalized.discard(self._tap)
