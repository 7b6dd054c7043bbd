"""Defines LightningCallback, the callback for Lightning's Trainer."""

from __future__ import annotations

import math
import os
from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:  # the separate package pytorch-lightning
    from pytorch_lightning import Callback
from torch import Tensor

from ._recording import harmless
from ._watch import Watch, of_callback, watch


class LightningCallback(Callback):
    """Records a training run of Lightning's Trainer.

        Trainer(..., callbacks=[es.LightningCallback("run.db", every=50)])

    Steps are those of the optimizer (trainer.global_step). The loss is the value that
    training_step returns, averaged over accumulated batches. Validation is recorded as
    separate series, together with the metric that is logged under the name
    `validation_loss`, if any. A file run.db.stop next to the run file stops the
    training."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        every: int = 1,
        config: Any = None,
        validation_loss: str = "val_loss",
        **options: Any,
    ) -> None:
        super().__init__()
        self._path, self._every = of_callback(path, every, options)
        self._config = config
        self._validation_loss = validation_loss
        self._options = options
        self._watch: Watch | None = None
        self._losses: list[Tensor] = []
        self._step = 0

    @property
    def watch(self) -> Watch | None:
        """The Watch object that records the run; None before the training."""
        return self._watch

    @harmless
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._end("stopped")
        self._step = trainer.global_step
        self._watch = watch(
            pl_module,
            self._path,
            self._every,
            dict(pl_module.hparams) if self._config is None else self._config,
            first_step=self._step + 1,
            steps=_n_planned(trainer),
            **{"resume": self._step > 0, **self._options},
        )

    @harmless
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, *_: Any
    ) -> None:
        if self._watch is None:
            return
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if isinstance(loss, Tensor) and loss.numel() == 1:
            self._losses.append(loss.detach())
        if trainer.global_step == self._step:  # gradients are being accumulated
            return
        self._step = trainer.global_step
        losses, self._losses = self._losses, []
        # Sum the losses, because Lightning has divided each loss by the number of
        # accumulated batches.
        values: dict[str, Any] = {"loss": sum(losses)} if losses else {}
        for optimizer in trainer.optimizers[:1]:
            values["lr"] = optimizer.param_groups[0]["lr"]
        self._watch.step(**values)
        if self._watch.should_stop:
            trainer.should_stop = True

    @harmless
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if self._watch is None or trainer.sanity_checking:
            return
        loss = trainer.callback_metrics.get(self._validation_loss)
        self._watch.evaluation(**({} if loss is None else {"loss": loss}))

    @harmless
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._end("stopped" if trainer.should_stop else "finished")

    @harmless
    def on_exception(
        self, trainer: Any, pl_module: Any, exception: BaseException
    ) -> None:
        if self._watch is not None:
            self._watch.__exit__(type(exception), exception, None)

    def _end(self, status: str) -> None:
        self._losses = []
        if self._watch is not None:
            self._watch.close(status)


def _n_planned(trainer: Any) -> int | None:
    """Returns the planned number of optimizer steps; None if it is unknown."""
    n_steps = trainer.estimated_stepping_batches  # infinite or -1 if unlimited
    return int(n_steps) if 0 < n_steps < math.inf else None
