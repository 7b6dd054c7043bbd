"""Finds the active flags of a run that is being recorded, for the pruners of Optuna and
Ray Tune. A flag is active while its condition holds. The flags are the same as in
Run.flags; if they cannot be read, no exception is raised in the training."""

from __future__ import annotations

import os
from typing import Any

from . import _library
from ._reader import Run
from ._recording import warn


# The kinds of flags for which a trial is pruned by default. Other kinds, such
# as overload, also occur at the start of many healthy training runs.
KINDS = ("collapse", "nan")


class Flags:
    """Selects the flags for which a trial is pruned. severity: the lowest
    severity that counts; kinds: the kinds that count, None for all."""

    def __init__(self, severity: str = "error", kinds: Any = KINDS) -> None:
        if severity not in _library.SEVERITIES:
            names = ", ".join(_library.SEVERITIES)
            raise _library.Error(f"unknown severity {severity!r}: expected one of {names}")
        self._least = _library.SEVERITIES[severity]
        self._kinds = None if kinds is None else frozenset(kinds)
        self._has_warned = False

    def standing(self, path: str | os.PathLike[str]) -> str | None:
        """Describes in one line the active flags for which a trial is pruned.
        Returns None if there are none. Also returns None, and warns once, if
        the flags cannot be read."""
        if not os.path.exists(path):
            return None  # nothing has been recorded yet
        try:
            with Run(path) as run:
                ends = [s["last_step"] for s in run.series if s["name"] == "entropy"]
                if all(end is None for end in ends):
                    return None  # the first sample has not been written yet
                found = [flag for flag in run.flags if self._counts(flag)]
        except Exception as error:
            if not self._has_warned:
                self._has_warned = True
                warn(f"{path}: cannot read its flags: {error}; the training continues")
            return None
        if not found:
            return None
        said = ", ".join(
            f"{flag['kind']} ({flag['severity']}) since step {flag['onset']}"
            for flag in found
        )
        return f"{os.fspath(path)}: {said}"

    def _counts(self, flag: dict[str, Any]) -> bool:
        return (
            flag["stands"]
            and _library.SEVERITIES.get(flag["severity"], 0) >= self._least
            and (self._kinds is None or flag["kind"] in self._kinds)
        )
