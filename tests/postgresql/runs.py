#!/usr/bin/env python3
"""Makes run files for tests of push, and compares a database with them.

    runs.py make DIR N_RUNS N_SAMPLES L H [SEED]
                             writes DIR/0/run-0.db, ...; half of the samples are
                             entropies; the values include unusual bit patterns
    runs.py compare DIR      checks that the database to which libpq's environment
                             variables refer contains each run below DIR exactly once,
                             with every bit
    runs.py values RUN.db    compares the view sample_value of the database with the
                             rows of entropy-scan sql
"""
import array
import csv
import glob
import io
import os
import random
import sqlite3
import struct
import subprocess
import sys

SCAN = os.environ.get("SCAN", "build/entropy-scan")
STRANGE = [0x7FC007A2, 0x7FC00000, 0x7FC00001, 0xFFC12345, 0x7F812345, 0xFF800001,
           0x7F800000, 0xFF800000, 0x80000000, 0x00000000, 0x00000001, 0x3D4CCCCD]
RUN = ("uuid, name, arch, family, n_layer, n_head, d_model, ctx, vocab, batch, seed, "
       "config, program, host, started_at, ended_at, status, last_step")


def numbers(chance, n):
    """Returns the bytes of n float32 between 2^-7 and 2, some replaced by unusual values."""
    bits = int.from_bytes(chance.randbytes(4 * n), "little")
    mask = int.from_bytes(struct.pack("<I", 0x03FFFFFF) * n, "little")
    base = int.from_bytes(struct.pack("<I", 0x3C000000) * n, "little")
    out = array.array("I", ((bits & mask) | base).to_bytes(4 * n, "little"))
    for _ in range(chance.randrange(4)):
        out[chance.randrange(n)] = chance.choice(STRANGE)
    return out.tobytes()


