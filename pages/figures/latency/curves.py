"""Samples prepared for a CDF: each series sorted, the share at or below each value, and p50 and p95.

A frame holds all samples of all series (columns series, value_s), or a subset of many samples: then it also has the
`rank` of each among the series' `n`, and the series' `p50_s` and `p95_s`. An infinite value is an unbounded sample: a
wait that never ended. It counts in `n` and has no place on an axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

MAX_POINTS = 5000
MARKED = (0.5, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """One series: its finite values in order, the share of all n at or below each, and the `marks` by share.

    A mark may be infinite. A line ends below 1 where there are unbounded samples.
    """

    value_s: np.ndarray
    share: np.ndarray
    n: int
    num_unbounded: int
    marks: Mapping[float, float]

    @property
    def end_s(self) -> float:
        """The greatest finite value."""
        return float(self.value_s[-1])

    @property
    def largest_s(self) -> float:
        """The greatest value; infinite where there are unbounded samples."""
        return float("inf") if self.num_unbounded else self.end_s

    @property
    def count_text(self) -> str:
        """`n = 40`, `n = 40, 3 unbounded`."""
        return f"n = {self.n:,}" + (f", {self.num_unbounded:,} unbounded" if self.num_unbounded else "")


def curves_of(samples: pd.DataFrame) -> dict[str, Curve]:
    """The curve of each series with at least one sample, in order of appearance. Null values do not count."""
    if samples.empty:
        return {}
    samples = samples.assign(value_s=pd.to_numeric(samples["value_s"]).astype(float)).dropna(subset=["value_s"])
    make = _of_subset if "rank" in samples else _of_all
    return {str(name): make(mine) for name, mine in samples.groupby("series", sort=False)}


def step_points(value_s: np.ndarray, max_points: int = MAX_POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Sorted values and the share at or below each. More than `max_points` are thinned evenly; both ends are kept."""
    ordered = np.sort(value_s)
    share = np.arange(1, len(ordered) + 1) / len(ordered)
    if len(ordered) > max_points:
        kept = np.unique(np.rint(np.linspace(0, len(ordered) - 1, max_points)).astype(int))
        ordered, share = ordered[kept], share[kept]
    return ordered, share


def _of_all(mine: pd.DataFrame) -> Curve:
    """Every row is a sample. Percentiles interpolate linearly; next to an infinite sample they are infinite."""
    value_s = np.sort(mine["value_s"].to_numpy())
    finite = value_s[np.isfinite(value_s)]
    drawn, share = step_points(finite) if len(finite) else (finite, finite)
    return Curve(
        value_s=drawn,
        share=share * len(finite) / len(value_s),
        n=len(value_s),
        num_unbounded=len(value_s) - len(finite),
        marks={percent: _linear(value_s, percent) for percent in MARKED},
    )


def _of_subset(mine: pd.DataFrame) -> Curve:
    """Rows are a subset that includes the greatest finite value."""
    n = int(mine["n"].iloc[0])
    finite = mine[np.isfinite(mine["value_s"])].sort_values("rank")
    rank = finite["rank"].to_numpy(dtype=float)
    return Curve(
        value_s=finite["value_s"].to_numpy(),
        share=rank / n,
        n=n,
        num_unbounded=n - int(rank[-1]) if len(rank) else n,
        marks={share: float(mine[name].iloc[0]) for share, name in zip(MARKED, ("p50_s", "p95_s"), strict=True)},
    )


def _linear(ordered: np.ndarray, share: float) -> float:
    place = (len(ordered) - 1) * share
    low = int(place)
    if place == low or np.isinf(ordered[low]):
        return float(ordered[low])
    return float(ordered[low] + (ordered[low + 1] - ordered[low]) * (place - low))
