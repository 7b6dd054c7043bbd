"""Defines the format of a run file for all recorders and readers of the package: names,
limits, tables and checksums. The SQL of the tables matches store/database.c and
store/map.c letter by letter, because readers compare it."""

from __future__ import annotations

import functools
import math
import struct
from typing import Any

import numpy as np

from ._series import SERIES

MISSING_BITS = 0x7FC007A2
UNKNOWN = -(2**63)
STATUS_NAMES = ("running", "finished", "failed", "stopped")
SHAPES = {"run": 0, "layer": 1, "head": 2}
SHAPE_NAMES = tuple(SHAPES)
PHASES = {"train": 0, "eval": 1}
PHASE_NAMES = tuple(PHASES)
SEVERITIES = {"info": 1, "warning": 2, "error": 3, "critical": 4}
DONE, OK, EARGUMENT, EFORK, EBROKEN, EFULL = 1, 0, -2, -9, -10, -11  # es_status
STEP_FIRST, STEP_LAST = -(2**63), 2**63 - 1

RUN_TEXTS = ("uuid", "name", "arch", "family", "config", "program", "host")
RUN_NUMBERS = ("n_layer", "n_head", "d_model", "ctx", "vocab", "batch", "seed")
RUN_TIMES = ("started_at", "ended_at")

MOST_LAYERS = MOST_HEADS = 4096
MOST_VALUES = 1 << 20  # values of one sample
MOST_SERIES = 4096
MOST_NAME = 255  # bytes of a series' name or unit
MOST_EVENT = 4096  # bytes of an event's kind and message
MOST_TEXT = 1 << 20
MOST_STEP = 2**63 - 2
MOST_CELLS = 64  # along a side of an attention map
MAP_MEAN = -1  # head number of a map that is the mean over the layer's heads


class Error(Exception):
    """Raised by this package for errors about a file, a run or an argument."""


def n_values(shape: str, n_layer: int, n_head: int) -> int:
    """Returns the number of values of one sample of a series."""
    return {"run": 1, "layer": n_layer, "head": n_layer * n_head}[shape]


# --- tables -------------------------------------------------------------------

APPLICATION_ID = 0x454E5452  # "ENTR"
SCHEMA = 2  # schema 1 has no checksums

TABLES = {
    "run": """CREATE TABLE run(
  run_id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE CHECK(length(uuid) = 36),
  name TEXT NOT NULL,
  arch TEXT,
  family TEXT,
  n_layer INTEGER NOT NULL CHECK(n_layer BETWEEN 1 AND 4096),
  n_head INTEGER NOT NULL CHECK(n_head BETWEEN 1 AND 4096),
  d_model INTEGER,
  ctx INTEGER,
  vocab INTEGER,
  batch INTEGER,
  seed INTEGER,
  config TEXT, -- a JSON object
  program TEXT,
  host TEXT,
  started_at TEXT NOT NULL, -- ISO 8601, UTC
  ended_at TEXT,
  status TEXT NOT NULL
    CHECK(status IN ('running', 'finished', 'failed', 'stopped')),
  last_step INTEGER,        -- NULL before the first sample
  CHECK(n_layer * n_head <= 1048576)
) STRICT""",
    "series": """CREATE TABLE series(
  series_id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run,
  name TEXT NOT NULL,
  shape TEXT NOT NULL CHECK(shape IN ('run', 'layer', 'head')),
  phase TEXT NOT NULL CHECK(phase IN ('train', 'eval')),
  unit TEXT NOT NULL,
  UNIQUE(run_id, name, phase)
) STRICT""",
    "sample": """CREATE TABLE sample(
  series_id INTEGER NOT NULL REFERENCES series,
  step INTEGER NOT NULL,
  crc INTEGER NOT NULL, -- CRC-32C of uuid, phase, name, step, value
  value BLOB NOT NULL, -- packed little-endian float32, layer-major
  PRIMARY KEY(series_id, step)
) STRICT""",
    "event": """CREATE TABLE event(
  event_id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run,
  step INTEGER,
  kind TEXT NOT NULL,
  severity INTEGER NOT NULL -- 0 none, info, warning, error, 4 critical
    CHECK(severity BETWEEN 0 AND 4),
  layer INTEGER,
  head INTEGER,
  message TEXT,
  data TEXT, -- JSON
  at TEXT NOT NULL, -- ISO 8601, UTC
  dedupe TEXT UNIQUE -- the run's uuid, a slash, the event's own key
) STRICT""",
    "row_checksum": """CREATE TABLE row_checksum(
  of_table TEXT NOT NULL CHECK(of_table IN ('run', 'series', 'event')),
  id INTEGER NOT NULL, -- run_id, series_id, event_id
  crc INTEGER NOT NULL, -- CRC-32C of the row's other columns: of each its type \
(1 integer, 3 text, 5 NULL), then the integer, or the text's length and the text; \
last_step is NULL while the run is running
  PRIMARY KEY(of_table, id)
) STRICT, WITHOUT ROWID""",
}
OPTIONAL = "row_checksum"  # older files without this table are not changed

