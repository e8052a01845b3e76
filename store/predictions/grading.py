"""Closes predictions whose subject has started, and grades those whose subject has ended.

A prediction closes when the first run of its subject starts, as known from the store or the disk. A prediction made or
edited after that start, for example an imported one, gets no grade.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import duckdb

from engine.experiments.experiment import CONTINUES_AFTER
from engine.predictions.measure import Measured, measure
from engine.predictions.prediction import Question, SubjectKind, grade
from engine.runlog.experiment_log import POINTS_FILE
from store.database import carry_out, first_row
from store.folders import is_run_folder
from store.queries.experiments import Experiments
from store.queries.runs import Runs

LATE = "it was written after its subject had started"

# For each open prediction, when its subject started, if the store knows a run of it.
BEGUN = """
    SELECT p.prediction_id, min(r.created_at) AS begun_at, count(r.run_id) AS runs
    FROM predictions p
    JOIN runs r ON r.run_id = p.subject_id
        OR (p.subject_kind = 'experiment' AND r.experiment_id = p.subject_id)
        OR list_contains(p.run_ids::JSON::VARCHAR[], r.run_id)
    WHERE p.closed_at IS NULL
    GROUP BY p.prediction_id
"""


def has_begun(
    cursor: duckdb.DuckDBPyConnection,
    runs: Runs,
    experiments: Experiments,
    runs_folder: Path,
    kind: SubjectKind,
    subject_id: str,
    run_ids: Sequence[str],
) -> bool:
    """Whether a subject has started, according to the store or to run folders that are not ingested yet.

    A deleted subject had started if one of its predictions is closed.
    """
    closed = "SELECT 1 FROM predictions WHERE subject_kind = ? AND subject_id = ? AND closed_at IS NOT NULL"
    if first_row(cursor, closed, [kind, subject_id]) is not None:
        return True
    is_known = runs.has(subject_id) if kind == "run" else experiments.has_begun(subject_id)
    ids = [subject_id, *run_ids] if kind == "run" else list(run_ids)
    if is_known or any(is_run_folder(runs_folder / name) for name in ids):
        return True
    points = runs_folder / subject_id / POINTS_FILE
    return kind == "experiment" and points.is_file() and points.stat().st_size > 0


def close_begun(cursor: duckdb.DuckDBPyConnection) -> int:
    """Close the predictions whose subject has started. Returns how many. Call it in a transaction."""
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


def grade_pending(cursor: duckdb.DuckDBPyConnection, runs: Runs, experiments: Experiments, now: datetime) -> int:
    """Grade the closed predictions whose value is measured, and store for the others why it is not. How many
    changed."""
    rows = cursor.execute(
        "SELECT prediction_id, subject_kind, subject_id, json_array_length(run_ids), question, low, high, reason "
        "FROM predictions WHERE outcome = 'pending'"
    ).fetchall()
    changed = 0
    for prediction_id, kind, subject_id, num_runs, question, low, high, reason in rows:
        found = measured_of(runs, experiments, kind, subject_id, Question.from_dict(json.loads(question)), num_runs)
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
    runs: Runs, experiments: Experiments, kind: SubjectKind, subject_id: str, question: Question, num_runs: int = 0
) -> Measured | None:
    """The measured value as of now; None if the store does not have the subject.

    `num_runs`: how many runs an experiment without a plan will have, if known.
    """
    if kind == "run":
        rows = experiments.run_as_point(subject_id)
        is_over = True
    else:
        rows = experiments.measured_points(subject_id)
        is_planned = bool(rows) and "position" in rows[0]
        is_broken_off = any(row["status"] not in (*CONTINUES_AFTER, "running") for row in rows)
        is_over = not is_planned and (len(rows) >= num_runs or is_broken_off)
    return measure(question, rows, runs.completion_rate, is_over=is_over) if rows else None
