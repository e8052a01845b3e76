"""The rows of predictions: closing those whose subject has begun, and grading those whose subject has come to an end.

A prediction closes with the first run of its subject that the store or the disk knows of. What was written later than
that run began, whatever way it came in, gets no grade.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from engine.core.experiment import GOES_ON
from engine.core.load import load_point
from engine.core.prediction import Question, SubjectKind, grade
from engine.core.prediction_measure import Measured, measure
from engine.runlog.experiment_log import POINTS_FILE
from store.database import SUMMARIES, carry_out, first_row
from store.folders import is_run_folder
from store.queries import experiments as experiment_queries
from store.queries import runs as queries
from store.queries.runs import frame_of

LATE = "it was written down after its subject had begun"

# When each open prediction's subject began, where the store knows a run of it.
BEGUN = """
    SELECT p.prediction_id, min(r.created_at) AS begun_at, count(r.run_id) AS runs
    FROM predictions p
    JOIN runs r ON r.run_id = p.subject_id
        OR (p.subject_kind = 'experiment' AND r.experiment_id = p.subject_id)
        OR list_contains(p.run_ids::JSON::VARCHAR[], r.run_id)
    WHERE p.closed_at IS NULL
    GROUP BY p.prediction_id
"""

RUNS_AS_POINTS = f"""
    SELECT m.* EXCLUDE (run_id), r.run_id, {{key}} AS key, r.engine, r.status, r.error,
        r.run_info -> '$.config' AS config
    FROM runs r LEFT JOIN {SUMMARIES} m ON m.run_id = r.run_id WHERE {{where}}
"""

LISTED = """
    SELECT
        p.* EXCLUDE (run_ids),
        CASE p.subject_kind WHEN 'run' THEN r.run_id IS NULL ELSE e.experiment_id IS NULL END AS is_unknown,
        r.status AS run_status, r.engine, r.model, e.kind AS experiment_kind, e.label AS experiment_label,
        r.simulated AS is_simulated_run
    FROM predictions p
    LEFT JOIN runs r ON p.subject_kind = 'run' AND r.run_id = p.subject_id
    LEFT JOIN experiments e ON p.subject_kind = 'experiment' AND e.experiment_id = p.subject_id
    {where}
    ORDER BY p.made_at DESC, p.prediction_id DESC
