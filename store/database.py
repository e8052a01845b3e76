"""Opening the DuckDB file: one process at a time, its tables up to date, its memory bounded.

Tables change by numbered migrations, each in a transaction, the file copied before the first of them. Views are made
anew at each opening, since they follow the metrics' definitions and hold no data.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

FILE = "lab.duckdb"
MEMORY_LIMIT = "600MB"
THREADS = 2
HERE = Path(__file__).parent
MIGRATIONS = HERE / "migrations"
VIEWS = HERE / "views"
SUMMARIES = "run_summaries"

_HOLDER = re.compile(r"\(PID (\d+)\)")


class StoreHeld(RuntimeError):
    """Another process has the store open. `pid` is its number, where it is known."""

    def __init__(self, path: Path, pid: int | None) -> None:
        who = "another process" if pid is None else f"process {pid}"
        super().__init__(f"{path} is held by {who}; one process at a time can open it: the app, or a command")
        self.path = path
        self.pid = pid


def open_database(home: Path, migrations: Path = MIGRATIONS) -> duckdb.DuckDBPyConnection:
    """The store of `home`, made if need be. StoreHeld when another process has it; ValueError when it is no store."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / FILE
    connection = _connect(path)
    try:
        version, pending = _version(connection), _numbered(migrations)
        newest = max(pending, default=0)
        if version > newest:
            raise ValueError(f"{path}: of version {version}, made by a newer lab; this one knows up to {newest}")
        if 0 < version < newest:
            connection.close()
            shutil.copy2(path, path.with_name(f"{FILE}.backup-version-{version}"))
            connection = _connect(path)
        for number in sorted(pending):
            if number > version:
                _migrate(connection, number, pending[number])
        _make_views(connection)
        _fit_summaries(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def first_row(cursor: duckdb.DuckDBPyConnection, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
    """The first row of an answer, or None. The answer is read to its end: an unfinished one blocks its cursor."""
    rows = cursor.execute(query, list(values)).fetchall()
    return rows[0] if rows else None


def _connect(path: Path) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(str(path), config={"memory_limit": MEMORY_LIMIT, "threads": THREADS})
    except duckdb.IOException as error:
        if "lock" in str(error):
            holder = _HOLDER.search(str(error))
            raise StoreHeld(path, int(holder[1]) if holder else None) from error
        raise ValueError(f"{path}: {str(error).splitlines()[0]}") from error
    except duckdb.Error as error:
        raise ValueError(f"{path}: {str(error).splitlines()[0]}") from error


def _version(connection: duckdb.DuckDBPyConnection) -> int:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER NOT NULL, name VARCHAR, applied_at TIMESTAMP)"
    )
    row = first_row(connection, "SELECT coalesce(max(version), 0) FROM schema_migrations")
    assert row is not None
    return int(row[0])


def _numbered(folder: Path) -> dict[int, Path]:
    """The migrations by their numbers: `0001_runs.sql` is 1."""
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


def _make_views(connection: duckdb.DuckDBPyConnection) -> None:
    for path in sorted(VIEWS.glob("*.sql")):
        connection.execute(path.read_text(encoding="utf-8"))


def _fit_summaries(connection: duckdb.DuckDBPyConnection) -> None:
    """Keep `run_summaries`, the metrics of runs that are over, in the columns of the view `run_metrics`."""
    connection.execute(f"CREATE TABLE IF NOT EXISTS {SUMMARIES} AS SELECT * FROM run_metrics WHERE false")
    if _columns(connection, SUMMARIES) != _columns(connection, "run_metrics"):
        connection.execute(
            f"CREATE OR REPLACE TABLE {SUMMARIES} AS SELECT m.* FROM run_metrics m SEMI JOIN "
            "(SELECT run_id FROM runs WHERE status <> 'running') r ON m.run_id = r.run_id"
        )


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> list[tuple[str, str]]:
    rows = connection.execute(f"SELECT column_name, column_type FROM (DESCRIBE {table})").fetchall()
    return [(str(name), str(kind)) for name, kind in rows]
