"""The predictions of a store: made before a run, closed at its start, graded after its end.

A prediction can be edited and withdrawn until its subject starts. After that the store refuses both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb
import pandas as pd

from engine.core.run_id import current_time, new_run_id
from engine.predictions.prediction import Expectation, Question, SubjectKind, grade
from engine.runlog.reader import RUN_ID, RUN_ID_RULE
from store.database import Database, carry_out, first_row, in_transaction
from store.predictions.grading import close_begun, grade_pending, has_begun
from store.predictions.simulation import keep, simulate_due
from store.queries.experiments import Experiments
from store.queries.frames import frame_of
from store.queries.runs import Runs

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

CLOSED = """
    FROM predictions WHERE closed_at IS NOT NULL AND (
        (subject_kind = 'run' AND list_contains(?::VARCHAR[], subject_id))
        OR (subject_kind = 'experiment' AND list_contains(?::VARCHAR[], subject_id))
    )
    ORDER BY prediction_id
"""


class PredictionClosed(ValueError):
    """The prediction's subject has started: the prediction can no longer be made, edited or withdrawn."""


class PredictionEdited(ValueError):
    """The prediction was edited elsewhere after it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The subject of a prediction: a run or an experiment. `run_ids` are its runs, if known before the start."""

    kind: SubjectKind
    subject_id: str
    run_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not RUN_ID.fullmatch(self.subject_id):
            raise ValueError(f"{self.kind} id {self.subject_id[:80]!r}: {RUN_ID_RULE}")