"""


def list_predictions(cursor: duckdb.DuckDBPyConnection, where: str, values: dict[str, Any]) -> pd.DataFrame:
    """Predictions that fit, the newest first, with how far they were from their range."""
    frame = frame_of(cursor, LISTED.format(where=where), values)
    grades = [_grade_of(row) for row in frame.to_dict("records")]
    for name in ("bound", "distance", "relative"):
        column = [None if told is None else getattr(told, name) for told in grades]
        frame[name] = pd.Series(column, index=frame.index, dtype="float64")
    return frame


def _grade_of(row: Mapping[Any, Any]) -> Any:
    if row["outcome"] not in ("held", "missed"):
        return None
    low, high = (None if pd.isna(row[end]) else float(row[end]) for end in ("low", "high"))
    return grade(low, high, float(row["measured"]))


def has_begun(
    cursor: duckdb.DuckDBPyConnection,
    runs_folder: Path,
    kind: SubjectKind,
    subject_id: str,
    run_ids: Sequence[str],
) -> bool:
    """Whether a subject has begun, by the store or, where that has yet to look, by the disk.

    One that is gone had begun, if a prediction of it is closed.
    """
    closed = "SELECT 1 FROM predictions WHERE subject_kind = ? AND subject_id = ? AND closed_at IS NOT NULL"
    if first_row(cursor, closed, [kind, subject_id]) is not None:
        return True
    if kind == "run":
        known = "SELECT 1 FROM runs WHERE run_id = ?"
    else:
        known = (
            "SELECT 1 FROM runs WHERE experiment_id = ?1 UNION ALL "
            "SELECT 1 FROM experiment_points WHERE experiment_id = ?1 AND status IS NOT NULL LIMIT 1"
        )
    ids = [subject_id, *run_ids] if kind == "run" else list(run_ids)
    if first_row(cursor, known, [subject_id]) is not None or any(is_run_folder(runs_folder / name) for name in ids):
        return True
    points = runs_folder / subject_id / POINTS_FILE
    return kind == "experiment" and points.is_file() and points.stat().st_size > 0


def close_begun(cursor: duckdb.DuckDBPyConnection) -> int:
    """Close the predictions whose subject has begun. Returns how many; to be called in a transaction."""
    begun = cursor.execute(BEGUN).fetchall()
    for prediction_id, begun_at, _ in begun:
        carry_out(
            cursor,
            "UPDATE predictions SET closed_at = coalesce(?, now()::TIMESTAMP), outcome = 'pending', "
            "reason = 'it has not ended yet' WHERE prediction_id = ?",
            [begun_at, prediction_id],
        )
        carry_out(
            cursor,
            "UPDATE predictions SET outcome = 'ungraded', reason = ? "
            "WHERE prediction_id = ? AND coalesce(edited_at, made_at) > closed_at",
            [LATE, prediction_id],
        )
    return len(begun)


def grade_pending(cursor: duckdb.DuckDBPyConnection, now: datetime) -> int:
    """Grade the closed predictions whose figure is there, say of the others why it is not. Returns how many changed."""
    rows = cursor.execute(
        "SELECT prediction_id, subject_kind, subject_id, json_array_length(run_ids), question, low, high, reason "
        "FROM predictions WHERE outcome = 'pending'"
    ).fetchall()
    changed = 0
    for prediction_id, kind, subject_id, num_runs, question, low, high, reason in rows:
        found = measured_of(cursor, kind, subject_id, Question.from_dict(json.loads(question)), num_runs)
        if found is None or (not found.is_final and found.reason == reason):
            continue
        outcome = "pending"
        if found.is_final:
            held = found.value is not None and grade(low, high, found.value).held
            outcome = "ungraded" if found.value is None else "held" if held else "missed"
        carry_out(
            cursor,
            "UPDATE predictions SET outcome = ?, measured = ?, reason = ?, graded_at = ? WHERE prediction_id = ?",
            [outcome, found.value, found.reason, now if found.is_final else None, prediction_id],
        )
        changed += 1
    return changed


def measured_of(
    cursor: duckdb.DuckDBPyConnection, kind: SubjectKind, subject_id: str, question: Question, num_runs: int = 0
) -> Measured | None:
    """The figure as the store has it now; None where its subject is not here.

    `num_runs` is how many runs an experiment without a plan is to have, where that is known.
    """
    if kind == "run":
        rows = _records(frame_of(cursor, RUNS_AS_POINTS.format(key="''", where="r.run_id = $id"), {"id": subject_id}))
        is_over = True
    else:
        rows = experiment_rows(cursor, subject_id)
        is_planned = bool(rows) and "position" in rows[0]
        is_broken_off = any(row["status"] not in (*GOES_ON, "running") for row in rows)
        is_over = not is_planned and (len(rows) >= num_runs or is_broken_off)
    return measure(question, rows, lambda run_id: completion_rate(cursor, run_id), is_over=is_over) if rows else None


def experiment_rows(cursor: duckdb.DuckDBPyConnection, experiment_id: str) -> list[dict[str, Any]]:
    """An experiment's points as plain rows; of one without a plan, a pair, its runs, whose engines are their keys."""
    points = experiment_queries.point_rows(cursor, experiment_id)
    if points.empty:
        query = RUNS_AS_POINTS.format(key="r.engine", where="r.experiment_id = $id ORDER BY r.created_at")
        points = frame_of(cursor, query, {"id": experiment_id})
    return _records(points)


def completion_rate(cursor: duckdb.DuckDBPyConnection, run_id: str) -> float | None:
    """A run's completion rate in its steady window; None where the run is gone or has none."""
    try:
        return load_point(experiment_queries.run_record(cursor, run_id)).achieved_per_s
    except KeyError:
        return None


def _records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain mappings: what is missing is None."""
    return [{str(name): queries.plain_value(value) for name, value in row.items()} for row in rows.to_dict("records")]
