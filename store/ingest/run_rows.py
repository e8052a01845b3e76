"""A run's row in `runs`, made from run.json and result.json, and the deletion of all rows of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from engine.core.presets import logged_slots
from engine.core.units import short_dtype
from engine.runlog.schema import WATCHED_FILE
from store.database import CHECKS, SUMMARIES, TABLES, carry_out, first_row, in_transaction, utc
from store.folders import log_bytes

CHECKS_VERSION = 1  # raise it when `run_schema` becomes stricter: every stored run.json is then checked again
FILES_MARK = f"(hash({CHECKS_VERSION}, run_info, result) >> 1)::BIGINT"
OF_A_RUN = (*TABLES.values(), "ingest_progress", SUMMARIES, CHECKS, "runs")


def upsert_run(
    cursor: duckdb.DuckDBPyConnection,
    folder: Path,
    info: Mapping[str, Any],
    result: Mapping[str, Any] | None,
    status: str,
) -> None:
    """Insert or update the run's row, and insert its experiment's row if there is none."""
    row = run_row(folder, info, result, status)
    known = first_row(cursor, "SELECT 1 FROM runs WHERE run_id = ?", [row["run_id"]])
    if known:
        changes = ", ".join(f"{name} = ?" for name in row)
        carry_out(cursor, f"UPDATE runs SET {changes} WHERE run_id = ?", [*row.values(), row["run_id"]])
    else:
        places = ", ".join("?" for _ in row)
        carry_out(cursor, f"INSERT INTO runs ({', '.join(row)}) VALUES ({places})", [*row.values()])
    mark_checked(cursor, [str(row["run_id"])])
    _insert_experiment(cursor, _part(info, "experiment"), row["created_at"])


def mark_checked(cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> None:
    """Note that the files of these runs, as they are in the store, have passed the checks of `run_schema`."""
    carry_out(
        cursor,
        f"UPDATE runs SET checked = {FILES_MARK} WHERE run_id IN (SELECT unnest(?::VARCHAR[]))",
        [list(run_ids)],
    )


def run_row(folder: Path, info: Mapping[str, Any], result: Mapping[str, Any] | None, status: str) -> dict[str, Any]:
    """The columns of `runs`. Values missing from the files are null."""
    model, device, workload, config = (_part(info, name) for name in ("model", "device", "workload", "config"))
    result = result or {}
    dtype = model.get("dtype")
    return {
        "run_id": info["run_id"],
        "folder": str(folder),
        "status": status,
        "error": result.get("error"),
        "created_at": utc(info.get("created_at")),
        "ended_at": utc(result.get("ended_at")),
        "experiment_id": _part(info, "experiment").get("id"),
        **{name: info.get(name) for name in ("engine", "policy", "kv_layout", "execution", "timing")},
        "model": model.get("name"),
        "dtype": short_dtype(dtype) if isinstance(dtype, str) else dtype,
        "random_weights": model.get("random_weights"),
        "device": device.get("kind"),
        "device_name": device.get("name"),
        "slots": logged_slots(info.get("engine"), config.get("slots")),
        **{name: info.get(name) for name in ("block_size", "max_num_batched_tokens", "kv_blocks")},
        "workload_requests": workload.get("requests"),
        "workload_digest": workload.get("digest"),
        "simulated": bool(info.get("simulated")),
        "watched": (folder / WATCHED_FILE).exists(),
        "log_bytes": log_bytes(folder),
        "schema_version": info["schema_version"],
        "run_info": json.dumps(info),
        "result": json.dumps(_without_nan(result)) if result else None,
    }


def close_open_spans(cursor: duckdb.DuckDBPyConnection, run_id: str) -> None:
    """Close the open spans of an ended run at its last logged pass."""
    carry_out(
        cursor,
        """
        UPDATE spans SET
            end_pass = greatest(start_pass, last.end_pass),
            end_s = greatest(start_s, last.end_s)
        FROM (
            SELECT coalesce(max(pass_index) + 1, 0) AS end_pass, coalesce(max(end_s), 0) AS end_s
            FROM passes WHERE run_id = ?
        ) last
        WHERE spans.run_id = ? AND spans.end_pass IS NULL
        """,
        [run_id, run_id],
    )


def delete_rows(cursor: duckdb.DuckDBPyConnection, run_id: str, *, folder: str | None = None) -> None:
    """Delete a run's rows, and its experiment if that has no plan and no other run; the annotation stays.

    With `folder`, only if the store ingested the run from that folder.
    """
    if (
        folder is not None
        and not cursor.execute("SELECT 1 FROM runs WHERE run_id = ? AND folder = ?", [run_id, folder]).fetchall()
    ):
        return

    def work() -> None:
        for table in OF_A_RUN:
            carry_out(cursor, f"DELETE FROM {table} WHERE run_id = ?", [run_id])
        carry_out(
            cursor,
            "DELETE FROM experiments WHERE plan IS NULL AND experiment_id NOT IN "
            "(SELECT experiment_id FROM runs WHERE experiment_id IS NOT NULL)",
        )

    in_transaction(cursor, work)


def _insert_experiment(
    cursor: duckdb.DuckDBPyConnection, experiment: Mapping[str, Any], created_at: datetime | None
) -> None:
    experiment_id = experiment.get("id")
    known = first_row(cursor, "SELECT 1 FROM experiments WHERE experiment_id = ?", [experiment_id])
    if experiment_id is not None and not known:
        carry_out(
            cursor,
            "INSERT INTO experiments (experiment_id, kind, label, created_at) VALUES (?, ?, ?, ?)",
            [experiment_id, experiment.get("kind"), experiment.get("label"), created_at],
        )
    elif known:  # it starts with its earliest run, in any order of ingest
        values = [created_at, experiment_id]
        carry_out(cursor, "UPDATE experiments SET created_at = least(created_at, ?) WHERE experiment_id = ?", values)


def _without_nan(content: Any) -> Any:
    """The content with null for NaN and infinity, which JSON lacks: DuckDB could not read the text."""
    if isinstance(content, Mapping):
        return {name: _without_nan(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_without_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _part(info: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object inside run.json; empty if it is null, missing or of another type."""
    part = info.get(name)
    return part if isinstance(part, Mapping) else {}
