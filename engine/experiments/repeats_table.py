"""What repeats show: each engine's median and spread, and one engine over another, taken repeat by repeat.

Two engines of the same repeat ran in the same round, so that what slows the machine over both weighs on both and
mostly cancels in their ratio: A1/B1, A2/B2 and so on. Whether the ratios say more than chance would is a two-sided sign
test: if the engines did not differ, each ratio would lie above or below 1 as a coin falls. The order within a repeat is
always the same, the first engine first: what drifts from one run to the next pushes every ratio the same way, and a
sign test does not see that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.experiments.experiment import Summary, summarize

Row = Mapping[str, Any]
Finding = Literal["none", "one", "equal", "few", "apart", "not apart"]
SELDOM = 0.05  # chance that is small enough to tell engines apart


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
    def equal(self) -> int:
        """Repeats in which the two are the same; the sign test leaves them out."""
        return self.n - self.above - self.below

    @property
    def chance(self) -> float:
        """How often so many repeats or more would lie on one side if each side were a coin's."""
        return by_chance(max(self.above, self.below), self.above + self.below)

    @property
    def finding(self) -> Finding:
        """What the ratios allow to be said. `few`: so few of them differ that chance is never small enough."""
        if not self.n:
            return "none"
        if self.n == self.equal:
            return "equal"
        if self.n == 1:
            return "one"
        if by_chance(self.above + self.below, self.above + self.below) > SELDOM:
            return "few"
        return "apart" if self.chance <= SELDOM else "not apart"


def by_chance(agreeing: int, n: int) -> float:
    """The two-sided sign test: how often `agreeing` or more of `n` fair coins fall on one side, whichever it is."""
    assert n / 2 <= agreeing <= n
    return min(1.0, 2 * sum(math.comb(n, heads) for heads in range(agreeing, n + 1)) / (1 << n))


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
    """`key` over `base`, repeat by repeat; `points` are flat rows of `engine.experiments.experiment.point_rows`."""
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
