"""The store for other tools: every table as a Parquet file, and the metrics of runs as CSV, one row per run."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd

from engine.core.format import without_formula
from engine.metrics.metrics import RUN_METRICS
from store.database import SUMMARIES, first_row, in_transaction
from store.queries.history import RunFilter
from store.store import Store

HIDDEN = frozenset({"ingest_progress", "schema_migrations"})  # the store's own bookkeeping
RENAMED = {SUMMARIES: "run_metrics"}

RUN_COLUMNS = (
    "run_id", "created_at", "ended_at", "status", "error", "engine", "model", "dtype", "device", "device_name",
    "execution", "timing", "kv_layout", "slots", "block_size", "max_num_batched_tokens", "workload_digest",
    "experiment_id", "experiment_kind", "experiment_label", "random_weights", "simulated", "watched", "pinned",
    "tags", "note", "lost", "log_bytes",
)  # fmt: skip
METRIC_NAMES = tuple(metric.name for metric in RUN_METRICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesOut:
    """The written tables: the number of rows of each, by name."""

    path: Path
    rows: dict[str, int]


def export_parquet(store: Store, folder: Path) -> TablesOut:
    """Write every table of the store as `<table>.parquet` to a new folder, in one transaction.

    `run_metrics` has the metrics of ended runs. ValueError if the folder exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} already exists; name a new folder")
    if not folder.parent.is_dir():
        raise ValueError(f"{folder.parent}: no such folder")
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    partial.mkdir()
    try:
        rows = in_transaction(store.cursor(), lambda: _write_tables(store, partial))
        if folder.exists():
            folder.rmdir()
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return TablesOut(path=folder, rows=rows)


def _write_tables(store: Store, folder: Path) -> dict[str, int]:
    cursor = store.cursor()
    query = "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary ORDER BY table_name"
    tables = [str(name) for (name,) in cursor.execute(query).fetchall() if name not in HIDDEN]
    rows = {}
    for table in tables:
        name = RENAMED.get(table, table)
        place = str(folder / f"{name}.parquet").replace("'", "''")
        copied = first_row(cursor, f"COPY (FROM {table}) TO '{place}' (FORMAT parquet, COMPRESSION zstd)")
        rows[name] = int(copied[0]) if copied else 0
    return rows


def export_csv(store: Store, out: Path, run_ids: Sequence[str] | None = None) -> TablesOut:
    """Write the metrics of runs (None: of all) to a new CSV file; see `write_csv`. ValueError if the file exists."""
    if out.exists():
        raise ValueError(f"{out} already exists; name another file")
    if not out.parent.is_dir():
        raise ValueError(f"{out.parent}: no such folder")
    partial = out.with_name(f".{out.name}.partial-{os.getpid()}")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            count = write_csv(store, file, run_ids)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    return TablesOut(path=out, rows={"runs": count})


def write_csv(store: Store, file: IO[str], run_ids: Sequence[str] | None = None) -> int:
    """Write one row per run, newest first: RUN_COLUMNS, then every metric. Returns the number of rows.

    A metric's name has its unit (`_s`, `_bytes`, `_tokens_per_s`; a `_fraction` or `_share` is between 0 and 1). A
    missing value is empty; `lost` names the badges that the run did not earn.
    """
    rows = store.history.find(RunFilter(), limit=None).rows
    summaries = store.cursor().execute(f"FROM {SUMMARIES}").df()
    named = [name for name in METRIC_NAMES if name in summaries]
    table = rows.drop(columns=[name for name in named if name in rows]).merge(
        summaries[["run_id", *named]], on="run_id", how="left"
    )
    if run_ids is not None:
        table = table[table["run_id"].isin(run_ids)]
    writer = csv.writer(file)
    header = [*(name for name in RUN_COLUMNS if name in table), *named]
    writer.writerow(header)
    for row in table[header].itertuples(index=False, name=None):
        writer.writerow([_cell(value) for value in row])
    return len(table)


def _cell(value: Any) -> str:
    """A value as text; empty if missing. Text that a spreadsheet would run as a formula gets an apostrophe."""
    if value is None or pd.isna(value):
        return ""
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    if isinstance(value, str):
        return without_formula(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
