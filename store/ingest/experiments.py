"""Takes an experiment's folder into the store: its plan, and of each point the record that holds.

Small beside its runs, it is taken in whole each time it has changed. Its runs are taken in from their own folders.
Where several folders hold one experiment, `folder_that_counts` says whose points count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from engine.experiments.experiment import Point, PointRecord, newest_records
from engine.runlog.experiment_log import ExperimentLog, LoggedExperiment, is_experiment_folder
from engine.runlog.reader import RUN_ID
from store.database import carry_out, first_row, in_transaction, utc

# Points' values that have a column of their own, and which.
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
    """What one look at an experiment's folder did. `points` and `settled` count points; a settled one needs no run."""

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
    """Bring the store up to date with an experiment's folder. ValueError in one line where it is none, damaged, or a
    copy of one that is in another folder or in the trash."""
    is_worked_on = ExperimentLog.is_open(folder)
    logged = read_experiment(folder)
    plan = logged.plan
    try:
        told, points = json.dumps(plan.to_dict()), _point_rows(logged)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{folder}: not taken in: {_first_line(error)}") from error
    known = first_row(
        cursor, "SELECT plan, folder, is_worked_on FROM experiments WHERE experiment_id = ?", [plan.experiment_id]
    )
    before = Path(known[1]) if known is not None and known[1] else None
    around = Surroundings(known=before, runs_folder=runs_folder.resolve(), is_deleted=is_deleted)
    place = folder_that_counts(folder, logged, around)
    if place != folder:
        is_worked_on = ExperimentLog.is_open(place)
    # Of a copy that was there first.
    is_instead = before is not None and before != place and is_experiment_folder(before)
    if known and known[0] and not is_instead and not _is_same(json.loads(known[0]), plan.to_dict(), before == place):
        raise ValueError(f"{folder}: the store has another experiment with the id {plan.experiment_id}")
    has_changed = known is None or (known[0], known[1], known[2]) != (told, str(place), is_worked_on)

    def work() -> bool:
        found = _fingerprint(cursor, plan.experiment_id)
        _write(cursor, plan.experiment_id, points)
        settings = json.dumps(dict(plan.settings))
        row = [plan.kind, plan.label, utc(plan.created_at), str(place), is_worked_on, settings, told]
        _write_experiment(cursor, plan.experiment_id, row, is_new=known is None)
        return found != _fingerprint(cursor, plan.experiment_id)

    try:
        has_changed |= in_transaction(cursor, work)
    except (duckdb.Error, pa.ArrowException, OverflowError, TypeError) as error:
        raise ValueError(f"{folder}: not taken in: {_first_line(error)}") from error
    return ExperimentReport(
        experiment_id=plan.experiment_id,
        folder=folder,
        kind=plan.kind,
        is_new=known is None or known[0] is None,
        has_changed=has_changed,
        points=len(points),
        settled=len([row for row in points if row["status"] in ("completed", "oom", "failed")]),
    )


def forget_experiment(cursor: duckdb.DuckDBPyConnection, experiment_id: str) -> None:
    """Take an experiment's plan and points out of the store; where it has runs here, they still belong together."""
    carry_out(cursor, "DELETE FROM experiment_points WHERE experiment_id = ?", [experiment_id])
    carry_out(
        cursor,
        "UPDATE experiments SET plan = NULL, settings = NULL, folder = NULL, is_worked_on = NULL "
        "WHERE experiment_id = ?",
        [experiment_id],
    )
    carry_out(
        cursor,
        "DELETE FROM experiments WHERE experiment_id = ? "
        "AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.experiment_id = experiments.experiment_id)",
        [experiment_id],
    )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


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
    """A point's value for its column; None where it is of another kind than the column."""
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
    cursor.unregister("incoming")  # not after an error: a transaction that failed takes nothing but its end


def _write_experiment(cursor: duckdb.DuckDBPyConnection, experiment_id: str, row: list[Any], *, is_new: bool) -> None:
    names = ("kind", "label", "created_at", "folder", "is_worked_on", "settings", "plan")
    if is_new:
        statement = f"INSERT INTO experiments ({', '.join(names)}, experiment_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
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
    """Whether both are plans of one experiment; one whose folder is gone may have grown further than what is left."""
    return _is_grown(before, now) or (not is_in_place and _is_grown(now, before))


def _is_grown(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the plan is the same, but for points that were added at its end."""
    points = before["points"]
    return {**now, "points": now["points"][: len(points)]} == dict(before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What else there is beside a folder: `known`, where the store has the experiment from; `runs_folder`, the store's
    own; `is_deleted`, whether the trash has an experiment of that id from another folder than this one."""

    known: Path | None
    runs_folder: Path
    is_deleted: Callable[[str, Path], bool]


def read_experiment(folder: Path) -> LoggedExperiment:
    """What an experiment's folder says. ValueError in one line where that cannot be read."""
    try:
        logged = ExperimentLog.read(folder)
    except OSError as error:
        raise ValueError(f"{folder}: its experiment is not readable: {error.strerror or error}") from error
    if not RUN_ID.fullmatch(logged.plan.experiment_id):
        raise ValueError(
            f"{folder}: experiment_id is {logged.plan.experiment_id!r}; it has to be 1 to 64 letters, digits, _ or -"
        )
    return logged


def folder_that_counts(folder: Path, logged: LoggedExperiment, around: Surroundings) -> Path:
    """The folder whose points count, of all that hold the experiment of `folder`.

    First comes the one in the store's own runs folder that has the id for a name, then any that has, then the one that
    the store has it from. ValueError where that is not `folder`, whatever `folder` says; but one that has the id for a
    name, too, and says the very same is no fault, and the answer is the one that counts. ValueError also for a folder
    of another name while the experiment is in the trash.
    """
    name = logged.plan.experiment_id
    if folder.name != name and around.is_deleted(name, folder):
        raise ValueError(
            f"{folder}: a copy of experiment {name}, which is in the trash: nothing is taken in of it while that is "
            "there; restore that one, or delete it for good"
        )
    counts = _first(folder, name, around)
    if counts == folder or (folder.name == counts.name == name and _says(counts, logged)):
        return counts
    raise ValueError(
        f"{folder}: a copy of experiment {name}, whose folder is {counts}: that one's points count, and nothing is "
        "taken in of this one; move it away, or delete whichever of the two is not wanted"
    )


def _first(folder: Path, name: str, around: Surroundings) -> Path:
    own, known = around.runs_folder / name, around.known
    if folder == own or is_experiment_folder(own):
        return own
    others = [] if known is None or not is_experiment_folder(known) else [known]
    beside = folder.with_name(name)
    if folder.name != name and is_experiment_folder(beside):
        others.append(beside)
    named = [other for other in (*others, folder) if other.name == name]
    return [*named, *others, folder][0]


def _says(folder: Path, logged: LoggedExperiment) -> bool:
    """Whether a folder holds the very same experiment."""
    try:
        return read_experiment(folder) == logged
    except ValueError:
        return False
