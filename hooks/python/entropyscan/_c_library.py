"""Makes all calls of the C libraries, through cffi in ABI mode. Only this module
and `_declarations` know the libraries' structs."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import cffi
import numpy as np

from . import _declarations
from ._places import find, home, program
from ._run_file import (
    DONE,
    OK,
    PHASE_NAMES,
    PHASES,
    RUN_NUMBERS,
    RUN_TEXTS,
    RUN_TIMES,
    SEVERITIES,
    SHAPE_NAMES,
    SHAPES,
    STATUS_NAMES,
    STEP_FIRST,
    STEP_LAST,
    UNKNOWN,
    Error,
)
from ._series import HEAD_COUNTS, HEAD_FLOATS
from ._version import __version__

ffi = cffi.FFI()
ffi.cdef(_declarations.ALL)


def _new(name: str) -> Any:
    """Allocates a struct of the library and sets its first member to the struct's size."""
    made = ffi.new(f"{name} *")
    made.size = ffi.sizeof(name)
    return made


def _open(name: str) -> Any:
    path = find(f"{name}.so", f"{name}.so.*")
    if path is None:
        raise Error(
            f"{name}.so: not found in {home() or 'this installation'}: build "
            "it with make, or set ENTROPYSCAN_HOME"
        )
    try:
        library = ffi.dlopen(str(path))
    except OSError as error:
        raise Error(f"{path}: {error}") from None
    _check_version(path, library)
    return library


def _check_version(path: Path, library: Any) -> None:
    """Raises Error unless the library has the same version as this package, because
    struct layouts differ between versions."""
    try:
        version = string(library.es_version()) or "none"
    except AttributeError:
        version = "from before 0.1.0"
    if version != __version__:
        raise Error(
            f"{path}: its version is {version}, but this package is {__version__}: "
            "install both from the same source (in a source tree, run make)"
        )


def check() -> None:
    """Raises ImportError if the library's version differs from this package's or if the
    library cannot be loaded. Called when the package is imported. A missing library
    raises Error only when it is first used. Does not load the library that contains
    SQLite."""
    if find("libentropy*.so", "libentropy*.so.*") is None:
        return
    try:
        recording()
    except Error as error:
        raise ImportError(str(error)) from None


@functools.cache
def reading() -> Any:
    """Returns the library that reads run files. First loads the library of recording(),
    because the reading library depends on it."""
    if _has_two():
        recording()
    return _open("libentropyscan")


@functools.cache
def recording() -> Any:
    """Returns the library that records and computes: libentropyrecord, which does
    not contain SQLite, or libentropyscan if there is no separate recording library."""
    return _open("libentropyrecord" if _has_two() else "libentropyscan")


def _has_two() -> bool:
    return find("libentropyrecord.so", "libentropyrecord.so.*") is not None


def message(library: Any) -> str:
    """Returns the message of the last error in this thread."""
    return string(library.es_message()) or "no reason given"


def string(pointer: Any) -> str | None:
    """Decodes a string of the library, replacing invalid UTF-8; None for NULL."""
    if pointer == ffi.NULL:
        return None
    return ffi.string(pointer).decode("utf-8", "replace")


def text(value: str | None) -> Any:
    """Encodes a string for the library. Keep the result alive while the library
    reads it."""
    if value is None:
        return ffi.NULL
    return ffi.new("char[]", value.encode("utf-8", "replace").replace(b"\0", b" "))


# --- statistics ---------------------------------------------------------------

def _pointer(kind: str, address: int | None) -> Any:
    return ffi.cast(kind, address or 0)


def _shape(members: dict[str, Any]) -> Any:
    options = _new("es_attention_shape")
    for name, value in members.items():
        if name in ("key_mask", "query_mask"):
            value = _pointer("const unsigned char *", value)
        elif name in _INT_ARRAYS:
            value = _pointer("const int32_t *", value)
        elif name in ("sink_logits", "temperature"):
            value = _pointer("const float *", value)
        setattr(options, name, value)
    return options


_INT_ARRAYS = ("query_starts", "key_starts", "key_lengths", "query_offsets")


def _input(address: int, element: int, strides: tuple[int, int, int]) -> Any:
    given = ffi.new("es_entropy_input *")
    given.data = ffi.cast("const void *", address)
    given.type = element
    given.strides.batch, given.strides.head, given.strides.row = strides
    return given


