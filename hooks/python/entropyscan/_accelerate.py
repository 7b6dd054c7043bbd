"""Defines AccelerateTracker, a tracker for Hugging Face Accelerate."""

from __future__ import annotations

import os
from typing import Any

from accelerate.tracking import GeneralTracker
from torch import nn

from ._recording import harmless
from ._watch import Watch, of_callback, watch


class AccelerateTracker(GeneralTracker):
    """Records the values that an Accelerator logs and the attention of the model.

        tracker = es.AccelerateTracker("run.db", model, every=50)
        accelerator = Accelerator(log_with=tracker)
        accelerator.init_trackers("a run", config)
        ...
        accelerator.log({"loss": loss.item()}, step=step)    # each step
        accelerator.end_training()

    Each call of log() ends a step and records the attention of the first batch since
    the previous call. `step`, if given, is the step's number. Steps that are multiples
    of `every` are recorded, so call log() at every step, or leave `every` at 1."""

    name = "entropyscan"
    requires_logging_directory = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        model: nn.Module,
        every: int = 1,
        **options: Any,
    ) -> None:
        super().__init__()
        self._path, self._every = of_callback(path, every, options)
        self._model, self._options = model, options
        self._watch: Watch | None = None

    @property
    def tracker(self) -> Watch | None:
        """The Watch object that records the run; None before init_trackers()."""
        return self._watch

    @harmless
    def store_init_configuration(self, values: dict[str, Any]) -> None:
        if self._watch is None:
            self._watch = watch(
                self._model, self._path, self._every, values, **self._options
            )

    @harmless
    def log(self, values: dict[str, Any], step: int | None = None, **_: Any) -> None:
        if self._watch is None:
            self.store_init_configuration({})
        assert self._watch is not None
        if step is not None:
            self._watch.number(step)
        numbers = {k: v for k, v in values.items() if not isinstance(v, (str, dict))}
        self._watch.step(**{k: v for k, v in numbers.items() if v is not None})

    @harmless
    def finish(self) -> None:
        if self._watch is not None:
            self._watch.close()
