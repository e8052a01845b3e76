"""A metric's value in words, by its unit: 52.1 ms, 43.8 %, 2.88 GiB, 312 tokens/s, 2,304 slot-steps."""

from __future__ import annotations

from engine.core.format import MISSING, NO_BREAK_SPACE, count, duration, is_missing, percent, quantity, size
from engine.metrics.metric import Metric, Value

COUNTED = frozenset({"requests", "tokens", "steps", "passes", "slot-steps", "positions", "samples", "preemptions"})


def metric_text(metric: Metric, value: Value) -> str:
    """Three significant digits with the unit; counts in full without it (the metric's label names what is counted)."""
    if value is None or is_missing(value):
        return MISSING
    match metric.unit:
        case "s":
            return duration(value)
        case "share":
            return percent(value)
        case "bytes":
            return size(value)
        case unit if unit in COUNTED:
            return count(value)
        case unit:
            return quantity(value, unit)


def value_and_unit(metric: Metric, value: Value) -> tuple[str, str]:
    """The same apart, for a tile: ("75.3", "tokens/s"), ("4,096", ""), ("–", "")."""
    text, _, unit = metric_text(metric, value).partition(NO_BREAK_SPACE)
    return text, unit
