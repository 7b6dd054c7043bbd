"""Defines RayTunePruning, which stops Ray Tune trials whose runs have active flags."""

from __future__ import annotations

import os
from typing import Any

from ray import tune

from ._flags import KINDS, Flags
from ._recording import harmless, warn


def _folders(trial: Any) -> list[str]:
    """Returns a trial's working folder and its result folders. The attributes
    have different names in different versions of Ray."""
    found = [getattr(trial, "local_path", None), getattr(trial, "path", None)]
    try:
        found.insert(0, trial.storage.trial_working_directory)
    except (AttributeError, RuntimeError):  # the trial has not begun
        pass
    return [os.fspath(folder) for folder in found if folder]


class RayTunePruning(tune.Callback, tune.Stopper):
    """Stops a trial once its run has an active flag. Pass the same object both as a
    callback, which finds the trial's files, and as a stopper.

        prune = es.RayTunePruning("run.db")
        tune.Tuner(train, run_config=tune.RunConfig(callbacks=[prune], stop=prune))

    run       path of the run file, relative to the trial's working folder or its result
              folder; the tuner's process must be able to read the file
    severity  lowest severity that prunes: info, warning, error, critical
    kinds     kinds of flags that prune; None: all that entropy-scan knows

    The attribute `reasons` maps a trial's id to the reason why the trial was stopped."""

    def __init__(
        self,
        run: str,
        severity: str = "error",
        kinds: Any = KINDS,
    ) -> None:
        self._run = run
        self._flags = Flags(severity, kinds)
        self.reasons: dict[str, str] = {}
        self._has_missed = False

    @harmless
    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: Any, **_: Any
    ) -> None:
        path = self._path(trial)
        if path is not None and trial.trial_id not in self.reasons:
            said = self._flags.standing(path)
            if said is not None:
                self.reasons[trial.trial_id] = said

    @harmless
    def on_trial_complete(
        self, iteration: int, trials: list[Any], trial: Any, **_: Any
    ) -> None:
        if self._path(trial) is None and not self._has_missed:
            self._has_missed = True
            places = ", ".join(_folders(trial)) or "no folder"
            warn(f"{self._run}: not found in {places}: this trial could not be pruned")

    def _path(self, trial: Any) -> str | None:
        """Returns the path of the trial's run file; None if this process does not find
        the file."""
        paths = (os.path.join(folder, self._run) for folder in _folders(trial))
        return next((path for path in paths if os.path.exists(path)), None)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return trial_id in self.reasons

    def stop_all(self) -> bool:
        return False
