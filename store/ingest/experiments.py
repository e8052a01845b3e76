"""Ingests an experiment's folder: its plan, and for each point its newest settled record.

An experiment is small, so it is ingested whole each time it changes. Its runs are ingested from their own folders. If
several folders hold one experiment, `canonical_folder` decides which one is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from engine.core.errors import first_line
from engine.experiments.experiment import Point, PointRecord, newest_records
from engine.runlog.experiment_log import ExperimentLog, LoggedExperiment, is_experiment_folder
from engine.runlog.reader import RUN_ID, RUN_ID_RULE
from store.database import carry_out, first_row, in_transaction, utc
from store.folders import OF_AN_EXPERIMENT, stamp_of

# Values of a point that have a column, and the column's name.
COLUMNS_OF_VALUES = {
    "engine": "engine",
    "prompts": "prompts",
    "prompt_tokens": "prompt_tokens",
    "batch_size": "batch_size",
    "rate_per_s": "rate_per_s",
    "role": "role",
    "config": "config_label",
    "timing": "timing",
}
TEXTS = (
    "experiment_id", "key", "engine", "prompts", "role", "config_label", "timing", "point_values", "config", "run_id",
    "status", "error", "oom_where", "totals",
)  # fmt: skip
COUNTS = ("prompt_tokens", "batch_size")
POINT_ROWS = pa.schema([
    *((name, pa.string()) for name in TEXTS),
    *((name, pa.int64()) for name in ("repeat", "position", "attempts", "asked_bytes", "free_bytes", *COUNTS)),
    ("rate_per_s", pa.float64()),
    ("ended_at", pa.timestamp("us")),
])  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentReport:
    """The result of ingesting one experiment folder. `points` and `settled` count points; a settled point needs no
    run."""

    experiment_id: str
    folder: Path
    kind: str
    is_new: bool
    has_changed: bool
    points: int
    settled: int


def ingest_experiment(
    cursor: duckdb.DuckDBPyConnection, folder: Path, runs_folder: Path, is_deleted: Callable[[str, Path], bool]
) -> ExperimentReport:
    """Bring the store up to date with an experiment's folder.

    ValueError in one line if it holds no experiment, is damaged, or is a copy of an experiment in another folder or in
    the trash.
    """
    stamp = stamp_of(folder, OF_AN_EXPERIMENT)  # first: what changes from here on is seen the next time
    is_worked_on = ExperimentLog.is_open(folder)
    logged = read_experiment(folder)
    plan = logged.plan
    plan_json, points = _plan_rows(folder, logged)
    known = first_row(
        cursor, "SELECT plan, folder, is_worked_on FROM experiments WHERE experiment_id = ?", [plan.experiment_id]
    )
    before = Path(known[1]) if known is not None and known[1] else None
    candidates = Candidates(known=before, runs_folder=runs_folder.resolve(), is_deleted=is_deleted)
    place = canonical_folder(folder, logged, candidates)
    if place != folder:
        is_worked_on = ExperimentLog.is_open(place)
    # This folder replaces a copy that was ingested first.
    replaces_copy = before is not None and before != place and is_experiment_folder(before)
    if known and known[0] and not replaces_copy and not _is_same(json.loads(known[0]), plan.to_dict(), before == place):
        raise ValueError(f"{folder}: the store has another experiment with the id {plan.experiment_id}")
    has_changed = known is None or (known[0], known[1], known[2]) != (plan_json, str(place), is_worked_on)

    def work() -> bool:
        fingerprint = _fingerprint(cursor, plan.experiment_id)
        _write(cursor, plan.experiment_id, points)
        settings = json.dumps(dict(plan.settings))
        settled = stamp if place == folder and not is_worked_on else None
        row = [plan.kind, plan.label, utc(plan.created_at), str(place), is_worked_on, settings, plan_json, settled]
        _write_experiment(cursor, plan.experiment_id, row, is_new=known is None)
        return fingerprint != _fingerprint(cursor, plan.experiment_id)

    try:
        has_changed |= in_transaction(cursor, work)
    except (duckdb.Error, pa.ArrowException, OverflowError, TypeError) as error:
        raise ValueError(f"{folder}: not ingested: {first_line(error)}") from error
    return ExperimentReport(
        experiment_id=plan.experiment_id,
        folder=folder,
        kind=plan.kind,
        is_new=known is None or known[0] is None,
        has_changed=has_changed,
        points=len(points),
        settled=len([row for row in points if row["status"] in ("completed", "oom", "failed")]),
    )


def _plan_rows(folder: Path, logged: LoggedExperiment) -> tuple[str, list[dict[str, Any]]]:
    """The plan as JSON, and a row per point. ValueError in one line for what the store cannot hold."""
    from store.ingest.run_schema import check_experiment  # pydantic takes long to import

    check_experiment(folder, logged)
    try:
        return json.dumps(logged.plan.to_dict()), _point_rows(logged)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{folder}: not ingested: {first_line(error)}") from error


def forget_experiment(cursor: duckdb.DuckDBPyConnection, experiment_id: str) -> None:
    """Delete an experiment's plan and points from the store. If it still has runs, they keep their experiment."""
    carry_out(cursor, "DELETE FROM experiment_points WHERE experiment_id = ?", [experiment_id])
    carry_out(
        cursor,
        "UPDATE experiments SET plan = NULL, settings = NULL, folder = NULL, is_worked_on = NULL, stamp = NULL "
        "WHERE experiment_id = ?",
        [experiment_id],
    )
    carry_out(
        cursor,
        "DELETE FROM experiments WHERE experiment_id = ? "
        "AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.experiment_id = experiments.experiment_id)",
        [experiment_id],
    )


