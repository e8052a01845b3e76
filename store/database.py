"""The DuckDB file of a LAB_HOME: opened by one process at a time, one cursor per thread, one writer, bounded memory.

Tables change by numbered migrations, each in a transaction; the file is copied before the first one. Views are created
again when their SQL has changed, because they follow the metric definitions and hold no data. Opening a current store
writes nothing, so that it opens on a full disk, and on one that can only be read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import duckdb

from engine.core.errors import first_line
from engine.core.regular_files import is_there
from engine.runlog.schema import STREAMS

T = TypeVar("T")

FILE = "lab.duckdb"
MEMORY_LIMIT = "400MB"  # enough to ingest a run of 10 M tokens; the app stays under 800 MB
THREADS = 2
# Without a row estimate DuckDB plans for few rows, and then an ASOF join scans the whole other side for each row: with
# a million tokens that took 11 s instead of 0.4 s.
SETTINGS: Mapping[str, Any] = {"memory_limit": MEMORY_LIMIT, "threads": THREADS, "asof_loop_join_threshold": 0}
CLOSING_S = 5.0
UNWRITABLE = (os.strerror(errno.EROFS), os.strerror(errno.EACCES), os.strerror(errno.EPERM))
DISK_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))  # in DuckDB's message
HERE = Path(__file__).parent
MIGRATIONS = HERE / "migrations"
VIEWS = HERE / "views"
SUMMARIES = "run_summaries"
CHECKS = "run_checks"
TOKENS_AT_ONCE = 1_000_000
TABLES = {stream: {"blocks": "block_events"}.get(stream, stream) for stream in STREAMS}  # the table of each stream

_HOLDER = re.compile(r"\(PID (\d+)\)")


class StoreHeld(RuntimeError):
    """Another process has the store open. `pid` is its process id, if known."""

    def __init__(self, path: Path, pid: int | None) -> None:
        who = "another process" if pid is None else f"process {pid}"
        super().__init__(f"{path} is held by {who}; only one process can open it at a time: the app or a command")
        self.path = path
        self.pid = pid


class StoreFull(OSError):
    """The disk is full: nothing was written. What the store had is still there, and can be read."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.ENOSPC, f"{reason}; free some space and try again")


class Database:
    """One open connection. Any thread may use it: reads never wait for writes, and see committed transactions only.

    A thread holds `writing` while it changes rows. `is_read_only`: the file can be read, not written.
    """

    def __init__(
        self, home: Path, check: Callable[[duckdb.DuckDBPyConnection], object] = lambda connection: None
    ) -> None:
        self.home = home
        self.runs_folder = home / "runs"
        self.writing = threading.RLock()
        self._connection = open_database(home, check=check)
        self.is_read_only = can_only_read(self._connection)
        self._own = threading.local()
        self._cursors: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()  # a cursor ends with its thread

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file after the current ingest; running queries are interrupted. May be called twice."""
        with self.writing:
            for cursor in list(self._cursors):
                close_cursor(cursor)
            self._connection.close()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """This thread's own cursor: the tables, and the views request_metrics, token_gaps and run_metrics."""
        cursor: duckdb.DuckDBPyConnection | None = getattr(self._own, "cursor", None)
        if cursor is None:
            cursor = self._own.cursor = self._connection.cursor()
            self._cursors.add(cursor)
        return cursor

    def size_bytes(self) -> int:
        """The size of the file on disk, without the run logs."""
        return sum(path.stat().st_size for path in self.home.glob(f"{FILE}*") if path.is_file())


def open_database(
    home: Path,
    migrations: Path = MIGRATIONS,
    check: Callable[[duckdb.DuckDBPyConnection], object] = lambda connection: None,
) -> duckdb.DuckDBPyConnection:
    """Open the store of `home`; create it if missing. Where it cannot be written, it is opened for reading only.

    `check` runs before metrics are computed from the stored rows, if the store can be written. StoreHeld if another
    process has it, StoreFull if the disk is full, ValueError if it is no store, damaged, or of a newer version.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{home}: {error.strerror}; set LAB_HOME to a writable folder") from error
    path = home / FILE
    connection = _connect(path)
    is_read_only = can_only_read(connection)
    try:
        with disk_full_in_one_line():
            connection = _brought_up_to_date(connection, path, _numbered(migrations), is_read_only)
            if not is_read_only:
                check(connection)
                fit_summaries(connection)
    except duckdb.Error as error:
        connection.close()
        raise ValueError(damaged_text(path, error)) from error
    except BaseException:
        connection.close()
        raise
    return connection


def can_only_read(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the store was opened for reading only."""
    return first_row(connection, "SELECT current_setting('access_mode')") == ("read_only",)


