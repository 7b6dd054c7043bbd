"""Pruning of Ray Tune's trials by the flags of their runs."""

from __future__ import annotations

import os
from typing import Any

from ray import tune

from ._flags import KINDS, Flags


class RayTunePruning(tune.Callback, tune.Stopper):
    """Stops a trial whose run has a flag; a callback, which knows where trials
    have their files, and a stopper.

        prune = es.RayTunePruning("run.db")
        tune.Tuner(train, run_config=tune.RunConfig(callbacks=[prune], stop=prune))

    run       the run file, in the trial's folder; the tuner has to see it
    severity  from which on a flag prunes: info, warning, error, critical
    kinds     flags that prune; None: all that entropy-scan knows

    reasons has what stopped each trial, by its id."""

    def __init__(self, run: str, severity: str = "error", kinds: Any = KINDS) -> None:
        self._run = run
        self._flags = Flags(severity, kinds)
        self.reasons: dict[str, str] = {}

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: Any, **_: Any
    ) -> None:
        folder = getattr(trial, "local_path", None) or getattr(trial, "path", None)
        if folder is not None and trial.trial_id not in self.reasons:
            said = self._flags.standing(os.path.join(folder, self._run))
            if said is not None:
                self.reasons[trial.trial_id] = said

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return trial_id in self.reasons

    def stop_all(self) -> bool:
        return False