def head_statistics(
    query: tuple[int, int, tuple[int, int, int]],
    key: tuple[int, int, tuple[int, int, int]],
    shape: dict[str, Any],
    n_threads: int,
) -> dict[str, np.ndarray] | str:
    """Calls es_qk_statistics. Returns a dict of arrays (H) whose keys are
    HEAD_FLOATS and HEAD_COUNTS, or the error message if the library refuses the
    arguments.

    query, key: (address, element type as es_entropy_type, strides of batch,
    head and row in elements). shape: members of es_attention_shape; arrays as
    addresses. The caller owns the memory and keeps it alive during the call."""
    library = recording()
    options = _shape(shape)
    inputs = [_input(*query), _input(*key)]
    heads = _new("es_heads")
    out = {}
    for name in HEAD_FLOATS:
        out[name] = np.empty(shape["n_heads"], np.float32)
        setattr(heads, name, ffi.cast("float *", out[name].ctypes.data))
    for name in HEAD_COUNTS:
        out[name] = np.empty(shape["n_heads"], np.int64)
        setattr(heads, name, ffi.cast("int64_t *", out[name].ctypes.data))
    status = library.es_qk_statistics(
        ffi.NULL, heads, inputs[0], inputs[1], options, n_threads
    )
    return out if status == OK else message(library)


# --- recording ----------------------------------------------------------------


class Recorder:
    """Wraps es_recorder. The constructor raises Error if opening fails; every
    later call returns an es_status."""

    def __init__(self, path: str, run: dict[str, Any], **options: Any) -> None:
        self._library = recording()
        keep = []

        def hold(value: str | None) -> Any:
            keep.append(text(value))
            return keep[-1]

        info = _new("es_run_info")
        for name in RUN_TEXTS:
            setattr(info, name, hold(run.get(name)))
        for name in RUN_NUMBERS:
            value = run.get(name)
            setattr(info, name, UNKNOWN if value is None else int(value))
        info.last_step = UNKNOWN
        given = _new("es_recorder_options")
        keep.append(ffi.new("char[]", os.fsencode(path)))
        given.path = keep[-1]
        given.run = info
        given.program = hold(
            os.environ.get("ENTROPY_RECORDER") or program("entropy-recorder")
        )
        for name, value in options.items():
            setattr(given, name, value)
        out = ffi.new("es_recorder **")
        if self._library.es_recorder_open(out, given) < 0:
            raise Error(message(self._library))
        self._recorder = out[0]

    def series(self, name: str, shape: str, phase: str, unit: str | None) -> int:
        """Declares a series. Returns its number, or -1 if the recorder refuses it."""
        number = ffi.new("int *", -1)
        self._library.es_recorder_series(
            self._recorder,
            number,
            text(name),
            SHAPES[shape],
            PHASES[phase],
            text(unit),
        )
        return number[0]

    def push(self, series: int, step: int, values: np.ndarray) -> int:
        values = np.ascontiguousarray(values, np.float32)
        return self._library.es_recorder_push(
            self._recorder,
            series,
            step,
            ffi.cast("const float *", values.ctypes.data),
            values.size,
        )

    def map(
        self,
        phase: str,
        step: int,
        layer: int,
        head: int | None,
        values: np.ndarray,
        n_ctx: int,
    ) -> int:
        """Records an attention map. values (S,S) float32; head None means the mean over
        the layer's heads."""
        values = np.ascontiguousarray(values, np.float32)
        return self._library.es_recorder_map(
            self._recorder,
            PHASE_NAMES.index(phase),
            step,
            layer,
            -1 if head is None else head,
            ffi.cast("const float *", values.ctypes.data),
            len(values),
            n_ctx,
        )

    def event(self, step: int | None, kind: str, severity: str, said: str) -> int:
        return self._library.es_recorder_event(
            self._recorder,
            UNKNOWN if step is None else step,
            text(kind),
            SEVERITIES[severity],
            text(said),
        )

    def stop_requested(self) -> bool:
        return bool(self._library.es_recorder_stop_requested(self._recorder))

    def message(self) -> str:
        return message(self._library)

    def close(self, status: str) -> tuple[int, dict[str, int]]:
        """Closes the recorder. Returns the status and the counts of frames. Call it
        only once."""
        report = _new("es_recorder_report")
        recorder, self._recorder = self._recorder, ffi.NULL
        code = self._library.es_recorder_close(
            recorder, STATUS_NAMES.index(status), report
        )
        names = ("pushed", "committed", "dropped", "lost")
        return code, {name: int(getattr(report, name)) for name in names}