def _point_rows(logged: LoggedExperiment) -> list[dict[str, Any]]:
    newest = newest_records(logged.records)
    attempts = [record.point_id for record in logged.records]
    return [_row(point, newest.get(point.point_id), attempts.count(point.point_id)) for point in logged.plan.points]


def _row(point: Point, record: PointRecord | None, attempts: int) -> dict[str, Any]:
    oom: Mapping[str, Any] = (record.oom if record else None) or {}
    return {
        "key": point.key,
        "repeat": point.repeat,
        "position": point.position,
        **{column: _value(point.values, name) for name, column in COLUMNS_OF_VALUES.items()},
        "point_values": json.dumps(dict(point.values)),
        "config": json.dumps(point.config.to_dict()),
        "attempts": attempts,
        "run_id": record.run_id if record else None,
        "status": record.status if record else None,
        "error": record.error if record else None,
        "asked_bytes": oom.get("asked_bytes"),
        "free_bytes": oom.get("free_bytes"),
        "oom_where": oom.get("where"),
        "ended_at": utc(record.ended_at) if record else None,
        "totals": json.dumps(dict(record.totals)) if record and record.totals else None,
    }


def _value(values: Mapping[str, Any], name: str) -> Any:
    """A point's value for its column; None if it has another type than the column."""
    value = values.get(name)
    if name in COUNTS:
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if name == "rate_per_s":
        return float(value) if isinstance(value, int | float) else None
    return None if value is None else str(value)


def _write(cursor: duckdb.DuckDBPyConnection, experiment_id: str, points: list[dict[str, Any]]) -> None:
    carry_out(cursor, "DELETE FROM experiment_points WHERE experiment_id = ?", [experiment_id])
    rows = pa.Table.from_pylist([{"experiment_id": experiment_id, **row} for row in points], schema=POINT_ROWS)
    cursor.register("incoming", rows)
    carry_out(cursor, "INSERT INTO experiment_points BY NAME FROM incoming")
    cursor.unregister("incoming")  # not after an error: a failed transaction accepts only a rollback


