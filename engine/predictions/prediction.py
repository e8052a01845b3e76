"""What somebody expects of a run or an experiment before it begins, and how that came out. Pure: nothing is stored.

A prediction is a question (which figure), a range (either end may be open) and a reason. The figures that can be asked
for are a run's metrics, and of an experiment its points' metrics and a few that need several points; how each is
measured is in `prediction_measure`.
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
    """A way to get one figure out of a subject. `needs` names the fields of a question that say of what.

    `unit` is None where the figure has the unit of its metric.
    """

    label: str
    unit: str | None
    meaning: str
    needs: tuple[str, ...]


MEASURES: dict[str, MeasureKind] = {
    "metric": MeasureKind(
        label="{metric}",
        unit=None,
        meaning="A metric of the run; of a point that is repeated, the median over its repeats.",
        needs=("metric",),
    ),
    "ratio": MeasureKind(
        label="{metric}: {key} over {base}",
        unit="times",
        meaning="A metric of one point over the same metric of another; medians over repeats.",
        needs=("metric", "key", "base"),
    ),
    "capacity": MeasureKind(
        label="Capacity of {engine}",
        unit="requests/s",
        meaning="The completion rate at saturation, counted in the steady window; the median over repeats.",
        needs=("engine",),
    ),
    "capacity_ratio": MeasureKind(
        label="Capacity of {engine} over {base}",
        unit="times",
        meaning="One engine's completion rate at saturation over another's, on the same requests.",
        needs=("engine", "base"),
    ),
    "largest_batch": MeasureKind(
        label="Largest batch of {engine} on {prompts} that completed",
        unit="requests",
        meaning="The largest batch size of the sweep all of whose repeats completed; 0 where none did.",
        needs=("engine", "prompts"),
    ),
    "speedup": MeasureKind(
        label="Speed-up of {key} over one at a time",
        unit="times",
        meaning="B times what the batch of one took, over what the batch of B took.",
        needs=("key",),
    ),
    "linear_share": MeasureKind(
        label="Decode rate of {key} as a share of B x the rate at B=1",
        unit="share",
        meaning="1 where the batch decodes B times as fast as a single row: where it still costs nothing.",
        needs=("key",),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which figure of a subject. `key` and `base` name points of an experiment, of a pair its engines; for
    capacity_ratio `base` is an engine. What a measure does not need stays empty."""

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
            raise ValueError(f"metric {self.metric!r}: no run has it; the glossary lists those there are")
        if self.base and self.base in (self.key, self.engine):
            raise ValueError(f"{self.base} over itself is 1; choose another one to compare with")

    @property
    def label(self) -> str:
        """The question in words: `Throughput of static/p16/b4`."""
        metric = RUN_METRICS[self.metric].label if self.metric else ""
        words = MEASURES[self.measure].label.format(**{**asdict(self), "metric": metric})
        return f"{words} of {self.key}" if self.measure == "metric" and self.key else words

    @property
    def unit(self) -> str:
        """What its figure is counted in: a metric's unit, `times`, `share`, `requests/s` or `requests`."""
        return MEASURES[self.measure].unit or RUN_METRICS[self.metric].unit

    def to_dict(self) -> dict[str, str]:
        """Plain JSON values; what is empty is left out."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`. ValueError for what is no question."""
        names = {field.name for field in fields(cls)}
        unknown = sorted(set(data) - names)
        if unknown or not all(isinstance(value, str) for value in data.values()):
            raise ValueError(f"question: {', '.join(unknown) or 'a value'} is not part of one")
        if "measure" not in data:
            raise ValueError("question: without measure")
        return cls(**data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """From `low` to `high`, both included, in the question's unit; None is an open end. `why` is the reason.

    ValueError, in one line, for a range without ends or with them the wrong way round, and for no reason.
    """

    low: float | None
    high: float | None
    why: str

    def __post_init__(self) -> None:
        low, high = self.low, self.high
        if low is None and high is None:
            raise ValueError("prediction: give a lowest value, a highest, or both")
        if not all(end is None or math.isfinite(end) for end in (low, high)):
            raise ValueError("prediction: an end is no number; leave it empty to leave it open")
        if low is not None and high is not None and low > high:
            raise ValueError(f"prediction: from {low:g} to {high:g} holds nothing; the lowest value comes first")
        if not self.why.strip():
            raise ValueError("prediction: say why; a range without a reason teaches nothing when it misses")
        if len(self.why) > MAX_WHY:
            raise ValueError(f"prediction: a reason of {len(self.why):,} characters; use at most {MAX_WHY:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """How a prediction came out. `distance` is from the value to the nearer end of the range, in the question's unit:
    inside where it held, outside where it missed. `relative` is that as a share of the end; None where the end is 0.
    """

    held: bool
    value: float
    bound: float
    distance: float
    relative: float | None


def grade(low: float | None, high: float | None, value: float) -> Grade:
    """Hold a measured value against a range that has at least one end."""
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
