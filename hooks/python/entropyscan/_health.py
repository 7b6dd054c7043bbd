"""Measures further series of layers, for es.watch(record=...): activations, routers of
mixtures of experts, gradients and updates. If entropy-train --record also records a
series, its name and meaning are the same as here (analyzer/heads/details.h).

A layer is the block, such as model.layers.3, that contains the attention module with
the layer's number. Custom operators, which compiled graphs keep, read the outputs of
blocks and routers in the same pass as the attention; gradients and updates are read
before and after the step of a torch.optim optimizer. Nothing waits for a CUDA device or
changes values that the training reads."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad
from torch.optim import optimizer as optimizers

from . import _operators
from ._attention import names_of
from ._operators import Seen, Tap
from ._reader import is_missing
from ._recording import Recording
from ._statistics import missing, to_host, wide_type
from ._wrappers import Patches

# Names and units of series, in the order in which the operators return the values.
_OF_ACTIVATIONS = (("act_max", ""), ("act_rms", ""), ("nan_activations", "activations"))
_OF_ROUTERS = (
    ("router_entropy", "nats"),
    ("load_balancing_loss", ""),
    ("dropped_tokens", ""),
)

_NO_STEP = (
    "record='all': no optimizer of torch.optim has changed parameters of the layers, "
    "or torch.compile compiles its step: layer_grad_norm and update_ratio are not recorded"
)
_DIVIDED = (
    "record='all': parameters are divided among ranks (FSDP, DTensor): "
    "layer_grad_norm and update_ratio are not recorded"
)
_NO_MEMORY = (
    "record='all': {} has too little memory for a copy of the weights: update_ratio is "
    "missing"
)


# --- blocks --------------------------------------------------------------------


def blocks_of(names: list[str]) -> list[str]:
    """Returns the name of each attention module's block: the outermost numbered
    module, such as transformer.h.3, that does not contain two attention modules of
    the same kind. Self-attention and cross-attention are different kinds; a stage of
    Swin contains several attention modules of one kind. Without numbered modules the
    block is the outermost module below the model that does not contain two attention
    modules of the same kind."""
    kinds = {name: re.sub(r"\d+", "#", name) for name in names}
    found = []
    for name in names:
        parts = name.split(".")
        prefixes = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
        numbered = [one for one in prefixes if one.split(".")[-1].isdigit()]
        for prefix in (*numbered, *prefixes):
            inside = [kinds[one] for one in names if f"{one}.".startswith(f"{prefix}.")]
            if len(set(inside)) == len(inside):
                found.append(prefix)
                break
        else:  # the module itself contains other attention modules of its kind
            found.append(name)
    return found


def _place(block: str) -> tuple[str, int] | None:
    """Returns the module list that contains a block and the block's number in it; None
    if the block has no number."""
    container, _, number = block.rpartition(".")
    return (container, int(number)) if number.isdigit() else None


def _layers_of(blocks: list[str], places: list[str], layers: list[Any]) -> dict[str, int]:
    """Returns the layer number of each block. places: the block of each attention
    module; layers: for each recorded layer an index into `places`, or None for a layer
    without attention. A block with two attention modules gets the first one's layer. A
    block without attention gets its index as its layer number, provided that the index
    of every block with attention equals its layer number."""
    found: dict[str, int] = {}
    for layer, place in enumerate(layers):
        if place is not None:
            found.setdefault(places[place], layer)
    numbers = {block: _place(block) for block in blocks}
    containers = {place[0] for block in found if (place := numbers[block]) is not None}
    agree = all(place and place[1] == found[one] for one, place in numbers.items() if one in found)
    if len(containers) == 1 and agree:
        for block, place in numbers.items():
            if place and place[0] in containers and place[1] < len(layers):
                if layers[place[1]] is None:
                    found.setdefault(block, place[1])
    return found


# --- operators -----------------------------------------------------------------


def _is_wanted(slot: Tensor, phase: str, *tensors: Tensor) -> Seen | None:
    """Returns the object in which to store the measurements of a module; None if this
    step is not recorded or the measurements are already stored."""
    found = _operators.open_slot(slot, phase)
    if found is None or not all(tensor.numel() for tensor in tensors):
        return None
    so_far = _operators.seen_so_far(found.tap, phase)
    if any(int(slot) in seen.modules for seen in so_far):
        return None
    if tensors[0].device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return None  # the attention's operator warns about this
    return found.tap.seen[phase]


def _keep(slot: Tensor, seen: Seen, values: list[Tensor]) -> None:
    # Convert each value to float32 separately, to keep the bits of a NaN that
    # stands for a missing value.
    stacked = torch.stack([value.float() for value in values])
    seen.modules.setdefault(int(slot), to_host(stacked))


@_operators.operator("activations")
def activations(slot: Tensor, x: Tensor, phase: str) -> None:
    """Measures the output x of a block, of any shape: the largest |x|, the root mean
    square and the number of non-finite elements. If there are non-finite elements, the
    first two values are NaN."""
    try:
        seen = _is_wanted(slot, phase, x)
        if seen is not None:
            kind = torch.promote_types(x.dtype, torch.float32)
            largest = torch.linalg.vector_norm(x, math.inf, dtype=kind)
            rms = torch.linalg.vector_norm(x, dtype=kind) / math.sqrt(x.numel())
            n_bad = x.numel() - x.isfinite().sum()
            is_bad = n_bad > 0
            values = [torch.where(is_bad, math.nan, one) for one in (largest, rms)]
            _keep(slot, seen, [*values, n_bad])
    except Exception as error:
        _operators.report(slot, error)


@_operators.operator("routing")
def routing(
    slot: Tensor,
    logits: Tensor,
    chosen: Tensor,
    is_sigmoid: bool,
    has_capacity: bool,
    phase: str,
) -> None:
    """Measures a router over E experts. logits (...,E); chosen (...,k) has the indices
    of each token's experts or, if experts have a capacity, (...,E) has 1 for the expert
    that accepts the token and 0 for the others. Stores these values:

        entropy     mean over tokens of -sum(p * ln p), where p is the softmax of the
                    logits, or their sigmoids divided by their sum (DeepSeek-V3)
        balance     E * sum(f_i * P_i), with f_i the share of choices that fall on expert i
                    and P_i the mean of p: 1 if either is uniform, at most E / k
                    (Switch Transformer, equations 4 to 6, without alpha)
        dropped     share of the tokens that no expert accepts; missing if the experts
                    have no capacity limit
    """
    try:
        seen = _is_wanted(slot, phase, logits, chosen)
        if seen is not None:
            with torch.autocast(logits.device.type, enabled=False):
                _keep(slot, seen, _routed(logits, chosen, is_sigmoid, has_capacity))
    except Exception as error:
        _operators.report(slot, error)


def _routed(
    logits: Tensor, chosen: Tensor, is_sigmoid: bool, has_capacity: bool
) -> list[Tensor]:
    n = logits.shape[-1]
    wide = wide_type(logits)
    dropped = missing(device=logits.device)
    if has_capacity:
        dropped = 1 - chosen.sum() / (chosen.numel() / n)
        chosen = logits.argmax(-1)
    logits = logits.reshape(-1, n).to(wide)
    if is_sigmoid:
        p = logits.sigmoid()
        p = p / p.sum(-1, keepdim=True)
    else:
        p = logits.softmax(-1)
    chosen = chosen.flatten().long()
    load = torch.zeros(n, dtype=wide, device=logits.device)
    load.scatter_add_(0, chosen, torch.ones_like(chosen, dtype=wide))
    balance = n * (load / chosen.numel() * p.mean(0)).sum()
    return [torch.special.entr(p).sum(-1).mean(), balance, dropped]


def _under_vmap(*_: Any) -> tuple[None, None]:
    """Replaces the operators under torch.func.vmap: records nothing. The attention
    operator warns that nothing is recorded."""
    return None, None


_operators.register(activations, routing, under_vmap=_under_vmap)


# --- hooks of modules ----------------------------------------------------------


def _after_block(module: nn.Module, _: Any, output: Any) -> None:
    x = output[0] if isinstance(output, (tuple, list)) and output else output
    slot = _operators.slot_of(module)
    if slot is not None and _is_whole(x):
        activations(slot, _own(x), _operators.phase_of(module.training))


def _after_router(module: nn.Module, output: Any, is_sigmoid: bool) -> None:
    """Measures the output of a router of transformers: (logits, weights, chosen), or
    (chosen, weight, logits) for Switch."""
    slot = _operators.slot_of(module)
    if slot is None or not isinstance(output, tuple) or len(output) != 3:
        return
    logits, _, chosen = output
    has_capacity = hasattr(module, "expert_capacity")
    if has_capacity:
        logits, chosen = chosen, logits
    if not (_is_whole(logits) and _is_whole(chosen)) or chosen.is_floating_point():
        return
    phase = _operators.phase_of(module.training)
    routing(slot, _own(logits), _own(chosen), is_sigmoid, has_capacity, phase)


def _after_softmax(module: nn.Module, _: Any, output: Any) -> None:
    _after_router(module, output, False)


def _after_sigmoid(module: nn.Module, _: Any, output: Any) -> None:
    _after_router(module, output, True)


def _is_whole(x: Any) -> bool:
    """Returns true if x is a tensor that is not nested and whose values are all
    on this rank."""
    if not isinstance(x, Tensor) or x.is_nested:
        return False
    if not _operators.is_distributed(x):
        return True
    return all(placement.is_replicate() for placement in x.placements)


def _own(x: Tensor) -> Tensor:
    return (x.to_local() if _operators.is_distributed(x) else x).detach()


def _hook_of(module: nn.Module) -> Callable[..., None] | None:
    """Returns the hook for a router of transformers; None for other modules. The hook
    depends on whether the router's code uses softmax or sigmoid."""
    if not re.search(r"Top[kK1]Router$", type(module).__name__):
        return None
    functions = {"softmax", "sigmoid"} & names_of(type(module))
    known = {"softmax": _after_softmax, "sigmoid": _after_sigmoid}
    return known[functions.pop()] if len(functions) == 1 else None


