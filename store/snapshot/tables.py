"""The contents of a snapshot: the store's tables, and the store's views stored as tables.

Tables of the run log, and those computed from it, are replaced run by run; all others are small and rewritten. Left
out: ingest progress, saved queries, and the folders of runs with their stamps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from store.database import MIGRATIONS, SUMMARIES, TABLES, VIEWS, carry_out
from store.snapshot.catalog import TEXT, tables

PRIVATE = ("schema_migrations", "ingest_progress", SUMMARIES, "saved_questions", "asked_questions")
HIDDEN_COLUMNS = {"runs": ("folder", "stamp", "checked"), "experiments": ("folder", "stamp")}
COMPUTED = ("request_metrics", "token_gaps")  # views of the store, a run's rows at a time
MACROS = ("latencies", "pass_totals")  # used by the store's views and queries, not by a snapshot's tables
PART_TOKENS = 1_000_000  # tokens whose gaps are computed at once, to bound memory


@dataclass(frozen=True, slots=True)
class RunMark:
    """A run in the store: `mark` changes when anything of the run changes."""

    mark: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Contents:
    """The store's runs by id, in order; `state` changes when anything in the visible tables changes."""

    runs: dict[str, RunMark]
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Runs whose gaps are computed together, and how many of all tokens are done before."""

    runs: list[str]
    tokens_before: int
    tokens_in_all: int

    @property
    def share(self) -> float:
        return self.tokens_before / max(1, self.tokens_in_all)


def contents(cursor: duckdb.DuckDBPyConnection) -> Contents:
    """What the store contains now."""
    rows = cursor.execute(
        """
        SELECT r.run_id, hash(r.status, p.bytes, p.rows)::VARCHAR, coalesce(p.tokens, 0)::BIGINT
        FROM runs r
        LEFT JOIN (
            SELECT
                run_id, sum(offset_bytes) AS bytes, sum(rows) AS rows, sum(rows) FILTER (stream = 'tokens') AS tokens
            FROM ingest_progress GROUP BY run_id
        ) p ON p.run_id = r.run_id
        ORDER BY r.run_id
        """
    ).fetchall()
    small = [
        (name, cursor.execute(f"SELECT count(*), sum(hash(t)::HUGEINT)::VARCHAR FROM {name} t").fetchall())
        for name in _small(cursor)
    ]
    whole = json.dumps([definition(), rows, small], default=str)
    return Contents({row[0]: RunMark(row[1], row[2]) for row in rows}, hashlib.sha256(whole.encode()).hexdigest())


def definition() -> str:
    """A hash of everything that defines a snapshot: views, migrations, descriptions, and this module."""
    files = [*sorted(VIEWS.glob("*.sql")), *sorted(MIGRATIONS.glob("*.sql")), TEXT, Path(__file__)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def begin(cursor: duckdb.DuckDBPyConnection) -> None:
    """Turn a fresh copy of the store into a snapshot: computed tables are created empty, every table gets comments."""
    for name in PRIVATE:
        carry_out(cursor, f"DROP TABLE IF EXISTS snapshot.main.{name}")
    for name in MACROS:
        carry_out(cursor, f"DROP MACRO TABLE IF EXISTS snapshot.main.{name}")
    for name in (*COMPUTED, "run_metrics"):
        carry_out(cursor, f"DROP VIEW IF EXISTS snapshot.main.{name}")
        carry_out(cursor, f"CREATE TABLE snapshot.main.{name} AS SELECT * FROM {name} WHERE false")
    for name in _small(cursor):
        carry_out(cursor, f"DROP TABLE snapshot.main.{name}")
        carry_out(cursor, f"CREATE TABLE snapshot.main.{name} AS SELECT {_shown(name)} FROM {name} WHERE false")
    for table in tables():
        carry_out(cursor, f"COMMENT ON TABLE snapshot.main.{table.name} IS {_quoted(table.meaning)}")
        for column in table.columns:
            comment = f"{column.meaning} [{column.unit}]" if column.unit else column.meaning
            carry_out(cursor, f'COMMENT ON COLUMN snapshot.main.{table.name}."{column.name}" IS {_quoted(comment)}')
    carry_out(cursor, "CREATE SCHEMA snapshot.about")
    carry_out(
        cursor,
        "CREATE TABLE snapshot.about.snapshot "
        "(made_at TIMESTAMP, seconds DOUBLE, runs BIGINT, tokens BIGINT, state VARCHAR, definition VARCHAR)",
    )
    carry_out(cursor, "CREATE TABLE snapshot.about.runs (run_id VARCHAR, mark VARCHAR)")


def replace_logs(cursor: duckdb.DuckDBPyConnection, changed: Sequence[str], lost: Sequence[str]) -> None:
    """In a copy of a snapshot, delete the rows of changed and deleted runs, and insert the logs of the changed ones."""
    out = [*changed, *lost]
    if not out:
        return
    for name in (*TABLES.values(), *COMPUTED):
        carry_out(cursor, f"DELETE FROM snapshot.main.{name} WHERE run_id IN (SELECT unnest(?::VARCHAR[]))", [out])
    for name in TABLES.values():
        carry_out(
            cursor,
            f"INSERT INTO snapshot.main.{name} BY NAME FROM {name} WHERE run_id IN (SELECT unnest(?::VARCHAR[]))",
            [changed],
        )


def fill_small(cursor: duckdb.DuckDBPyConnection) -> None:
    """Rewrite the small tables."""
    for name in _small(cursor):
        carry_out(cursor, f"DELETE FROM snapshot.main.{name}")
        carry_out(cursor, f"INSERT INTO snapshot.main.{name} BY NAME SELECT {_shown(name)} FROM {name}")


def runs_by_tokens(now: Contents, changed: Sequence[str]) -> Iterator[Part]:
    """The changed runs, in groups of about PART_TOKENS tokens."""
    in_all = sum(now.runs[run_id].tokens for run_id in changed)
    runs: list[str] = []
    before, tokens = 0, 0
    for run_id in changed:
        runs.append(run_id)
        tokens += now.runs[run_id].tokens
        if tokens - before >= PART_TOKENS:
            yield Part(runs=runs, tokens_before=before, tokens_in_all=in_all)
            runs, before = [], tokens
    if runs:
        yield Part(runs=runs, tokens_before=before, tokens_in_all=in_all)


def compute_requests(cursor: duckdb.DuckDBPyConnection, changed: Sequence[str]) -> None:
    """Add the changed runs' rows of request_metrics."""
    if changed:
        _compute(cursor, "request_metrics", changed)


