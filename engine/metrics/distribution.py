"""The samples of one latency in their order: percentiles by either rule, and few points that stand for many.

A sample may be without bound: an infinite wait, of somebody who never got what he waited for. It ranks above all
others, and a percentile that falls on it, or between it and another, is infinite too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ranks = NDArray[np.int64]
PercentileRule = Literal["linear", "nearest"]

P99_SAMPLES = 100
MAX_POINTS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """One number of many samples."""

    key: str
    percent: int
    label: str
    meaning: str


STATISTICS = (
    Statistic(key="p50", percent=50, label="median", meaning="half of the samples lie below it"),
    Statistic(key="p95", percent=95, label="95th percentile", meaning="19 of 20 samples lie below it"),
    Statistic(key="p99", percent=99, label="99th percentile", meaning="99 of 100 lie below it; from 100 samples on"),
    Statistic(key="max", percent=100, label="largest", meaning="no sample lies above it"),
)
PERCENTS = tuple(statistic.percent for statistic in STATISTICS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distribution:
    """`n` samples, of which `num_unbounded` are infinite; of the others some: `value_s[i]` has the rank `ranks[i]`.

    Rank 1 is the least. The least and the greatest finite sample are always kept, and all that a percentile of
    PERCENTS rests on.
    """

    n: int
    num_unbounded: int
    ranks: Ranks
    value_s: Floats

    @classmethod
    def of(cls, samples: NDArray[Any], max_points: int = MAX_POINTS) -> Self:
        """The distribution of samples in seconds, in any order; NaN is no sample."""
        measured = np.sort(samples[~np.isnan(samples)].astype(np.float64))
        finite = measured[np.isfinite(measured)]
        ranks = kept_ranks(len(measured), len(finite), max_points)
        unbounded = len(measured) - len(finite)
        return cls(n=len(measured), num_unbounded=unbounded, ranks=ranks, value_s=finite[ranks - 1])

    def percentile(self, percent: int, rule: PercentileRule = "linear") -> float | None:
        """None without samples, and for the 99th with fewer than a hundred. `percent` is one of PERCENTS."""
        if not self.n or (percent == 99 and self.n < P99_SAMPLES):
            return None
        low, high, weight = resting_on(self.n, percent, rule)
        first, second = self._sample(low), self._sample(high)
        if math.isinf(first) or weight == 0:
            return first
        return second if math.isinf(second) else first + (second - first) * weight

    def _sample(self, rank: int) -> float:
        if rank > self.n - self.num_unbounded:
            return math.inf
        place = int(np.searchsorted(self.ranks, rank))
        assert self.ranks[place] == rank, f"the sample of rank {rank} was not kept"
        return float(self.value_s[place])


def percentile(samples: NDArray[Any], percent: float, rule: PercentileRule = "linear") -> float | None:
    """The same of an array at once, for any percent; NaN is no sample."""
    measured = samples[~np.isnan(samples)]
    if not measured.size or (percent == 99 and measured.size < P99_SAMPLES):
        return None
    low, high, weight = resting_on(measured.size, percent, rule)
    ordered = np.partition(measured, (low - 1, high - 1))
    first, second = float(ordered[low - 1]), float(ordered[high - 1])
    if math.isinf(first) or weight == 0:
        return first
    return second if math.isinf(second) else first + (second - first) * weight


def resting_on(n: int, percent: float, rule: PercentileRule) -> tuple[int, int, float]:
    """The two ranks that a percentile of n samples lies between, and how far from the first toward the second.

    `nearest`: the least sample that at least `percent` % of all do not exceed. `linear`: the place (n - 1) x percent on
    the line through all samples in their order.
    """
    if rule == "nearest":
        rank = max(1, math.ceil(percent * n / 100))
        return rank, rank, 0.0
    place = (n - 1) * percent / 100
    low = math.floor(place)
    return low + 1, min(low + 2, n), place - low


def kept_ranks(n: int, num_finite: int, max_points: int = MAX_POINTS) -> Ranks:
    """The ranks to keep of the finite ones among n samples: evenly thinned, both ends, and those under percentiles."""
    if num_finite == 0:
        return np.zeros(0, dtype=np.int64)
    even = np.rint(np.linspace(1, num_finite, min(num_finite, max_points))).astype(np.int64)
    under = [rank for percent in PERCENTS for rank in _under(n, percent) if rank <= num_finite]
    return np.unique(np.concatenate([even, np.array(under, dtype=np.int64)]))


def _under(n: int, percent: int) -> tuple[int, ...]:
    return (*resting_on(n, percent, "linear")[:2], resting_on(n, percent, "nearest")[0])
