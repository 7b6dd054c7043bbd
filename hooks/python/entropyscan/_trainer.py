"""Defines TrainerCallback, the callback for transformers' Trainer."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import transformers
from torch import Tensor

from ._recording import harmless
from ._watch import Watch, of_callback, watch


class TrainerCallback(transformers.TrainerCallback):
    """Records a training run of transformers' Trainer.

        Trainer(..., callbacks=[es.TrainerCallback("run.db", every=50)])

    Steps are numbered as in the Trainer. The recorded loss is the model's loss, before
    the Trainer filters out NaN; learning rate and gradient norm come from the Trainer's
    logs. Evaluations are recorded as separate series. A file run.db.stop next to the
    run file stops training. train(resume_from_checkpoint=...) continues the run in
    the file. If train() raises, the run ends."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        every: int = 1,
        config: Any = None,
        **options: Any,
    ) -> None:
        self._path, self._every = of_callback(path, every, options)
        self._config, self._options = config, options
        self._watch: Watch | None = None
        self._losses: list[Tensor] = []
        self._is_sum = False
        self._handle: Any = None

    @property
    def watch(self) -> Watch | None:
        """The Watch object that records the run; None before training."""
        return self._watch

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
    ) -> None:
        self._end("stopped")
        self._watch = watch(
            model,
            self._path,
            self._every,
            self._config if self._config is not None else args,
            first_step=state.global_step + 1,
            steps=state.max_steps if state.max_steps > 0 else None,
            **{"resume": state.global_step > 0, **self._options},
        )
        self._handle = model.register_forward_hook(self._keep_loss, with_kwargs=True)

    def _keep_loss(self, model: Any, args: Any, options: Any, output: Any) -> None:
        loss = output.get("loss") if isinstance(output, dict) else None
        if model.training and isinstance(loss, Tensor) and loss.numel() == 1:
            # Copy the loss, because the Trainer may scale it in place.
            self._losses.append(loss.detach().clone())
            # If num_items_in_batch is given, each loss is already divided by the number
            # of items in all micro-batches, so the sum of the losses is the step's
            # loss.
            self._is_sum = options.get("num_items_in_batch") is not None

    def on_step_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
        losses, self._losses = self._losses, []
        if self._watch is None:
            return
        values = {}
        if losses:
            loss = sum(losses)
            if not self._is_sum:
                loss = loss / len(losses)
            elif getattr(args, "average_tokens_across_devices", False):
                # Each rank has divided its loss by the number of items on all ranks.
                # Multiplied by the number of ranks, the loss is comparable to one that
                # was divided by the number of items on one rank.
                model = options.get("model")
                tp_size = getattr(model, "_tp_size", None) or 1
                loss = loss * (args.world_size // tp_size)
            values["loss"] = loss
        self._watch.step(**values)
        if self._watch.should_stop:
            control.should_training_stop = True

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any
    ) -> None:
        if self._watch is None or not logs:
            return
        names = {"learning_rate": "lr", "grad_norm": "grad_norm"}
        values = {ours: logs[name] for name, ours in names.items() if name in logs}
        self._watch.values(state.global_step, **values)

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any
    ) -> None:
        if self._watch is None:
            return
        loss = (metrics or {}).get("eval_loss")
        self._watch.evaluation(**({} if loss is None else {"loss": loss}))

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        is_over = state.max_steps <= 0 or state.global_step >= state.max_steps
        self._end("finished" if is_over else "stopped")

    @harmless
    def _raised(self, error: BaseException) -> None:
        self._release()
        if self._watch is not None:
            self._watch.__exit__(type(error), error, None)

    def _release(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        self._losses = []

    def _end(self, status: str) -> None:
        self._release()
        if self._watch is not None:
            self._watch.close(status)


def _reporting(train: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps Trainer.train to inform our callbacks when train() raises, because the
    Trainer has no event for exceptions."""

    @functools.wraps(train)
    def reporting(self: transformers.Trainer, *args: Any, **options: Any) -> Any:
        try:
            return train(self, *args, **options)
        except BaseException as error:
            for callback in self.callback_handler.callbacks:
                if isinstance(callback, TrainerCallback):
                    callback._raised(error)
            raise

    return reporting


transformers.Trainer.train = _reporting(transformers.Trainer.train)
