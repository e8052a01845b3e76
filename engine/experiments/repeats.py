"""Repeats: one engine or several on the same requests, interleaved (ABAB), and what their repeats show.

A point is an engine with its configuration; its key is the engine's name. Two engines of the same repeat run next to
each other, so a machine that slows down slows both, and most of it cancels in their ratio: A1/B1, A2/B2 and so on.

Whether the engines differ is a two-sided sign test over these ratios: if they did not differ, each ratio would be above
or below 1 like a coin toss. The test does not see drift between neighboring runs: the order within a repeat is always
the same, so such drift pushes every ratio the same way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from engine.core.config import RunConfig
from engine.core.errors import FieldError
from engine.core.format import plural
from engine.experiments.experiment import (
    REPEATS,
    ExperimentKind,
    Plan,
    Point,
    Summary,
    check_points,
    interleaved,
    summarize,
)

KIND: ExperimentKind = "repeats"
PER_ENGINE = ("engine", "form", "returns")  # the engine, and the settings that only static reads
SHARED = tuple(setting.name for setting in fields(RunConfig) if setting.name not in PER_ENGINE)
SIGNIFICANCE = 0.05  # a difference counts as clear when chance alone is this rare

Row = Mapping[str, Any]
Finding = Literal["none", "one", "equal", "few", "apart", "not apart"]


def plan_repeats(
    configs: Sequence[RunConfig], *, experiment_id: str, created_at: str, repeats: int, label: str = ""
) -> Plan:
    """Each of `configs`, one per engine, `repeats` times, interleaved. The first is the base of ratios.

    ValueError for engines that are named twice, engines whose shared settings differ, or more runs than an experiment
    allows.
    """
    REPEATS.check(repeats)
    engines = [config.engine for config in configs]
    _check_engines(configs)
    check_points(
        "repeats", f"repeats {repeats} of {len(configs)} engines", len(configs) * repeats, "engines or repeats"
    )
    points = [
        Point(key=config.engine, position=place, repeat=0, values={"engine": config.engine}, config=config)
        for place, config in enumerate(configs)
    ]
    return Plan(
        experiment_id=experiment_id,
        kind=KIND,
        label=label or f"{', '.join(engines)}, {plural(repeats, 'repeat')}",
        created_at=created_at,
        settings={"repeats": repeats},
        points=interleaved(points, repeats),
    )


def _check_engines(configs: Sequence[RunConfig]) -> None:
    """FieldError unless each engine is named once and all shared settings are equal."""
    engines = [config.engine for config in configs]
    if not engines:
        raise FieldError("engines", "engines: name one or more to repeat")
    twice = next((name for name in engines if engines.count(name) > 1), None)
    if twice is not None:
        raise FieldError("engines", f"engines: {twice} is named twice; name each once and use repeats to run it again")
    for name in SHARED:
        if any(getattr(config, name) != getattr(configs[0], name) for config in configs):
            raise FieldError(name, f"{name}: use the same value for all engines; only form and return may differ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """One engine's value divided by the base's, by repeat. Only repeats that both completed have a ratio.

    `zero_bases` counts repeats without a ratio because the base's value is 0.
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
        """Repeats in which the engine's value is higher."""
        return sum(ratio > 1 for ratio in self.ratios.values())

    @property
    def below(self) -> int:
        """Repeats in which the engine's value is lower."""
        return sum(ratio < 1 for ratio in self.ratios.values())

    @property
    def equal(self) -> int:
        """Repeats in which the values are equal; the sign test leaves them out."""
        return self.n - self.above - self.below

    @property
    def chance(self) -> float:
        """The probability that chance alone puts at least this many repeats on one side."""
        return by_chance(max(self.above, self.below), self.above + self.below)

    @property
    def finding(self) -> Finding:
        """What the ratios show. `few`: so few of them differ that the test cannot reach significance."""
        if not self.n:
            return "none"
        if self.n == self.equal:
            return "equal"
        if self.n == 1:
            return "one"
        if by_chance(self.above + self.below, self.above + self.below) > SIGNIFICANCE:
            return "few"
        return "apart" if self.chance <= SIGNIFICANCE else "not apart"


def by_chance(agreeing: int, n: int) -> float:
    """The two-sided sign test: the probability that `agreeing` or more of `n` fair coins land on the same side."""
    assert n / 2 <= agreeing <= n
    return min(1.0, 2 * sum(math.comb(n, heads) for heads in range(agreeing, n + 1)) / (1 << n))


def keys_of(points: Sequence[Row]) -> tuple[str, ...]:
    """The points' keys in run order; the first is the base."""
    return tuple(dict.fromkeys(str(point["key"]) for point in sorted(points, key=lambda point: point["position"])))


def values_of(points: Sequence[Row], key: str, metric: str) -> dict[int, float]:
    """A metric of an engine's completed runs by repeat, in order, without missing values."""
    mine = [point for point in points if point["key"] == key and point["status"] == "completed"]
    found = {int(point["repeat"]): _number(point.get(metric)) for point in mine}
    return {repeat: value for repeat, value in sorted(found.items()) if value is not None}


def summary_of(points: Sequence[Row], key: str, metric: str) -> Summary | None:
    """Median, lowest and highest over an engine's completed runs; None if no run has the metric."""
    return summarize(values_of(points, key, metric).values())


def paired(points: Sequence[Row], key: str, base: str, metric: str) -> Paired:
    """`key` divided by `base`, repeat by repeat; `points` are rows of `engine.experiments.experiment.point_rows`."""
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
