"""Every table and column of a snapshot has exactly one description, stored as a comment."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from engine.metrics.metrics import METRICS
from store import Store
from store.snapshot.catalog import tables, unit_of
from store.snapshot.tables import HIDDEN_COLUMNS, PRIVATE


def columns_of(cursor: duckdb.DuckDBPyConnection) -> set[tuple[str, str]]:
    rows = cursor.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND schema_name = 'main'"
    ).fetchall()
    return {(table, column) for table, column in rows if table not in PRIVATE}


def described() -> set[tuple[str, str]]:
    return {(table.name, column.name) for table in tables() for column in table.columns}


def test_every_column_of_every_table_and_view_is_described(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        undescribed = columns_of(store.cursor()) - described()
        assert undescribed == {(table, name) for table, names in HIDDEN_COLUMNS.items() for name in names}
        assert {("runs", "folder"), ("experiments", "folder")} <= undescribed
        assert described() - columns_of(store.cursor()) == set()
        snapshot = store.snapshots.publish()
    with duckdb.connect(str(snapshot.path), read_only=True) as connection:
        assert columns_of(connection) == described()


def test_a_snapshot_has_comments_on_its_columns(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        snapshot = store.snapshots.publish()
    with duckdb.connect(str(snapshot.path), read_only=True) as connection:
        without_comment = connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns() "
            "WHERE NOT internal AND schema_name = 'main' AND comment IS NULL"
        ).fetchall()
        comment = connection.execute(
            "SELECT comment FROM duckdb_columns() WHERE table_name = 'requests' AND column_name = 'arrival_s'"
        ).fetchall()
    assert without_comment == []
    assert comment == [("The planned arrival time. Latencies count from here. [s]",)]


def test_no_column_is_described_twice_and_descriptions_are_sentences() -> None:
    names = [(table.name, column.name) for table in tables() for column in table.columns]
    assert len(names) == len(set(names))
    for table in tables():
        assert table.meaning.endswith("."), table.name
        for column in table.columns:
            assert column.meaning.endswith("."), (table.name, column.name)


def test_metrics_are_described_by_their_definitions() -> None:
    known = {table.name: {column.name: column for column in table.columns} for table in tables()}
    ttft = next(metric for metric in METRICS if metric.name == "ttft_p95_s")
    column = known["run_metrics"]["ttft_p95_s"]
    assert column.unit == ttft.unit == "s"
    assert ttft.meaning in column.meaning
    assert {m.name for m in METRICS if m.level == "run"} < set(known["run_metrics"])
    assert {table.name for table in tables() if table.is_computed} == {"run_metrics", "request_metrics", "token_gaps"}


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("start_s", "s"),
        ("peak_bytes", "bytes"),
        ("prompt_tokens", "tokens"),
        ("dead_positions", "positions"),
        ("created_at", "UTC"),
        ("read_bytes_per_s", "1/s"),
        ("kv_reserved_position_s", "position-seconds"),
        ("run_id", ""),
    ],
)
def test_names_define_units(name: str, unit: str) -> None:
    assert unit_of(name) == unit
