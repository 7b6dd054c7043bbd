#!/usr/bin/env python3
"""Queries many runs in DuckDB, for example to find which settings make heads collapse,
which heads collapse, and when.

    samples/analysis/analysis.py runs
    samples/analysis/analysis.py runs --parquet exported
    samples/analysis/analysis.py --parquet exported

The first command reads the run files and fragments of a folder, one after another,
into a new database, in memory or in --database FILE. The second command exports new
runs to Parquet files and queries these files; the third command only queries the files.
The queries are in queries.sql next to this file, or in --queries FILE. Needs duckdb,
pyarrow and the package entropyscan."""

import argparse
import json
import math
import os
import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import entropyscan as es

SERIES = ["entropy", "loss"]
RUN = pa.schema(
    [(n, pa.string()) for n in ("file", "name", "arch", "status")]
    + [(n, pa.int32()) for n in ("n_layer", "n_head", "ctx")]
    + [("seed", pa.int64()), ("last_step", pa.int64())]
    + [("lr", pa.float64()), ("ceiling", pa.float64()), ("config", pa.string())]
)
SAMPLE = pa.schema(
    [("file", pa.string()), ("series", pa.string()), ("step", pa.int64())]
    + [("layer", pa.int32()), ("head", pa.int32()), ("value", pa.float32())]
)


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="?", type=Path, help="a folder of run files")
    parser.add_argument("--parquet", type=Path, help="the folder of exported files")
    parser.add_argument("--database", default=":memory:", help="a new file for DuckDB")
    parser.add_argument("--memory", default="2GB", help="memory limit of DuckDB (2GB)")
    parser.add_argument("--queries", type=Path, default=Path(__file__).with_name("queries.sql"))
    parser.add_argument("--json", action="store_true", help="print the answers as JSON")
    given = parser.parse_args()
    if given.runs is None and given.parquet is None:
        parser.error("give a folder of run files, or --parquet FOLDER")
    return given


def run_files(folder):
    found = sorted(p for p in folder.rglob("*") if p.suffix in (".db", ".esf"))
    names = {p.relative_to(folder).with_suffix("").as_posix(): p for p in found}
    if not names:
        raise es.Error(f"{folder}: no run file (*.db, *.esf) in this folder")
    return names


def row_of(name, run):
    """Returns the values of a run for the table `run`; `ceiling` is the largest
    possible mean entropy of a head, in nats."""
    info, config = run.info, run.config
    ctx = info["ctx"]
    causal = math.lgamma(ctx + 1) / ctx if ctx else None
    return {
        "file": name,
        **{n: info.get(n) for n in RUN.names if n in info},
        "lr": config.get("lr"),
        "ceiling": config.get("ceiling", causal),
        "config": json.dumps(config),
    }


def samples_of(name, run):
    """Yields batches of (file, series, step, layer, head, value). A NaN stays NaN; a
    missing value is null."""
    there = {one["name"] for one in run.series if one["phase"] == "train"}
    for series in SERIES:
        if series not in there:
            continue
        values = run.values(series)
        steps = np.repeat(run.steps(series), int(np.prod(values.shape[1:], dtype=np.int64)))
        axes = np.indices(values.shape, dtype=np.int32).reshape(values.ndim, -1)
        none = pa.nulls(values.size, pa.int32())
        flat = values.ravel()
        yield pa.record_batch(
            [
                pa.repeat(name, values.size),
                pa.repeat(series, values.size),
                pa.array(steps),
                pa.array(axes[1]) if values.ndim > 1 else none,
                pa.array(axes[2]) if values.ndim > 2 else none,
                pa.array(flat, mask=es.is_missing(flat)),
            ],
            schema=SAMPLE,
        )


def read(database, names):
    """Reads run files into the database. Only one file is open at a time, and only one copy
    of its samples is in memory."""
    rows = []

    def batches():
        for name, path in names.items():
            with es.open(path) as run:
                rows.append(row_of(name, run))
                yield from samples_of(name, run)

    samples = pa.RecordBatchReader.from_batches(SAMPLE, batches())
    database.execute("CREATE TABLE sample AS SELECT * FROM samples")
    runs = pa.Table.from_pylist(rows, schema=RUN)
    database.execute("CREATE TABLE run AS SELECT * FROM runs")


def export(names, folder):
    """Exports each new or changed run to two Parquet files: first its samples, then its
    row of the table `run`."""
    for name, path in names.items():
        out = folder / "sample" / f"{name}.parquet"
        row = folder / "run" / f"{name}.parquet"
        if row.exists() and row.stat().st_mtime > path.stat().st_mtime:
            continue
        for file in (out, row):
            file.parent.mkdir(parents=True, exist_ok=True)
        with es.open(path) as run:
            there = {one["name"] for one in run.series}
            run.to_parquet(out, [n for n in SERIES if n in there])
            made = f"{row}.tmp"
            pq.write_table(pa.Table.from_pylist([row_of(name, run)], schema=RUN), made)
        os.replace(made, row)


def attach(database, folder):
    if not any((folder / "run").rglob("*.parquet")):
        raise es.Error(f"{folder}: no exported run in this folder: also pass the folder of run files")
    base = (folder / "sample").as_posix()
    database.read_parquet(f"{folder}/run/**/*.parquet").create_view("run")
    database.read_parquet(f"{base}/**/*.parquet", filename=True).create_view("exported")
    database.execute(
        "CREATE VIEW sample AS SELECT filename[$1:-9] AS file, series, step, layer, head, value "
        "FROM exported WHERE phase = 'train'".replace("$1", str(len(base) + 2))
    )


def questions(path):
    """Yields the title and the statement of each query. The title is in the line above
    the statement, `-- TITLE`."""
    for part in path.read_text().split("\n\n"):
        lines = part.strip().splitlines()
        if lines:
            yield lines[0].removeprefix("-- "), "\n".join(lines)


def main():
    given = options()
    database = duckdb.connect(given.database, config={"memory_limit": given.memory})
    names = run_files(given.runs) if given.runs else {}
    if given.parquet:
        export(names, given.parquet)
        attach(database, given.parquet)
    else:
        read(database, names)
    answers = {}
    for title, statement in questions(given.queries):
        answer = database.sql(statement)
        if given.json:
            answers[title] = [dict(zip(answer.columns, row)) for row in answer.fetchall()]
        else:
            print(title)
            answer.show(max_rows=60)
    if given.json:
        json.dump(answers, sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    try:
        main()
    except (es.Error, duckdb.Error, OSError) as error:
        sys.exit(f"analysis.py: {str(error).splitlines()[0]}")