class Predictions:
    """The predictions of a store. All methods are thread-safe."""

    def __init__(self, database: Database, runs: Runs, experiments: Experiments) -> None:
        self._database = database
        self._runs = runs
        self._experiments = experiments

    def add(self, subject: Subject, question: Question, expected: Expectation) -> str:
        """Store a prediction and return its id. PredictionClosed if the subject has started."""
        prediction_id = new_run_id()

        def write() -> None:
            row = {
                "prediction_id": prediction_id,
                "subject_kind": subject.kind,
                "subject_id": subject.subject_id,
                "run_ids": json.dumps(subject.run_ids),
                "question": json.dumps(question.to_dict()),
                "label": question.label,
                "low": expected.low,
                "high": expected.high,
                "unit": question.unit,
                "why": expected.why.strip(),
                "made_at": _now(),
                "outcome": "open",
            }
            _insert(self._database.cursor(), row)

        self._while_open(subject, write)
        return prediction_id

    def edit(self, prediction_id: str, expected: Expectation, *, instead_of: Expectation | None = None) -> None:
        """Change what is expected. KeyError for an unknown prediction, PredictionClosed if the subject has started.

        PredictionEdited if `instead_of` is given and is no longer what is stored.
        """
        new = [expected.low, expected.high, expected.why.strip()]
        old = None if instead_of is None else [instead_of.low, instead_of.high, instead_of.why.strip()]
        query = "SELECT low, high, why FROM predictions WHERE prediction_id = ?"

        def write() -> None:
            row = first_row(self._database.cursor(), query, [prediction_id])
            if old is not None and row is not None and list(row) != old:
                raise PredictionEdited("this prediction was edited elsewhere; close this dialog and open it again")
            carry_out(
                self._database.cursor(),
                "UPDATE predictions SET low = ?, high = ?, why = ?, edited_at = ? WHERE prediction_id = ?",
                [*new, _now(), prediction_id],
            )

        self._while_open(self._subject_of(prediction_id), write)

    def withdraw(self, prediction_id: str) -> None:
        """Delete an open prediction. KeyError and PredictionClosed as for `edit`."""
        self._while_open(self._subject_of(prediction_id), lambda: _delete(self._database.cursor(), [prediction_id]))

    def closed(self, run_ids: Sequence[str], experiment_ids: Sequence[str]) -> Sequence[dict[str, Any]]:
        """The closed predictions about these runs and experiments: every column of the table, by id."""
        cursor = self._database.cursor()
        rows = cursor.execute(CLOSED, [[*run_ids], [*experiment_ids]]).fetchall()
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in rows]

    def insert_new(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Insert the predictions that the store does not have, and return their ids."""
        cursor = self._database.cursor()

        def work() -> Sequence[str]:
            known = {str(name) for (name,) in cursor.execute("SELECT prediction_id FROM predictions").fetchall()}
            new = [row for row in rows if row["prediction_id"] not in known]
            for row in new:
                _insert(cursor, row)
            return [str(row["prediction_id"]) for row in new]

        with self._database.writing:
            return in_transaction(cursor, work)

    def remove(self, prediction_ids: Sequence[str]) -> None:
        """Delete predictions, open or closed. Ids that the store does not have are ignored."""
        cursor = self._database.cursor()
        with self._database.writing:
            in_transaction(cursor, lambda: _delete(cursor, prediction_ids))

    def settle(self) -> bool:
        """Close predictions whose subject has started and grade those whose subject has ended. Whether any changed."""
        cursor = self._database.cursor()
        due = "SELECT 1 FROM predictions WHERE outcome IN ('open', 'pending') LIMIT 1"
        if first_row(cursor, due) is None:
            return False
        with self._database.writing:
            return in_transaction(
                cursor,
                lambda: bool(close_begun(cursor) + grade_pending(cursor, self._runs, self._experiments, _now())),
            )

    def simulate(self) -> bool:
        """Simulate the closed predictions, unless something runs on this machine. Returns whether a value was added.

        Takes a few seconds, during which the store can be used.
        """
        cursor = self._database.cursor()
        answers = simulate_due(cursor, self._database.home)
        if answers:
            with self._database.writing:
                in_transaction(cursor, lambda: keep(cursor, answers))
        return bool(answers)

    def list(self, subject: Subject | None = None) -> pd.DataFrame:
        """Predictions (of a subject, or all), newest first, with the distance of the measured value from the range.

        Columns: prediction_id, subject_kind, subject_id, question (JSON), label, low, high, unit, why, made_at,
        edited_at, closed_at, simulated, simulated_note, measured, outcome (open, pending, held, missed, ungraded),
        reason, graded_at, is_unknown (the store has no such run or experiment: not started, or deleted), run_status,
        engine, model, experiment_kind, experiment_label, is_simulated_run, and bound, distance, relative of
        `engine.predictions.prediction.Grade`. A missing number is NaN, a missing text None.
        """
        where, values = "", {}
        if subject is not None:
            where = "WHERE p.subject_kind = $kind AND p.subject_id = $subject_id"
            values = {"kind": subject.kind, "subject_id": subject.subject_id}
        frame = frame_of(self._database.cursor(), LISTED.format(where=where), values)
        grades = [_grade_of(row) for row in frame.to_dict("records")]
        for name in ("bound", "distance", "relative"):
            column = [None if one is None else getattr(one, name) for one in grades]
            frame[name] = pd.Series(column, index=frame.index, dtype="float64")
        return frame

    def _subject_of(self, prediction_id: str) -> Subject:
        query = "SELECT subject_kind, subject_id, run_ids, closed_at FROM predictions WHERE prediction_id = ?"
        row = first_row(self._database.cursor(), query, [prediction_id])
        if row is None:
            raise KeyError(f"the store has no prediction {prediction_id}")
        subject = Subject(kind=row[0], subject_id=row[1], run_ids=tuple(json.loads(row[2])))
        if row[3] is not None:
            raise _closed(subject)
        return subject

    def _while_open(self, subject: Subject, change: Callable[[], None]) -> None:
        """Make a change, unless the subject has started by then."""

        def work() -> None:
            change()
            folder = self._database.runs_folder
            cursor, known = self._database.cursor(), (self._runs, self._experiments)
            if has_begun(cursor, *known, folder, subject.kind, subject.subject_id, subject.run_ids):
                raise _closed(subject)

        with self._database.writing:
            in_transaction(self._database.cursor(), work)


def _insert(cursor: duckdb.DuckDBPyConnection, row: Mapping[str, Any]) -> None:
    """Insert one row. Call it in a transaction."""
    places = ", ".join("?" for _ in row)
    carry_out(cursor, f"INSERT INTO predictions ({', '.join(row)}) VALUES ({places})", [*row.values()])


def _delete(cursor: duckdb.DuckDBPyConnection, prediction_ids: Sequence[str]) -> None:
    """Delete rows. Call it in a transaction."""
    query = "DELETE FROM predictions WHERE list_contains(?::VARCHAR[], prediction_id)"
    carry_out(cursor, query, [list(prediction_ids)])


def _grade_of(row: Mapping[Any, Any]) -> Any:
    if row["outcome"] not in ("held", "missed"):
        return None
    low, high = (None if pd.isna(row[end]) else float(row[end]) for end in ("low", "high"))
    return grade(low, high, float(row["measured"]))


def _closed(subject: Subject) -> PredictionClosed:
    return PredictionClosed(
        f"{subject.kind} {subject.subject_id} has started; its predictions are closed and can no longer be changed"
    )


def _now() -> datetime:
    """Now, in UTC without a time zone as in the store, and in whole milliseconds as in run.json, for comparison."""
    moment = current_time().replace(tzinfo=None)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