def _write_experiment(cursor: duckdb.DuckDBPyConnection, experiment_id: str, row: list[Any], *, is_new: bool) -> None:
    names = ("kind", "label", "created_at", "folder", "is_worked_on", "settings", "plan", "stamp")
    if is_new:
        statement = f"INSERT INTO experiments ({', '.join(names)}, experiment_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    else:
        changes = ", ".join(f"{name} = ?" for name in names)
        statement = f"UPDATE experiments SET {changes} WHERE experiment_id = ?"
    carry_out(cursor, statement, [*row, experiment_id])


def _fingerprint(cursor: duckdb.DuckDBPyConnection, experiment_id: str) -> tuple[Any, ...] | None:
    return first_row(
        cursor,
        "SELECT count(*), sum(hash(p)::HUGEINT) FROM experiment_points p WHERE experiment_id = ?",
        [experiment_id],
    )


def _is_same(before: Mapping[str, Any], now: Mapping[str, Any], is_in_place: bool) -> bool:
    """Whether both plans are of one experiment. If the known folder is gone, it may have had more points than this
    one."""
    return _is_grown(before, now) or (not is_in_place and _is_grown(now, before))


def _is_grown(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether `now` is `before` with points added at the end, or equal to it."""
    points = before["points"]
    return {**now, "points": now["points"][: len(points)]} == dict(before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What decides between copies of an experiment: `known`, the folder that the store ingested; `runs_folder`, the
    store's own; `is_deleted`, whether the trash has an experiment of an id from another folder than the given one."""

    known: Path | None
    runs_folder: Path
    is_deleted: Callable[[str, Path], bool]


def read_experiment(folder: Path) -> LoggedExperiment:
    """Read an experiment's folder. ValueError in one line if it cannot be read."""
    try:
        logged = ExperimentLog.read(folder)
    except OSError as error:
        raise ValueError(f"{folder}: the experiment cannot be read: {error.strerror or error}") from error
    if not RUN_ID.fullmatch(logged.plan.experiment_id):
        raise ValueError(f"{folder}: experiment_id is {logged.plan.experiment_id!r}; {RUN_ID_RULE}")
    return logged


def canonical_folder(folder: Path, logged: LoggedExperiment, candidates: Candidates) -> Path:
    """Of all folders that hold the experiment of `folder`, the one whose points are used.

    Priority: the folder named by the experiment's id in the store's runs folder; another folder named by the id; the
    folder that the store ingested. ValueError if that is not `folder`, except for an identical copy that is also named
    by the id: then the canonical folder is returned. ValueError also for a folder of another name while the experiment
    is in the trash.
    """
    name = logged.plan.experiment_id
    if folder.name != name and candidates.is_deleted(name, folder):
        raise ValueError(
            f"{folder}: a copy of experiment {name}, which is in the trash; restore that experiment or delete it "
            "permanently to ingest this copy"
        )
    canonical = _first(folder, name, candidates)
    if canonical == folder or (folder.name == canonical.name == name and _is_identical(canonical, logged)):
        return canonical
    raise ValueError(
        f"{folder}: a copy of experiment {name}; the folder in use is {canonical}, and this copy is not ingested; "
        "move or delete one of the two"
    )


def _first(folder: Path, name: str, candidates: Candidates) -> Path:
    own, known = candidates.runs_folder / name, candidates.known
    if folder == own or is_experiment_folder(own):
        return own
    others = [] if known is None or not is_experiment_folder(known) else [known]
    beside = folder.with_name(name)
    if folder.name != name and is_experiment_folder(beside):
        others.append(beside)
    named = [other for other in (*others, folder) if other.name == name]
    return [*named, *others, folder][0]


def _is_identical(folder: Path, logged: LoggedExperiment) -> bool:
    """Whether a folder holds exactly this experiment."""
    try:
        return read_experiment(folder) == logged
    except ValueError:
        return False
