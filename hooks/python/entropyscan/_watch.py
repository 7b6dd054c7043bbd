"""Defines es.watch, which records the attention of a PyTorch model while it trains."""

from __future__ import annotations

import inspect
import math
import os
import re
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from . import _library, _operators
from ._arguments import checked, whole
from ._attention import Hook
from ._distributed import Ranks, layer_numbers, rank_and_world, unwrapped
from ._ereg import EntropyRegularization
from ._health import Found, Health
from ._live import Latest, Standing, Tracker, say, verdict
from ._maps import of_layer
from ._recording import Recording
from ._operators import Seen
from ._series import NAMES, SERIES
from ._statistics import to_host
from ._version import __version__
from ._weights import are_weights

# Maximum number of values that are kept until the first step with attention is
# recorded.
MOST_WAITING = 1000

_NOT_SEEN = "no attention was seen: check that the watched model is the one that is trained"
_NOT_EXPECTED = "a layer or head that the first step did not have: it is not recorded"
_IS_NEW = (
    "attention that was added to the model after the watch began is not recorded: {}: "
    "close the watch and begin another"
)

_IS_REPLACED = "this watch has ended: a later watch in this process records into its file"

_NOT_PENALIZED = (
    "{} layers of attention were seen since the last penalty(), but regularize has "
    "thresholds for {}: call penalty() once after each forward pass of the model in "
    "train() with gradients; reentrant checkpoints hide them: use use_reentrant=False"
)

_MISSING = np.array([0x7FC007A2], np.uint32).view(np.float32)[0]