def compute_gaps(cursor: duckdb.DuckDBPyConnection, part: Part) -> None:
    """Add some runs' rows of token_gaps."""
    _compute(cursor, "token_gaps", part.runs)


def _compute(cursor: duckdb.DuckDBPyConnection, name: str, runs: Sequence[str]) -> None:
    """Add the rows of runs to a computed table. The range of ids lets DuckDB skip other rows."""
    carry_out(
        cursor,
        f"INSERT INTO snapshot.main.{name} FROM {name} "
        "WHERE run_id BETWEEN ? AND ? AND run_id IN (SELECT unnest(?::VARCHAR[]))",
        [min(runs), max(runs), runs],
    )


def fill_run_metrics(cursor: duckdb.DuckDBPyConnection) -> None:
    """Every run's metrics: stored ones of ended runs, computed now for live runs."""
    carry_out(cursor, "DELETE FROM snapshot.main.run_metrics")
    carry_out(cursor, f"INSERT INTO snapshot.main.run_metrics BY NAME FROM {SUMMARIES}")
    unsummed = cursor.execute(f"SELECT run_id FROM runs ANTI JOIN {SUMMARIES} USING (run_id)").fetchall()
    for (run_id,) in unsummed:
        carry_out(cursor, "INSERT INTO snapshot.main.run_metrics BY NAME FROM run_metrics WHERE run_id = ?", [run_id])


def sign(cursor: duckdb.DuckDBPyConnection, about: Sequence[Any], now: Contents) -> None:
    """Record in the snapshot what it contains: `about` as `signature` returns it, and each run's mark."""
    carry_out(cursor, "DELETE FROM snapshot.about.snapshot")
    carry_out(cursor, "INSERT INTO snapshot.about.snapshot VALUES (?, ?, ?, ?, ?, ?)", [*about, definition()])
    carry_out(cursor, "DELETE FROM snapshot.about.runs")
    marks = [[run_id, run.mark] for run_id, run in now.runs.items()]
    carry_out(
        cursor,
        "INSERT INTO snapshot.about.runs SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[])",
        [[run_id for run_id, _ in marks], [mark for _, mark in marks]],
    )


def signature(path: Path) -> tuple[Any, ...] | None:
    """made_at, seconds, runs, tokens and state of a snapshot; None if this version of the lab did not make it."""
    rows = _read(path, "SELECT * FROM about.snapshot")
    if len(rows) != 1 or rows[0][-1] != definition():
        return None
    return tuple(rows[0][:-1])


def marks(path: Path) -> dict[str, str]:
    """The mark of each run in a snapshot."""
    return dict(_read(path, "SELECT run_id, mark FROM about.runs"))


def _read(path: Path, query: str) -> list[Any]:
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            return connection.execute(query).fetchall()
    except duckdb.Error:  # no snapshot, or a truncated one
        return []


def _small(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    """The store's tables that are neither private nor of the run log."""
    rows = cursor.execute(
        "SELECT table_name FROM duckdb_tables() "
        "WHERE database_name = current_database() AND schema_name = 'main' ORDER BY table_name"
    ).fetchall()
    return [name for (name,) in rows if name not in PRIVATE and name not in TABLES.values()]


def _shown(table: str) -> str:
    hidden = HIDDEN_COLUMNS.get(table)
    return f"* EXCLUDE ({', '.join(hidden)})" if hidden else "*"


def _quoted(text: str) -> str:
    """A text as an SQL literal."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
