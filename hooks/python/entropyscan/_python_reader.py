"""The reader for installations without the C library. It has the same methods as
`_c_library.Reader` and reads run files with sqlite3, read-only. A sample that does not
match its checksum is returned as missing, and an event reports it."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ._run_file import (
    MISSING_BITS,
    MOST_HEADS,
    MOST_LAYERS,
    MOST_VALUES,
    PHASE_NAMES,
    RUN_NUMBERS,
    RUN_TEXTS,
    RUN_TIMES,
    SEVERITIES,
    SHAPE_NAMES,
    STATUS_NAMES,
    Error,
    check_schema,
    checksums,
    has_row_checksums,
    n_values,
    row_checksums,
    series_checksum,
)

MOST_DAMAGED = 1000  # damaged samples of one call that are kept as events


def _decoded(text: bytes) -> str:
    return text.split(b"\0")[0].decode("utf-8", "replace")


def _refuse(path: str) -> None:
    """Raises Error if `path` is not a run file or is a run file that this reader cannot
    read."""
    if "://" in path or path.endswith(".esf"):
        words = "fragments and databases are read by the C library, which is not installed"
        raise Error(f"{path}: {words}: convert it to a run file with entropy-scan merge")
    try:
        found = os.stat(path)
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise Error(f"{path}: not a regular file")
    with open(path, "rb") as file:
        if file.read(16) != b"SQLite format 3\0":
            raise Error(f"{path}: not a run file: not a SQLite database")
    if os.path.lexists(f"{path}-journal"):
        words = "a rollback journal exists next to it: recover the file with sqlite3"
        raise Error(f"{path}: {words}, or restore a copy")


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a method of Reader so that it raises Error instead of sqlite3's
    exceptions."""

    def call(self: Reader, *args: Any) -> Any:
        try:
            return method(self, *args)
        except sqlite3.Error as error:
            raise Error(f"{self._path}: {error}") from None

    return call


