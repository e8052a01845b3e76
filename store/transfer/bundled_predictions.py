"""Predictions in a bundle: the closed predictions about its runs and experiments, with their grades.

Imported predictions are checked field by field; a prediction already in the store stays unchanged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from engine.predictions.prediction import OUTCOMES, Expectation, Question
from engine.runlog.reader import RUN_ID
from store.database import utc
from store.store import Store

TEXTS = ("prediction_id", "subject_kind", "subject_id", "question", "why", "outcome")
NOTES = ("simulated_note", "reason")
NUMBERS = ("low", "high", "simulated", "measured")
TIMES = ("made_at", "edited_at", "closed_at", "graded_at")
MAX_NOTE = 4_000


def bundled_predictions(store: Store, run_ids: Sequence[str], experiment_ids: Sequence[str]) -> list[dict[str, Any]]:
    """The closed predictions about these runs and experiments, as plain JSON values."""
    names = (*TEXTS, *NOTES, *NUMBERS, *TIMES)
    return [{name: _plain(row[name]) for name in names} for row in store.predictions.closed(run_ids, experiment_ids)]


def checked_prediction(entry: Any) -> dict[str, Any]:
    """A prediction of a bundle as a row of the store. ValueError in one line if it is invalid."""
    try:
        return _checked(entry)
    except (OverflowError, RecursionError) as error:
        raise ValueError("a prediction in the file cannot be read") from error


def _checked(entry: Any) -> dict[str, Any]:
    if not isinstance(entry, Mapping) or not all(isinstance(entry.get(name), str) for name in TEXTS):
        raise ValueError("a prediction in the file cannot be read")
    shown = f"prediction {entry['prediction_id'][:80]!r}"
    ids = (entry["prediction_id"], entry["subject_id"])
    if not all(RUN_ID.fullmatch(name) for name in ids) or entry["subject_kind"] not in ("run", "experiment"):
        raise ValueError(f"{shown}: its id or its subject cannot be read")
    if entry["outcome"] not in OUTCOMES or entry["outcome"] == "open":
        raise ValueError(f"{shown}: its outcome is {entry['outcome'][:80]!r}")
    numbers = {name: _number(entry.get(name), shown) for name in NUMBERS}
    times = {name: None if entry.get(name) is None else utc(entry[name]) for name in TIMES}
    if times["made_at"] is None or times["closed_at"] is None:
        raise ValueError(f"{shown}: made_at or closed_at cannot be read")
    if entry["outcome"] in ("held", "missed") and numbers["measured"] is None:
        raise ValueError(f"{shown}: its outcome is {entry['outcome']}, but it has no measured value")
    try:
        question = Question.from_dict(json.loads(entry["question"]))
        expected = Expectation(low=numbers["low"], high=numbers["high"], why=entry["why"])
    except (ValueError, TypeError) as error:
        raise ValueError(f"{shown}: {error}") from error
    notes = {name: str(entry[name])[:MAX_NOTE] if entry.get(name) is not None else None for name in NOTES}
    texts = {name: entry[name] for name in TEXTS} | {"question": json.dumps(question.to_dict()), "why": expected.why}
    return {**texts, **notes, **numbers, **times, "label": question.label, "unit": question.unit, "run_ids": "[]"}


def _plain(value: Any) -> Any:
    return value.isoformat(timespec="milliseconds") + "+00:00" if isinstance(value, datetime) else value


def _number(value: Any, shown: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{shown}: a number cannot be read")
    return float(value)
