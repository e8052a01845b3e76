"""Checks the values that a store has already: rows of an older version, or changed by hand.

A run with a value that ingest would refuse is taken out of the store when that is opened, so that no page meets it. Its
log and its notes stay: a healthy log is read again, and a bad one is refused with its own line.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from engine.core.errors import first_line
from engine.runlog.schema import RUN_FILE, STREAMS
from store.database import TABLES
from store.ingest.bounds import bounds_of
from store.ingest.run_rows import FILES_MARK, delete_rows, mark_checked

UNCHECKED = f"SELECT run_id, run_info, result FROM runs WHERE checked IS DISTINCT FROM {FILES_MARK} ORDER BY run_id"


def drop_refused(connection: duckdb.DuckDBPyConnection) -> dict[Path, str]:
    """Take out the runs with refused values. Returns a line for each, by its folder."""
    refused = dict(_refused_rows(connection))
    passed = []
    for run_id, run_info, result in connection.execute(UNCHECKED).fetchall():
        line = _refused_files(run_info, result)
        if line is None:
            passed.append(run_id)
        else:
            refused.setdefault(run_id, line)
    if passed:
        mark_checked(connection, passed)
    folders = {run_id: _folder(connection, run_id) for run_id in refused}
    copy = "" if all((folder / RUN_FILE).is_file() for folder in folders.values()) else _copied(connection)
    lines = {}
    for run_id, line in refused.items():
        lines[folders[run_id]] = f"{folders[run_id]}: taken out of the store{copy}: {line}"
        delete_rows(connection, run_id)
    return lines


def _folder(connection: duckdb.DuckDBPyConnection, run_id: str) -> Path:
    rows = connection.execute("SELECT folder FROM runs WHERE run_id = ?", [run_id]).fetchall()
    return Path(rows[0][0]) if rows else Path(run_id)


def _copied(connection: duckdb.DuckDBPyConnection) -> str:
    """Copy the store's file, because a run without a log is nowhere else. Returns where to, as a part of a sentence."""
    connection.execute("CHECKPOINT")
    where = "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"
    path = Path(connection.execute(where).fetchall()[0][0])
    copies = (path.with_name(f"{path.name}.backup-refused-{number}") for number in itertools.count(1))
    copy = next(each for each in copies if not each.exists())
    shutil.copy2(path, copy)
    return f" (a copy of it is {copy.name})"


def _refused_rows(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, str]]:
    for stream in STREAMS:
        bounds = bounds_of(stream)
        wrong = " OR ".join(side for name, bound in bounds.items() for side in bound.outside(name))
        query = f"SELECT DISTINCT run_id FROM {TABLES[stream]} WHERE {wrong}"
        for (run_id,) in connection.execute(query).fetchall():
            yield str(run_id), f"{stream}: {_column(connection, stream, str(run_id))}"


def _column(connection: duckdb.DuckDBPyConnection, stream: str, run_id: str) -> str:
    for name, bound in bounds_of(stream).items():
        wrong = " OR ".join(bound.outside(name))
        query = f'SELECT "{name}"::VARCHAR FROM {TABLES[stream]} WHERE run_id = ? AND ({wrong}) LIMIT 1'
        if rows := connection.execute(query, [run_id]).fetchall():
            return f"{name} is {str(rows[0][0])[:80]}; it must be {bound.rule()}"
    return "a value is out of bounds"


def _refused_files(run_info: str, result: str | None) -> str | None:
    """Why run.json or result.json would be refused; None if they would not."""
    from store.ingest.run_schema import check_run  # pydantic takes long to import, and most openings need no check

    try:
        info: dict[str, Any] = json.loads(run_info)
        check_run(Path(), info, None if result is None else json.loads(result))
    except Exception as error:
        return first_line(error)
    return None
