"""Defines es.open, which opens a run file to read arrays and draw figures."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import tempfile
from typing import Any

import numpy as np

from . import _library
from ._recording import warn


def open(path: str | os.PathLike[str], run: int | None = None) -> Run:
    """Opens a run in a run file. If the file has several runs, `run` is the index of
    the run, from 0, or from the end if negative; without `run`, the run that started
    last is opened, with a warning. The file may still be growing and is never written
    to. Raises es.Error."""
    return Run(path, run)


def is_missing(values: np.ndarray) -> np.ndarray:
    """Returns true where a value was not measured, false for every other NaN. Use it
    on the float32 arrays of this package: other operations may change the bits that
    mark a missing value."""
    values = np.asarray(values)
    if values.dtype != np.float32:
        raise _library.Error(
            f"is_missing: {values.dtype} cannot express missing values: pass the float32 "
            "array that Run.values returns"
        )
    return values.view(np.uint32) == _library.MISSING_BITS


def _place(reader: _library.Reader, path: str, wanted: int | None) -> int:
    n = reader.n_runs()
    if wanted is not None:
        if not -n <= wanted < n:
            raise _library.Error(f"{path}: no run {wanted}: the file has {n} runs")
        return wanted % n
    starts = [(reader.run(i)["started_at"] or "", i) for i in range(n)]
    if n == 0:
        raise _library.Error(f"{path}: the file has no run")
    newest = max(starts)[1]
    if n > 1:
        warn(
            f"{path} has {n} runs: opening run {newest}, {reader.run(newest)['name']}, "
            f"which started last; es.open(path, run=0 to {n - 1}) opens another"
        )
    return newest


class Flag(dict[str, Any]):
    """A dict whose items are also accessible as attributes, as in
    flag.advice.causes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"a flag has no attribute {name!r}") from None