class Reader:
    """Reads the runs of a file. Every failure raises Error."""

    @_checked
    def __init__(self, path: str) -> None:
        self._path = path
        _refuse(path)
        uri = f"{Path(path).resolve().as_uri()}?mode=ro"
        self._database = sqlite3.connect(uri, timeout=5, uri=True, check_same_thread=False)
        self._database.text_factory = _decoded
        for setting in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0"):
            self._database.execute(f"PRAGMA {setting}")
        self._schema = check_schema(self._database, path)
        self._damaged: dict[int, set[tuple[int, str, str]]] = {}
        self.refresh()

    def close(self) -> None:
        self._database.close()

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        return self._database.execute(sql, values).fetchall()

    @_checked
    def refresh(self) -> None:
        names = ("run_id", *RUN_TEXTS, *RUN_NUMBERS, *RUN_TIMES, "last_step", "status")
        found = self._rows(f"SELECT {', '.join(names)} FROM run ORDER BY run_id")
        runs = [dict(zip(names, row)) for row in found]
        for run in runs:
            layers, heads = run["n_layer"], run["n_head"]
            is_shape = 1 <= layers <= MOST_LAYERS and 1 <= heads <= MOST_HEADS
            if not is_shape or layers * heads > MOST_VALUES or run["status"] not in STATUS_NAMES:
                raise Error(f"{self._path}: damaged: run {run['run_id']} is out of bounds")
        self._runs = runs

    def n_runs(self) -> int:
        return len(self._runs)

    def run(self, index: int) -> dict[str, Any]:
        run = self._runs[index]
        return {name: run[name] for name in run if name not in ("run_id", "config")}

    def config(self, index: int) -> dict[str, Any]:
        try:
            found = json.loads(self._runs[index]["config"] or "{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @_checked
    def series(self, index: int) -> list[dict[str, Any]]:
        columns = ("series_id", "name", "unit", "shape", "phase")
        found = self._rows(
            f"SELECT {', '.join(columns)} FROM series WHERE run_id = ? ORDER BY name, phase DESC",
            self._runs[index]["run_id"],
        )
        out = []
        for row in found:
            one = dict(zip(columns, row))
            if one["shape"] not in SHAPE_NAMES or one["phase"] not in PHASE_NAMES:
                raise Error(f"{self._path}: damaged: series {one['name']}: no such shape or phase")
            query = "SELECT min(step), max(step) FROM sample WHERE series_id = ?"
            ((first, last),) = self._rows(query, one.pop("series_id"))
            out.append({**one, "first_step": first, "last_step": last})
        return out

    def _find(self, index: int, name: str, phase: str) -> tuple[int, str]:
        """Returns the id and the shape of a series."""
        own = "FROM series WHERE run_id = ?", self._runs[index]["run_id"]
        for number, *is_, shape in self._rows(f"SELECT series_id, name, phase, shape {own[0]}", own[1]):
            if is_ == [name, phase] and shape in SHAPE_NAMES:
                return number, shape
        there = self._rows(f"SELECT name || ' (' || phase || ')' {own[0]} ORDER BY name", own[1])
        listed = ", ".join(text for (text,) in there[:20]) or "none"
        raise Error(f"{self._path}: no series {name} ({phase}); there are: {listed}")

    @_checked
    def samples(
        self, index: int, name: str, phase: str
    ) -> tuple[np.ndarray, np.ndarray, str]:
        """Returns the steps (n), the values (n, values per sample) and the series'
        shape. Values have the same bits as in the file, so that a NaN and a missing
        value can be distinguished."""
        run = self._runs[index]
        number, shape = self._find(index, name, phase)
        n = n_values(shape, run["n_layer"], run["n_head"])
        crc = "crc" if self._schema > 1 else "NULL"
        query = f"SELECT step, value, {crc} FROM sample WHERE series_id = ? ORDER BY step"
        found = self._rows(query, number)
        steps = np.array([step for step, *_ in found], np.int64)
        is_whole = np.array([_is_blob(value, 4 * n) for _, value, _ in found], bool)
        empty = bytes(4 * n)
        data = b"".join(v if ok else empty for (_, v, _), ok in zip(found, is_whole))
        values = np.frombuffer(data, "<f4").reshape(len(found), n).astype(np.float32)
        if self._schema > 1 and len(found):
            before = np.full(len(found), series_checksum(run["uuid"], phase, name), np.uint32)
            stored = np.array([crc if isinstance(crc, int) else 0 for *_, crc in found])
            is_whole &= checksums(before, steps, values.astype("<f4")) == stored
        values.view(np.uint32)[~is_whole] = MISSING_BITS
        damaged = self._damaged.setdefault(index, set())
        for step in steps[~is_whole][:MOST_DAMAGED]:
            damaged.add((int(step), name, phase))
        return steps, values, shape

    @_checked
    def events(self, index: int) -> list[dict[str, Any]]:
        columns = ("step", "kind", "severity", "layer", "head", "message", "at")
        found = self._rows(
            f"SELECT {', '.join(columns)} FROM event WHERE run_id = ? ORDER BY step, event_id",
            self._runs[index]["run_id"],
        )
        names = {number: name for name, number in SEVERITIES.items()}
        out = [dict(zip(columns, row)) for row in found]
        for event in out:
            event["severity"] = names.get(event["severity"])
        out += [_damage(*one) for one in sorted(self._damaged.get(index, ()))]
        self._database.execute("BEGIN")  # read rows and checksums of the same moment
        try:
            out += self._changed_rows(index)
        finally:
            self._database.rollback()
        return sorted(out, key=lambda event: -1 if event["step"] is None else event["step"])


    def _changed_rows(self, index: int) -> list[dict[str, Any]]:
        """Returns an event for each row of a run that was changed after recording."""
        if not has_row_checksums(self._database):
            return []
        out = []
        run = self._runs[index]["run_id"]
        for table in ("run", "series", "event"):
            step = "step" if table == "event" else "NULL"
            own = dict(self._rows(f"SELECT {table}_id, {step} FROM {table} WHERE run_id = ?", run))
            query = "SELECT id, crc FROM row_checksum WHERE of_table = ?"
            sealed = dict(self._rows(query, table))
            sums = row_checksums(self._database, table)
            changed = [n for n in own if n in sealed and sums[n] != sealed[n]]
            gone = [n for n in sealed if n not in sums and index == 0]
            for number in sorted(changed + gone):
                said = f"{table} {number} differs from the recorded row: edited or damaged"
                out.append(_damage_event(own.get(number), said))
        return out


def _is_blob(value: Any, size: int) -> bool:
    return isinstance(value, bytes) and len(value) == size


def _damage(step: int, name: str, phase: str) -> dict[str, Any]:
    """Returns the event that reports a damaged sample."""
    return _damage_event(step, f"the sample of {name} ({phase}) is damaged: shown as missing")


def _damage_event(step: int | None, said: str) -> dict[str, Any]:
    about = dict.fromkeys(("layer", "head", "at"))
    return {"step": step, "kind": "damaged", "severity": "error", **about, "message": said}
