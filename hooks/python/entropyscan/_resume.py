"""Finds, in an existing file, the run that an interrupted training should continue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from . import _library

# Members that must be equal in a run and in the training script that continues
# the run.
_SAME = ("name", "arch", "family", "n_layer", "n_head", "d_model", "vocab")

_RUNS = """
    SELECT uuid, r.name, arch, family, n_layer, n_head, d_model, vocab,
           json_extract(config, '$.fragment') AS fragment,
           (SELECT min(step) FROM sample WHERE series_id = s.series_id) AS first_step,
           (SELECT max(step) FROM sample WHERE series_id = s.series_id) AS last_step
    FROM run r JOIN series s USING (run_id)
    WHERE s.name = 'entropy' AND s.phase = 'train' ORDER BY started_at DESC, run_id DESC
"""


_START = "import sys; sys.path[:] = {path!r}; from entropyscan._resume import main; main()"


def find(
    path: str, run: dict[str, Any], first_step: int, every: int, is_insisting: bool
) -> tuple[str | None, str | None]:
    """Finds out whether a training run that starts at `first_step` can continue the newest
    run in the file `path`. Returns (uuid, None) with the run's uuid if it can; (None,
    reason) if it cannot; (None, None) if there is no run that the user could expect to
    continue.

    run describes the training, with the members of _SAME and its config. is_insisting:
    the caller knows that the training was interrupted, so that a run which began at or
    after first_step may be continued too."""
    why = None
    for other in _runs(path):
        if other["last_step"] is None:
            continue
        if not is_insisting and first_step <= other["first_step"]:
            continue  # a different training that began at the same step
        found = _difference(other, run, first_step, every)
        if found is None:
            return other["uuid"], None
        why = why or found
    return None, why


def _difference(
    other: dict[str, Any], run: dict[str, Any], first_step: int, every: int
) -> str | None:
    """Returns the reason why the new run `run` cannot continue the earlier run `other`;
    None if it can."""
    if first_step < 1:
        return "first_step= is needed to continue a run"
    for name in _SAME:
        mine, its = run.get(name), other[name]
        if mine is not None and its is not None and mine != its:
            return f"the file's last run has {name} {its}, this model has {mine}"
    fragment = (run.get("config") or {}).get("fragment")
    if fragment != other["fragment"]:
        return (
            f"the file's last run was recorded by ranks {other['fragment']}, not by "
            f"{fragment}"
        )
    last = other["last_step"]
    due = (last // every + 1) * every  # the first step that the run lacks
    if fragment is None and first_step > max(due, last + 1):
        return (
            f"the file's last run ends at step {last}, but this training begins at step "
            f"{first_step}"
        )
    return None


def _runs(path: str) -> list[dict[str, Any]]:
    """Reads the runs of a file, newest first, in another process, so that the training
    process does not load SQLite."""
    if not any(os.path.exists(p) for p in (path, os.path.splitext(path)[0] + ".esf")):
        return []
    command = [_library.program("entropy-scan") or "entropy-scan", "sql", path, _RUNS, "--json"]
    if _library.IS_PYTHON:
        command = [sys.executable, "-c", _START.format(path=sys.path), path]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=60
    )
    if done.returncode != 0:
        raise _library.Error((done.stderr.strip().splitlines() or [path])[-1])
    runs = json.loads(done.stdout)
    for one in runs:
        if isinstance(one["fragment"], str):  # SQL returns JSON text
            one["fragment"] = json.loads(one["fragment"])
    return runs


def _read(path: str) -> list[dict[str, Any]]:
    """Runs the query _RUNS and returns its rows. Used if entropy-scan is not
    installed."""
    reader = _library.Reader(path)
    found = []
    for index in range(reader.n_runs()):
        run, config = reader.run(index), reader.config(index)
        for one in reader.series(index):
            if (one["name"], one["phase"]) == ("entropy", "train"):
                steps = {"first_step": one["first_step"], "last_step": one["last_step"]}
                found.append({**run, "fragment": config.get("fragment"), **steps})
    return sorted(found, key=lambda run: run["started_at"] or "", reverse=True)


def main() -> None:
    print(json.dumps(_read(sys.argv[1])))