SAMPLE_1 = """CREATE TABLE sample(
  series_id INTEGER NOT NULL REFERENCES series,
  step INTEGER NOT NULL,
  value BLOB NOT NULL, -- packed little-endian float32, layer-major
  PRIMARY KEY(series_id, step)
) STRICT"""

MAP_TABLE = """CREATE TABLE attention_map(
  run_id INTEGER NOT NULL REFERENCES run,
  phase TEXT NOT NULL CHECK(phase IN ('train', 'eval')),
  step INTEGER NOT NULL,
  layer INTEGER NOT NULL,
  head INTEGER NOT NULL, -- -1: the mean over the layer's heads
  size INTEGER NOT NULL CHECK(size BETWEEN 1 AND 64), -- cells a side
  ctx INTEGER NOT NULL, -- tokens a side
  crc INTEGER NOT NULL, -- CRC-32C of uuid, phase, "attention_map", step, then \
layer, head, size, ctx as int64, value
  value BLOB NOT NULL, -- packed little-endian float32, query by query
  PRIMARY KEY(run_id, phase, step, layer, head)
) STRICT"""

# Units of the standard series; other series have the unit "".
UNITS = {
    **{name: unit for name, unit, _ in SERIES if unit},
    **dict.fromkeys(("entropy_p05", "entropy_p50", "entropy_p95"), "nats"),
    **dict.fromkeys(("loss", "ce", "ce_exact", "range"), "nats"),
    **dict.fromkeys(("clipped_attn", "clipped_norm"), "rows"),
    **dict.fromkeys(("nan_activations", "clipped_act"), "activations"),
    "router_entropy": "nats",
    "ereg": "nats^2",
    "tokens_per_s": "1/s",
}


def check_schema(connection: Any, path: str) -> int:
    """Returns the schema number of the file of an sqlite3 connection. Raises Error if
    the file is not a run file."""
    for name, ours in (("application_id", APPLICATION_ID), ("user_version", SCHEMA)):
        (found,) = connection.execute(f"PRAGMA {name}").fetchone()
        if name == "user_version" and found > ours:
            words = f"schema {found} is newer than this package's {ours}"
            raise Error(f"{path}: {words}: upgrade entropy-scan")
        if name == "application_id" and found != ours or found < 1:
            raise Error(f"{path}: not a run file: {name} is {found}")
    tables = {**TABLES, "sample": SAMPLE_1} if found == 1 else TABLES
    missing = set(tables)
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master"
    for kind, name, table, sql in connection.execute(query):
        if table not in tables or (kind == "index" and sql is None):
            continue
        if kind != "table":
            raise Error(f"{path}: unexpected {kind} {name} in a run file: drop it")
        if sql != tables[table]:
            raise Error(f"{path}: not a run file: its table {table} is defined differently")
        missing.discard(table)
    missing.discard(OPTIONAL)
    if missing:
        raise Error(f"{path}: not a run file: no table {min(missing)}")
    return found


# --- checksums ----------------------------------------------------------------
#
# CRC-32C is linear: the contribution of a word does not depend on the other words. So
# the words of a sample are divided into lanes, all lanes of all samples are computed
# at once, and the results of the lanes are combined.

_POLYNOMIAL = 0x82F63B78


