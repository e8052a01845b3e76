"""The sorted samples of one latency: percentiles by either rule, and thinned points for drawing.

A sample may be infinite: the wait of a request that never received what it waited for. It ranks above all others, and a
percentile that falls on it, or between it and another sample, is infinite too.
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

MAX_POINTS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """A percentile of many samples."""

    key: str
    percent: int
    label: str
    meaning: str


STATISTICS = (
    Statistic(key="p50", percent=50, label="median", meaning="half of the samples are below it"),
    Statistic(key="p95", percent=95, label="95th percentile", meaning="19 of 20 samples are below it"),
    Statistic(
        key="p99",
        percent=99,
        label="99th percentile",
        meaning="99 of 100 samples are below it; needs 100 samples",
    ),
    Statistic(key="max", percent=100, label="largest", meaning="no sample is above it"),
)
PERCENTS = tuple(statistic.percent for statistic in STATISTICS)


def least_samples(percent: float) -> int:
    """The fewest samples that support a percentile: one of them lies above it. 20 for the 95th, 100 for the 99th.

    Below it, the percentile only restates the largest sample: headlines show the median and the largest instead, and
    the 99th has no value.
    """
    return 1 if percent >= 100 else round(100 / (100 - percent))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distribution:
    """`n` samples, `num_unbounded` of them infinite. Some finite ones are kept: `value_s[i]` has rank `ranks[i]`.

    Rank 1 is the smallest. The smallest and the largest finite sample are always kept, and those that determine a
    percentile of PERCENTS.
    """

    n: int
    num_unbounded: int
    ranks: Ranks
    value_s: Floats

    @classmethod
    def of(cls, samples: NDArray[Any], max_points: int = MAX_POINTS) -> Self:
        """The distribution of samples in seconds, in any order. NaN is ignored."""
        measured = np.sort(samples[~np.isnan(samples)].astype(np.float64))
        finite = measured[np.isfinite(measured)]
        ranks = kept_ranks(len(measured), len(finite), max_points)
        unbounded = len(measured) - len(finite)
        return cls(n=len(measured), num_unbounded=unbounded, ranks=ranks, value_s=finite[ranks - 1])

    def percentile(self, percent: int, rule: PercentileRule = "linear") -> float | None:
        """A percentile of PERCENTS. None without samples, and for the 99th with fewer than 100 samples."""
        if not self.n or (percent == 99 and self.n < least_samples(99)):
            return None
        low, high, weight = ranks_around(self.n, percent, rule)
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
    """Any percentile of an array, None as in `Distribution.percentile`. NaN is ignored."""
    measured = samples[~np.isnan(samples)]
    if not measured.size or (percent == 99 and measured.size < least_samples(99)):
        return None
    low, high, weight = ranks_around(measured.size, percent, rule)
    ordered = np.partition(measured, (low - 1, high - 1))
    first, second = float(ordered[low - 1]), float(ordered[high - 1])
    if math.isinf(first) or weight == 0:
        return first
    return second if math.isinf(second) else first + (second - first) * weight


def ranks_around(n: int, percent: float, rule: PercentileRule) -> tuple[int, int, float]:
    """The two ranks between which a percentile of n samples lies, and its distance from the first, from 0 to 1.

    `nearest`: the smallest sample that at least `percent` % of the samples do not exceed. `linear`: position
    (n - 1) x percent on the line through the sorted samples.
    """
    if rule == "nearest":
        rank = max(1, math.ceil(percent * n / 100))
        return rank, rank, 0.0
    place = (n - 1) * percent / 100
    low = math.floor(place)
    return low + 1, min(low + 2, n), place - low


def kept_ranks(n: int, num_finite: int, max_points: int = MAX_POINTS) -> Ranks:
    """Ranks of the finite samples to keep: evenly thinned, both ends, and those that determine percentiles."""
    if num_finite == 0:
        return np.zeros(0, dtype=np.int64)
    even = np.rint(np.linspace(1, num_finite, min(num_finite, max_points))).astype(np.int64)
    needed = [rank for percent in PERCENTS for rank in _percentile_ranks(n, percent) if rank <= num_finite]
    return np.unique(np.concatenate([even, np.array(needed, dtype=np.int64)]))


def _percentile_ranks(n: int, percent: int) -> tuple[int, ...]:
    return (*ranks_around(n, percent, "linear")[:2], ranks_around(n, percent, "nearest")[0])