def damaged_text(path: Path, error: duckdb.Error) -> str:
    """One line that says what to do about a store that cannot be read."""
    return (
        f"{path}: {first_line(error)}. If the file is damaged, move it and {FILE}.wal to another folder: the next "
        "command builds a new store from the run logs. Notes, tags and predictions are in the old file only"
    )


def _brought_up_to_date(
    connection: duckdb.DuckDBPyConnection, path: Path, pending: Mapping[int, Path], is_read_only: bool
) -> duckdb.DuckDBPyConnection:
    """The connection after the migrations that are due, and with the current views."""
    version, newest = _version(connection), max(pending, default=0)
    if version > newest:
        raise ValueError(f"{path} has version {version}, from a newer lab; this lab reads up to version {newest}")
    if is_read_only:
        if version < newest or not _has_current_views(connection):
            raise ValueError(
                f"{path} is of an older version of the lab and cannot be written; open it once where it can"
            )
        return connection
    if 0 < version < newest:
        connection.close()
        shutil.copy2(path, path.with_name(f"{FILE}.backup-version-{version}"))
        connection = _connect(path)
    for number in sorted(pending):
        if number > version:
            _migrate(connection, number, pending[number])
    if version < newest or not _has_current_views(connection):
        _make_views(connection)
    return connection


def first_row(
    cursor: duckdb.DuckDBPyConnection, query: str, values: Sequence[Any] | Mapping[str, Any] = ()
) -> tuple[Any, ...] | None:
    """The first row of a result, or None. Reads the result to its end: an unfinished result blocks the cursor."""
    named = dict(values) if isinstance(values, Mapping) else list(values)
    rows = cursor.execute(query, named).fetchall()
    return rows[0] if rows else None


def carry_out(cursor: duckdb.DuckDBPyConnection, statement: str, values: Sequence[Any] = ()) -> None:
    """Run a statement and read its result to the end: an unfinished result blocks the cursor."""
    cursor.execute(statement, list(values)).fetchall()