@functools.lru_cache(maxsize=None)
def _advance(n_words: int) -> np.ndarray:
    """Returns a table (4,256) uint32: the contribution of each byte of the CRC register
    to the register's value after n_words zero words have been processed. n_words is a
    power of two."""
    if n_words > 1:
        half = _advance(n_words // 2)
        return _apply(half, half)
    table = np.arange(4 * 256, dtype=np.uint32).reshape(4, 256) & 255
    table <<= 8 * np.arange(4, dtype=np.uint32)[:, None]
    for _ in range(32):
        table = (table >> 1) ^ np.where(table & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return table


def _apply(table: np.ndarray, register: np.ndarray) -> np.ndarray:
    low = table[0][register & 255] ^ table[1][register >> 8 & 255]
    return low ^ table[2][register >> 16 & 255] ^ table[3][register >> 24]


def checksums(before: np.ndarray, steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the CRC-32C of samples, (n) int32.

    before (n) uint32: the CRC of the preceding bytes, as series_checksum returns it;
    steps (n) int64; values (n,m): any type of whole 32-bit words."""
    values = np.ascontiguousarray(values)
    head = np.asarray(steps, "<i8").reshape(-1, 1).view("<u4")
    words = np.concatenate([head, values.view("<u4")], 1).astype(np.uint32)
    words[:, 0] ^= ~np.asarray(before, np.uint32)
    n, n_words = words.shape
    length = 1 << max(0, int(math.log2(n_words)) // 2)
    padding = -n_words % length  # leading zeros do not change the result
    lanes = np.pad(words, ((0, 0), (padding, 0))).reshape(n, -1, length)
    ends = np.zeros(lanes.shape[:2], np.uint32)
    for i in range(length):
        ends = _apply(_advance(1), ends ^ lanes[:, :, i])
    register = np.zeros(n, np.uint32)
    for i in range(lanes.shape[1]):
        register = _apply(_advance(length), register) ^ ends[:, i]
    return (~register).view(np.int32)


@functools.lru_cache(maxsize=None)
def _byte_table() -> list[int]:
    """Returns the usual table for computing CRC-32C one byte at a time."""
    table = list(range(256))
    for _ in range(8):
        table = [entry >> 1 ^ _POLYNOMIAL * (entry & 1) for entry in table]
    return table


def _crc(data: bytes) -> int:
    register, table = 0xFFFFFFFF, _byte_table()
    for byte in data:
        register = register >> 8 ^ table[(register ^ byte) & 255]
    return register ^ 0xFFFFFFFF


def series_checksum(uuid: str, phase: str, name: str) -> int:
    """Returns the CRC with which the checksum of each sample of a series begins."""
    return _crc(f"{uuid}{phase}{name}".encode())


# For each small table, its key column and the columns that a row's checksum covers.
_ROWS = {
    "run": (
        *("run_id", "uuid", "name", "arch", "family", "n_layer", "n_head", "d_model", "ctx"),
        *("vocab", "batch", "seed", "config", "program", "host", "started_at", "ended_at"),
        *("status", "CASE status WHEN 'running' THEN NULL ELSE last_step END"),
    ),
    "series": ("series_id", "run_id", "name", "shape", "phase", "unit"),
    "event": (
        *("event_id", "run_id", "step", "kind", "severity", "layer", "head", "message"),
        *("data", "at", "dedupe"),
    ),
}


def row_checksums(connection: Any, table: str, only: int | None = None) -> dict[int, int]:
    """Returns {key: CRC-32C} of the rows of the table run, series or event, as stored
    in the table row_checksum. only: the key of a single row."""
    key, *columns = _ROWS[table]
    texts = [f"CASE typeof({c}) WHEN 'text' THEN CAST({c} AS BLOB) ELSE {c} END" for c in columns]
    query = f"SELECT {key}, {', '.join(texts)} FROM {table}"
    found = connection.execute(f"{query} WHERE {key} = coalesce(?, {key})", (only,))
    return {number: _row_checksum(values) for number, *values in found}


def _row_checksum(values: list[Any]) -> int:
    data = b""
    for value in values:
        if value is None:
            data += b"\5"
        elif isinstance(value, int):
            data += struct.pack("<bq", 1, value)
        else:
            data += struct.pack("<bq", 3, len(value)) + value
    crc = _crc(data)
    return crc - (crc >> 31 << 32)


def has_row_checksums(connection: Any) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = 'row_checksum'"
    return connection.execute(query).fetchone() is not None


def map_checksum(uuid: str, phase: str, step: int, place: tuple, values: bytes) -> int:
    """Returns the checksum of an attention map. place: the tuple (layer, head, size, ctx)."""
    register = np.array([series_checksum(uuid, phase, "attention_map")], np.uint32)
    for part in (np.array([place], "<i8"), np.frombuffer(values, "<u4")[None]):
        register = checksums(register, np.array([step]), part).view(np.uint32)
    return int(register.view(np.int32)[0])