# --- gradients and updates -------------------------------------------------------


# For some parameters on one device: the names of their blocks, and the
# parameters' norms (float32).
_Norms = tuple[list[str], Tensor]


@dataclasses.dataclass
class _Copy:
    """Parameters on one device, with copies of their values before the optimizer's
    step."""

    blocks: list[str]
    before: list[Tensor]
    parameters: list[Tensor]


def _norms(tensors: list[Tensor]) -> Tensor:
    """Returns the 2-norms of tensors, on their device."""
    kind = torch.float32
    for tensor in tensors:
        kind = torch.promote_types(kind, tensor.dtype)
    return torch.stack(torch._foreach_norm(tensors, 2, kind))


def _has_memory(device: torch.device, n_bytes: int) -> bool:
    """Returns true unless a CUDA device has less than n_bytes of free memory."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free + unused >= n_bytes


_steps: set[Steps] = set()  # of all open watches
_patches = Patches()
_lock = threading.RLock()


def _hook_torch() -> None:
    """Hooks all optimizers and clip_grad_norm_, once for all watches. clip_grad_norm_
    is hooked at the private function of PyTorch that it calls to clip the gradients."""
    clip = clip_grad._clip_grads_with_norm_

    @functools.wraps(clip)
    def clipped(parameters: Any, *args: Any, **options: Any) -> Any:
        if not torch.compiler.is_compiling():
            parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
            for one in list(_steps):
                one.before_clip(parameters)
        return clip(parameters, *args, **options)

    def before(optimizer: Any, args: Any, options: Any) -> Any:
        if torch.compiler.is_compiling():
            return None
        if not any(one.is_wanted for one in list(_steps)):
            return None
        closure = options.get("closure", args[1] if len(args) > 1 else None)
        if not callable(closure):
            begin(optimizer)
            return None

        def measured() -> Any:
            out = closure()  # computes the gradients, as in Lightning
            begin(optimizer)
            return out

        if "closure" in options:
            return args, {**options, "closure": measured}
        return (args[0], measured, *args[2:]), options

    def begin(optimizer: Any) -> None:
        for one in list(_steps):
            one.before_step(optimizer)

    def after(optimizer: Any, *_: Any) -> None:
        if not torch.compiler.is_compiling():
            for one in list(_steps):
                one.after_step(optimizer)

    _patches.attribute(clip_grad, clip.__name__, clipped)
    _patches.call(optimizers.register_optimizer_step_pre_hook(before).remove)
    _patches.call(optimizers.register_optimizer_step_post_hook(after).remove)


class Steps:
    """Measures the norms of the gradients and updates of a model's blocks at recorded
    steps, before and after each step of a torch.optim optimizer, until close() is
    called.

    Gradients are measured before torch.nn.utils.clip_grad_norm_ clips them; gradients
    that are not passed to clip_grad_norm_ are measured before the optimizer's step. If
    the optimizer itself divides gradients by a scale (a fused optimizer with
    GradScaler), the norms are divided by that scale too. To measure updates, copies of
    the parameters exist during the optimizer's step."""

    def __init__(self, model: nn.Module, blocks: list[str], tap: Tap) -> None:
        self._model, self._tap = weakref.ref(model), tap
        # An inner block comes after the block that contains it, so that its parameters
        # are assigned to the inner block.
        self._blocks = sorted(blocks, key=lambda block: block.count("."))
        self._gradients: list[_Norms] = []
        self._weights: list[_Norms] = []  # before the optimizer's step
        self._changes: list[_Norms] = []
        self._block_of: dict[int, str] | None = None
        self._is_measured: set[int] = set()  # ids of parameters measured in this step
        self._is_copied: set[int] = set()
        self._copies: dict[int, list[_Copy]] = {}  # by the optimizer's id
        # Measurements of this step that failed for some parameters: "gradients"
        # or "updates".
        self._gaps: set[str] = set()
        self._failures: set[str] = set()  # messages that were reported
        self._n_steps = 0  # number of recorded steps
        self._is_used = False  # true once an optimizer had parameters of the blocks
        with _lock:
            if not _steps:
                _hook_torch()
            _steps.add(self)

    def close(self) -> None:
        with _lock:
            if self not in _steps:
                return
            _steps.discard(self)
            if not _steps:
                _patches.undo()
        if self._n_steps and not self._is_used:
            self._fail(RuntimeError(_NO_STEP))

    @property
    def is_wanted(self) -> bool:
        """True if the current step is recorded."""
        return self._tap.enabled

    def take(self) -> tuple[list[_Norms], list[_Norms], list[_Norms]]:
        """Returns the norms of gradients, weights and weight changes of the step that
        ends, and starts a new step. A measurement that failed for some parameters is
        returned empty."""
        gradients, weights, changes = self._gradients, self._weights, self._changes
        if "gradients" in self._gaps:
            gradients = []
        if "updates" in self._gaps:
            weights, changes = [], []
        self._gradients, self._weights, self._changes = [], [], []
        self._is_measured, self._is_copied, self._copies = set(), set(), {}
        self._block_of = None
        self._gaps = set()
        self._n_steps += 1
        return gradients, weights, changes

    def _try(self, what: str, function: Callable[..., None], *args: Any) -> None:
        """Calls function(*args). If the function raises, the training continues, the
        measurement `what` is dropped for this step, and each distinct message is
        reported once."""
        try:
            function(*args)
        except Exception as error:
            self._gaps.add(what)
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if str(error) not in self._failures:
            self._failures.add(str(error))
            self._tap.on_error(error)

    def before_clip(self, parameters: list[Tensor]) -> None:
        if self.is_wanted:
            self._try("gradients", self._measure, parameters, None)

    def before_step(self, optimizer: Any) -> None:
        if self.is_wanted:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            scale = getattr(optimizer, "grad_scale", None)
            self._try("gradients", self._measure, parameters, scale)
            self._try("updates", self._copy, parameters, optimizer)

    def after_step(self, optimizer: Any) -> None:
        for copied in self._copies.pop(id(optimizer), []):
            self._try("updates", self._compare, copied)

    def _compare(self, copied: _Copy) -> None:
        with torch.no_grad():
            after = [parameter.detach() for parameter in copied.parameters]
            torch._foreach_sub_(copied.before, after)
            self._changes.append((copied.blocks, to_host(_norms(copied.before))))

    def _measure(self, parameters: list[Tensor], scale: Tensor | None) -> None:
        for found in self._by_device(parameters, self._is_measured):
            found = [(block, one) for block, one in found if one.grad is not None]
            if not found:
                continue
            norms = _norms([one.grad.detach() for _, one in found])
            if scale is not None:
                norms = norms / scale.to(norms.device, non_blocking=True)
            self._gradients.append(([block for block, _ in found], to_host(norms)))
            self._is_measured.update(id(one) for _, one in found)

    def _copy(self, parameters: list[Tensor], optimizer: Any) -> None:
        for found in self._by_device(parameters, self._is_copied):
            moved = [(block, one) for block, one in found if one.grad is not None]
            n_bytes = sum(one.nbytes for _, one in moved)
            # Leave enough free memory for the state that the optimizer allocates in its
            # first step.
            n_needed = n_bytes * (2 if optimizer.state else 8)
            device = found[0][1].device
            if not _has_memory(device, n_needed):
                raise RuntimeError(_NO_MEMORY.format(device))
            weights = _norms([one.detach() for _, one in found])
            self._weights.append(([block for block, _ in found], to_host(weights)))
            self._is_copied.update(id(one) for _, one in found)
            if moved:
                blocks, these = map(list, zip(*moved))
                before = [one.detach().clone() for one in these]
                copied = _Copy(blocks, before, these)
                self._copies.setdefault(id(optimizer), []).append(copied)

    def _by_device(
        self, parameters: list[Any], known: set[int]
    ) -> Iterable[list[tuple[str, Tensor]]]:
        """Returns, by device, the pairs (block, parameter) of the trained parameters
        that belong to a block and are not in `known`."""
        if self._block_of is None:
            self._block_of = self._find_parameters()
        found: dict[torch.device, list[tuple[str, Tensor]]] = {}
        for one in parameters:
            block = self._block_of.get(id(one))
            if block is None or id(one) in known or not one.requires_grad:
                continue
            self._is_used = True
            if _operators.is_distributed(one) or hasattr(one, "_fsdp_flattened"):
                raise RuntimeError(_DIVIDED)
            found.setdefault(one.device, []).append((block, one))
        return found.values()

    def _find_parameters(self) -> dict[int, str]:
        """Returns a dict from id(parameter) to the name of the parameter's
        block. The ids are valid for one step."""
        model = self._model()
        if model is None:
            return {}
        return {
            id(parameter): block
            for block in self._blocks
            for parameter in model.get_submodule(block).parameters()
        }


