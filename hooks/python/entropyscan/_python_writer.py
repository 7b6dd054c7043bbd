"""The writer process of `_python_recorder`. It reads frames from standard input, writes
them into a run file in transactions at most a second apart, and prints reports as lines
of JSON on standard output. It ends at the end of its input; if the run has not been
closed by then, the run's status becomes `failed`. The file has a write-ahead log while
it is being written; afterwards it is a single file."""

from __future__ import annotations

import datetime
import json
import os
import queue
import signal
import sqlite3
import stat
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ._python_recorder import FRAME, MOST_WAITING
from ._run_file import (
    APPLICATION_ID,
    MAP_TABLE,
    MOST_TEXT,
    RUN_NUMBERS,
    RUN_TEXTS,
    SCHEMA,
    SEVERITIES,
    TABLES,
    UNITS,
    Error,
    check_schema,
    checksums,
    has_row_checksums,
    map_checksum,
    row_checksums,
    series_checksum,
)

BATCH_BYTES = 1 << 20  # a batch of this size is written at once
BATCH_S = 0.9  # longest age of a batch; its commit then ends within a second
LOOK_S = 1.0  # interval of checks for a request to stop, and of retries
LOCK_S = 2.0  # longest wait for a recorder that is about to close the file
LAST_TRIES = 3  # attempts to write the last batch
OLDEST_SQLITE = (3, 37, 0)  # the first version with STRICT tables


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(
        timespec="milliseconds"
    ).replace("+00:00", "Z")


# --- the file -----------------------------------------------------------------