class Run:
    """A run in a run file."""

    def __init__(self, path: str | os.PathLike[str], run: int | None = None) -> None:
        self.path = os.fspath(path)
        self._reader = _library.Reader(self.path)
        self._index = _place(self._reader, self.path, run)

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        info = self.info
        return (
            f"<run {info['name']!r} of {self.path}: {info['n_layer']} layers, "
            f"{info['n_head']} heads, {info['status']}>"
        )

    @property
    def info(self) -> dict[str, Any]:
        """A dict with name, arch, n_layer, n_head, ctx, status, last_step, ...; values
        that were not recorded are None."""
        return self._reader.run(self._index)

    @property
    def config(self) -> dict[str, Any]:
        return self._reader.config(self._index)

    @property
    def series(self) -> list[dict[str, Any]]:
        """A dict for each series with name, unit, shape (run, layer, head), phase,
        first_step and last_step."""
        return self._reader.series(self._index)

    @property
    def events(self) -> list[dict[str, Any]]:
        return self._reader.events(self._index)

    def refresh(self) -> None:
        """Reads the steps that were added to a growing file since the last call."""
        self._reader.refresh()

    def steps(self, name: str = "entropy", phase: str = "train") -> np.ndarray:
        """Returns the steps of a series, (n) int64."""
        return self._reader.samples(self._index, name, phase)[0]

    def values(self, name: str, phase: str = "train") -> np.ndarray:
        """Returns the values of a series, float32: (n) for a series of the run, (n, L)
        of layers, (n, L, H) of heads. A NaN that training produced is an ordinary
        NaN; is_missing() finds the values that were not measured."""
        _, data, shape = self._reader.samples(self._index, name, phase)
        if shape == "run":
            return data[:, 0]
        info = self.info
        return data.reshape(-1, info["n_layer"], info["n_head"]) if shape == "head" else data

    def entropy(self, phase: str = "train") -> np.ndarray:
        """Returns the entropies, (n, L, H) float32, in nats."""
        return self.values("entropy", phase)

    @property
    def flags(self) -> list[Flag]:
        """The problems that entropy-scan finds in the run. Each is a dict whose items
        are also attributes: kind ("collapse", "nan", "logits", "overload",
        "loss_spike", ...), severity (info, warning, error, critical), stands (true if
        it holds at the last step), onset and reported (steps), layers, heads, value,
        threshold, advice (causes, remedies, sources; None for a user's rule). Starts
        entropy-scan, which reads the whole file."""
        own = _scan(self.path, f"--where={self._where}", "--json").stdout
        return json.loads(own, object_hook=Flag)["runs"][0]["flags"]

    @property
    def _where(self) -> str:
        return f"number={self._index + 1}"

    def to_parquet(self, path: str | os.PathLike[str], series: list[str] | None = None) -> None:
        """Writes a table in long format for pandas, polars or duckdb with the columns
        run, step, layer, head, series, phase, value (float32). A NaN stays NaN; a
        missing value is null. `series`: names of the series to write, default all.
        Needs pyarrow."""
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise _library.Error("to_parquet needs pyarrow: pip install pyarrow") from None
        wanted = [one for one in self.series if series is None or one["name"] in series]
        unknown = set(series or ()) - {one["name"] for one in wanted}
        if unknown:
            raise _library.Error(f"{self.path}: no series {sorted(unknown)[0]!r}")
        text = pa.dictionary(pa.int32(), pa.string())
        schema = pa.schema(
            [("run", text), ("step", pa.int64()), ("layer", pa.int32()), ("head", pa.int32())]
            + [("series", text), ("phase", text), ("value", pa.float32())]
        )
        temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
        try:
            with pq.ParquetWriter(temporary, schema) as writer:
                for one in wanted:
                    writer.write_table(self._long_table(pa, schema, one))
            os.replace(temporary, path)
        except OSError as error:
            raise _library.Error(f"{os.fspath(path)}: {error.strerror or error}") from None
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)

    def _long_table(self, pa: Any, schema: Any, one: dict[str, Any]) -> Any:
        steps = self.steps(one["name"], one["phase"])
        values = self.values(one["name"], one["phase"])
        n, places = len(steps), int(np.prod(values.shape[1:], dtype=np.int64))

        def index(axis: int) -> Any:
            if values.ndim <= axis:
                return pa.nulls(n * places, pa.int32())
            return pa.array(np.indices(values.shape, dtype=np.int32)[axis].ravel())

        def same(word: str) -> Any:
            indices = pa.array(np.zeros(n * places, np.int32))
            return pa.DictionaryArray.from_arrays(indices, pa.array([word]))

        flat = values.ravel()
        columns = {
            "run": same(self.info["name"]),
            "step": pa.array(np.repeat(steps, places)),
            "layer": index(1),
            "head": index(2),
            "series": same(one["name"]),
            "phase": same(one["phase"]),
            "value": pa.array(flat, mask=is_missing(flat)),
        }
        return pa.table(columns, schema=schema)

    def figure(self, kind: str = "heatmap", format: str = "svg", **options: Any) -> Figure:
        """Draws a figure with entropy-scan; notebooks display it. kind: heatmap,
        curves, bands, nans, loss, ...; format: svg, png or pdf; options: options of
        entropy-scan, such as step="last", max="ceiling", series="sink"."""
        return figure(self.path, self._where, kind, format, options)


def figure(path: str, where: str, kind: str, format: str, options: dict[str, Any]) -> Figure:
    """Draws a figure of the run in the file `path` that matches `where`, a query in the
    syntax of entropy-scan --where. Raises es.Error."""
    given = [f"--{k.replace('_', '-')}={v}" for k, v in options.items()]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, f"figure.{format}")
        given += ["-q", f"--format={format}", f"--figure={kind}", "-o", out]
        _scan(path, f"--where={where}", *given)
        if not os.path.exists(out):
            raise _library.Error(f"{kind}: entropy-scan drew no such figure")
        with builtins.open(out, "rb") as file:
            return Figure(file.read(), format)


def _scan(path: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs entropy-scan on a file. If entropy-scan fails, raises Error with the first
    line of its error message."""
    program = _library.program("entropy-scan")
    if program is None and _library.IS_PYTHON:
        raise _library.Error(f"{path}: flags and figures: {_library.NO_PROGRAM}")
    program = program or "entropy-scan"
    command = [program, os.path.abspath(path), *options]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace"
        )
    except OSError as error:
        raise _library.Error(f"{program}: {error.strerror}") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise _library.Error(lines[0] if lines else f"{path}: {done.returncode}")
    return done


class Figure:
    """A figure of a run, which notebooks display."""

    def __init__(self, data: bytes, format: str) -> None:
        self.data, self.format = data, format

    def save(self, path: str | os.PathLike[str]) -> None:
        with builtins.open(path, "wb") as file:
            file.write(self.data)

    def _repr_svg_(self) -> str | None:
        return self.data.decode() if self.format == "svg" else None

    def _repr_png_(self) -> bytes | None:
        return self.data if self.format == "png" else None
