"""es.watch: the attention of a PyTorch model, recorded while it trains."""

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
from ._statistics import NAMES, SERIES, to_host
from ._version import __version__
from ._weights import are_weights

# Numbers that are kept until the first step with attention is recorded.
MOST_WAITING = 1000

_NOT_SEEN = "no attention was seen: is it the model that is trained?"
_NOT_EXPECTED = "attention that the first step had not: it is not recorded"
_IS_NEW = (
    "attention that the model got after the watch began is not recorded: {}: close the "
    "watch and begin another"
)

_IS_REPLACED = "this watch has ended: a later one of this process records into its file"

_NOT_PENALIZED = (
    "{} layers of attention were seen since the last penalty(), regularize has "
    "thresholds of {}: call it once after a forward pass of the model in train() with "
    "gradients, which reentrant checkpoints hide: use_reentrant=False"
)

_MISSING = np.array([0x7FC007A2], np.uint32).view(np.float32)[0]


class Watch:
    """Records the attention of every head of `model` into the run file `path`.

        with es.watch(model, "run.db", every=50, config=args) as rec:
            for batch in data:
                loss = step(batch)
                rec.step(loss=loss)

    every       steps from one recorded step to the next; the first is recorded
    config      kept with the run: a dict, a namespace, a dataclass, or what has
                to_dict()
    name        of the run; otherwise the file's
    first_step  number of the first step, for a training that goes on
    resume      True: a training that was interrupted goes on at first_step, and so
                does the newest run of the file if it is of the same model and has
                the steps before; samples from first_step on are recorded again.
                "auto": the same if the run began before first_step. False, or
                where no run fits, which is a warning: a new run
    steps       how many there are to be, if that is known
    all_ranks   of a distributed training: every rank records into a file of its
                own, run.rank3.db, which `entropy-scan merge` joins; otherwise the
                first rank does
    first_layer of a stage of a pipeline, with all_ranks: which layer of the whole
                model its first one is. None: what transformers' modules say
                (layer_idx), else 0
    first_head  the same of heads, where each rank has some
    maps        attention maps of S by S cells, at most 64: mean weights of blocks of
                queries by blocks of keys, at every evaluation and every
                `maps_every` steps that are recorded, of each layer and, with
                map_heads, of each head; 4 S S bytes each. 0: none. Not with
                all_ranks or tensor_parallel
    tensor_parallel  the DeviceMesh or process group whose ranks have a part of the
                heads each: its first rank records all of them

    also        a callable (values, step=) such as wandb.log, mlflow.log_metrics or
                swanlab.log: gets last() of each step that is recorded
    quiet       no line on standard error when the watch closes

    regularize  an es.EntropyRegularization with one row of thresholds for each layer
                of attention, in the model's order: penalty() is what it makes of
                every forward pass, with gradients, for the loss

    store       what the run is kept in while it is recorded: "auto", "sqlite" (the
                run file) or "fragment" (run.esf, which "auto" takes on nfs and
                other file systems that hosts share)

    record      "core": attention. "standard": also, of each layer, act_max, act_rms,
                nan_activations, and of routers router_entropy,
                load_balancing_loss, dropped_tokens. "all": also layer_grad_norm
                and update_ratio, with a copy of the layers' weights during the
                optimizer's step

    Use it as a context, or call close().

    An argument that cannot be meant is a TypeError or a ValueError here, before
    the training. Nothing but penalty() raises while it runs, and nothing changes
    what the model computes. Where it cannot record there is one warning, and the
    training goes on.
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
        self._layers: list[int | None] | None = None  # places of modules, by layer
        self._modules = 0  # a hash of the model's
        self._new: list[str] = []  # attention that came after the watch
        self._n_heads = 0
        self._has_looked = False  # at should_stop
        self._is_stopping = False  # it said so
        # Values of a device, of the recorded step before this one.
        self._waiting: list[tuple[str, int, str, Any]] = []
        self._ready: list[torch.cuda.Event] = []  # when they are there
        self._hook: Hook | None = None
        self._health: Health | None = None
        # Steps without rows, or whose attention was said not to be measured.
        self._explained: set[tuple[str, int]] = set()
        self._is_closed = self._is_replaced = False
        self._latest, self._n_samples = Latest(), 0
        self._also = None if also is None else Tracker(also)
        self._is_quiet = bool(quiet)
        self._standing: Standing | None = None  # once somebody wants to know
        self._regularize = regularize
        self._ereg: Tensor | None = None  # the first penalty of the present step
        try:
            run = _describe(model, name, path, config, steps)
        except Exception:  # of a configuration's own methods
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
                    f"{type(model).__name__}: no attention was found in it"
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
        """The first thing that went wrong, None if nothing did."""
        return self._recording.trouble

    @property
    def lost(self) -> int:
        """Samples that are known not to be in the file."""
        return self._recording.lost

    @property
    def should_stop(self) -> bool:
        """Whether somebody requested that the training stop (a file
        run.db.stop beside the run). Ranks of a distributed training follow
        rank 0, all after the same recorded step, if all of them look."""
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

    # --- what was recorded last ---------------------------------------------------

    def last(self, name: str | None = None, *, heads: bool = False) -> Any:
        """The values of the step that was recorded last, which on a CUDA device is the
        one before the present: nothing waits for them.

        A dict of numbers for a tracker: attn/L3/entropy_mean and attn/L3/max_logit of
        each layer; attn/entropy_mean, attn/entropy_min (the lowest head's),
        attn/max_logit and attn/nonfinite_rows of the model; attn/step; attn/flags, how
        many flags of severity warning and above stand in the file, as entropy-scan
        found a few seconds ago, once it has. With `heads` attn/L3/H7/entropy and all
        other series of heads. Empty before the first; what is missing has no key.

        With the name of a series an array of it, float32 (layers, heads), for example
        last("max_logit") for QK-Clip; None before the first."""
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
            self._recording.fail(f"{self.path}: its flags are not known: {error}")
            return out
        return out if n_flags is None else {**out, "attn/flags": n_flags}

    def figure(self, kind: str = "heatmap", format: str = "svg", **options: Any) -> Any:
        """A picture of the run as far as it is in the file, by entropy-scan; a
        notebook shows it while the training runs. Arguments are those of
        Run.figure."""
        from ._reader import figure

        if not self._n_samples:
            raise _library.Error(f"{self.path}: nothing is recorded so far")
        return figure(self.path, f"uuid={self._recording.uuid}", kind, format, options)

    # --- the penalty ---------------------------------------------------------------

    def penalty(self) -> Tensor:
        """What `regularize` makes of the attention of the model's last forward pass
        in train() and with gradients, a scalar that belongs to the loss:

            loss = model(**batch).loss
            (loss + 1e-5 * rec.penalty()).backward()

        Call it once after each forward pass, of each micro-batch. Its gradients reach
        queries, keys and thresholds. Unlike everything else of a watch it raises
        where a layer was not seen: a loss without a part of it is another loss."""
        reg = self._regularize
        if reg is None:
            raise RuntimeError("no penalty: give es.watch regularize=")
        rows = _operators.take_rows(self._tap)
        n_layers, n_heads = reg.thresholds.shape
        if len(rows) != n_layers:
            raise RuntimeError(_NOT_PENALIZED.format(len(rows), n_layers))
        total: Any = 0.0
        for layer, (entropy, counted) in enumerate(rows):
            if entropy.shape[1] != n_heads:
                raise RuntimeError(
                    f"layer {layer} has {entropy.shape[1]} heads, regularize has "
                    f"thresholds of {n_heads}"
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
        """Ends a training step. values: loss, lr, grad_norm and others, numbers
        or tensors of one element, kept at recorded steps. Call it once for each
        step of the optimizer, also with gradient accumulation: the attention is
        that of the first micro-batch."""
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
        """The number of the step that goes on, where somebody else counts. Call
        it before the forward pass; after it, what it saw gets that number."""
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
        except Exception as error:  # no sample is lost
            self._recording.fail(f"{self.path}: step {self._step}: {error}")

    def values(self, step: int, **values: Any) -> None:
        """Numbers of a step that has ended, besides those of step()."""
        try:
            self._waiting += [("train", step, *item) for item in values.items()]
            if not self._ready:
                self._push_waiting()
        except Exception as error:
            self._on_error(error)

    def evaluation(self, **values: Any) -> None:
        """Ends an evaluation at the present step: a series of its own. The
        attention is that of the first batch in eval() and without gradients."""
        try:
            if self._is_measuring:
                self._push_waiting()
                self._take("eval", max(0, self._step - 1), values)
        except Exception as error:
            self._on_error(error)

    def event(self, kind: str, message: str, severity: str = "info") -> None:
        """Something that happened; severity: info, warning, error, critical."""
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
            # On its way from the device: read at the next step, without a wait.
            for device in self._devices or [None]:
                with torch.cuda.device(device):
                    self._ready.append(torch.cuda.Event())
                    self._ready[-1].record()
            return
        if self._ranks.is_gathering and self._devices:
            return  # ranks meet at the same place, whatever each one has
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
                self._waiting.append((phase, step, name, value))  # for the first heads
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
            self._on_error(ValueError(f"{name}: no number: {error}"))
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
        """Attention that the model got while it is watched has no hook, and the file
        no layer for it."""
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
            return  # packed, which has no maps
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
        """Opens the file for the layers and heads that were seen; where none were, and
        numbers are to be kept all the same, for as many as the model says."""
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
        """Module, kind and ceiling of each layer, for the file."""
        assert self._layers is not None and self._hook is not None
        layers: list[dict[str, Any] | None] = []
        for place in self._layers:
            if place is None:
                layers.append(None)
                continue
            # Without what DDP and torch.compile put before it.
            name = re.sub(r"^((module|_orig_mod)\.)+", "", self._hook.names[place])
            layers.append({"name": name})
            if place in seen.kinds:
                layers[-1]["kind"] = seen.kinds[place]
            if place in seen.ceilings and not seen.ceilings[place].isnan():
                layers[-1]["ceiling"] = float(seen.ceilings[place])
        self._recording.configure("layers", layers)

    # --- the end --------------------------------------------------------------------

    def close(self, status: str = "finished") -> None:
        """Ends the run: finished, failed or stopped; the model is as it was."""
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
            for phase, step, name, value in waiting:  # no attention was seen at all
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
        """Ends this watch, whose file another one of this process records into."""
        if not self._is_closed:
            self.event("replaced", _IS_REPLACED)
            self.close("stopped")
            self._is_replaced = True

    def __del__(self) -> None:
        # Not where __init__ raised; a program that ends closes files by itself.
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
    """The method, which does not keep its object."""
    reference = weakref.WeakMethod(method)

    def call(*args: Any) -> None:
        found = reference()
        if found is not None:
            found(*args)

    return call


_watches: weakref.WeakValueDictionary[str, Watch] = weakref.WeakValueDictionary()


def _end_earlier(path: str, later: Watch) -> None:
    """A file has one recorder: in a notebook, that of the cell that ran last."""
    path = os.path.realpath(path)
    earlier = _watches.get(path)
    _watches[path] = later
    if earlier is not None:
        earlier._replace()


def _by_number(
    model: nn.Module, names: list[str], places: list[int]
) -> list[int | None]:
    """Places by the number that modules say they have in the model (layer_idx), or
    that their names have in a model of transformers; None where a layer has no
    attention. Where a number has several, as in encoder and decoder, groups of
    modules whose names differ in the number alone follow each other."""
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
    """Path and cadence that a callback hands over when a training begins, which
    a wrong argument is not to end: looked at when the callback is made."""
    bound = inspect.signature(Watch).bind(None, path, every, None, **options)
    bound.apply_defaults()
    given = {k: v for k, v in bound.arguments.items() if k not in ("model", "config")}
    given = checked(**given)
    return given["path"], given["every"]


def _copied(value: Tensor) -> Tensor:
    """One element, on its way to the CPU: nothing waits for the device."""
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
    """transformers' configuration of the language model, or None."""
    its_config = getattr(unwrapped(model), "config", None)
    try:
        return getattr(its_config, "get_text_config", lambda: its_config)()
    except Exception:  # of the configuration's own method
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
    """What a run file says of a run; what is unknown is left out."""
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
