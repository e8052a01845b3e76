"""A prediction as text: its range, its outcome, the simulator's prediction, its dates and subject. No widgets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.core.format import NO_BREAK_SPACE, is_missing, percent, plural, ratio
from engine.core.units import GIB
from engine.predictions.prediction import grade
from pages.figures.frames import records
from pages.parts.runs.badges import Badge
from pages.parts.runs.run_text import when
from pages.parts.shared.metric_text import value_text

BADGES = {
    "open": Badge(
        label="open", icon=":material/edit:", color="blue", help="The run has not begun: the prediction can be edited."
    ),
    "pending": Badge(
        label="closed, not graded yet",
        icon=":material/lock_clock:",
        color="gray",
        help="The run has begun: the prediction cannot be edited, and is graded when its metric is available.",
    ),
    "held": Badge(
        label="held", icon=":material/check_circle:", color="green", help="The measured value is within the range."
    ),
    "missed": Badge(
        label="missed", icon=":material/cancel:", color="red", help="The measured value is outside the range."
    ),
    "ungraded": Badge(label="no grade", icon=":material/help:", color="orange", help="The metric is not available."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedUnit:
    """The unit in which a value is typed, and the factor to the unit in which it is stored."""

    unit: str
    factor: float


MANY = 10.0  # a deviation of this many times the value is shown as a ratio, a smaller one in percent
TYPED = {"share": TypedUnit(unit="%", factor=0.01), "bytes": TypedUnit(unit="GiB", factor=float(GIB))}


def entry_of(unit: str) -> TypedUnit:
    """Shares are typed in percent, bytes in GiB, other values in their own unit."""
    return TYPED.get(unit, TypedUnit(unit=unit, factor=1.0))


def range_text(unit: str, low: float | None, high: float | None) -> str:
    """`1.2x to 1.6x`, `at most 1 s`, `at least 100 tokens/s`, `exactly 8 requests`."""
    if low is None or is_missing(low):
        return f"at most {value_text(unit, high)}"
    if high is None or is_missing(high):
        return f"at least {value_text(unit, low)}"
    return f"exactly {value_text(unit, low)}" if low == high else f"{value_text(unit, low)} to {value_text(unit, high)}"


def without_ticks(text: str) -> str:
    """The text without backticks, which are shown as they are outside Markdown."""
    return text.replace("`", "")


def note_text(text: str) -> str:
    """The simulator's note as a sentence, with commands as typed in the project's folder."""
    return without_ticks(text.replace("`python -m ", "`.venv/bin/python -m "))


def outcome_text(row: Mapping[str, Any]) -> str:
    """`Measured: 194 tokens/s, 44.3 tokens/s (29.5 %) above the range.`, or why there is no grade."""
    unit = str(row["unit"])
    match row["outcome"]:
        case "open":
            return "It closes when its first run starts."
        case "held" | "missed":
            return f"Measured: {value_text(unit, row['measured'])}{_repeated_text(row)}, {distance_text(row)}."
        case _:
            lead = "No grade yet" if row["outcome"] == "pending" else "No grade"
            return f"{lead}: {without_ticks(str(row['reason']))}."


def _repeated_text(row: Mapping[str, Any]) -> str:
    """A note that the value of repeats is a median."""
    if row.get("experiment_kind") != "repeats":
        return ""
    measure = json.loads(str(row["question"]))["measure"]
    return {"metric": " (median over its repeats)", "ratio": " (of medians over repeats)"}.get(measure, "")


def distance_text(row: Mapping[str, Any]) -> str:
    """Whether the measured value is in the range, and its distance to the nearer end.

    `within 10.0 to 400 tokens/s, 3.04 tokens/s above its lowest value`.
    """
    unit, low, high = str(row["unit"]), _end(row["low"]), _end(row["high"])
    found = grade(low, high, float(row["measured"]))
    by = value_text(unit, found.distance)
    side, end = ("above", "lowest") if found.bound == low else ("below", "highest")
    if not found.held:
        if found.relative is not None:
            by += f" ({percent(found.relative)})" if found.relative < MANY else f" ({ratio(found.relative)} that value)"
        return f"{by} {'below' if side == 'above' else 'above'} the {end} value expected"
    if found.distance == 0:
        return "exactly at an end of the range"
    if low is None or high is None:
        return f"{by} {side} the {end} value expected, {value_text(unit, found.bound)}"
    return f"within {_short_range(unit, low, high)}, {by} {side} its {end} value"


def _short_range(unit: str, low: float, high: float) -> str:
    """`10.0 to 400 tokens/s`: a unit of both ends is written once."""
    first, last = value_text(unit, low), value_text(unit, high)
    space = NO_BREAK_SPACE if NO_BREAK_SPACE in first else " "
    number, _, first_unit = first.partition(space)
    return f"{number if first_unit and last.endswith(space + first_unit) else first} to {last}"


def simulated_text(row: Mapping[str, Any]) -> str:
    """The simulator's prediction and its error, or why it made none; empty before the simulator ran."""
    note = row.get("simulated_note")
    value, measured, unit = row["simulated"], row["measured"], str(row["unit"])
    if is_missing(value):
        return f"No prediction by the simulator: {note_text(note)}." if isinstance(note, str) and note else ""
    text = f"The simulator predicted {value_text(unit, value)}"
    held = grade(_end(row["low"]), _end(row["high"]), float(value)).held
    text += ", within the range" if held else ", outside the range"
    if not is_missing(measured) and measured:
        off = float(value) / float(measured) - 1
        text += f", {percent(abs(off))} {'above' if off > 0 else 'below'} the measured value"
    return f"{text}." + (f" {note_text(note)}." if isinstance(note, str) and note else "")


