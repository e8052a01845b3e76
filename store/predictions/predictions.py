"""The part of the store that keeps predictions: written before, closed at the start, graded after.

Until its subject begins a prediction can be edited and withdrawn. From then on the store refuses both, whatever page or
process asks: what somebody expected stays as it was written.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from engine.core.prediction import Expectation, Question, SubjectKind
from engine.core.run_id import new_run_id
from engine.runlog.reader import RUN_ID
from store.database import carry_out, first_row, in_transaction
from store.predictions import grading as prediction_rows
from store.predictions import simulation as foresight


class PredictionClosed(ValueError):
    """The prediction's subject has begun: it can be neither made, edited nor withdrawn any more."""


class PredictionEdited(ValueError):
    """Somebody else has edited the prediction since it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is predicted of: a run, or an experiment. `run_ids` are its runs, as far as they are known beforehand."""

    kind: SubjectKind
    subject_id: str
    run_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not RUN_ID.fullmatch(self.subject_id):
            raise ValueError(f"{self.kind} {self.subject_id[:80]!r}: an id has 1 to 64 letters, digits, _ or -")


class Predicting(ABC):
    """Every method may be called from any thread."""

    home: Path
    writing: threading.RLock
    runs_folder: Path

    @abstractmethod
    def cursor(self) -> duckdb.DuckDBPyConnection:
        """This thread's own cursor."""

    def predict(self, subject: Subject, question: Question, expected: Expectation) -> str:
        """Write a prediction down; returns its id. PredictionClosed where the subject has begun."""
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
            places = ", ".join("?" for _ in row)
            carry_out(self.cursor(), f"INSERT INTO predictions ({', '.join(row)}) VALUES ({places})", [*row.values()])

        self._while_open(subject, write)
        return prediction_id

    def edit_prediction(
        self, prediction_id: str, expected: Expectation, *, instead_of: Expectation | None = None
    ) -> None:
        """Expect something else of the same question. KeyError where there is none, PredictionClosed once it began,
        PredictionEdited where it is no longer `instead_of`, if that is given."""
        new = [expected.low, expected.high, expected.why.strip()]
        old = None if instead_of is None else [instead_of.low, instead_of.high, instead_of.why.strip()]
        found = "SELECT low, high, why FROM predictions WHERE prediction_id = ?"

        def write() -> None:
            row = first_row(self.cursor(), found, [prediction_id])
            if old is not None and row is not None and list(row) != old:
                raise PredictionEdited("somebody else has edited this prediction since; close this and look at it anew")
            carry_out(
                self.cursor(),
                "UPDATE predictions SET low = ?, high = ?, why = ?, edited_at = ? WHERE prediction_id = ?",
                [*new, _now(), prediction_id],
            )

        self._while_open(self._subject_of(prediction_id), write)

    def withdraw_prediction(self, prediction_id: str) -> None:
        """Take a prediction back, as if it had never been made. KeyError and PredictionClosed as for editing."""
        self._while_open(
            self._subject_of(prediction_id),
            lambda: carry_out(self.cursor(), "DELETE FROM predictions WHERE prediction_id = ?", [prediction_id]),
        )

    def predictions(self, subject: Subject | None = None) -> pd.DataFrame:
        """Predictions (of a subject, or all), the newest first.

        Columns: prediction_id, subject_kind, subject_id, question (JSON), label, low, high, unit, why, made_at,
        edited_at, closed_at, simulated, simulated_note, measured, outcome (open, pending, held, missed, ungraded),
        reason, graded_at, is_unknown (the store has no such run or experiment: yet to begin, or deleted), run_status,
        engine, model, experiment_kind, experiment_label, is_simulated_run, and bound, distance, relative as
        `engine.core.prediction.Grade` has them. Numbers that are missing are NaN, texts None.
        """
        if subject is None:
            return prediction_rows.list_predictions(self.cursor(), "", {})
        where = "WHERE p.subject_kind = $kind AND p.subject_id = $subject_id"
        values = {"kind": subject.kind, "subject_id": subject.subject_id}
        return prediction_rows.list_predictions(self.cursor(), where, values)

    def prediction(self, prediction_id: str) -> dict[str, Any]:
        """One row of `predictions`. KeyError where there is none of that id."""
        found = prediction_rows.list_predictions(self.cursor(), "WHERE p.prediction_id = $id", {"id": prediction_id})
        if found.empty:
            raise KeyError(f"there is no prediction {prediction_id}")
        return {str(name): value for name, value in found.iloc[0].items()}

    def settle_predictions(self) -> bool:
        """Close what has begun and grade what has ended. Returns whether anything changed."""
        cursor = self.cursor()
        due = "SELECT 1 FROM predictions WHERE outcome IN ('open', 'pending') LIMIT 1"
        if first_row(cursor, due) is None:
            return False
        with self.writing:
            return in_transaction(
                cursor,
                lambda: bool(prediction_rows.close_begun(cursor) + prediction_rows.grade_pending(cursor, _now())),
            )

    def simulate_predictions(self) -> bool:
        """Ask the simulator what it expects of what has closed, unless something runs here: some seconds, in which the
        store can be used. Returns whether anything was added."""
        answers = foresight.foresee(self.cursor(), self.home)
        if answers:
            with self.writing:
                in_transaction(self.cursor(), lambda: foresight.keep(self.cursor(), answers))
        return bool(answers)

    def measured_points(self, experiment_id: str) -> list[dict[str, Any]]:
        """An experiment's points as plain rows, as `engine.core.prediction_measure` reads them; of a pair its runs."""
        return prediction_rows.experiment_rows(self.cursor(), experiment_id)

    def completion_rate(self, run_id: str) -> float | None:
        """Requests a second in a run's steady window; None where the run is gone or has none."""
        return prediction_rows.completion_rate(self.cursor(), run_id)

    def _subject_of(self, prediction_id: str) -> Subject:
        query = "SELECT subject_kind, subject_id, run_ids, closed_at FROM predictions WHERE prediction_id = ?"
        row = first_row(self.cursor(), query, [prediction_id])
        if row is None:
            raise KeyError(f"there is no prediction {prediction_id}")
        subject = Subject(kind=row[0], subject_id=row[1], run_ids=tuple(json.loads(row[2])))
        if row[3] is not None:
            raise _closed(subject)
        return subject

    def _while_open(self, subject: Subject, change: Callable[[], None]) -> None:
        """Make a change, unless the subject has begun by the time it is made."""

        def work() -> None:
            change()
            if prediction_rows.has_begun(
                self.cursor(), self.runs_folder, subject.kind, subject.subject_id, subject.run_ids
            ):
                raise _closed(subject)

        with self.writing:
            in_transaction(self.cursor(), work)


def _closed(subject: Subject) -> PredictionClosed:
    return PredictionClosed(
        f"{subject.kind} {subject.subject_id} has begun: predictions of it are closed, and stay as they were written"
    )


def _now() -> datetime:
    """UTC without a zone, as the store keeps times, in whole milliseconds as run.json does: so they can be compared."""
    moment = datetime.now(UTC).replace(tzinfo=None)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
