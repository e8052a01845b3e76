"""How far figures move when they are counted otherwise: each that does, by these definitions and by the lab's own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from engine.core.format import MISSING, change, is_missing
from engine.metrics.definitions import CHOICES, Definitions
from engine.metrics.metric import Metric, Value
from pages.parts.runs.compared import METRIC_BY_NAME
from pages.parts.shared.markdown import plain
from pages.parts.shared.metric_text import metric_text

SAME = 1e-9  # what rounding alone may do


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """One metric that is another number now. None where a run has no such value."""

    metric: Metric
    here: Value
    own: Value

    @property
    def difference(self) -> Value:
        """Here less the lab's own; None where one of the two is missing or both are infinite."""
        if self.here is None or self.own is None or is_missing(self.here) or is_missing(self.own):
            return None
        difference = self.here - self.own
        return None if math.isnan(difference) else difference

    @property
    def difference_text(self) -> str:
        """`+120 ms (+24.1 %)`, `-2`, `∞`."""
        difference = self.difference
        if difference is None:
            return MISSING
        sign = "-" if difference < 0 else "+"
        text = f"{sign}{metric_text(self.metric, abs(difference))}"
        if not self.own or math.isinf(difference):
            return text
        return f"{text} ({change(math.copysign(difference / self.own, difference))})"


def movements(here: Mapping[str, Value], own: Mapping[str, Value]) -> tuple[Movement, ...]:
    """Every metric whose value differs, in the glossary's order."""
    moved = (Movement(metric=metric, here=here.get(name), own=own.get(name)) for name, metric in METRIC_BY_NAME.items())
    return tuple(m for m in moved if not _is_same(m.here, m.own))


def movement_rows(moved: tuple[Movement, ...]) -> list[list[str]]:
    """The cells beneath metric, here, by the lab's own definitions, difference."""
    return [
        [m.metric.label, metric_text(m.metric, m.here), metric_text(m.metric, m.own), m.difference_text] for m in moved
    ]


def definition_text(definitions: Definitions) -> str:
    """`time to first token from admission; percentiles by nearest rank`; empty for the lab's own."""
    changed = definitions.changed()
    said = [f"{c.label}: {c.option(changed[c.name]).label}" for c in CHOICES if c.name in changed]
    return "; ".join(said)


def draw_definitions(definitions: Definitions) -> None:
    """A line where figures are counted otherwise than usual; nothing for the lab's own."""
    if words := definition_text(definitions):
        st.caption(f":material/rule: Counted otherwise than usual. {plain(words)}.")


def _is_same(a: Value, b: Value) -> bool:
    if a is None or b is None or is_missing(a) or is_missing(b):
        return (a is None or is_missing(a)) and (b is None or is_missing(b))
    return a == b or abs(a - b) <= SAME * max(abs(a), abs(b)) < math.inf
