"""Predictions: the figure expected of a run or an experiment before it begins, and its grade. Nothing is stored here.

A prediction is a question (which figure), a range (either end may be open) and a reason. Questions cover the metrics of
a run, the metrics of an experiment's points, and a few figures that need several points. `measure` measures them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self

from engine.metrics.metrics import METRICS

SubjectKind = Literal["run", "experiment"]
Outcome = Literal["open", "pending", "held", "missed", "ungraded"]
OUTCOMES: tuple[Outcome, ...] = ("open", "pending", "held", "missed", "ungraded")
MAX_WHY = 2_000

RUN_METRICS = {metric.name: metric for metric in METRICS if metric.level == "run"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureKind:
    """A kind of figure. `needs` lists the fields that its question must have.

    `unit` is None if the figure has its metric's unit.
    """

    label: str
    unit: str | None
    meaning: str
    needs: tuple[str, ...]


MEASURES: dict[str, MeasureKind] = {
    "metric": MeasureKind(
        label="{metric}",
        unit=None,
        meaning="A metric of the run; for a repeated point, the median over its repeats.",
        needs=("metric",),
    ),
    "ratio": MeasureKind(
        label="{metric}: {key} over {base}",
        unit="times",
        meaning="A metric of one point divided by the same metric of another; medians over repeats.",
        needs=("metric", "key", "base"),
    ),
    "capacity": MeasureKind(
        label="Capacity of {engine}",
        unit="requests/s",
        meaning="The completion rate at saturation, measured in the steady window; the median over repeats.",
        needs=("engine",),
    ),
    "capacity_ratio": MeasureKind(
        label="Capacity of {engine} over {base}",
        unit="times",
        meaning="One engine's completion rate at saturation divided by another's, on the same requests.",
        needs=("engine", "base"),
    ),
    "largest_batch": MeasureKind(
        label="Largest batch of {engine} on {prompts} that completed",
        unit="requests",
        meaning="The largest batch size of the sweep whose repeats all completed; 0 if there is none.",
        needs=("engine", "prompts"),
    ),
    "speedup": MeasureKind(
        label="Speed-up of {key} over one at a time",
        unit="times",
        meaning="B times the duration of the batch of one, divided by the duration of the batch of B.",
        needs=("key",),
    ),
    "linear_share": MeasureKind(
        label="Decode rate of {key} as a share of B x the rate at B=1",
        unit="share",
        meaning="1 if the batch decodes B times as fast as a single row, so that more rows are free.",
        needs=("key",),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A figure of a subject. `key` and `base` are points of an experiment (engines, if it runs several side by side);
    for capacity_ratio `base` is an engine. Fields that the measure does not need stay empty."""

    measure: str
    metric: str = ""
    key: str = ""
    base: str = ""
    engine: str = ""
    prompts: str = ""

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise ValueError(f"measure {self.measure!r}: use one of {', '.join(MEASURES)}")
        missing = [name for name in MEASURES[self.measure].needs if not getattr(self, name)]
        if missing:
            raise ValueError(f"measure {self.measure}: it needs {' and '.join(missing)}")
        if self.metric and self.metric not in RUN_METRICS:
            raise ValueError(f"metric {self.metric!r}: unknown; use one from the glossary")
        if self.base and self.base in (self.key, self.engine):
            raise ValueError(f"{self.base} over itself is always 1; choose two different ones")

    @property
    def label(self) -> str:
        """The question as text: `Throughput of static/p16/b4`."""
        metric = RUN_METRICS[self.metric].label if self.metric else ""
        text = MEASURES[self.measure].label.format(**{**asdict(self), "metric": metric})
        return f"{text} of {self.key}" if self.measure == "metric" and self.key else text

    @property
    def unit(self) -> str:
        """The unit of its figure: a metric's unit, `times`, `share`, `requests/s` or `requests`."""
        return MEASURES[self.measure].unit or RUN_METRICS[self.metric].unit

    def to_dict(self) -> dict[str, str]:
        """Plain JSON values, without empty fields."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`. ValueError if `data` is not a question."""
        names = {field.name for field in fields(cls)}
        unknown = sorted(set(data) - names)
        if unknown or not all(isinstance(value, str) for value in data.values()):
            raise ValueError(f"question: {', '.join(unknown) or 'a value'} is not valid")
        if "measure" not in data:
            raise ValueError("question: measure is missing")
        return cls(**data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A range from `low` to `high`, both included, in the question's unit (None is an open end), and the reason `why`.

    ValueError, with one clear line, for a range without ends or with swapped ends, and for a missing reason.
    """

    low: float | None
    high: float | None
    why: str

    def __post_init__(self) -> None:
        low, high = self.low, self.high
        if low is None and high is None:
            raise ValueError("give a lowest value, a highest, or both")
        if not all(end is None or math.isfinite(end) for end in (low, high)):
            raise ValueError("the ends must be numbers; leave an end empty to keep it open")
        if low is not None and high is not None and low > high:
            raise ValueError(f"{low:g} to {high:g} is empty; enter the lowest value first")
        if not self.why.strip():
            raise ValueError("give a reason; without one you learn nothing when it misses")
        if len(self.why) > MAX_WHY:
            raise ValueError(f"the reason has {len(self.why):,} characters; use at most {MAX_WHY:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """The grade of a prediction. `distance` is from the value to the nearer end of the range, in the question's unit:
    inside the range if it held, outside if it missed. `relative` is `distance` as a share of that end; None if it is 0.
    """

    held: bool
    value: float
    bound: float
    distance: float
    relative: float | None


def grade(low: float | None, high: float | None, value: float) -> Grade:
    """Grade a measured value by a range that has at least one end."""
    ends = [end for end in (low, high) if end is not None]
    bound = min(ends, key=lambda end: abs(value - end))
    distance = abs(value - bound)
    return Grade(
        held=(low is None or value >= low) and (high is None or value <= high),
        value=value,
        bound=bound,
        distance=distance,
        relative=distance / abs(bound) if bound else None,
    )