def write_old(path, uuid, name, n_samples, layers, heads, chance):
    """Writes a run file of schema 1, which has no checksums; `entropy-scan merge` adds
    them later."""
    text = f"# uuid: {uuid}\n# name: {name}\n# ctx: 64\nstep,layer,head,entropy\n"
    text += "".join(f"0,{i},{k},1\n" for i in range(layers) for k in range(heads))
    subprocess.run([SCAN, "import", "-q", "-", "-o", path], input=text, text=True, check=True)
    file = sqlite3.connect(path)
    file.executescript("""ALTER TABLE sample RENAME TO old;
CREATE TABLE sample(
  series_id INTEGER NOT NULL REFERENCES series,
  step INTEGER NOT NULL,
  value BLOB NOT NULL, -- packed little-endian float32, layer-major
  PRIMARY KEY(series_id, step)
) STRICT;
DROP TABLE old; PRAGMA user_version = 1;""")
    shapes = [("entropy", "head", layers * heads, 1), ("max_logit", "head", layers * heads, 2)]
    shapes += [("loss", "run", 1, 3), ("act_rms", "layer", layers, 4)]
    for series, shape, n, number in shapes:
        if number > 1:
            file.execute("INSERT INTO series VALUES(?, 1, ?, ?, 'train', '')",
                         (number, series, shape))
        share = n_samples // 2 if n == layers * heads else 2
        file.executemany("INSERT INTO sample VALUES(?, ?, ?)", (
            (number, 10 * step, numbers(chance, n)) for step in range(share)))
    file.execute("UPDATE run SET last_step = ?, program = 'écrit', seed = ?",
                 (10 * (n_samples // 2 - 1), chance.randrange(2**40)))
    for i in range(chance.randrange(3)):
        file.execute("INSERT INTO event(run_id, step, kind, severity, message, at, dedupe)"
                     " VALUES(1, ?, 'note', 1, ?, '2026-01-02T03:04:05.678Z', ?)",
                     (i or None, f"line {i}\twith a tab \\ and 'quotes'", f"{uuid}/{i}"))
    file.execute("DELETE FROM row_checksum")
    file.commit()
    file.close()


def make(folder, n_runs, n_samples, layers, heads, seed=1):
    for i in range(int(n_runs)):
        chance = random.Random(f"{seed}/{i}")
        uuid = f"{chance.getrandbits(32):08x}-0000-4000-8000-{i:012d}"
        place = os.path.join(folder, str(i % 10))
        os.makedirs(place, exist_ok=True)
        old = os.path.join(folder, "old.db")
        write_old(old, uuid, f"run {i}", int(n_samples), int(layers), int(heads), chance)
        subprocess.run([SCAN, "merge", "-q", old, "-o", f"{place}/run-{i}.db"], check=True)
        os.remove(old)


def read(path):
    """Yields the runs of a file, with their samples, events and maps."""
    file = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    file.text_factory = lambda text: text.decode(errors="replace")
    for run_id, *row in file.execute(f"SELECT run_id, {RUN} FROM run"):
        samples = list(file.execute(
            "SELECT name, phase, step, crc, value FROM sample JOIN series USING(series_id)"
            " WHERE run_id = ? ORDER BY name, phase, step", (run_id,)))
        events = list(file.execute(
            "SELECT step, kind, severity, layer, head, message, data, at, dedupe FROM event"
            " WHERE run_id = ? ORDER BY step, event_id", (run_id,)))
        maps = []
        if file.execute("SELECT 1 FROM sqlite_schema WHERE name = 'attention_map'").fetchone():
            maps = list(file.execute(
                "SELECT phase, step, layer, head, size, ctx, value FROM attention_map"
                " WHERE run_id = ? ORDER BY phase, step, layer, head", (run_id,)))
        yield row, samples, events, maps
    file.close()


def rows(sql):
    """Yields the rows of a query, each field as bytes or None."""
    psql = subprocess.Popen(["psql", "-qAtc", f"COPY ({sql}) TO STDOUT (FORMAT binary)"],
                            stdout=subprocess.PIPE)
    pipe = psql.stdout
    pipe.read(19)
    while (n := struct.unpack(">h", pipe.read(2))[0]) >= 0:
        row = []
        for _ in range(n):
            size = struct.unpack(">i", pipe.read(4))[0]
            row.append(None if size < 0 else pipe.read(size))
        yield row
    pipe.read()
    if psql.wait():
        sys.exit("psql failed")


def as_array(value):
    """Returns PostgreSQL's binary form of a real[] with the little-endian floats in `value`."""
    n = len(value) // 4
    values = array.array("I", value)
    values.byteswap()
    items = array.array("I", bytes(8 * n))
    items[0::2] = array.array("I", [0x04000000]) * n
    items[1::2] = values
    return struct.pack(">5i", 1, 0, 700, n, 1) + items.tobytes()


def texts(sql):
    return [tuple(None if field is None else field.decode() for field in row)
            for row in rows(sql)]


def as_text(row):
    return tuple(None if field is None else str(field) for field in row)


def compare(folder):
    files = sorted(glob.glob(f"{folder}/**/*.db", recursive=True))
    want = {}
    for path in files:
        for row, samples, events, maps in read(path):
            want[row[0]] = (path, row, samples, events, maps)
    columns = ", ".join(f"{column}::text" for column in RUN.split(", "))
    runs = texts(f"SELECT {columns} FROM entropy_scan.run")
    problems = []
    if sorted(row[0] for row in runs) != sorted(want):
        problems.append(f"{len(runs)} runs, not {len(want)}")
    for row in runs:
        if row[0] in want and row != as_text(want[row[0]][1]):
            problems.append(f"{row}\nis not\n{as_text(want[row[0]][1])}")
    found = rows("SELECT uuid, series.name, phase, step, crc, value FROM entropy_scan.run"
                 " JOIN entropy_scan.series USING(run_id)"
                 " JOIN entropy_scan.sample USING(run_id, series, month)"
                 ' ORDER BY uuid COLLATE "C", series.name COLLATE "C", phase COLLATE "C", step')
    n = 0
    for uuid in sorted(want):
        for name, phase, step, crc, value in want[uuid][2]:
            row = next(found, None)
            if row != [uuid.encode(), name.encode(), phase.encode(), struct.pack(">q", step),
                       struct.pack(">i", crc), as_array(value)]:
                sys.exit(f"{want[uuid][0]}: {name} {phase} {step}: the sample differs: "
                         f"{row and row[:4]}")
            n += 1
    if next(found, None):
        problems.append("the database has samples that are in no file")
    events = texts("SELECT uuid, step::text, kind, severity::text, layer::text, head::text,"
                   " message, data, event.at, dedupe FROM entropy_scan.event"
                   ' JOIN entropy_scan.run USING(run_id) ORDER BY uuid COLLATE "C", number')
    wanted = [(uuid, *as_text(event[:8]), event[8] and event[8].removeprefix(f"{uuid}/"))
              for uuid in sorted(want) for event in want[uuid][3]]
    if events != wanted:
        problems.append(f"events {events[:2]} are not {wanted[:2]}")
    maps = list(rows("SELECT uuid, phase, step::text, layer::text, head::text, size::text,"
                     " attention_map.ctx::text, value FROM entropy_scan.attention_map JOIN entropy_scan.run"
                     ' USING(run_id) ORDER BY uuid COLLATE "C", phase COLLATE "C",'
                     " attention_map.step, layer, head"))
    wanted_maps = [[uuid.encode(), *(str(field).encode() for field in row[:6]), as_array(row[6])]
                   for uuid in sorted(want) for row in want[uuid][4]]
    if maps != wanted_maps:
        problems.append(f"{len(maps)} maps differ from the {len(wanted_maps)} of the files")
    low = texts("SELECT count(*)::text FROM entropy_scan.sample JOIN entropy_scan.run"
                " USING(run_id) WHERE low <> entropy_scan.low_heads(value, low_below)")
    if low != [("0",)]:
        problems.append(f"{low[0][0]} wrong counts of low heads")
    if problems:
        sys.exit("\n".join(problems[:5]))
    print(f"{len(want)} runs, {n} samples, {len(wanted)} events: the same")


def values(path):
    query = "SELECT step, layer, head, value, state FROM {} ORDER BY step, layer, head"
    ours = subprocess.run([SCAN, "sql", "--csv", path, query.format("es_values('entropy')")],
                          capture_output=True, text=True, check=True).stdout
    with sqlite3.connect(path) as file:
        uuid = file.execute("SELECT uuid FROM run").fetchone()[0]
    view = ("(SELECT * FROM entropy_scan.sample_value JOIN entropy_scan.run USING(run_id)"
            f" WHERE series = 'entropy' AND uuid = '{uuid}') x")
    theirs = subprocess.run(["psql", "-qc", f"COPY ({query.format(view)}) TO STDOUT CSV"],
                            capture_output=True, text=True, check=True).stdout
    tables = []
    for text, skipped in (ours, 1), (theirs, 0):
        tables.append([(row[:3], float(row[3]) if row[3] else None, row[4])
                       for row in list(csv.reader(io.StringIO(text)))[skipped:]])
    if tables[0] != tables[1] or not tables[0]:
        sys.exit(f"{len(tables[0])} and {len(tables[1])} rows differ")
    print(f"{len(tables[0])} values, {len({row[2] for row in tables[0]})} states: the same")


if __name__ == "__main__":
    {"make": make, "compare": compare, "values": values}[sys.argv[1]](*sys.argv[2:])