# --- reading ------------------------------------------------------------------


def _number(value: int) -> int | None:
    return None if value == UNKNOWN else int(value)


class Reader:
    """Wraps es_reader. Every failure raises Error."""

    def __init__(self, path: str) -> None:
        self._library = reading()
        out = ffi.new("es_reader **")
        self._check(self._library.es_reader_open(out, text(path)))
        self._reader = ffi.gc(out[0], self._library.es_reader_close)

    def _check(self, status: int) -> int:
        if status < 0:
            raise Error(message(self._library))
        return status

    def close(self) -> None:
        ffi.release(self._reader)

    def refresh(self) -> None:
        self._check(self._library.es_reader_refresh(self._reader))

    def n_runs(self) -> int:
        return int(self._library.es_reader_n_runs(self._reader))

    def run(self, index: int) -> dict[str, Any]:
        info = _new("es_run_info")
        self._check(self._library.es_reader_run(self._reader, index, info))
        out: dict[str, Any] = {
            name: string(getattr(info, name))
            for name in (*RUN_TEXTS, *RUN_TIMES)
            if name != "config"
        }
        for name in (*RUN_NUMBERS, "last_step"):
            out[name] = _number(getattr(info, name))
        out["status"] = STATUS_NAMES[info.status]
        return out

    def config(self, index: int) -> dict[str, Any]:
        out = ffi.new("char **")
        self._check(self._library.es_reader_config(self._reader, index, out))
        if out[0] == ffi.NULL:
            return {}
        try:
            return json.loads(string(out[0]) or "{}")
        finally:
            _c_library().free(out[0])

    def series(self, index: int) -> list[dict[str, Any]]:
        found = _new("es_series")
        out = []
        for i in range(self._library.es_reader_n_series(self._reader, index)):
            self._check(self._library.es_reader_series(self._reader, index, i, found))
            out.append(
                {
                    "name": string(found.name),
                    "unit": string(found.unit),
                    "shape": SHAPE_NAMES[found.shape],
                    "phase": PHASE_NAMES[found.phase],
                    "first_step": _number(found.first_step),
                    "last_step": _number(found.last_step),
                }
            )
        return out

    def samples(
        self, index: int, name: str, phase: str
    ) -> tuple[np.ndarray, np.ndarray, str]:
        """Returns the steps (n), the values (n, values per sample) and the series'
        shape. Values have the same bits as in the file, so that a NaN and a missing
        value can be distinguished."""
        found = _new("es_series")
        self._check(
            self._library.es_reader_find(
                self._reader, index, text(name), PHASES[phase], found
            )
        )
        out = ffi.new("es_cursor **")
        self._check(
            self._library.es_cursor_open(
                out, self._reader, found, STEP_FIRST, STEP_LAST
            )
        )
        cursor = out[0]
        n, shape = int(found.n_values), SHAPE_NAMES[found.shape]
        step, values = ffi.new("int64_t *"), ffi.new("const float **")
        steps, blocks = [], []
        try:
            while True:
                status = self._library.es_cursor_next(cursor, step, values)
                if self._check(status) == DONE:
                    break
                steps.append(step[0])
                blocks.append(bytes(ffi.buffer(values[0], n * 4)))
        finally:
            self._library.es_cursor_close(cursor)
        data = np.frombuffer(b"".join(blocks), np.float32).reshape(len(steps), n)
        return np.array(steps, np.int64), data.copy(), shape

    def events(self, index: int) -> list[dict[str, Any]]:
        events, n = ffi.new("const es_event **"), ffi.new("size_t *")
        self._check(self._library.es_reader_events(self._reader, index, events, n))
        names = {number: name for name, number in SEVERITIES.items()}
        out = []
        for i in range(n[0]):
            event = events[0][i]
            out.append(
                {
                    "step": _number(event.step),
                    "kind": string(event.kind),
                    "severity": names.get(event.severity),
                    "layer": _number(event.layer),
                    "head": _number(event.head),
                    "message": string(event.message),
                    "at": string(event.at),
                }
            )
        return out


@functools.cache
def _c_library() -> Any:
    return ffi.dlopen(None)
