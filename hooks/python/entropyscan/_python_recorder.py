"""The recorder for installations without the C library. It has the same methods as
`_c_library.Recorder`. As with the C recorder, a separate process (`_python_writer`)
writes the file: each push puts a frame into a queue, and a thread sends the frame to
the standard input of the writer process. If the queue is full, frames are dropped and
counted. The process ends when the pipe is closed."""

from __future__ import annotations

import collections
import json
import os
import re
import struct
import subprocess
import sys
import threading
import weakref
from typing import Any

import numpy as np

from ._run_file import (
    EARGUMENT,
    EBROKEN,
    EFORK,
    EFULL,
    MAP_MEAN,
    MOST_CELLS,
    MOST_EVENT,
    MOST_HEADS,
    MOST_LAYERS,
    MOST_NAME,
    MOST_SERIES,
    MOST_STEP,
    MOST_TEXT,
    MOST_VALUES,
    OK,
    RUN_NUMBERS,
    RUN_TEXTS,
    Error,
    n_values,
)

MOST_WAITING = 8 << 20  # bytes of frames in the queue
FRAME = struct.Struct("<II")  # sizes in bytes of the head, which is JSON, and the values
START = "import sys; sys.path[:] = {path!r}; from entropyscan._python_writer import main; main()"

_open_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _text(value: Any) -> str | None:
    """Converts a value to text that can be stored in a file as UTF-8."""
    if value is None:
        return None
    return str(value).encode("utf-8", "replace").decode().replace("\0", " ")


