"""Provides what a watch reports while it records: the latest values for rec.last() and
for the user's tracker, the number of active flags, and one line when the watch
closes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _library

# The summaries of each layer and of the model that rec.last() returns. Each has
# a series and a function that reduces the series over the heads.
_LAYER = {"entropy_mean": ("entropy", np.mean), "max_logit": ("max_logit", np.max)}
_MODEL = {
    **_LAYER,
    "entropy_min": ("entropy", np.min),
    "nonfinite_rows": ("nonfinite_rows", np.sum),
}


class Latest:
    """Holds the values of the last recorded training step by series name: float32 (L,H)
    for series of heads, (L) for series of layers."""

    def __init__(self) -> None:
        self.step: int | None = None
        self._values: dict[str, np.ndarray] = {}

    def keep(self, step: int, values: dict[str, np.ndarray]) -> None:
        if step != self.step:
            self._values = {}
        self.step = step
        self._values.update(values)

    def array(self, name: str) -> np.ndarray | None:
        found = self._values.get(name)
        if found is None and self._values:
            known = ", ".join(self._values)
            raise ValueError(f"last({name!r}): unknown series; step {self.step} has {known}")
        return None if found is None else found.copy()

    def flat(self, heads: bool = False) -> dict[str, Any]:
        """Returns a dict of the values under names for trackers, such as
        attn/L3/max_logit. Missing values have no key."""
        if self.step is None:
            return {}
        out: dict[str, Any] = {"attn/step": self.step}
        _reduce(out, "attn", _MODEL, self._values)
        for name, values in self._values.items():
            for place in np.ndindex(values.shape):
                if values.ndim == 1 or heads:
                    _put(out, f"{_name(place)}/{name}", values[place])
        entropy = self._values.get("entropy", np.empty((0, 0)))
        for layer in range(len(entropy)):
            of_layer = {n: v[layer] for n, v in self._values.items() if v.ndim == 2}
            _reduce(out, f"attn/L{layer}", _LAYER, of_layer)
        return out


def _name(place: tuple[int, ...]) -> str:
    return "/".join(("attn", *(f"{axis}{i}" for axis, i in zip("LH", place))))


def _reduce(
    out: dict[str, Any],
    prefix: str,
    table: dict[str, tuple[str, Callable[..., Any]]],
    values: dict[str, np.ndarray],
) -> None:
    for name, (series, reduction) in table.items():
        found = values.get(series)
        if found is not None:
            measured = found[found.view(np.uint32) != _library.MISSING_BITS]
            if measured.size:
                out[f"{prefix}/{name}"] = float(reduction(measured))


def _put(out: dict[str, Any], name: str, value: np.float32) -> None:
    if value.view(np.uint32) != _library.MISSING_BITS:
        out[name] = float(value)


class Tracker:
    """Passes values to the user's callable (values, step=), such as wandb.log."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._is_defined = False

    def __call__(self, values: dict[str, Any]) -> None:
        owner = getattr(self._call, "__self__", None)
        if not type(owner).__module__.startswith("wandb."):
            self._call(values, step=values["attn/step"])
            return
        # W&B drops values whose step is below its own step count. With a separate step
        # metric no value is dropped, however often the user calls wandb.log.
        if not self._is_defined:
            owner.define_metric("attn/*", step_metric="attn/step")
            self._is_defined = True
        self._call(values)


# --- flags --------------------------------------------------------------------


def _command(path: str, uuid: str) -> list[str] | None:
    program = _library.program("entropy-scan")
    return program and [program, path, f"--where=uuid={uuid}", "--json"]


def _flags(output: str) -> list[dict[str, Any]]:
    """Returns the active flags of one run from the output of `entropy-scan --json`."""
    return [flag for flag in json.loads(output)["runs"][0]["flags"] if flag["stands"]]


def _is_grave(flag: dict[str, Any]) -> bool:
    severity = _library.SEVERITIES.get(flag["severity"], 0)
    return severity >= _library.SEVERITIES["warning"]


class Standing:
    """Counts the active flags of severity warning or above in a growing file.
    entropy-scan reads the file in the background, and runs at most 5 % of the time."""

    LEAST_SECONDS = 5.0

    def __init__(self, path: str, uuid: str) -> None:
        self._command = _command(path, uuid)
        self._process: subprocess.Popen[bytes] | None = None
        self._output: Any = None
        self._began = self._next = 0.0
        self._count: int | None = None

    def count(self) -> int | None:
        """Returns the latest number of flags, or None before the first count. If the
        next count is due, starts entropy-scan in the background."""
        now = time.monotonic()
        if self._process is not None and self._process.poll() is not None:
            self._next = now + max(self.LEAST_SECONDS, 20 * (now - self._began))
            if self._process.returncode in (0, 1):
                self._output.seek(0)
                found = _flags(self._output.read().decode("utf-8", "replace"))
                self._count = sum(map(_is_grave, found))
            self.close()
        if self._process is None and self._command and now >= self._next:
            self._began = now
            self._output = tempfile.TemporaryFile()
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.DEVNULL,
            )
        return self._count

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._output.close()


# --- the end --------------------------------------------------------------------

# The longest time in seconds that a closing watch waits for the flags of its run.
_MOST_SECONDS = 10.0


def verdict(path: str, uuid: str) -> str | None:
    """Returns a summary of the active flags, "ok" if there are none, or None if the
    flags cannot be read."""
    command = _command(path, uuid)
    try:
        done = subprocess.run(command or [], capture_output=True, timeout=_MOST_SECONDS)
        flags = _flags(done.stdout.decode("utf-8", "replace"))
    except Exception:  # the summary is optional
        return None
    said = [
        f"{flag['kind']} ({flag.get('verdict', flag['severity'])}) "
        f"since step {flag['onset']}"
        for flag in flags
    ]
    return ", ".join(said) or "ok"


def say(path: str, *parts: str | None) -> None:
    """Prints one line about the run on standard error. The line ends with a command that displays
    the run."""
    near = os.path.relpath(path)
    name = path if near.startswith("..") else near
    known = ", ".join(part for part in parts if part)
    command = f"entropy-scan {shlex.quote(name)} --heatmap"
    try:
        print(f"{name}: {known} ({command})", file=sys.stderr)
    except Exception:  # standard error may be closed
        pass