def in_transaction(cursor: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Run `work` in one transaction: all of it, or none. StoreFull if the disk is full."""
    with disk_full_in_one_line():
        carry_out(cursor, "BEGIN")
        try:
            outcome = work()
        except BaseException:
            with contextlib.suppress(duckdb.Error):  # some errors have ended the transaction already
                carry_out(cursor, "ROLLBACK")
            raise
        carry_out(cursor, "COMMIT")
    return outcome


@contextlib.contextmanager
def disk_full_in_one_line() -> Iterator[None]:
    """Turn DuckDB's error about a full disk into a StoreFull."""
    try:
        yield
    except duckdb.Error as error:
        reason = next((text for text in DISK_FULL if text in str(error)), None)
        if reason is None:
            raise
        raise StoreFull(f"{FILE}: {reason}") from error


def utc(moment: object) -> datetime | None:
    """An ISO time in UTC without a time zone, as DuckDB's TIMESTAMP is; None for anything else."""
    try:
        parsed = datetime.fromisoformat(str(moment))
        return parsed.astimezone(UTC).replace(tzinfo=None) if parsed.tzinfo else parsed
    except (ValueError, OverflowError):  # also a time in the year 1 or 9999 whose offset leads out of the calendar
        return None


def close_cursor(cursor: duckdb.DuckDBPyConnection) -> None:
    """Close a cursor even if its thread is using it: a busy cursor cannot be closed until it is interrupted."""
    deadline = time.monotonic() + CLOSING_S
    while True:
        try:
            return cursor.close()
        except duckdb.Error:
            if time.monotonic() > deadline:
                raise
            cursor.interrupt()
            time.sleep(0.01)


def _connect(path: Path, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """A connection; one that can only read where the file or its folder cannot be written."""
    if is_there(path) and not path.is_file():
        raise ValueError(f"{path} is no plain file; move it away, or set LAB_HOME to another folder")
    try:
        with disk_full_in_one_line():
            return duckdb.connect(str(path), read_only=read_only, config=dict(SETTINGS))
    except duckdb.Error as error:
        if "Could not set lock" in str(error):
            holder = _HOLDER.search(str(error))
            raise StoreHeld(path, int(holder[1]) if holder else None) from error
        if any(text in str(error) for text in UNWRITABLE) and not read_only:
            if path.is_file():
                return _connect(path, read_only=True)
            raise ValueError(f"{first_line(error)}; set LAB_HOME to a writable folder") from error
        raise ValueError(damaged_text(path, error)) from error


def _version(connection: duckdb.DuckDBPyConnection) -> int:
    """The newest migration that the store has; 0 for a new store."""
    if first_row(connection, "SELECT 1 FROM duckdb_tables() WHERE table_name = 'schema_migrations'") is None:
        connection.execute(
            "CREATE TABLE schema_migrations (version INTEGER NOT NULL, name VARCHAR, applied_at TIMESTAMP)"
        )
    row = first_row(connection, "SELECT coalesce(max(version), 0) FROM schema_migrations")
    assert row is not None
    return int(row[0])


def _numbered(folder: Path) -> dict[int, Path]:
    """The migrations by number: `0001_runs.sql` is 1."""
    return {int(path.name.split("_")[0]): path for path in folder.glob("*.sql")}


def _migrate(connection: duckdb.DuckDBPyConnection, number: int, path: Path) -> None:
    connection.execute("BEGIN")
    try:
        connection.execute(path.read_text(encoding="utf-8"))
        connection.execute("INSERT INTO schema_migrations VALUES (?, ?, now()::TIMESTAMP)", [number, path.stem])
        connection.execute("COMMIT")
    except duckdb.Error:
        connection.execute("ROLLBACK")
        raise


def _has_current_views(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the views and the summaries were made by this version's SQL."""
    made_by = first_row(connection, "SELECT comment FROM duckdb_tables() WHERE table_name = ?", [SUMMARIES])
    return made_by is not None and made_by[0] == _definition()


def _make_views(connection: duckdb.DuckDBPyConnection) -> None:
    for path in sorted(VIEWS.glob("*.sql")):
        connection.execute(path.read_text(encoding="utf-8"))


def fit_summaries(connection: duckdb.DuckDBPyConnection, tokens_at_once: int = TOKENS_AT_ONCE) -> None:
    """Keep `run_summaries`, the metrics of ended runs, equal to the view `run_metrics`.

    The table's comment holds a hash of the views' SQL. If the SQL has changed, every summary is computed again, a few
    runs at a time: all runs at once would need memory in proportion to their tokens.
    """
    if _has_current_views(connection) and _columns(connection, SUMMARIES) == _columns(connection, "run_metrics"):
        return

    def work() -> None:
        carry_out(connection, f"CREATE OR REPLACE TABLE {SUMMARIES} AS SELECT * FROM run_metrics WHERE false")
        for first, last in _id_ranges(connection, tokens_at_once):
            carry_out(
                connection,
                f"INSERT INTO {SUMMARIES} SELECT m.* FROM run_metrics m SEMI JOIN "
                "(SELECT run_id FROM runs WHERE status <> 'running') r ON m.run_id = r.run_id "
                "WHERE m.run_id BETWEEN ? AND ?",
                [first, last],
            )
        carry_out(connection, f"COMMENT ON TABLE {SUMMARIES} IS '{_definition()}'")

    in_transaction(connection, work)


def _id_ranges(connection: duckdb.DuckDBPyConnection, tokens_at_once: int) -> list[tuple[str, str]]:
    """Ranges of run ids, first to last: each has at most `tokens_at_once` tokens, or is a single run."""
    rows = connection.execute(
        "SELECT r.run_id, coalesce(p.rows, 0) FROM runs r "
        "LEFT JOIN ingest_progress p ON p.run_id = r.run_id AND p.stream = 'tokens' ORDER BY r.run_id"
    ).fetchall()
    ranges: list[tuple[str, str]] = []
    in_range = tokens_at_once
    for run_id, tokens in rows:
        if in_range + tokens <= tokens_at_once and ranges:
            ranges[-1], in_range = (ranges[-1][0], run_id), in_range + tokens
        else:
            ranges.append((run_id, run_id))
            in_range = tokens
    return ranges


def _definition() -> str:
    """A hash of the views' SQL: equal only if every metric has the same definition."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(VIEWS.glob("*.sql")))
    return hashlib.sha256(text.encode()).hexdigest()


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> list[tuple[str, str]]:
    rows = connection.execute(f"SELECT column_name, column_type FROM (DESCRIBE {table})").fetchall()
    return [(str(name), str(kind)) for name, kind in rows]