# --- the part of a watch --------------------------------------------------------


@dataclasses.dataclass
class Found:
    """The measurements of a step. The tensors may still be in the process of being
    copied to the host."""

    modules: dict[int, Tensor]
    gradients: list[_Norms]
    weights: list[_Norms]
    changes: list[_Norms]

    def tensors(self) -> Iterable[Tensor]:
        yield from self.modules.values()
        for _, norms in (*self.gradients, *self.weights, *self.changes):
            yield norms


class Health:
    """Measures the series that the argument record of es.watch() selects, until close()
    is called. names: the attention modules of the model."""

    def __init__(self, model: nn.Module, names: list[str], tap: Tap, record: str) -> None:
        self._tap = tap
        self._places = blocks_of(names)
        self._patches = Patches()
        # Block name and (series, unit) pairs of each hooked module, by slot number.
        self._modules: dict[int, tuple[str, tuple[tuple[str, str], ...]]] = {}
        self._layers: dict[str, int] | None = None  # layer number of each block
        self._steps: Steps | None = None
        self._blocks: list[str] = []
        try:
            self._open(model, names, record)
        except BaseException:
            self.close()
            raise

    def _open(self, model: nn.Module, names: list[str], record: str) -> None:
        modules = dict(model.named_modules())
        self._blocks = _with_siblings(self._places, modules)
        for name, module in modules.items():
            hook = _hook_of(module)
            if name in self._blocks:
                self._hook(name, module, _after_block, name, names)
            elif hook is not None:
                around = [one for one in self._blocks if f"{name}.".startswith(f"{one}.")]
                if around:
                    self._hook(name, module, hook, max(around, key=len), names)
        if "torch._dynamo" in sys.modules:  # compiled graphs do not check for new hooks
            torch._dynamo.reset()
        if record == "all":
            self._steps = Steps(model, self._blocks, self._tap)

    def _hook(
        self, name: str, module: nn.Module, hook: Any, block: str, names: list[str]
    ) -> None:
        if name in names or name == "":
            number = int(_operators.slot_of(module))
        else:
            number = _operators.add_slot(self._tap, -1, module)
            self._patches.call(functools.partial(_operators.remove_slot, number))
        series = _OF_ACTIVATIONS if hook is _after_block else _OF_ROUTERS
        self._modules[number] = (block, series)
        self._patches.call(module.register_forward_hook(hook).remove)

    def take(self, phase: str, seen: Seen) -> Found:
        """Returns the measurements of the step that ends; an evaluation has no
        gradients."""
        if phase != "train" or self._steps is None:
            return Found(seen.modules, [], [], [])
        return Found(seen.modules, *self._steps.take())

    def push(
        self, recording: Recording, phase: str, step: int, found: Found, layers: list[Any]
    ) -> dict[str, np.ndarray]:
        """Records the measurements of a step and returns them as arrays (L) by series
        name. layers: for each layer in the file, the index of its attention module, or
        None."""
        if self._layers is None:
            self._layers = _layers_of(self._blocks, self._places, layers)
        series: dict[tuple[str, str], np.ndarray] = {}

        def keep(name: str, unit: str, block: str, value: float) -> None:
            layer = self._layers.get(block)
            if layer is not None:
                empty = missing(len(layers)).numpy()
                series.setdefault((name, unit), empty)[layer] = value

        for number, values in found.modules.items():
            block, names = self._modules[number]
            for (name, unit), value in zip(names, values.numpy()):
                keep(name, unit, block, value)
        for block, value in _of_blocks(found.gradients).items():
            keep("layer_grad_norm", "", block, value)
        weights = _of_blocks(found.weights)
        for block, value in _of_blocks(found.changes).items():
            with np.errstate(divide="ignore", invalid="ignore"):
                keep("update_ratio", "", block, value / weights[block])
        known = {}
        for (name, unit), values in series.items():
            if not is_missing(values).all():
                recording.push(name, step, values, "layer", phase, unit)
                known[name] = values
        return known

    def close(self) -> None:
        """Removes all hooks. May be called more than once."""
        self._patches.undo()
        if self._steps is not None:
            self._steps.close()


def _with_siblings(blocks: list[str], modules: dict[str, nn.Module]) -> list[str]:
    """Returns the given blocks, together with the other blocks of the same module lists
    (those without attention), in the model's order."""
    containers = {place[0] for block in blocks if (place := _place(block)) is not None}
    found = set(blocks)
    for name in modules:
        place = _place(name)
        if place is not None and place[0] in containers:
            found.add(name)
    return [name for name in modules if name in found]


def _of_blocks(norms: list[_Norms]) -> dict[str, np.float64]:
    """Combines the norms of parameters into one norm for each block."""
    squares: dict[str, np.float64] = {}
    for blocks, values in norms:
        for block, value in zip(blocks, values.numpy().astype(np.float64)):
            squares[block] = squares.get(block, np.float64(0)) + value * value
    return {block: np.sqrt(total) for block, total in squares.items()}
