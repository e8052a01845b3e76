"""Measures the figure of a prediction from the points of its subject: one row per point and repeat, metrics by name.

A run is a subject with one point. A figure is final when every point that it needs has ended; until then it has a
reason instead. A figure that is not available, because a point ran out of memory or a percentile has too few samples,
also has a reason, never a zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.format import count
from engine.experiments.experiment import ENDED, summarize
from engine.experiments.sweep_table import SweepRow, sweep_rows
from engine.predictions.prediction import Question

Rows = Sequence[Mapping[str, Any]]
RateOf = Callable[[str], float | None]  # by run id: the run's completion rate in its steady window
OVER = ("stopped", "crashed")  # a run with this status has ended; a point with it runs again


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A figure, or the reason why there is none. `is_final`: later runs will not change it."""

    value: float | None
    reason: str | None
    is_final: bool


def measure(question: Question, rows: Rows, rate_of: RateOf, *, is_over: bool = False) -> Measured:
    """The figure of a question. `is_over`: no more runs will follow, so stopped and crashed points count as ended.

    `rate_of` is called only for saturation runs.
    """
    needed = needed_points(question, rows)
    if not needed:
        reason = "no run that it needs was made" if is_over else "no run that it needs has begun yet"
        return _none(reason, is_final=is_over)
    waiting = [row for row in needed if row["status"] not in ENDED and not (is_over and row["status"] in OVER)]
    if waiting:
        return _none(_waiting_text(len(waiting), len(needed)), is_final=False)
    match question.measure:
        case "metric":
            return _metric(question.metric, needed)
        case "ratio":
            return _ratio(*(_metric(question.metric, _keyed(needed, key)) for key in (question.key, question.base)))
        case "capacity":
            return _capacity(needed, rate_of)
        case "capacity_ratio":
            pair = (question.engine, question.base)
            return _ratio(*(_capacity([r for r in needed if r["engine"] == name], rate_of) for name in pair))
        case "largest_batch":
            return _largest_batch(needed)
        case _:
            return _of_sweep(question, rows)


def needed_points(question: Question, rows: Rows) -> list[Mapping[str, Any]]:
    """The points that the question needs; none at all if one of its sides has no points."""
    match question.measure:
        case "metric":
            return _keyed(rows, question.key)
        case "ratio":
            sides = [_keyed(rows, key) for key in (question.key, question.base)]
        case "capacity" | "capacity_ratio":
            engines = [question.engine, *([question.base] if question.base else [])]
            sides = [[r for r in rows if (r["role"], r["engine"]) == ("saturation", name)] for name in engines]
        case "largest_batch":
            wanted = (question.engine, question.prompts, "point")
            sides = [[r for r in rows if (r["engine"], r["prompts"], r["role"]) == wanted]]
        case _:
            mine = _keyed(rows, question.key)
            singles = [r for r in rows if mine and r["batch_size"] == 1 and _is_beside(r, mine[0])]
            sides = [mine, mine if mine and mine[0]["batch_size"] == 1 else singles]
    return list({id(row): row for side in sides for row in side}.values()) if all(sides) else []


def _is_beside(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(row[name] == other[name] for name in ("engine", "prompts", "role"))


def _keyed(rows: Iterable[Mapping[str, Any]], key: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if not key or row["key"] == key]


def _metric(name: str, rows: Rows) -> Measured:
    done = [row for row in rows if row["status"] == "completed"]
    if not done:
        return _none(_trouble(rows))
    found = summarize(_number(row.get(_column(name, row))) for row in done)
    if found is None:
        return _none(_missing_text(name, done[0]))
    return Measured(value=found.median, reason=None, is_final=True)


def _column(name: str, row: Mapping[str, Any]) -> str:
    """The metric's column. In a sweep `prompt_tokens` is the prompt length, and `run_prompt_tokens` the metric."""
    return f"run_{name}" if f"run_{name}" in row else name


def _ratio(over: Measured, under: Measured) -> Measured:
    if over.value is None or under.value is None:
        return over if over.value is None else under
    if under.value == 0:
        return _none("the divisor is 0")
    return Measured(value=over.value / under.value, reason=None, is_final=True)


def _capacity(rows: Rows, rate_of: RateOf) -> Measured:
    done = [row for row in rows if row["status"] == "completed" and row["run_id"]]
    if not done:
        return _none(_trouble(rows))
    found = summarize(rate_of(str(row["run_id"])) for row in done)
    if found is None:
        return _none("its run at saturation was deleted, or is too short for a steady window")
    return Measured(value=found.median, reason=None, is_final=True)


def _largest_batch(rows: Rows) -> Measured:
    sizes = sorted({int(row["batch_size"]) for row in rows})
    done = [size for size in sizes if all(r["status"] == "completed" for r in rows if int(r["batch_size"]) == size)]
    return Measured(value=float(max(done, default=0)), reason=None, is_final=True)


def _of_sweep(question: Question, rows: Rows) -> Measured:
    """Figures of the sweep's table: `speedup`, and the share of linear scaling."""
    mine = _keyed(rows, question.key)[0]
    found = next((row for row in sweep_rows([r for r in rows if _is_beside(r, mine)]) if _is_row(row, mine)), None)
    if found is None or found.status != "completed":
        return _none(_trouble(_keyed(rows, question.key)))
    if question.measure == "speedup":
        value = found.speedup
    else:
        rate, line = found.decode_tokens_per_s, found.linear_tokens_per_s
        value = rate / line if rate is not None and line else None
    if value is None:
        return _none("the batch of one did not complete, so there is no base to compare with")
    return Measured(value=value, reason=None, is_final=True)


def _is_row(row: SweepRow, point: Mapping[str, Any]) -> bool:
    return row.batch_size == int(point["batch_size"])


def _none(reason: str, *, is_final: bool = True) -> Measured:
    return Measured(value=None, reason=reason, is_final=is_final)


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


def _waiting_text(waiting: int, needed: int) -> str:
    if needed == 1:
        return "it has not ended yet"
    return f"{waiting:,} of {needed:,} runs that it needs have not ended yet"


def _trouble(rows: Rows) -> str:
    """Why no run completed: the reason of the first failed one."""
    worst = next((row for row in rows if row["status"] != "completed"), None)
    if worst is None:
        return "none of its runs completed"
    end = {"oom": "ran out of memory", "stopped": "was stopped", "crashed": "crashed"}.get(worst["status"], "failed")
    error = worst.get("error")
    return f"its run {end}{f': {error}' if isinstance(error, str) and error else ''}"


def _missing_text(name: str, row: Mapping[str, Any]) -> str:
    """Why a completed run has no such figure."""
    if "_p99_" in name:
        samples = _number(row.get(f"{name.split('_p99_')[0]}_n"))
        return f"a 99th percentile needs 100 samples; there are {count(samples or 0)}"
    if name == "offered_requests_per_s":
        return "all requests arrived at once, so there is no offered rate"
    return "the run has no such figure"