class Watch:
    """Records the attention of every head of `model` into the run file `path`.

        with es.watch(model, "run.db", every=50, config=args) as rec:
            for batch in data:
                loss = step(batch)
                rec.step(loss=loss)

    every       record steps that are multiples of this number
    config      stored with the run: a dict, a namespace, a dataclass, or an object
                with to_dict()
    name        name of the run; default: the file's name without its ending
    first_step  number of the first step; set it when training continues from a
                checkpoint
    resume      True: continue the newest run in the file if it has the same model and
                the steps before first_step; samples from first_step on are recorded
                again. "auto": same as True, but continue only a run that began before
                first_step. False: begin a new run. If no run fits, a new run begins and
                a warning gives the reason
    steps       planned number of steps, if known
    all_ranks   in distributed training, record on every rank, each into a separate
                file such as run.rank3.db, which `entropy-scan merge` joins. Default:
                only rank 0 records
    first_layer with all_ranks in pipeline parallelism: the number, in the whole
                model, of this stage's first layer. None: the layer_idx of
                transformers' modules, else 0
    first_head  the number, in the whole model, of this rank's first head, if each rank
                has a part of the heads
    maps        S: record attention maps of S by S cells, S at most 64; a cell is the
                mean weight of a block of queries on a block of keys. Maps are recorded
                at every evaluation and at recorded steps that are multiples of
                `maps_every`, for each layer and, with map_heads, for each head. A map
                takes 4 * S * S bytes. 0: no maps. Not possible with all_ranks or
                tensor_parallel
    tensor_parallel  the DeviceMesh or process group over whose ranks the heads are
                divided; its first rank records all heads

    also        a callable (values, step=) such as wandb.log, mlflow.log_metrics or
                swanlab.log, which is called with the result of last() after each
                recorded step
    quiet       True: do not print a line on standard error when the watch closes

    regularize  an es.EntropyRegularization with one row of thresholds for each layer
                of attention, in the model's order; penalty() then returns its loss
                for each forward pass

    store       how the run is stored while it is recorded: "sqlite" (the run file),
                "fragment" (run.esf, an append-only file), or "auto", which chooses
                "fragment" on nfs and other file systems that hosts share

    record      "core": attention. "standard": also, for each layer, act_max, act_rms,
                nan_activations, and for routers router_entropy, load_balancing_loss,
                dropped_tokens. "all": also layer_grad_norm and update_ratio, for which
                the layers' weights are copied during the optimizer's step

    Use the watch as a context manager, or call close().

    An invalid argument raises TypeError or ValueError here, before training begins.
    During training only penalty(), and last() and figure() with a wrong argument,
    raise; the watch never changes what the model computes. If recording fails, the
    watch warns once and training continues.
    """

    def __init__(
        self,
        model: nn.Module,
        path: str | os.PathLike[str],
        every: int = 1,
        config: Any = None,
        *,
        name: str | None = None,
        first_step: int = 0,
        resume: bool | str = "auto",
        steps: int | None = None,
        all_ranks: bool = False,
        first_layer: int | None = None,
        first_head: int = 0,
        tensor_parallel: Any = None,
        maps: int = 0,
        maps_every: int = 1000,
        map_heads: bool = False,
        store: str = "auto",
        also: Callable[..., Any] | None = None,
        quiet: bool = False,
        regularize: EntropyRegularization | None = None,
        record: str = "core",
    ) -> None:
        given = checked(
            path=path,
            every=every,
            name=name,
            first_step=first_step,
            resume=resume,
            steps=steps,
            all_ranks=all_ranks,
            first_layer=first_layer,
            first_head=first_head,
            tensor_parallel=tensor_parallel,
            maps=maps,
            maps_every=maps_every,
            map_heads=map_heads,
            store=store,
            also=also,
            quiet=quiet,
            regularize=regularize,
            record=record,
        )
        self._maps_every, self._map_heads = given["maps_every"], given["map_heads"]
        self._every, self._step = given["every"], given["first_step"]
        self._first_step, self._resume = self._step, given["resume"]
        self._ranks = Ranks(
            given["path"],
            bool(all_ranks),
            given["first_layer"],
            given["first_head"],
            tensor_parallel,
        )
        path, steps = self._ranks.path, given["steps"]
        if self._ranks.has_file:
            _end_earlier(path, self)
        # For each layer, the index of its module in self._hook.names; None for a layer
        # without attention.
        self._layers: list[int | None] | None = None
        self._modules = 0  # hash of the model's modules, to detect new ones
        self._new: list[str] = []  # attention modules added after the watch began
        self._n_heads = 0
        self._has_looked = False  # the training has read should_stop
        self._is_stopping = False  # should_stop has returned true
        # Values that are not written yet, for example because they are still on a
        # device, as tuples (phase, step, name, value).
        self._waiting: list[tuple[str, int, str, Any]] = []
        self._ready: list[torch.cuda.Event] = []  # values have arrived on the host
        self._hook: Hook | None = None
        self._health: Health | None = None
        # Pairs (phase, step) for which a missing sample is not reported, because the
        # batch had no rows or the failure has already been reported.
        self._explained: set[tuple[str, int]] = set()
        self._is_closed = self._is_replaced = False
        self._latest, self._n_samples = Latest(), 0
        self._also = None if also is None else Tracker(also)
        self._is_quiet = bool(quiet)
        self._standing: Standing | None = None  # created by the first last()
        self._regularize = regularize
        self._ereg: Tensor | None = None  # the first penalty of the present step
        try:
            run = _describe(model, name, path, config, steps)
        except Exception:  # from a configuration's own methods
            run = {"name": name or os.path.basename(path)}
        self._recording = Recording(
            path, self._ranks.describe(run), given["store"]
        )
        self._tap = _operators.Tap(_weakly(self._on_error))
        self._tap.map_size = given["maps"]
        if self._ranks.trouble:
            self._recording.fail(self._ranks.trouble)
        if regularize is not None:
            _operators.penalized.add(self._tap)
        elif not self._ranks.is_measuring:
            return
        self._model = weakref.ref(model)
        self._devices = sorted({p.device.index for p in model.parameters() if p.is_cuda})
        self._all_heads: int | None = None
        try:
            self._hook = Hook(model, self._tap)
            self._all_heads = _number(_text_config(model), *_HEADS)
            if not self._hook.names:
                self._recording.fail(
                    f"{type(model).__name__}: no attention was found in this model"
                )
            elif record != "core":
                self._health = Health(model, self._hook.names, self._tap, record)
            self._enable()
        except Exception as error:
            self._on_error(error)

    # --- state -------------------------------------------------------------------

    @property
    def path(self) -> str:
        return self._recording.path

    @property
    def trouble(self) -> str | None:
        """The message of the first failure; None if nothing failed."""
        return self._recording.trouble

    @property
    def lost(self) -> int:
        """The number of samples that are known to be missing from the file."""
        return self._recording.lost

    @property
    def should_stop(self) -> bool:
        """True once the file run.db.stop has been created next to the run file, which
        requests that training stop. In distributed training all ranks follow rank 0
        after the same recorded step, provided that all of them read should_stop."""
        if self._ranks.stop is None:
            self._is_stopping |= self._recording.stop_requested()
        else:
            self._ranks.stop.is_wanted |= not self._has_looked
            self._has_looked = True
            self._is_stopping |= self._ranks.stop.is_agreed
        return self._is_stopping

    def _on_error(self, error: BaseException, step: int | None = None) -> None:
        step = self._step if step is None else step
        what = " ".join(str(error).split())[:1000] or type(error).__name__
        is_first = self._recording.trouble is None
        self._recording.fail(f"{self.path}: step {step}: {what}")
        self._recording.lost += 1
        if is_first:
            self._recording.event(step, "gap", what, "warning")

    @property
    def _is_measuring(self) -> bool:
        is_open = self._hook is not None and not self._is_closed
        return is_open and self._ranks.is_measuring

    def _is_recorded(self) -> bool:
        return self._step % self._every == 0

    def _enable(self) -> None:
        self._tap.is_open = self._is_measuring and self._recording.is_recording
        self._tap.wants_maps = self._step % self._maps_every == 0
        _operators.enable(self._tap, self._tap.is_open and self._is_recorded())

    # --- latest values ------------------------------------------------------------

    def last(self, name: str | None = None, *, heads: bool = False) -> Any:
        """Returns the values of the last recorded step. On a CUDA device these are the
        values of the recorded step before the current one, because nothing waits for
        the device.

        Without `name`, returns a dict of numbers for a tracker: attn/L3/entropy_mean
        and attn/L3/max_logit of each layer; attn/entropy_mean, attn/entropy_min (of the
        lowest head), attn/max_logit and attn/nonfinite_rows of the model; attn/step;
        and attn/flags, the number of active flags of severity warning or above.
        entropy-scan counts the flags in the background, so attn/flags may be absent at
        first and some seconds old later. heads=True adds attn/L3/H7/entropy and all
        other series of heads. The dict is empty before the first recorded step; missing
        values have no key.

        With the name of a series, returns its values as an array, float32 (layers,
        heads) or, for series of layers, (layers); for example last("max_logit") for
        QK-Clip. Returns None before the first recorded step. An unknown name raises
        ValueError."""
        if name is not None:
            return self._latest.array(name)
        out = self._latest.flat(heads)
        if not out or not self._recording.is_recording:
            return out
        try:
            if self._standing is None:
                self._standing = Standing(self.path, self._recording.uuid)
            n_flags = self._standing.count()
        except Exception as error:
            self._recording.fail(f"{self.path}: cannot read its flags: {error}")
            return out
        return out if n_flags is None else {**out, "attn/flags": n_flags}

    def figure(self, kind: str = "heatmap", format: str = "svg", **options: Any) -> Any:
        """Draws the part of the run that is already in the file, with entropy-scan; a
        notebook displays the figure while the model trains. The arguments are those of
        Run.figure. Raises es.Error before the first sample."""
        from ._reader import figure

        if not self._n_samples:
            raise _library.Error(f"{self.path}: nothing has been recorded yet")
        return figure(self.path, f"uuid={self._recording.uuid}", kind, format, options)

    # --- the penalty ---------------------------------------------------------------

    def penalty(self) -> Tensor:
        """Returns the penalty of `regularize` for the model's last forward pass in
        train() with gradients, a scalar to add to the loss:

            loss = model(**batch).loss
            (loss + 1e-5 * rec.penalty()).backward()

        Call penalty() once after each forward pass; with gradient accumulation, call it
        after each micro-batch. The penalty has gradients for queries, keys and
        thresholds. Raises RuntimeError if a layer was not measured, because the loss
        would otherwise silently lack a part."""
        reg = self._regularize
        if reg is None:
            raise RuntimeError("penalty() needs thresholds: call es.watch with regularize=")
        rows = _operators.take_rows(self._tap)
        n_layers, n_heads = reg.thresholds.shape
        if len(rows) != n_layers:
            raise RuntimeError(_NOT_PENALIZED.format(len(rows), n_layers))
        total: Any = 0.0
        for layer, (entropy, counted) in enumerate(rows):
            if entropy.shape[1] != n_heads:
                raise RuntimeError(
                    f"layer {layer} has {entropy.shape[1]} heads, but regularize has "
                    f"thresholds for {n_heads}"
                )
            thresholds = reg.thresholds[layer].to(entropy.device)
            part = reg.penalty(entropy, thresholds, counted)
            total = part + (total.to(part.device) if layer else 0.0)
        total = total / n_layers
        if self._ereg is None:
            self._ereg = total.detach()
        return total

    # --- steps ---------------------------------------------------------------------

    def step(self, **values: Any) -> None:
        """Ends a training step. values: loss, lr, grad_norm and others, as numbers or
        tensors with one element; they are recorded if the step is recorded. Call step()
        once for each step of the optimizer. With gradient accumulation the recorded
        attention is that of the first micro-batch."""
        try:
            if self._is_replaced:
                self._recording.fail(f"{self.path}: {_IS_REPLACED}")
            if self._is_measuring:
                self._push_waiting()
                self._tap.take("eval")
                if self._is_recorded():
                    self._look_for_new()
                    if self._ereg is not None:
                        values = {"ereg": self._ereg, **values}
                    self._take("train", self._step, values)
            self._ereg = None
            self._agree_on_stop()
        except Exception as error:
            self._on_error(error)
        self._step += 1
        self._enable_safely()

    def number(self, step: int) -> None:
        """Sets the number of the current step, for training loops that count steps
        themselves. Call number() before the forward pass, because the number decides
        whether the step is recorded; a call between the forward pass and step() only
        renumbers the step."""
        try:
            self._step = whole("step", step, 0)
            if self._layers is None:
                self._first_step = self._step
        except Exception as error:
            self._on_error(error)
        self._enable_safely()

    def _agree_on_stop(self) -> None:
        if self._ranks.stop is None or not self._is_recorded():
            return
        try:
            requested = self._recording.stop_requested()
            self._ranks.stop.agree(self._step, requested)
        except Exception as error:  # not _on_error: no sample is lost
            self._recording.fail(f"{self.path}: step {self._step}: {error}")

    def values(self, step: int, **values: Any) -> None:
        """Records additional values for a step that has already ended."""
        try:
            self._waiting += [("train", step, *item) for item in values.items()]
            if not self._ready:
                self._push_waiting()
        except Exception as error:
            self._on_error(error)

    def evaluation(self, **values: Any) -> None:
        """Ends an evaluation, which is recorded as separate series (phase eval) at the
        last step. values: same as in step(). Records the attention of the first batch
        in model.eval() without gradients."""
        try:
            if self._is_measuring:
                self._push_waiting()
                self._take("eval", max(0, self._step - 1), values)
        except Exception as error:
            self._on_error(error)

    def event(self, kind: str, message: str, severity: str = "info") -> None:
        """Records an event at the current step. severity: info, warning, error or
        critical."""
        try:
            self._recording.event(self._step, kind, message, severity)
        except Exception as error:
            self._on_error(error)

    def _enable_safely(self) -> None:
        try:
            self._enable()
        except Exception as error:
            self._on_error(error)

    def _take(self, phase: str, step: int, values: dict[str, Any]) -> None:
        seen = self._tap.take(phase)
        if seen.is_empty or seen.failed:
            self._explained.add((phase, step))
        self._waiting.append((phase, step, "heads", seen))
        if self._health is not None:
            found = self._health.take(phase, seen)
            self._waiting.append((phase, step, "layers", found))
        for name, value in values.items():
            if isinstance(value, Tensor):
                value = _copied(value)
            self._waiting.append((phase, step, name, value))
        if any(_is_pinned(value) for *_, value in self._waiting):
            # Read the values at the next step, because their copy from the device may
            # still be running.
            for device in self._devices or [None]:
                with torch.cuda.device(device):
                    self._ready.append(torch.cuda.Event())
                    self._ready[-1].record()
            return
        if self._ranks.is_gathering and self._devices:
            return  # all ranks exchange at the same point, whatever each of them has
        self._push_waiting()

    def _push_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        before = self._n_samples
        while self._ready:
            self._ready.pop().synchronize()
        for phase, step, name, value in waiting:
            if name == "heads":
                self._push_heads(phase, step, value)
                self._push_maps(phase, step, value)
            elif not self._ranks.has_file:
                continue
            elif self._layers is None and len(self._waiting) < MOST_WAITING:
                # Keep the value, because the file cannot be opened before the numbers
                # of layers and heads are known.
                self._waiting.append((phase, step, name, value))
            else:
                self._push_number(phase, step, name, value)
        if self._also is not None and self._n_samples > before:
            try:
                self._also(self.last())
            except Exception as error:
                self._recording.fail(f"{self.path}: also={self._also}: {error}")

    def _push_number(self, phase: str, step: int, name: str, value: Any) -> None:
        if self._layers is None:
            self._begin({}, Seen())
        if isinstance(value, Found):
            assert self._health is not None and self._layers is not None
            known = self._health.push(self._recording, phase, step, value, self._layers)
            if phase == "train":
                self._latest.keep(step, known)
            return
        try:
            number = float(value)
        except (TypeError, ValueError, RuntimeError) as error:
            self._on_error(ValueError(f"{name}: not a number: {error}"))
            return
        self._recording.push(name, step, number, "run", phase, _unit(name))

    def _push_heads(self, phase: str, step: int, seen: Seen) -> None:
        own = {place: one for place, one in seen.heads.items() if are_weights(one)}
        is_explained = (phase, step) in self._explained
        self._explained.discard((phase, step))
        if own:
            self._tap.is_described = True
        heads = self._ranks.gathered(
            phase, step, own, self._all_heads, self._on_error
        )
        if heads is None:
            return
        if not heads:
            is_wanted = phase == "train" and self._recording.is_recording
            if is_wanted and not is_explained:
                self._on_error(RuntimeError(_NOT_SEEN), step)
            return
        if self._layers is None:
            self._begin(heads, seen)
        assert self._layers is not None
        widest = max(found.shape[1] for found in heads.values())
        if not heads.keys() <= set(self._layers) or widest > self._n_heads:
            self._on_error(RuntimeError(_NOT_EXPECTED), step)
        shape = (len(NAMES), len(self._layers), self._n_heads)
        out = np.full(shape, _MISSING, np.float32)
        for layer, place in enumerate(self._layers):
            if place in heads:
                found = heads[place].numpy()[:, : self._n_heads]
                out[: len(found), layer, : found.shape[1]] = found
        known: dict[str, np.ndarray] = {}
        for i, (name, unit, _) in enumerate(SERIES):
            if name == "finite_rows" and self._ranks.fragment is None:
                continue
            if name == "missing_mass" and not self._tap.has_sinks:
                continue
            self._recording.push(name, step, out[i], "head", phase, unit)
            known[name] = out[i]
        if phase == "train":
            self._latest.keep(step, known)
            self._n_samples += 1

    def _look_for_new(self) -> None:
        """Reports attention modules that were added to the model after the watch began,
        because they have no hook, and the file has no layer for them."""
        model = self._model()
        if model is None or self._hook is None or not self._layers:
            return
        modules = list(model.modules())
        found = hash(tuple(map(id, modules)))
        if found != self._modules:
            self._modules = found
            own = [self._hook.names[place] for place in self._layers if place is not None]
            here = dict(model.named_modules())
            kinds = {type(here[name]) for name in own if name in here}
            self._new = [
                name
                for name, module in here.items()
                if type(module) in kinds and _operators.slot_of(module) is None
            ]
        if self._new:
            self._on_error(RuntimeError(_IS_NEW.format(", ".join(self._new))))

    def _push_maps(self, phase: str, step: int, seen: Seen) -> None:
        if self._layers is None or seen.shape is None:
            return
        n_sequences, context = seen.shape.tolist()
        if seen.is_found and n_sequences > 1:
            return  # packed sequences have no maps
        for layer, place in enumerate(self._layers):
            if place not in seen.maps:
                continue
            heads = seen.maps[place].numpy()[: self._n_heads]
            found = {None: of_layer(heads)}
            if self._map_heads:
                found.update(enumerate(heads))
            for head, values in found.items():
                n_ctx = max(context, len(values))
                self._recording.map(phase, step, layer, head, values, n_ctx)

    def _begin(self, heads: dict[int, Tensor], seen: Seen) -> None:
        """Opens the file for the layers and heads that were measured. If no attention
        was measured and only other values are recorded, the numbers of layers and heads
        come from the model's configuration."""
        places = sorted(heads)
        model = self._model()
        n_layers = _number(_text_config(model), *_LAYERS) or 1
        self._layers = list(places) or [None] * n_layers
        widths = [found.shape[1] for found in heads.values()]
        self._n_heads = max(widths, default=self._all_heads or 1)
        batch, context = (None, None) if seen.shape is None else seen.shape.tolist()
        if model is not None and self._hook is not None and places:
            names = [self._hook.names[place] for place in places]
            self._ranks.begin(model, names)
            if self._ranks.fragment is None:
                self._layers = _by_number(model, names, places)
            self._describe_layers(seen)
        ceilings = [float(x) for x in seen.ceilings.values()]
        largest = max((x for x in ceilings if not math.isnan(x)), default=math.nan)
        of_causal = math.lgamma(context + 1) / context if context else math.nan
        if math.isfinite(largest) and not abs(largest - of_causal) < 1e-6:
            self._recording.configure("ceiling", largest)
        self._recording.know(
            n_layer=len(self._layers),
            n_head=self._n_heads,
            batch=batch,
            ctx=context,
        )
        if self._resume and (self._first_step > 0 or self._resume is True):
            is_insisting = self._resume is True
            self._recording.resume(self._first_step, self._every, is_insisting)
        self._recording.open()

    def _describe_layers(self, seen: Seen) -> None:
        """Stores module, kind and ceiling of each layer in the run's configuration."""
        assert self._layers is not None and self._hook is not None
        layers: list[dict[str, Any] | None] = []
        for place in self._layers:
            if place is None:
                layers.append(None)
                continue
            # Remove the prefixes that DDP and torch.compile add to names.
            name = re.sub(r"^((module|_orig_mod)\.)+", "", self._hook.names[place])
            layers.append({"name": name})
            if place in seen.kinds:
                layers[-1]["kind"] = seen.kinds[place]
            if place in seen.ceilings and not seen.ceilings[place].isnan():
                layers[-1]["ceiling"] = float(seen.ceilings[place])
        self._recording.configure("layers", layers)

    # --- the end --------------------------------------------------------------------

    def close(self, status: str = "finished") -> None:
        """Ends the run with a status, "finished", "failed" or "stopped", and removes all
        hooks from the model. May be called more than once."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._hook is not None:
                self._hook.close()
            if self._health is not None:
                self._health.close()
            self._push_waiting()
            waiting, self._waiting = self._waiting, []
            for phase, step, name, value in waiting:  # no attention was ever seen
                self._push_number(phase, step, name, value)
        except Exception as error:
            self._on_error(error)
        try:
            if self._standing is not None:
                self._standing.close()
            self._recording.close(status)
            self._say(status)
        except Exception as error:
            self._on_error(error)

    def _say(self, status: str) -> None:
        recording = self._recording
        if self._is_quiet or not self._n_samples or recording.is_elsewhere:
            return
        if rank_and_world()[0] != 0:
            return
        assert self._layers is not None
        say(
            self.path,
            f"{len(self._layers)} x {self._n_heads} heads",
            f"{self._n_samples} sample{'s'[: self._n_samples > 1]}",
            "" if status == "finished" else status,
            f"{recording.lost} lost" if recording.lost else "",
            verdict(self.path, recording.uuid),
        )

    def _replace(self) -> None:
        """Ends this watch, because a later watch in this process uses the same file."""
        if not self._is_closed:
            self.event("replaced", _IS_REPLACED)
            self.close("stopped")
            self._is_replaced = True

    def __del__(self) -> None:
        # Do nothing if __init__ raised. When the interpreter exits, an exit handler
        # closes the recordings.
        if not getattr(self, "_is_closed", True) and not sys.is_finalizing():
            self.close("stopped")

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        if kind is not None:
            self._ranks.leave()
        if kind is None:
            self.close("stopped" if self._is_stopping else "finished")
        elif issubclass(kind, (KeyboardInterrupt, SystemExit)):
            self.close("stopped")
        else:
            self.event("exception", f"{kind.__name__}: {error}", "error")
            self.close("failed")


def _weakly(method: Callable[..., None]) -> Callable[..., None]:
    """Returns a function that calls the method `method` but does not keep its object
    alive."""
    reference = weakref.WeakMethod(method)

    def call(*args: Any) -> None:
        found = reference()
        if found is not None:
            found(*args)

    return call


_watches: weakref.WeakValueDictionary[str, Watch] = weakref.WeakValueDictionary()


def _end_earlier(path: str, later: Watch) -> None:
    """Ends an earlier watch of the same file, which exists if a notebook cell is run
    again."""
    path = os.path.realpath(path)
    earlier = _watches.get(path)
    _watches[path] = later
    if earlier is not None:
        earlier._replace()


def _by_number(
    model: nn.Module, names: list[str], places: list[int]
) -> list[int | None]:
    """Returns, for each layer, the index of its module in the names of the hooked
    modules; None for a layer without attention. A layer's number is the layer_idx of
    its module or, in models of transformers, the number in the module's name. If
    several modules have the same number, as in encoder and decoder, modules whose names
    differ only in the number form a group, and the groups are numbered one after the
    other."""
    n_layers = _number(_text_config(model), *_LAYERS) or 0
    numbers: list[int | None] = layer_numbers(model, names)
    found = [re.match(r"(.*?)\.(\d+)\.(.*)", name) for name in names]
    groups = [(one[1], one[3]) if one else ("", name) for one, name in zip(found, names)]
    if not _are_numbers(numbers) and n_layers and len({one for one, _ in groups}) == 1:
        numbers = [int(one[2]) if one else None for one in found]
    if not _are_numbers(numbers):
        first = {group: i for i, group in reversed(list(enumerate(groups)))}
        return [place for _, place in sorted((first[g], p) for g, p in zip(groups, places))]
    out: list[int | None] = [None] * max(n_layers, max(numbers) + 1)
    for number, place in zip(numbers, places):
        out[number] = place
    return out


def _are_numbers(numbers: list[int | None]) -> bool:
    known = [n for n in numbers if n is not None and n >= 0]
    return len(set(known)) == len(numbers)


watch = Watch  # es.watch(...) as a call; Watch as a type


def of_callback(path: Any, every: Any, options: dict[str, Any]) -> tuple[str, int]:
    """Checks the arguments of a callback when the callback is made, so that a wrong
    argument does not raise later, when training begins. Returns the path and
    `every`."""
    bound = inspect.signature(Watch).bind(None, path, every, None, **options)
    bound.apply_defaults()
    given = {k: v for k, v in bound.arguments.items() if k not in ("model", "config")}
    given = checked(**given)
    return given["path"], given["every"]


def _copied(value: Tensor) -> Tensor:
    """Copies a tensor of one element to the CPU, without waiting for a device."""
    value = value.detach().float().reshape(())
    return to_host(value if value.device.type == "cuda" else value.clone())


def _is_pinned(value: Any) -> bool:
    if isinstance(value, Seen):
        return any(_is_pinned(heads) for heads in value.heads.values())
    if isinstance(value, Found):
        return any(_is_pinned(tensor) for tensor in value.tensors())
    return isinstance(value, Tensor) and value.is_pinned()


_UNITS = {"loss": "nats", "ce": "nats", "ereg": "nats^2", "tokens_per_s": "1/s"}


def _unit(name: str) -> str | None:
    return _UNITS.get(name)


_LAYERS = ("num_hidden_layers", "n_layer")
_HEADS = ("num_attention_heads", "n_head", "num_heads")


def _text_config(model: nn.Module) -> Any:
    """Returns transformers' configuration of the (language) model, or None."""
    its_config = getattr(unwrapped(model), "config", None)
    try:
        return getattr(its_config, "get_text_config", lambda: its_config)()
    except Exception:  # from the configuration's own method
        return None


def _number(config: Any, *names: str) -> int | None:
    for candidate in names:
        value = getattr(config, candidate, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _describe(
    model: nn.Module, name: str | None, path: str, config: Any, steps: int | None
) -> dict[str, Any]:
    """Returns the part of a run's description that is known before the first step, for
    the run file."""
    from ._recording import as_json

    model = unwrapped(model)
    its_config = getattr(model, "config", None)
    kept = as_json(config) if config is not None else {}
    if not isinstance(kept, dict):
        kept = {"config": kept}
    if steps is not None:
        kept["steps"] = steps
    text = _text_config(model)
    return {
        "name": name or os.path.splitext(os.path.basename(path))[0],
        "arch": type(model).__name__,
        "family": getattr(its_config, "model_type", None),
        "d_model": _number(text, "hidden_size", "n_embd", "d_model"),
        "vocab": _number(text, "vocab_size"),
        "seed": torch.initial_seed() % 2**63,
        "config": kept,
        "program": f"entropyscan {__version__} (torch {torch.__version__})",
    }
