"""Defines OptunaPruning, which prunes Optuna trials whose runs have active flags."""

from __future__ import annotations

import os
from typing import Any

import optuna

from ._arguments import whole
from ._flags import KINDS, Flags
from ._recording import warn


class OptunaPruning:
    """Prunes a trial once its run has an active flag.

        with es.watch(model, f"trial{trial.number}.db") as rec:
            prune = es.OptunaPruning(trial, rec, every=50)
            for batch in data:
                ...
                rec.step(loss=loss)
                prune()             # raises optuna.TrialPruned

    run       a watch, or the path of a run file
    severity  lowest severity that prunes: info, warning, error, critical
    kinds     kinds of flags that prune; None: all that entropy-scan knows
    every     number of calls between two checks of the file; a check starts
              entropy-scan, which reads the whole file

    The reason is stored as the trial's user attribute `entropy_scan`. A call raises an exception
    only to prune the trial."""

    def __init__(
        self,
        trial: optuna.Trial,
        run: Any,
        severity: str = "error",
        kinds: Any = KINDS,
        every: int = 1,
    ) -> None:
        self._trial, self._run = trial, run
        self._flags = Flags(severity, kinds)
        self._every, self._n_calls = whole("every", every, 1), 0

    def __call__(self) -> None:
        self._n_calls += 1
        if self._n_calls % self._every:
            return
        path = (
            self._run if isinstance(self._run, (str, os.PathLike)) else self._run.path
        )
        said = self._flags.standing(path)
        if said is None:
            return
        if path is not self._run:
            self._run.event("pruned", said, "warning")
            self._run.close("stopped")
        try:
            self._trial.set_user_attr("entropy_scan", said)
        except Exception as error:  # from the study's storage
            warn(f"trial {self._trial.number}: cannot store why it was pruned: {error}")
        raise optuna.TrialPruned(said)
