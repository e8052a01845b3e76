"""Runs the validity checks on ended runs and stores the results: one row per check of a run.

The checks read a run's requests and passes, never its tokens. When the store is opened, runs without results, or with
results of another version of the checks, are checked again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from engine.core.format import breakable
from engine.core.record import Column, RunRecord, Table
from engine.validity.check import PASS_COLUMNS, REQUEST_COLUMNS, Evidence
from engine.validity.validity import VALIDITY_VERSION, judge_run
from store.database import CHECKS, carry_out, first_row
from store.folders import log_bytes


def keep_checks(cursor: duckdb.DuckDBPyConnection, run_id: str) -> None:
    """Check an ended run and replace its stored results."""
    carry_out(cursor, f"DELETE FROM {CHECKS} WHERE run_id = ?", [run_id])
    rows = [
        (run_id, name, verdict.outcome.value, verdict.value, verdict.limit, breakable(verdict.finding))
        for name, verdict in judge_run(evidence_of(cursor, run_id)).items()
    ]
    places = ", ".join("(?, ?, ?, ?, ?, ?)" for _ in rows)
    carry_out(cursor, f"INSERT INTO {CHECKS} VALUES {places}", [value for row in rows for value in row])


def fit_checks(cursor: duckdb.DuckDBPyConnection) -> int:
    """Check the runs that lack results of the current version, and fill in missing log sizes. Returns how many runs.

    The table's comment holds the version of the checks that made its rows.
    """
    made_by = first_row(cursor, "SELECT comment FROM duckdb_tables() WHERE table_name = ?", [CHECKS])
    if made_by is None or made_by[0] != str(VALIDITY_VERSION):
        carry_out(cursor, f"DELETE FROM {CHECKS}")
        carry_out(cursor, f"COMMENT ON TABLE {CHECKS} IS '{VALIDITY_VERSION}'")
    unchecked = cursor.execute(
        f"SELECT run_id FROM runs ANTI JOIN {CHECKS} USING (run_id) WHERE status <> 'running' ORDER BY run_id"
    ).fetchall()
    for (run_id,) in unchecked:
        keep_checks(cursor, str(run_id))
    for run_id, folder in cursor.execute("SELECT run_id, folder FROM runs WHERE log_bytes IS NULL").fetchall():
        if Path(folder).is_dir():
            carry_out(cursor, "UPDATE runs SET log_bytes = ? WHERE run_id = ?", [log_bytes(Path(folder)), run_id])
    return len(unchecked)


def evidence_of(cursor: duckdb.DuckDBPyConnection, run_id: str) -> Evidence:
    """What the checks need to know of a run. KeyError for an unknown run."""
    row = first_row(cursor, "SELECT run_info, result, watched FROM runs WHERE run_id = ?", [run_id])
    if row is None:
        raise KeyError(f"the store has no run {run_id}")
    return Evidence(
        record=RunRecord(
            requests=_columns(cursor, "requests", REQUEST_COLUMNS, "request_id", run_id),
            passes=_columns(cursor, "passes", PASS_COLUMNS, "pass_index", run_id),
            tokens={},
        ),
        info=json.loads(row[0]),
        result=json.loads(row[1]) if row[1] else {},
        watched=bool(row[2]),
    )


def _columns(cursor: duckdb.DuckDBPyConnection, table: str, names: tuple[str, ...], key: str, run_id: str) -> Table:
    listed = ", ".join(f'"{name}"' for name in names)  # `rows` is an SQL keyword
    found: Mapping[str, Any] = cursor.execute(
        f"SELECT {listed} FROM {table} WHERE run_id = ? ORDER BY {key}", [run_id]
    ).fetchnumpy()
    return {name: _filled(found[name]) for name in names}


def _filled(column: Any) -> Column:
    """The column with NaN, -1 or None for a missing value, depending on its type, as in a RunRecord."""
    if not isinstance(column, np.ma.MaskedArray):
        return np.asarray(column)
    if np.issubdtype(column.dtype, np.floating):
        return np.asarray(column.filled(np.nan))
    return np.asarray(column.filled(-1 if np.issubdtype(column.dtype, np.integer) else None))
