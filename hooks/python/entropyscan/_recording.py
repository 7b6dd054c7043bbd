"""Records a run without disturbing the training: no call raises an exception. Lost
samples are counted, and the first failure is reported by a warning. The C library sends
the values to a separate process, entropy-recorder."""

from __future__ import annotations

import atexit
import functools
import json
import math
import os
import socket
import sys
import threading
import uuid
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _library
from ._arguments import STORES
from ._resume import find

_open_recordings: weakref.WeakSet[Recording] = weakref.WeakSet()


def warn(message: str) -> None:
    """Issues a warning, or prints it if the training's filters turn warnings into
    errors."""
    try:
        warnings.warn(f"entropyscan: {message}", RuntimeWarning, stacklevel=3)
    except Exception:
        print(f"entropyscan: {message}", file=sys.stderr)


def harmless(method: Callable[..., None]) -> Callable[..., None]:
    """Decorates a method that other libraries call during training: turns an exception
    into a warning, once for each object."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> None:
        try:
            method(self, *args, **options)
        except Exception as error:
            if not getattr(self, "_has_warned", False):
                self._has_warned = True
                name = f"{type(self).__name__}.{method.__name__}"
                warn(f"{name}: {error}; the training continues")

    return call


def as_json(value: Any, depth: int = 8) -> Any:
    """Converts a configuration to JSON values: dicts, dataclasses, namespaces and
    objects with to_dict become dicts, and other objects become strings. Never
    raises."""
    try:
        return _as_json(value, depth)
    except Exception as error:  # from the object's own methods
        return f"{type(value).__name__}: {type(error).__name__}"


def _as_json(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if depth == 0:
        return _text(value)
    for name in ("to_dict", "model_dump"):
        method = getattr(value, name, None)
        if callable(method) and not isinstance(value, type):
            try:
                return as_json(method(), depth - 1)
            except Exception:
                return _text(value)
    if isinstance(value, dict):
        return {_text(key): as_json(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(item, depth - 1) for item in value]
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return as_json(value.item(), depth - 1)  # scalars of NumPy and torch
    own = {} if callable(value) else getattr(value, "__dict__", {})
    own = {k: as_json(v, depth - 1) for k, v in own.items() if not k.startswith("_")}
    return own or _text(value)


def _text(value: Any) -> str:
    """Converts a value to a string and replaces characters that UTF-8 cannot encode."""
    return str(value).encode("utf-8", "replace").decode()


class Recording:
    """A run file that is being written. The file is opened at the first sample, when
    the numbers of layers and heads are known."""

    # Maximum number of times that the recorder is restarted after it died.
    MOST_RESTARTS = 3
    # Maximum number of events that are kept in memory until the file is open.
    MOST_WAITING = 100

    def __init__(
        self, path: str | os.PathLike[str], run: dict[str, Any], store: str = "auto"
    ) -> None:
        self.path = os.fspath(path)
        self._store = STORES.index(store)
        self.lost = 0  # number of samples that are known not to be in the file
        self.trouble: str | None = None
        self._n_said = 0  # number of lost samples that events in the file report
        self._waiting: list[tuple[int | None, str, str, str]] = []
        self._run = {
            **run,
            "uuid": run.get("uuid") or str(uuid.uuid4()),
            "host": socket.gethostname(),
        }
        self._recorder: _library.Recorder | None = None
        self._series: dict[tuple[str, str], int] = {}
        self._restarts = 0
        self._resume_step = 0
        self._new_uuid: str | None = None  # used if the earlier run cannot continue
        self._is_over = False
        self._has_given_up = False
        self._has_warned = False
        self._process = os.getpid()
        self._lock = threading.Lock()
        _open_recordings.add(self)

    # --- trouble ---------------------------------------------------------------

    def fail(self, message: str) -> None:
        """Stores the first message as `trouble` and warns once."""
        if self.trouble is None:
            self.trouble = message
        if not self._has_warned:
            self._has_warned = True
            warn(f"{message}; the training continues")

    @property
    def uuid(self) -> str:
        return self._run["uuid"]

    @property
    def is_elsewhere(self) -> bool:
        """True in a forked child, which does not record."""
        return self._process != os.getpid()

    @property
    def is_recording(self) -> bool:
        """True while samples are recorded; false in a forked child, after close() and
        after giving up."""
        return not self._is_over and not self.is_elsewhere

    def _give_up(self, message: str) -> None:
        self._is_over = self._has_given_up = True
        self.fail(f"{self.path}: not recording: {message}")

    def configure(self, key: str, value: Any) -> None:
        """Adds a key to the configuration that open() writes, unless the configuration
        already has the key."""
        config = self._run.get("config") or {}
        self._run["config"] = {key: value, **config}

    # --- opening ----------------------------------------------------------------

    def know(self, **known: Any) -> None:
        """Adds values to the description of the run that open() writes; existing values
        are not replaced."""
        for name, value in known.items():
            if self._run.get(name) is None:
                self._run[name] = value

    def resume(self, step: int, every: int, is_insisting: bool) -> None:
        """Makes open() continue an earlier run of the file at `step`, if _resume.find()
        finds a matching run. Call this method before open()."""
        if not self.is_recording:
            return
        try:
            found, why = find(self.path, self._run, step, every, is_insisting)
        except Exception as error:
            found, why = None, " ".join(str(error).split())
        if found is not None:
            self._new_uuid, self._run["uuid"] = self._run["uuid"], found
            self._resume_step = step
            said = f"the training continues at step {step}"
            self._waiting.insert(0, (step, "resumed", "info", said))
        elif why is not None:
            self._begin_anew(step, why)

    def _begin_anew(self, step: int, why: str) -> None:
        """Reports why a new run begins although the user may expect an earlier run to
        continue."""
        self.fail(f"{self.path}: a new run begins: {why}")
        self._waiting.insert(0, (step, "not_resumed", "warning", why))

    def open(self) -> bool:
        """Opens the file and begins the run; returns false if that fails."""
        if self._recorder is not None:
            return True
        if not self.is_recording:
            return False
        try:
            self._recorder = self._opened()
        except _library.Error as error:
            if self._new_uuid is None:
                self._give_up(str(error))
                return False
            # Begin a new run, because the earlier run cannot continue; for example, its
            # fragment has been converted to a run file.
            self._run["uuid"], self._new_uuid = self._new_uuid, None
            self._waiting.pop(0)
            self._begin_anew(self._resume_step, str(error))
            self._resume_step = 0
            return self.open()
        self._new_uuid = None
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self._recorder.event(*one)
        return True

    def _opened(self) -> _library.Recorder:
        config = self._run.get("config")
        run = {**self._run, "config": None if config is None else _json_text(config)}
        return _library.Recorder(
            self.path,
            run,
            answer_ms=10000,
            resume_step=self._resume_step,
            store=self._store,
        )

    def _restart(self, step: int) -> bool:
        """Starts a new recorder after the previous one died, to continue the same run
        at `step`. Returns false if that fails."""
        said = self._recorder.message() if self._recorder else ""
        # Subtract the current sample from the recorder's count of lost samples, because
        # it is pushed again.
        lost = max(0, self._close_recorder("failed") - 1)
        self.lost += lost
        self._recorder = None
        self._series = {}
        if self._restarts >= self.MOST_RESTARTS:
            self._give_up(f"the recorder died {self._restarts + 1} times: {said}")
            return False
        self._restarts += 1
        self.fail(f"{self.path}: {said}; {lost} samples lost")
        self._resume_step = step
        if not self.open():
            return False
        self._recorder.event(
            step, "gap", "warning", f"the recorder died: {lost} samples lost"
        )
        self._n_said += lost
        return True

    # --- samples ------------------------------------------------------------------

    def push(
        self,
        name: str,
        step: int,
        values: Any,
        shape: str = "run",
        phase: str = "train",
        unit: str | None = None,
    ) -> None:
        """Records one sample. values has the shape of the series. NaN and missing values are
        stored bit for bit."""
        with self._lock:
            if self._has_given_up:
                self.lost += 1
            if self._recorder is None or not self.is_recording:
                return
            values = np.asarray(values, np.float32)
            status = self._push(name, step, values, shape, phase, unit)
            if status == _library.EBROKEN and self._restart(step):
                status = self._push(name, step, values, shape, phase, unit)
            if status >= 0:
                return
            self.lost += 1
            if not self._is_over:
                self.fail(f"{self.path}: {self._recorder.message()}")

    def _push(
        self,
        name: str,
        step: int,
        values: np.ndarray,
        shape: str,
        phase: str,
        unit: str | None,
    ) -> int:
        assert self._recorder is not None
        key = (name, phase)
        if key not in self._series:
            self._series[key] = self._recorder.series(name, shape, phase, unit)
        return self._recorder.push(self._series[key], step, values)

    def map(
        self,
        phase: str,
        step: int,
        layer: int,
        head: int | None,
        values: np.ndarray,
        n_ctx: int,
    ) -> None:
        """Records an attention map. If the recorder dies and the map is lost, the map
        is not sent again."""
        with self._lock:
            if self._recorder is None or not self.is_recording:
                return
            if self._recorder.map(phase, step, layer, head, values, n_ctx) < 0:
                self.lost += 1
                self.fail(f"{self.path}: {self._recorder.message()}")

    def event(
        self, step: int | None, kind: str, message: str, severity: str = "info"
    ) -> None:
        if severity not in _library.SEVERITIES:
            known = ", ".join(_library.SEVERITIES)
            raise ValueError(f"unknown severity {severity!r}: expected one of {known}")
        with self._lock:
            if not self.is_recording:
                return
            if self._recorder is not None:
                self._recorder.event(step, kind, severity, message)
            elif len(self._waiting) < self.MOST_WAITING:
                self._waiting.append((step, kind, severity, message))

    def stop_requested(self) -> bool:
        return (
            self._recorder is not None
            and self.is_recording
            and self._recorder.stop_requested()
        )

    # --- the end ------------------------------------------------------------------

    def _close_recorder(self, status: str) -> int:
        """Closes the recorder and returns the number of lost samples."""
        if self._recorder is None:
            return 0
        _, report = self._recorder.close(status)
        return report["lost"] + report["dropped"]

    def close(self, status: str = "finished") -> None:
        """Waits until the file has all samples, then closes it. May be called more than
        once."""
        _open_recordings.discard(self)
        if status not in _library.STATUS_NAMES:
            known = ", ".join(_library.STATUS_NAMES[1:])
            self.fail(
                f"{self.path}: unknown status {status!r}: expected one of {known}: "
                "recorded as finished"
            )
            status = "finished"
        if self._process != os.getpid():
            return
        with self._lock:
            self._is_over = True
            if self._recorder is None:
                return
            recorder, self._recorder = self._recorder, None
            n_lost = self.lost - self._n_said
            if n_lost > 0:
                said = f"{n_lost} samples are not in the file: {self.trouble}"
                recorder.event(None, "gap", "warning", said)
            code, report = recorder.close(status)
            self.lost += report["lost"] + report["dropped"]
            if code < 0:
                self.fail(f"{self.path}: {recorder.message()}")


def _json_text(config: Any) -> str:
    value = as_json(config)
    return json.dumps(value if isinstance(value, dict) else {"config": value})


def _close_all() -> None:
    """Closes the recordings that are still open when the interpreter ends: with the
    status failed after an uncaught exception, and stopped otherwise."""
    status = "failed" if getattr(sys, "last_type", None) else "stopped"
    for recording in list(_open_recordings):
        recording.close(status)


def _forget_all() -> None:
    """Forgets all recordings in a forked child, because they belong to the parent."""
    _open_recordings.clear()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
