"""usage: make_tree.py TEMPLATE.db N OUT.db

Writes N runs of a sweep to one run file of schema 1, which has no checksums.
TEMPLATE is any run file. The runs have 12 layers of 8 heads, 24 samples and 100
losses, three learning rates and two schedules. Of every ten runs, the fourth has a
NaN in its last sample, the fifth a NaN in its last evaluation, the sixth no
evaluation, the seventh 8 layers of 12 heads, and the eighth a collapse."""
import json
import math
import sqlite3
import struct
import sys
import uuid

LRS = (1e-4, 1e-3, 1e-2)


def entropy(run, step, n_layers, n_heads):
    values = [1.5 + math.sin(0.3 * layer + 0.1 * run + 0.02 * step) *
              math.cos(0.7 * head) * 1.2
              for layer in range(n_layers) for head in range(n_heads)]
    if run % 10 == 7:
        values = [0.01 * x for x in values]
    if run % 10 == 3 and step == 230:
        values[5] = math.nan
    return values


def series_of(run, shape):
    yield "entropy", "head", "train", "nats", [
        (step, entropy(run, step, *shape)) for step in range(0, 240, 10)]
    yield "loss", "run", "train", "nats", [
        (step, [5 - step / (200 + run)]) for step in range(100)]
    if run % 10 != 5:
        last = math.nan if run % 10 == 4 else 2 + 0.37 * (run % 11)
        yield "loss", "run", "eval", "nats", [(100, [3]), (200, [last])]


def add(database, run):
    shape = (8, 12) if run % 10 == 6 else (12, 8)
    config = {"lr": LRS[run % 3], "schedule": ("cosine", "linear")[run % 2],
              "seed": run}
    row = (run + 1, str(uuid.UUID(int=run + 1)), f"run-{run}", "SM+LN+G",
           *shape, 96, 128, json.dumps(config), "2024-01-01T00:00:00Z",
           ("finished", "failed")[run % 9 == 8], 230)
    database.execute(
        "INSERT INTO run(run_id, uuid, name, arch, n_layer, n_head, d_model, "
        "ctx, config, started_at, status, last_step) VALUES "
        "(?,?,?,?,?,?,?,?,?,?,?,?)", row)
    for name, kind, phase, unit, samples in series_of(run, shape):
        cursor = database.execute(
            "INSERT INTO series(run_id, name, shape, phase, unit) "
            "VALUES (?,?,?,?,?)", (run + 1, name, kind, phase, unit))
        database.executemany(
            "INSERT INTO sample(series_id, step, value) VALUES (?,?,?)",
            [(cursor.lastrowid, step, struct.pack(f"<{len(v)}f", *v))
             for step, v in samples])


def main(template, n, path):
    source = sqlite3.connect(template)
    database = sqlite3.connect(path)
    source.backup(database)
    for table in ("sample", "event", "series", "run"):
        database.execute(f"DELETE FROM {table}")
    database.execute("ALTER TABLE sample DROP COLUMN crc")
    database.execute("PRAGMA user_version = 1")
    for run in range(n):
        add(database, run)
    database.execute("DELETE FROM row_checksum")
    database.commit()
    database.execute("VACUUM")
    database.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