def _lock(descriptor: int) -> None:
    """Locks a file. Raises OSError if another process holds the lock."""
    try:
        import fcntl
    except ImportError:  # on Windows, lock a byte past the pid, which stays readable
        import msvcrt

        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Lock:
    """The lock file RUN.db-lock, which contains the writer's pid. All recorders,
    including entropy-recorder, use this lock, so that a run file has only one
    writer."""

    def __init__(self, path: str) -> None:
        self.path, self._shown = f"{path}-lock", path
        deadline = time.monotonic() + LOCK_S
        while not self._take(time.monotonic() >= deadline):
            time.sleep(0.05)
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def _take(self, is_last: bool) -> bool:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        self._descriptor = os.open(self.path, flags, 0o666)
        found = os.fstat(self._descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise Error(f"{self.path}: not a lock file: remove it")
        try:
            _lock(self._descriptor)
            if self._is_named():  # false if its last holder has just removed it
                return True
        except OSError:
            if is_last:
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                who = os.read(self._descriptor, 31).decode("ascii", "replace").strip()
                words = "is writing it: wait for it to end, or write another file"
                raise Error(f"{self._shown}: process {who or '?'} {words}") from None
        os.close(self._descriptor)
        return False

    def _is_named(self) -> bool:
        try:
            return os.path.samestat(os.lstat(self.path), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        is_named = self._is_named()
        if os.name == "nt":
            os.close(self._descriptor)
        if is_named:
            os.unlink(self.path)
        if os.name != "nt":
            os.close(self._descriptor)


def _create(path: str) -> None:
    """Creates an empty run file, which appears complete or not at all."""
    part = f"{path}.{os.getpid()}.tmp"
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        connection = sqlite3.connect(part, isolation_level=None)
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={SCHEMA}")
        for sql in TABLES.values():
            connection.execute(sql)
        connection.close()
        with open(part, "r+b") as file:
            file.seek(18)  # mark the file as one with a write-ahead log
            file.write(b"\2\2")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.unlink(part)


def _size(path: str) -> int:
    """Returns the size of a file in bytes, or -1 if it does not exist. Raises Error if
    the file cannot be a run file, or has an unfinished journal or write-ahead log."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        found = None
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise Error(f"{path}: not a regular file")
    if os.path.lexists(f"{path}-journal"):
        words = "a rollback journal exists next to it: recover the file with sqlite3"
        raise Error(f"{path}: {words}, or restore a copy")
    size = -1 if found is None else found.st_size
    log = f"{path}-wal"
    if size <= 0 and os.path.lexists(log) and os.path.getsize(log) > 0:
        words = "the log of a run file that is gone: restore the file or remove the log"
        raise Error(f"{log}: {words}")
    return size


def _connect(path: str) -> sqlite3.Connection:
    uri = f"{Path(path).as_uri()}?mode=rw"
    connection = sqlite3.connect(uri, timeout=2, isolation_level=None, uri=True)
    connection.execute("PRAGMA trusted_schema=OFF")
    if check_schema(connection, path) != SCHEMA:
        words = "cannot write a run file of schema 1: record into another file"
        raise Error(f"{path}: {words}")
    connection.execute("PRAGMA journal_mode=MEMORY")
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        words = "its file system does not support SQLite's write-ahead log"
        raise Error(f"{path}: {words}: write to a local disk")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def _completed(config: str | None) -> str | None:
    """Adds the members of the JSON object in $ENTROPY_RUN_CONFIG to a configuration;
    existing members are not replaced."""
    try:
        own = json.loads(config or "{}")
        given = json.loads(os.environ.get("ENTROPY_RUN_CONFIG", "{}"))
        missing = {k: v for k, v in given.items() if k not in own}
        members = json.dumps(missing)[1:]
        if missing and own:
            members = f", {members}"
        text = (config or "{}").strip()[:-1] + members
    except (ValueError, AttributeError, TypeError):
        return config
    return text if missing and len(text) <= MOST_TEXT else config


class Writer:
    """Writes one run into a file. Methods raise Error or exceptions of sqlite3."""

    def __init__(self, path: str, run: dict[str, Any], resume_step: int) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            words = f"this Python's SQLite {sqlite3.sqlite_version} is too old"
            raise Error(f"{path}: {words}: 3.37 or later is needed")
        self.path = path
        self._lock = Lock(self.path)
        self._is_new = False
        try:
            if _size(self.path) <= 0:
                _create(self.path)
                self._is_new = True
            self.database = _connect(self.path)
            self._inode = os.stat(self.path).st_ino
            self._seals = has_row_checksums(self.database)
            with self.transaction():
                self._begin_run(run, resume_step)
            self._is_new = False
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Closes the file after a failure and deletes it if it was just created."""
        if hasattr(self, "database"):
            self._settle()
        if self._is_new:
            os.unlink(self.path)
        self._lock.release()

    def transaction(self) -> Transaction:
        return Transaction(self.database)

    def _seal(self, table: str, number: int) -> None:
        """Stores the checksum of a row. Call it in the transaction that changes the
        row."""
        if not self._seals:
            return
        for crc in row_checksums(self.database, table, number).values():
            sql = "INSERT OR REPLACE INTO row_checksum VALUES(?, ?, ?)"
            self.database.execute(sql, (table, number, crc))

    def _one(self, sql: str, *values: Any) -> Any:
        return self.database.execute(sql, values).fetchone()

    # --- the run ---

    def _begin_run(self, run: dict[str, Any], resume_step: int) -> None:
        self.uuid = run.get("uuid") or str(uuid.uuid4())
        self.n_layer, self.n_head = run["n_layer"], run["n_head"]
        there = self._one("SELECT run_id, n_layer, n_head FROM run WHERE uuid = ?", self.uuid)
        if there is None or run.get("config") is not None:
            run = {**run, "config": _completed(run.get("config"))}
        if there is None:
            self._add_run(run)
            return
        self.run_id, layers, heads = there
        if (layers, heads) != (self.n_layer, self.n_head):
            words = f"run {self.uuid} has {layers} layers of {heads} heads, not"
            wanted = f"{self.n_layer} of {self.n_head}: record into another file"
            raise Error(f"{self.path}: {words} {wanted}")
        self._resume(run, resume_step)

    def _add_run(self, run: dict[str, Any]) -> None:
        names = [name for name in (*RUN_TEXTS, *RUN_NUMBERS) if name not in ("uuid", "name")]
        values = [self.uuid, run.get("name") or "run", now(), "running"]
        values += [run.get(name) for name in names]
        columns = ", ".join(("uuid", "name", "started_at", "status", *names))
        places = ", ".join("?" * len(values))
        sql = f"INSERT INTO run({columns}) VALUES({places})"
        self.run_id = self.database.execute(sql, values).lastrowid
        self.last_step = None
        self._seal("run", self.run_id)

    def _resume(self, run: dict[str, Any], step: int) -> None:
        execute, own = self.database.execute, self.run_id
        execute(
            "UPDATE run SET status = 'running', ended_at = NULL,"
            " config = coalesce(?, config), program = coalesce(?, program),"
            " host = coalesce(?, host) WHERE run_id = ?",
            (run.get("config"), run.get("program"), run.get("host"), own),
        )
        series = "SELECT series_id FROM series WHERE run_id = ?"
        execute(f"DELETE FROM sample WHERE step >= ? AND series_id IN ({series})", (step, own))
        self._seal("run", own)
        if self._seals:
            events = "SELECT event_id FROM event WHERE run_id = ? AND step >= ?"
            sql = f"DELETE FROM row_checksum WHERE of_table = 'event' AND id IN ({events})"
            execute(sql, (own, step))
        execute("DELETE FROM event WHERE run_id = ? AND step >= ?", (own, step))
        if self._has_maps():
            execute("DELETE FROM attention_map WHERE run_id = ? AND step >= ?", (own, step))
        (self.last_step,) = self._one(
            f"SELECT max(step) FROM sample WHERE series_id IN ({series})", own
        )
        execute("UPDATE run SET last_step = ? WHERE run_id = ?", (self.last_step, own))

    def set_last_step(self, step: int | None) -> None:
        sql = "UPDATE run SET last_step = ? WHERE run_id = ?"
        self.database.execute(sql, (step, self.run_id))

    def end(self, status: str) -> None:
        sql = "UPDATE run SET status = ?, ended_at = ? WHERE run_id = ?"
        self.database.execute(sql, (status, now(), self.run_id))
        self._seal("run", self.run_id)

    # --- samples, maps and events ---

    def series(self, name: str, shape: str, phase: str, unit: str | None) -> tuple[int, int]:
        """Declares a series. Returns the series' id in the file and the CRC with which
        the checksums of its samples begin."""
        there = self._one(
            "SELECT series_id, shape FROM series WHERE run_id = ? AND name = ? AND phase = ?",
            self.run_id,
            name,
            phase,
        )
        if there is not None and there[1] != shape:
            words = f"series {name} has one value per {there[1]}, not per {shape}"
            raise Error(f"{self.path}: {words}")
        number = there and there[0]
        if number is None:
            sql = "INSERT INTO series(run_id, name, shape, phase, unit) VALUES(?, ?, ?, ?, ?)"
            unit = UNITS.get(name, "") if unit is None else unit
            values = (self.run_id, name, shape, phase, unit)
            number = self.database.execute(sql, values).lastrowid
            self._seal("series", number)
        return number, series_checksum(self.uuid, phase, name)

    def samples(self, rows: list[tuple[int, int, int, bytes]]) -> None:
        """Writes samples. rows: (series id, CRC from series(), step, values)."""
        crcs: dict[int, int] = {}
        for size in {len(values) for *_, values in rows}:
            places = [i for i, row in enumerate(rows) if len(row[3]) == size]
            before, steps = ([rows[i][k] for i in places] for k in (1, 2))
            data = np.frombuffer(b"".join(rows[i][3] for i in places), "<u4")
            found = checksums(np.array(before), np.array(steps), data.reshape(len(places), -1))
            crcs.update(zip(places, found.tolist()))
        sql = (
            "INSERT INTO sample(rowid, series_id, step, crc, value) VALUES(?, ?, ?, ?, ?)"
            " ON CONFLICT(series_id, step) DO UPDATE SET crc = excluded.crc,"
            " value = excluded.value"
        )
        for i, (series, _, step, values) in enumerate(rows):
            row = (series, step, crcs[i], values)
            place = series << 32 | step & 0xFFFFFFFF if series < 1 << 31 else None
            try:  # this rowid keeps the samples of a series together
                self.database.execute(sql, (place, *row))
            except sqlite3.IntegrityError:  # another sample has this rowid
                self.database.execute(sql, (None, *row))

    def _has_maps(self) -> bool:
        there = self._one("SELECT sql FROM sqlite_master WHERE name = 'attention_map'")
        return there is not None and there[0] == MAP_TABLE

    def map(
        self, phase: str, step: int, layer: int, head: int, size: int, ctx: int, values: bytes
    ) -> None:
        if not self._has_maps():
            self.database.execute(MAP_TABLE)
        crc = map_checksum(self.uuid, phase, step, (layer, head, size, ctx), values)
        self.database.execute(
            "INSERT OR REPLACE INTO attention_map VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (self.run_id, phase, step, layer, head, size, ctx, crc, values),
        )

    def event(
        self, step: int | None, kind: str, severity: str, said: str, data: Any = None
    ) -> None:
        number = self.database.execute(
            "INSERT INTO event(run_id, step, kind, severity, message, data, at)"
            " VALUES(?, ?, ?, ?, ?, ?, ?)",
            (self.run_id, step, kind, SEVERITIES[severity], said, data and json.dumps(data), now()),
        ).lastrowid
        self._seal("event", number)

    # --- the end ---

    def has_moved(self) -> bool:
        """Returns true if the file was removed, moved or replaced since opening."""
        try:
            return os.lstat(self.path).st_ino != self._inode
        except OSError:
            return True

    def _settle(self) -> None:
        """Checkpoints the write-ahead log into the file, so that a single file remains,
        unless a reader prevents this. Then uses a journal in memory, so that no journal
        file remains."""
        try:
            self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.database.execute("PRAGMA journal_mode=MEMORY")
        except sqlite3.OperationalError:
            pass
        self.database.close()

    def close(self) -> None:
        self._settle()
        self._lock.release()


class Transaction:
    """A context manager that commits, or rolls back if an exception is raised."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is None:
                self._database.execute("COMMIT")
        finally:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")


# --- the session --------------------------------------------------------------


def say(**words: Any) -> None:
    try:
        sys.stdout.write(json.dumps(words) + "\n")
        sys.stdout.flush()
    except OSError:
        pass  # the training process has ended


def read_frame(stream: BinaryIO) -> tuple[Any, bytes] | None:
    """Returns the header and the values of a frame; None at the end of the stream, even
    if the stream ends within a frame."""
    sizes = stream.read(FRAME.size)
    if len(sizes) < FRAME.size:
        return None
    n_head, n_values = FRAME.unpack(sizes)
    data = stream.read(n_head + n_values)
    if len(data) < n_head + n_values:
        return None
    return json.loads(data[:n_head]), data[n_head:]


class Session:
    """Writes frames in transactions. Each frame is either written or counted as
    lost."""

    def __init__(self, path: str, hello: dict[str, Any]) -> None:
        self._shown, self._trainer = hello["shown"], hello["trainer"]
        self._writer = Writer(path, hello["run"], hello["resume_step"])
        self._has_stopped = False
        if self._take_request() is not None:
            words = "a request from before this training: removed and ignored"
            print(f"entropyscan: {self._shown}.stop: {words}", file=sys.stderr)
        self._series: dict[int, tuple[int, int] | None] = {}
        self._committed = self._refused = self._n_overflown = 0
        self._trouble = ""  # the first error, reported at the end
        self._failure = ""  # the error of the last attempt to write
        self._batch: list[tuple[Any, bytes]] = []
        self._n_bytes = 0
        self._end: list[Any] | None = None

    # --- requests to stop ---

    def _take_request(self) -> str | None:
        """Removes the file RUN.db.stop and returns its first line; None if the file
        does not exist."""
        path = f"{self._writer.path}.stop"
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                return None
            with open(path, "rb") as file:
                line = file.read(255).split(b"\n")[0].strip()
            os.unlink(path)
        except OSError:
            return None
        return "".join(chr(c) if 0x20 <= c < 0x7F else "?" for c in line)

    def _look_for_stop(self) -> None:
        if self._has_stopped:
            return
        line = self._take_request()
        if line is None:
            return
        self._has_stopped = True
        say(stop=True)
        said = line or "a stop of the training was requested"
        self._batch.append((["note", "stop", "info", said], b""))

    # --- batches ---

    def serve(self, frames: queue.Queue[tuple[Any, bytes] | None]) -> None:
        due = look = time.monotonic()
        while True:
            wait = due - time.monotonic() if self._batch else LOOK_S
            try:
                found = frames.get(timeout=max(wait, 0.001))
            except queue.Empty:
                pass
            else:
                if found is None or found[0][0] == "end":
                    self._end = found and found[0]
                    return
                due = due if self._batch else time.monotonic() + BATCH_S
                self._keep(found)
            if time.monotonic() - look >= LOOK_S:
                look = time.monotonic()
                self._look_for_stop()
            is_full = BATCH_BYTES <= self._n_bytes and not self._failure
            if self._batch and (is_full or time.monotonic() >= due):
                if not self._commit():
                    due = time.monotonic() + LOOK_S

    def _keep(self, found: tuple[Any, bytes]) -> None:
        """Adds a frame to the batch of the next transaction. While writing fails, the
        batch keeps at most MOST_WAITING bytes, and further frames are counted as
        dropped."""
        if self._n_bytes > MOST_WAITING and found[0][0] != "series":
            self._n_overflown += 1
            return
        self._batch.append(found)
        self._n_bytes += FRAME.size + len(found[1])

    def _commit(self, *last: Any) -> bool:
        """Writes the batch and the frames `last` in a transaction. Returns false on
        failure; the batch is then kept."""
        before = dict(self._series), self._refused, self._writer.last_step
        try:
            with self._writer.transaction():
                n = self._write(self._batch)
                if self._writer.last_step != before[2]:
                    self._writer.set_last_step(self._writer.last_step)
                for head in last:  # after the samples: the checksum covers last_step
                    self._take(head, b"", [])
        except sqlite3.Error as error:
            self._series, self._refused, self._writer.last_step = before
            if not self._failure:
                print(f"entropyscan: {self._shown}: {error}: retrying", file=sys.stderr)
            self._failure = f"{self._shown}: {error}"
            return False
        self._failure = ""
        self._committed += n
        self._batch, self._n_bytes = [], 0
        say(committed=self._committed)
        return True

    def _complain(self, message: str) -> None:
        """Stores and prints the first error; later errors are ignored, because they are
        usually consequences of the first."""
        if not self._trouble:
            self._trouble = message
            print(f"entropyscan: {message}", file=sys.stderr)

    def _write(self, batch: list[tuple[Any, bytes]]) -> int:
        """Writes frames. Returns the number of written frames that are samples, maps or
        events."""
        rows: list[tuple[int, int, int, bytes]] = []
        n = 0
        for head, values in batch:
            try:
                n += self._take(head, values, rows)
            except (Error, sqlite3.IntegrityError) as error:
                self._refused += head[0] != "series"
                self._complain(str(error))
        self._writer.samples(rows)
        return n

    def _take(self, head: list[Any], values: bytes, rows: list[Any]) -> int:
        """Writes one frame, or appends its sample to `rows`. Returns 1 if the recorder
        counts frames of this kind, else 0."""
        kind, *about = head
        if kind == "sample":
            number, step = about
            series = self._series.get(number)
            if series is None:  # its declaration was refused
                self._refused += 1
                return 0
            rows.append((*series, step, values))
            self._go_to(step)
        elif kind == "series":
            number, *about = about
            self._series[number] = None
            self._series[number] = self._writer.series(*about)
        elif kind == "map":
            self._writer.map(*about, values)
            self._go_to(about[1])
        elif kind == "event":
            self._writer.event(*about)
        elif kind == "note":
            self._writer.event(self._writer.last_step, *about)
        elif kind == "status":
            self._writer.end(*about)
        return kind in ("sample", "map", "event")

    def _go_to(self, step: int) -> None:
        last = self._writer.last_step
        self._writer.last_step = step if last is None else max(last, step)

    # --- the end ---

    def finish(self) -> None:
        for i in range(LAST_TRIES):
            time.sleep(LOOK_S if i else 0)
            written = not self._batch or self._commit()
            if written and self._commit(*self._last_frames()):
                break
        if self._writer.has_moved():
            words = "the file was removed, moved or replaced while it was written"
            self._complain(f"{self._shown}: {words}: the old file has the samples")
        self._writer.close()
        say(end=True, committed=self._committed, message=self._trouble or self._failure)

    def _last_frames(self) -> list[list[Any]]:
        _, status, n_dropped = self._end or (None, "failed", 0)
        dropped = "were dropped because the queue was full"
        counts = (
            ("dropped", n_dropped + self._n_overflown, dropped),
            ("refused", self._refused, f"were refused: {self._trouble}"),
        )
        out = [
            ["note", kind, "warning", f"{n} frames {why}", {kind: n}]
            for kind, n, why in counts
            if n
        ]
        if self._end is None:
            said = f"the training process (pid {self._trainer}) ended without closing the run"
            out.append(["note", "trainer_died", "error", said])
        status = status if status in ("finished", "stopped") else "failed"
        return [*out, ["status", status]]


def _read_all(stream: BinaryIO, frames: queue.Queue[tuple[Any, bytes] | None]) -> None:
    try:
        while True:
            found = read_frame(stream)
            frames.put(found)
            if found is None:
                return
    except (OSError, ValueError):
        frames.put(None)


def main() -> None:
    # Ignore signals that are sent to the process group of the training process,
    # so that the last frames are still written.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    hello = read_frame(sys.stdin.buffer)
    if hello is None:
        return
    about, _ = hello
    path = os.fsdecode(bytes.fromhex(about["path"]))
    try:
        session = Session(path, about)
    except (Error, OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        text = str(error) if isinstance(error, Error) else f"{path}: {reason}"
        say(end=True, committed=0, message=text.replace(path, about["shown"]))
        return
    say(opened=True)
    frames: queue.Queue[tuple[Any, bytes] | None] = queue.Queue(maxsize=64)
    reading = threading.Thread(target=_read_all, args=(sys.stdin.buffer, frames), daemon=True)
    reading.start()
    session.serve(frames)
    session.finish()
    os._exit(0)  # the reading thread may block forever if a forked child has the pipe
