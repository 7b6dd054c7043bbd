"""Standing flags of a run that is being recorded, for what prunes trials: one
way for all of them, that of Run.flags. Looking never raises into a training."""

from __future__ import annotations

import os
from typing import Any

from . import _library
from ._reader import Run
from ._recording import warn


# Others, such as overload, stand at the start of many a good training.
KINDS = ("collapse", "nan")

# By which threshold of entropy-scan's: that of stop is higher.
FORECAST = {"warning": "--forecast", "stop": "--forecast=stop"}


class Flags:
    """severity: from which on a flag counts; kinds: which count, all if None;
    forecast: whether the early warning does, whatever its severity."""

    def __init__(
        self, severity: str = "error", kinds: Any = KINDS, forecast: str | None = None
    ) -> None:
        if severity not in _library.SEVERITIES:
            names = ", ".join(_library.SEVERITIES)
            raise _library.Error(f"severity {severity!r}: there are {names}")
        self._least = _library.SEVERITIES[severity]
        self._kinds = None if kinds is None else frozenset(kinds)
        if forecast is not None and forecast not in FORECAST:
            names = ", ".join(FORECAST)
            raise _library.Error(f"forecast {forecast!r}: there are {names}")
        self._options = (FORECAST[forecast],) if forecast else ()
        self._has_warned = False

    def standing(self, path: str | os.PathLike[str]) -> str | None:
        """What stands, in one line; None if nothing does, or nobody knows."""
        if not os.path.exists(path):
            return None  # nothing is recorded so far
        try:
            with Run(path) as run:
                ends = [s["last_step"] for s in run.series if s["name"] == "entropy"]
                if all(end is None for end in ends):
                    return None  # the file follows the training
                judged = run._judged(*self._options)
                found = [flag for flag in judged if self._counts(flag)]
        except Exception as error:
            if not self._has_warned:
                self._has_warned = True
                warn(f"{path}: its flags are not known: {error}; the training goes on")
            return None
        if not found:
            return None
        said = ", ".join(
            f"{flag['kind']} ({flag['severity']}) since step {flag['onset']}"
            for flag in found
        )
        return f"{os.fspath(path)}: {said}"

    def _counts(self, flag: dict[str, Any]) -> bool:
        if self._options and flag["kind"] == "forecast":
            return bool(flag["stands"])
        return (
            flag["stands"]
            and _library.SEVERITIES.get(flag["severity"], 0) >= self._least
            and (self._kinds is None or flag["kind"] in self._kinds)
        )