def _described(path: str, run: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of a run for the columns of the table `run`. Raises Error if a
    value is invalid."""
    out: dict[str, Any] = {name: _text(run.get(name)) for name in RUN_TEXTS}
    for name in RUN_NUMBERS:
        out[name] = None if run.get(name) is None else int(run[name])
    layers, heads = out["n_layer"], out["n_head"]
    is_shape = 1 <= layers <= MOST_LAYERS and 1 <= heads <= MOST_HEADS
    if not is_shape or layers * heads > MOST_VALUES:
        raise Error(f"{path}: a run cannot have {layers} layers with {heads} heads each")
    if out["uuid"] is not None and not re.fullmatch("[0-9a-fA-F-]{36}", out["uuid"]):
        raise Error(f"{path}: not a UUID: {out['uuid']}")
    for name in RUN_TEXTS:
        if len((out[name] or "").encode()) > MOST_TEXT:
            raise Error(f"{path}: {name} is longer than {MOST_TEXT} bytes")
    return out


def frame(head: Any, values: bytes = b"") -> bytes:
    text = json.dumps(head).encode()
    return FRAME.pack(len(text), len(values)) + text + values


class _Queue:
    """A queue of frames; a thread writes the frames into a pipe."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe
        self._frames: collections.deque[bytes] = collections.deque()
        self._n_bytes = 0
        self._is_open = True
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def put(self, data: bytes) -> bool:
        """Appends a frame; returns false if the queue is full."""
        with self._changed:
            if self._frames and self._n_bytes + len(data) > MOST_WAITING:
                return False
            self._frames.append(data)
            self._n_bytes += len(data)
            self._changed.notify()
        return True

    def close(self, last: bytes) -> None:
        """Appends a last frame, even if the queue is full; the pipe is closed after
        this frame."""
        with self._changed:
            self._frames.append(last)
            self._is_open = False
            self._changed.notify()

    def _write(self) -> None:
        try:
            while True:
                with self._changed:
                    while not self._frames and self._is_open:
                        self._changed.wait()
                    if not self._frames:
                        break
                    data = self._frames.popleft()
                    self._n_bytes -= len(data)
                left = memoryview(data)
                while left:
                    left = left[self._pipe.write(left) :]
        except (OSError, ValueError):
            pass  # the process has ended, which Recorder._listen notices
        finally:
            try:
                self._pipe.close()
            except OSError:
                pass


class Recorder:
    """Records a run. The constructor raises Error if opening fails; every later call
    returns an es_status."""

    def __init__(
        self,
        path: str,
        run: dict[str, Any],
        answer_ms: int = 30000,
        resume_step: int = 0,
        store: int = 0,
    ) -> None:
        if store == 2:  # ES_STORE_FRAGMENT
            words = "cannot record fragments without the C library: use store='sqlite'"
            raise Error(f"{path}: {words}")
        self._path, self._answer_s = path, answer_ms / 1000
        run = _described(path, run)
        self._n_layer, self._n_head = run["n_layer"], run["n_head"]
        self._owner = os.getpid()
        self._message = ""
        self._shapes: list[str] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._pushed = self._dropped = self._missed = self._committed = 0
        self._stop = False
        self._last: dict[str, Any] | None = None  # the process' final report
        self._heard = threading.Condition()
        self._is_opened = self._is_gone = False
        self._process = self._start()
        _open_recorders.add(self)
        self._queue = _Queue(self._process.stdin)
        threading.Thread(target=self._listen, daemon=True).start()
        self._queue.put(frame(self._hello(run, resume_step)))
        self._await_opening()

    def _hello(self, run: dict[str, Any], resume_step: int) -> dict[str, Any]:
        folder, name = os.path.split(self._path)
        place = os.path.join(os.path.realpath(folder), name)  # the folder without links
        return {
            "path": os.fsencode(place).hex(),
            "shown": _text(self._path),
            "trainer": self._owner,
            "run": run,
            "resume_step": resume_step,
        }

    def _start(self) -> subprocess.Popen[bytes]:
        """Starts the writer process with the module search path of this process."""
        places = [os.path.abspath(place) for place in sys.path]
        places.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        command = [sys.executable, "-c", START.format(path=places)]
        environment = {**os.environ, "ENTROPYSCAN_PURE": "1"}
        try:
            return subprocess.Popen(
                command,
                env=environment,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        except OSError as error:
            raise Error(f"{self._path}: {sys.executable}: {error.strerror}") from None

    def _listen(self) -> None:
        """Reads reports from the writer, which are lines of JSON, until the writer ends."""
        try:
            for line in iter(self._process.stdout.readline, b""):
                said = json.loads(line)
                with self._heard:
                    self._committed = said.get("committed", self._committed)
                    self._stop = self._stop or "stop" in said
                    self._is_opened = self._is_opened or "opened" in said
                    if "end" in said:
                        self._last = said
                    self._heard.notify_all()
        except (OSError, ValueError):
            pass
        with self._heard:
            self._is_gone = True
            self._heard.notify_all()

    def _await(self) -> bool:
        """Waits for the next report of the writer; returns false on a timeout."""
        return self._heard.wait(self._answer_s)

    def _await_opening(self) -> None:
        with self._heard:
            while not (self._is_opened or self._is_gone or self._last):
                if not self._await():
                    self._process.kill()
                    raise Error(f"{self._path}: {self._who()} does not answer")
        if not self._is_opened:
            self._process.wait()
            raise Error(self._said() or f"{self._path}: {self._who()} ended at once")

    def _who(self) -> str:
        return f"the recorder (pid {self._process.pid})"

    def _said(self) -> str:
        return (self._last or {}).get("message") or ""

    def _fail(self, code: int, message: str) -> int:
        self._message = f"{self._path}: {message}"
        return code

    # --- frames ---------------------------------------------------------------

    def _check(self) -> int:
        """Returns OK if a frame can be sent, EFORK in a forked child, or EBROKEN if the
        writer has ended."""
        if self._owner != os.getpid():
            words = "a forked child cannot record: open another recorder and file there"
            return self._fail(EFORK, words)
        if self._is_gone:
            self._fail(EBROKEN, f"{self._who()} has ended: recording stops")
            self._message = self._said() or self._message
            return EBROKEN
        return OK

    def _send(self, head: Any, values: bytes = b"") -> int:
        """Sends a frame to the writer and counts it, for the result of close()."""
        status = self._check()
        if status != OK:
            self._missed += status == EBROKEN
            return status
        if self._queue.put(frame(head, values)):
            self._pushed += 1
            return OK
        self._dropped += 1
        return self._fail(EFULL, f"the queue is full: {self._who()} is too slow")

    def series(self, name: str, shape: str, phase: str, unit: str | None) -> int:
        """Declares a series. Returns its number, or -1 if the recorder refuses it."""
        name, unit = _text(name) or "", _text(unit)
        number = self._numbers.get((name, phase), len(self._shapes))
        is_new = number == len(self._shapes)
        if self._check() != OK:
            return -1
        if not name or max(len(name.encode()), len((unit or "").encode())) > MOST_NAME:
            words = f"a series needs a name; name and unit: at most {MOST_NAME} bytes each"
            return self._fail(-1, words)
        if number >= MOST_SERIES:
            return self._fail(-1, f"more than {MOST_SERIES} series")
        if not is_new and self._shapes[number] != shape:
            before = self._shapes[number]
            return self._fail(-1, f"series {name} is already declared with shape {before}")
        if is_new:
            if not self._queue.put(frame(["series", number, name, shape, phase, unit])):
                return self._fail(-1, f"the queue is full: {self._who()} is too slow")
            self._numbers[name, phase] = number
            self._shapes.append(shape)
        return number

    def push(self, series: int, step: int, values: np.ndarray) -> int:
        values = np.ascontiguousarray(values, "<f4")
        if not self._is_gone and not 0 <= series < len(self._shapes):
            return self._fail(EARGUMENT, f"series number {series} does not exist")
        if not 0 <= step <= MOST_STEP:
            return self._fail(EARGUMENT, f"step {step}: expected a step from 0 on")
        if not self._is_gone:
            wanted = n_values(self._shapes[series], self._n_layer, self._n_head)
            if values.size != wanted:
                words = f"{values.size} values given for series {series}: expected {wanted}"
                return self._fail(EARGUMENT, words)
        return self._send(["sample", series, int(step)], values.tobytes())

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
        values = np.ascontiguousarray(values, "<f4")
        head, size = MAP_MEAN if head is None else int(head), len(values)
        is_head = 0 <= layer < self._n_layer and MAP_MEAN <= head < self._n_head
        is_size = 1 <= size <= min(MOST_CELLS, n_ctx) and values.shape == (size, size)
        if not (is_head and is_size and 0 <= step <= MOST_STEP and n_ctx < 2**31):
            words = f"an attention map of layer {layer}, head {head}, {values.shape} cells"
            return self._fail(EARGUMENT, f"{words}, step {step}: out of bounds")
        place = [phase, int(step), int(layer), head, size, int(n_ctx)]
        return self._send(["map", *place], values.tobytes())

    def event(self, step: int | None, kind: str, severity: str, said: str) -> int:
        kind, text = _text(kind) or "", _text(said)
        if not kind or len(f"{kind}{text or ''}".encode()) > MOST_EVENT:
            words = f"an event needs a kind and may have at most {MOST_EVENT} bytes"
            return self._fail(EARGUMENT, words)
        step = None if step is None else int(step)
        return self._send(["event", step, kind, severity, text])

    def stop_requested(self) -> bool:
        return self._owner == os.getpid() and self._stop

    def message(self) -> str:
        return self._message or "no reason given"

    # --- the end --------------------------------------------------------------

    def close(self, status: str) -> tuple[int, dict[str, int]]:
        """Closes the recorder. Returns the status and the counts of frames. Call it
        only once."""
        _open_recorders.discard(self)
        if self._owner != os.getpid():
            return self._check(), dict.fromkeys(("pushed", "committed", "dropped", "lost"), 0)
        self._queue.close(frame(["end", status, self._dropped]))
        with self._heard:
            while not (self._last or self._is_gone):
                if not self._await():
                    self._process.kill()
                    break
        self._process.wait()
        code, lost = self._judge()
        counts = (self._pushed, self._committed, self._dropped, lost)
        return code, dict(zip(("pushed", "committed", "dropped", "lost"), counts))

    def _judge(self) -> tuple[int, int]:
        """Returns the status that close() reports, and the number of lost frames."""
        lost = max(0, self._pushed - self._committed) + self._missed
        if self._last is not None and not self._said() and not lost:
            return OK, 0
        self._fail(EBROKEN, f"{self._who()} ended too early")
        self._message = self._said() or self._message
        if lost:
            self._message += f" ({lost} frames lost)"
        return EBROKEN, lost


def _let_go() -> None:
    """Closes the pipes in a forked child. Otherwise the child would keep them open
    after the training process has ended."""
    for recorder in list(_open_recorders):
        for pipe in (recorder._process.stdin, recorder._process.stdout):
            try:
                pipe.close()  # unbuffered, so this takes no lock
            except OSError:
                pass
    _open_recorders.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
