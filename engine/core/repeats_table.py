"""What repeats show: each engine's median and spread, and one engine over another, taken repeat by repeat.

Two engines of the same repeat ran one right after the other, so that what drifts with time weighs on both and mostly
cancels in their ratio: A1/B1, A2/B2 and so on. When every ratio lies on the same side of 1 the engines are told apart,
as far as so few repeats can tell; when they lie on both sides, the repeats differ by more than the engines do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.core.experiment import Summary, summarize

Row = Mapping[str, Any]
Finding = Literal["none", "one", "equal", "apart", "not apart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """One engine's figure over the base's, by repeat. Only repeats that both completed have a ratio.

    `zero_bases` counts those whose base is 0, over which there is none.
    """

    key: str
    base: str
    metric: str
    ratios: Mapping[int, float]
    zero_bases: int

    @property
    def summary(self) -> Summary | None:
        return summarize(self.ratios.values())

    @property
    def n(self) -> int:
        return len(self.ratios)

    @property
    def above(self) -> int:
        """Repeats in which the engine's figure is the higher one."""
        return sum(ratio > 1 for ratio in self.ratios.values())

    @property
    def below(self) -> int:
        """Repeats in which it is the lower one."""
        return sum(ratio < 1 for ratio in self.ratios.values())

    @property
    def agreeing(self) -> int:
        """How many repeats have the sign that most of them have: higher, lower, or equal."""
        return max(self.above, self.below, self.n - self.above - self.below)

    @property
    def finding(self) -> Finding:
        """What the ratios allow to be said."""
        if not self.n:
            return "none"
        if not self.above and not self.below:
            return "equal"
        if self.n == 1:
            return "one"
        return "apart" if self.n in (self.above, self.below) else "not apart"


def by_chance(repeats: int) -> int:
    """One time in how many all repeats would agree if the engines did not differ: each sign is then a coin's."""
    assert repeats >= 1
    return int(2 ** (repeats - 1))


def keys_of(points: Sequence[Row]) -> tuple[str, ...]:
    """The points' keys in the order of running; the first is the base."""
    return tuple(dict.fromkeys(str(point["key"]) for point in sorted(points, key=lambda point: point["position"])))


def values_of(points: Sequence[Row], key: str, metric: str) -> dict[int, float]:
    """A figure of an engine's completed runs by repeat, in order; those that have none are left out."""
    mine = [point for point in points if point["key"] == key and point["status"] == "completed"]
    found = {int(point["repeat"]): _number(point.get(metric)) for point in mine}
    return {repeat: value for repeat, value in sorted(found.items()) if value is not None}


def summary_of(points: Sequence[Row], key: str, metric: str) -> Summary | None:
    """Median, lowest and highest over an engine's completed runs; None where none has the figure."""
    return summarize(values_of(points, key, metric).values())


def paired(points: Sequence[Row], key: str, base: str, metric: str) -> Paired:
    """`key` over `base`, repeat by repeat; `points` are flat rows of `engine.core.experiment.point_rows`."""
    over, under = (values_of(points, name, metric) for name in (key, base))
    both = [repeat for repeat in over if repeat in under]
    return Paired(
        key=key,
        base=base,
        metric=metric,
        ratios={repeat: over[repeat] / under[repeat] for repeat in both if under[repeat]},
        zero_bases=sum(not under[repeat] for repeat in both),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
