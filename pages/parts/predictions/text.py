"""A prediction in words: its range, how it came out and by how much, what the simulator made of it. Pure text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.core.format import (
    MISSING,
    NO_BREAK_SPACE,
    counted,
    duration,
    is_missing,
    percent,
    plural,
    quantity,
    ratio,
    size,
)
from engine.predictions.prediction import grade
from pages.parts.runs.badges import Badge
from pages.parts.runs.run_text import when
from pages.parts.shared.metric_text import COUNTED

BADGES = {
    "open": Badge(
        label="open", icon=":material/edit:", color="blue", help="It has not begun: this can still be edited."
    ),
    "pending": Badge(
        label="closed, not graded yet",
        icon=":material/lock_clock:",
        color="gray",
        help="It has begun, so that the prediction stands as it was written; it is graded when its figure is there.",
    ),
    "held": Badge(
        label="held", icon=":material/check_circle:", color="green", help="What was measured lies within the range."
    ),
    "missed": Badge(
        label="missed", icon=":material/cancel:", color="red", help="What was measured lies outside of the range."
    ),
    "ungraded": Badge(
        label="no grade", icon=":material/help:", color="orange", help="There is no figure to grade it by."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How a person types a unit: in what, and how much of the unit one of that is."""

    unit: str
    factor: float


MANY = 10.0  # from so many times an end on, a percentage says less than a ratio
ENTRIES = {"share": Entry(unit="%", factor=0.01), "bytes": Entry(unit="GiB", factor=2.0**30)}


def entry_of(unit: str) -> Entry:
    """Shares are typed in percent, bytes in GiB, everything else as it is."""
    return ENTRIES.get(unit, Entry(unit=unit, factor=1.0))


def value_text(unit: str, value: float | None) -> str:
    """Three significant digits with the unit: 52.1 ms, 43.8 %, 2.88 GiB, 1.92x, 312 tokens/s."""
    if value is None or is_missing(value):
        return MISSING
    shown = {"s": duration, "share": percent, "bytes": size, "times": ratio}.get(unit)
    if shown is not None:
        return shown(value)
    if unit in COUNTED:
        return f"{counted(value)} {unit}"
    return quantity(value, unit)


def range_text(unit: str, low: float | None, high: float | None) -> str:
    """`1.2x to 1.6x`, `at most 1 s`, `at least 100 tokens/s`, `exactly 8 requests`."""
    if low is None or is_missing(low):
        return f"at most {value_text(unit, high)}"
    if high is None or is_missing(high):
        return f"at least {value_text(unit, low)}"
    return f"exactly {value_text(unit, low)}" if low == high else f"{value_text(unit, low)} to {value_text(unit, high)}"


def without_ticks(text: str) -> str:
    """A reason as a sentence: a backtick marks code where it was written, and nothing where it is read."""
    return text.replace("`", "")


def note_text(text: str) -> str:
    """The simulator's note as a sentence: a command in it as it is typed from the project's folder."""
    return without_ticks(text.replace("`python -m ", "`.venv/bin/python -m "))


def outcome_text(row: Mapping[str, Any]) -> str:
    """`Measured: 194 tokens/s, 44.3 tokens/s (29.5 %) above the highest value expected.`, or why there is no grade."""
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
    """That a figure of repeats is a median, since their list shows other ones."""
    if row.get("experiment_kind") != "repeats":
        return ""
    measure = json.loads(str(row["question"]))["measure"]
    return {"metric": " (median over its repeats)", "ratio": " (of medians over repeats)"}.get(measure, "")


def distance_text(row: Mapping[str, Any]) -> str:
    """Where it lies: within which range, or how far outside, and how far that is from the nearer end.

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
    """`10.0 to 400 tokens/s`: a unit that both ends have is said once."""
    first, last = value_text(unit, low), value_text(unit, high)
    space = NO_BREAK_SPACE if NO_BREAK_SPACE in first else " "
    number_of, _, word = first.partition(space)
    return f"{number_of if word and last.endswith(space + word) else first} to {last}"


def simulated_text(row: Mapping[str, Any]) -> str:
    """What the simulator expected and how near that came, or why it expected nothing; empty while nobody asked it."""
    note = row.get("simulated_note")
    value, measured, unit = row["simulated"], row["measured"], str(row["unit"])
    if is_missing(value):
        return f"The simulator expected nothing: {note_text(note)}." if isinstance(note, str) and note else ""
    words = f"The simulator expected {value_text(unit, value)}"
    held = grade(_end(row["low"]), _end(row["high"]), float(value)).held
    words += ", within the range" if held else ", outside the range"
    if not is_missing(measured) and measured:
        off = float(value) / float(measured) - 1
        words += f"; that is {percent(abs(off))} {'above' if off > 0 else 'below'} what was measured"
    return f"{words}." + (f" {note_text(note)}." if isinstance(note, str) and note else "")


def written_text(row: Mapping[str, Any]) -> str:
    """When it was written, changed, closed."""
    parts = [f"Written {when(row['made_at'])}"]
    for name, word in (("edited_at", "changed"), ("closed_at", "closed"), ("graded_at", "graded")):
        if not pd.isna(row[name]):
            parts.append(f"{word} {when(row[name])}")
    return ", ".join(parts)


def subject_text(row: Mapping[str, Any]) -> str:
    """What it is of: `run …, continuous, smollm2-135m`, `sweep …`; and whether that is gone."""
    name = f"{row['subject_kind']} {row['subject_id']}"
    if row["is_unknown"]:
        if row["outcome"] == "open":
            return f"{name}, which has not begun"
        return f"{name}, which is gone: it was deleted, and this stays"
    if row["subject_kind"] == "run":
        return f"{name}: {row['engine']}, {row['model']}"
    return f"{row['experiment_kind'] or 'experiment'} {row['subject_id']}: {row['experiment_label'] or ''}".rstrip(": ")


def tally_text(rows: pd.DataFrame) -> str:
    """One's own hit rate in words, beside the simulator's."""
    held, missed = (int((rows["outcome"] == name).sum()) for name in ("held", "missed"))
    graded = held + missed
    if not graded:
        return "None of your predictions has been graded yet."
    words = f"Of {plural(graded, 'graded prediction')}, {held:,} held: {percent(held / graded)}."
    misses = rows.loc[rows["outcome"] == "missed", "relative"].dropna()
    if len(misses):
        words += f" A miss was typically {percent(float(misses.median()))} outside of its range."
    told = rows[rows["outcome"].isin(["held", "missed"]) & rows["simulated"].notna()]
    if len(told):
        within = sum(
            grade(_end(row["low"]), _end(row["high"]), float(row["simulated"])).held == (row["outcome"] == "held")
            for row in told.to_dict("records")
        )
        words += f" The simulator saw {within:,} of {plural(len(told), 'outcome')} coming, by the same ranges."
    return words


def _end(value: Any) -> float | None:
    return None if value is None or is_missing(value) else float(value)
