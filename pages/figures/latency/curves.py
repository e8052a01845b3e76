"""Samples made ready for a CDF: each series in order, the share at or below each value, and its p50 and p95.

A frame holds every sample of every series (columns series, value_s), or of many samples a few that stand for all: then
it also has each one's `rank` among the series' `n`, and the series' `p50_s` and `p95_s`. An infinite value is a sample
without bound: somebody who never got what he waited for. It counts in `n` and has no place on an axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

MAX_POINTS = 5000
MARKED = (0.5, 0.95)
THINNED = ("rank", "n", "p50_s", "p95_s")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """One series: its finite values in order, the share of all n at or below each, and by share the `marks`.

    A mark may be infinite. A line ends below 1 where `num_unbounded` samples lie beyond every axis.
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
    def count_text(self) -> str:
        """`n = 40`, `n = 40, 3 unbounded`."""
        return f"n = {self.n:,}" + (f", {self.num_unbounded:,} unbounded" if self.num_unbounded else "")


def curves_of(samples: pd.DataFrame) -> dict[str, Curve]:
    """The curve of each series with at least one sample, in order of appearance; null values are no samples."""
    if samples.empty:
        return {}
    samples = samples.assign(value_s=pd.to_numeric(samples["value_s"]).astype(float)).dropna(subset=["value_s"])
    make = _of_few if "rank" in samples else _of_all
    return {str(name): make(mine) for name, mine in samples.groupby("series", sort=False)}


def step_points(value_s: np.ndarray, max_points: int = MAX_POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Sorted values and the share at or below each. More than `max_points` are thinned evenly; both ends stay."""
    ordered = np.sort(value_s)
    share = np.arange(1, len(ordered) + 1) / len(ordered)
    if len(ordered) > max_points:
        kept = np.unique(np.rint(np.linspace(0, len(ordered) - 1, max_points)).astype(int))
        ordered, share = ordered[kept], share[kept]
    return ordered, share


def _of_all(mine: pd.DataFrame) -> Curve:
    """Every row is a sample; percentiles interpolate linearly, and to an infinite sample there is no way."""
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


def _of_few(mine: pd.DataFrame) -> Curve:
    """Rows stand for all: the greatest finite one is among them."""
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
