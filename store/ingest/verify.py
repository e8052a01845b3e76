"""Verifies the store against the run logs: the same rows, the same metrics, no unread bytes.

Each stream is compared with its checksum in result.json, and with the store's rows by count and by the sum of their
hashes, chunk by chunk, to bound memory. A run whose folder is gone, or that is still running, is not checked. A log of
an older version has no checksums: a change of its bytes is found only where it makes a difference to the store.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa

from engine.core.errors import first_line
from engine.runlog.checksums import changed_files, damaged_streams, has_checksums
from engine.runlog.reader import RunLogReader
from engine.runlog.schema import KEYED, STREAMS, stream_file
from engine.runlog.writer import END_OF_STREAM
from store.database import TABLES, first_row
from store.queries.runs import Runs

CHUNK_ROWS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result for one run: `agrees`, `differs` with one line per difference, or `unchecked` with the reason.

    `has_checksums`: its log has checksums, and they were compared.
    """

    run_id: str
    outcome: Literal["agrees", "differs", "unchecked"]
    lines: list[str] = field(default_factory=list)
    has_checksums: bool = False


def verify_run(cursor: duckdb.DuckDBPyConnection, runs: Runs, run_id: str) -> Verdict:
    """Compare one run. KeyError for an unknown run."""
    run = runs.get(run_id)
    folder = Path(run["folder"])
    if run["status"] == "running":
        return Verdict(run_id=run_id, outcome="unchecked", lines=["it is still running"])
    if not folder.is_dir():
        return Verdict(run_id=run_id, outcome="unchecked", lines=[f"its folder is gone: {folder}"])
    reader, is_summed = RunLogReader(folder), False
    try:
        result = reader.result()
        is_summed = has_checksums(result)
        damaged = damaged_streams(folder, result)
        lines = [*damaged.values(), *changed_files(folder, result)]
        others = (stream for stream in STREAMS if stream not in damaged)
        lines += [line for stream in others for line in _stream_differences(cursor, reader, run_id, stream)]
        if not damaged:
            lines += _state_differences(reader, run) + _total_differences(reader, runs.metrics(run_id))
    except Exception as error:  # a damaged log can fail in any way
        lines = [first_line(error)]
    return Verdict(run_id=run_id, outcome="differs" if lines else "agrees", lines=lines, has_checksums=is_summed)


def _stream_differences(cursor: duckdb.DuckDBPyConnection, reader: RunLogReader, run_id: str, stream: str) -> list[str]:
    logged, stored = _of_log(cursor, reader, stream), _of_store(cursor, run_id, stream)
    lines = []
    if logged[0] != stored[0]:
        lines.append(f"{stream}: {logged[0]:,} rows in the run log, {stored[0]:,} in the store")
    elif logged != stored:
        lines.append(f"{stream}: {logged[0]:,} rows in both the run log and the store, but their values differ")
    unread = _unread_bytes(cursor, reader, run_id, stream)
    if unread and reader.result() is not None:
        lines.append(f"{stream}: {unread:,} bytes at the end of the run log cannot be read")
    return lines


def _of_log(cursor: duckdb.DuckDBPyConnection, reader: RunLogReader, stream: str) -> tuple[int, int]:
    if stream in KEYED:
        table = reader.spans() if stream == "spans" else reader.table(stream)
        return _fingerprint_of(cursor, table, stream)
    count, total = 0, 0
    waiting: list[pa.RecordBatch] = []
    for batch in reader.batches(stream):
        waiting.append(batch)
        if sum(b.num_rows for b in waiting) >= CHUNK_ROWS:
            rows, part = _fingerprint_of(cursor, pa.Table.from_batches(waiting), stream)
            count, total, waiting = count + rows, total + part, []
    rows, part = _fingerprint_of(cursor, pa.Table.from_batches(waiting, schema=STREAMS[stream]), stream)
    return count + rows, total + part


def _fingerprint_of(cursor: duckdb.DuckDBPyConnection, table: pa.Table, stream: str) -> tuple[int, int]:
    cursor.register("logged", table)
    try:
        return _fingerprint(cursor, f"SELECT {_hash(stream)} FROM logged", [])
    finally:
        cursor.unregister("logged")


def _of_store(cursor: duckdb.DuckDBPyConnection, run_id: str, stream: str) -> tuple[int, int]:
    return _fingerprint(cursor, f"SELECT {_hash(stream)} FROM {TABLES[stream]} WHERE run_id = ?", [run_id])


def _hash(stream: str) -> str:
    """SQL for the row count and the sum of the rows' hashes. Names are quoted: `rows` is an SQL keyword."""
    columns = ", ".join(f'"{name}"' for name in STREAMS[stream].names)
    return f"count(*), coalesce(sum(hash({columns})::HUGEINT), 0)"


def _fingerprint(cursor: duckdb.DuckDBPyConnection, query: str, values: list[str]) -> tuple[int, int]:
    row = first_row(cursor, query, values)
    assert row is not None
    return int(row[0]), int(row[1])


def _unread_bytes(cursor: duckdb.DuckDBPyConnection, reader: RunLogReader, run_id: str, stream: str) -> int:
    row = first_row(
        cursor, "SELECT offset_bytes FROM ingest_progress WHERE run_id = ? AND stream = ?", [run_id, stream]
    )
    path = reader.folder / stream_file(stream)
    if row is None or not path.exists():
        return 0
    unread = path.stat().st_size - int(row[0])
    return unread if unread != len(END_OF_STREAM) else 0


def _state_differences(reader: RunLogReader, run: Mapping[str, Any]) -> list[str]:
    status = reader.status()
    return [] if status == run["status"] else [f"status: {status} in the run log, {run['status']} in the store"]


def _total_differences(reader: RunLogReader, metrics: Mapping[str, Any]) -> list[str]:
    """The differences between the worker's totals and the store's metrics."""
    totals = (reader.result() or {}).get("totals") or {}
    return [
        f"{name}: {totals[name]} in the run log, {metrics[name]} in the store"
        for name in totals
        if name in metrics and not _fits(name, totals[name], metrics[name])
    ]


def _fits(name: str, total: Any, stored: Any) -> bool:
    """Whether a total and the stored metric agree. The worker's peak memory may exceed the largest logged sample."""
    if name == "peak_memory_bytes":
        return total is None or stored is None or total >= stored
    return _same(total, stored)


def _same(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return bool(a == b)
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