def dates_text(row: Mapping[str, Any]) -> str:
    """When it was written, edited, closed and graded."""
    parts = [f"Written {when(row['made_at'])}"]
    for name, event in (("edited_at", "edited"), ("closed_at", "closed"), ("graded_at", "graded")):
        if not pd.isna(row[name]):
            parts.append(f"{event} {when(row[name])}")
    return ", ".join(parts)


def subject_text(row: Mapping[str, Any]) -> str:
    """Its subject: `run …: continuous, smollm2-135m`, `sweep …: …`; and whether that is deleted."""
    name = f"{row['subject_kind']} {row['subject_id']}"
    if row["is_unknown"]:
        if row["outcome"] == "open":
            return f"{name}, which has not begun"
        return f"{name}, which was deleted"
    if row["subject_kind"] == "run":
        return f"{name}: {row['engine']}, {row['model']}"
    return f"{row['experiment_kind'] or 'experiment'} {row['subject_id']}: {row['experiment_label'] or ''}".rstrip(": ")


def tally_text(rows: pd.DataFrame) -> str:
    """The share of predictions that held, beside the simulator's."""
    held, missed = (int((rows["outcome"] == name).sum()) for name in ("held", "missed"))
    graded = held + missed
    if not graded:
        return "No prediction is graded yet."
    text = f"Of {plural(graded, 'graded prediction')}, {held:,} held: {percent(held / graded)}."
    misses = rows.loc[rows["outcome"] == "missed", "relative"].dropna()
    if len(misses):
        text += f" Median distance of a miss: {percent(float(misses.median()))} outside its range."
    simulated = rows[rows["outcome"].isin(["held", "missed"]) & rows["simulated"].notna()]
    if len(simulated):
        within = sum(
            grade(_end(row["low"]), _end(row["high"]), float(row["simulated"])).held == (row["outcome"] == "held")
            for row in records(simulated)
        )
        text += f" By the same ranges, the simulator predicted {within:,} of {plural(len(simulated), 'outcome')}."
    return text


def _end(value: Any) -> float | None:
    return None if value is None or is_missing(value) else float(value)
