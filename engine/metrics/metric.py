"""What a metric is: a name, a unit, a formula, what it means, and how it is computed. Nothing else says what one is.

Percentiles interpolate linearly between samples (`distribution`). Below 100 samples a 99th percentile would be little
else than the maximum, so there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.core.record import RunRecord
from engine.metrics.distribution import percentile as percentile
from engine.metrics.latency import LATENCIES, Floats, latencies

Value = float | int | None
Level = Literal["request", "gap", "pass", "run"]
Better = Literal["higher", "lower"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One quantity. `level` says what it is a quantity of; `better` which way is good, None where neither is.

    `meaning` is for a reader who does not know the field. `formula` speaks in names of metrics and of the run log.
    """

    name: str
    label: str
    unit: str
    formula: str
    meaning: str
    level: Level
    better: Better


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetric(Metric):
    """A quantity of a whole run, with the function that computes it: None where the run has no such value."""

    level: Level = "run"
    function: Callable[[MeasuredRun], Value]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredRun:
    """What the run's metrics share, computed once. `samples` are those of each latency by its key; `pass_s` runs beside
    the record's passes."""

    record: RunRecord
    samples: Mapping[str, Floats]
    pass_s: Floats
    duration_s: float | None
    peak_memory_bytes: int | None

    def passes(self, name: str) -> NDArray[Any]:
        return self.record.passes[name]

    def total(self, name: str) -> int:
        """The sum of an integer column of the passes."""
        return int(self.record.passes[name].sum(dtype=np.int64))

    def known(self, name: str) -> Floats:
        """An integer column of the passes as numbers, NaN where it was not logged."""
        return known(self.record.passes[name])

    def of_kind(self, kind: str) -> Floats:
        """The seconds of each prefill, decode or mixed pass."""
        seconds: Floats = self.pass_s[self.record.passes["kind"] == kind]
        return seconds


def measured_run(record: RunRecord, peak_memory_bytes: int | None) -> MeasuredRun:
    found = latencies(record)
    return MeasuredRun(
        record=record,
        samples={latency.key: found.samples(latency.key) for latency in LATENCIES},
        pass_s=record.passes["end_s"] - record.passes["start_s"],
        duration_s=_duration_s(record),
        peak_memory_bytes=peak_memory_bytes,
    )


def share(part: float, whole: float | None) -> float | None:
    """`part` of `whole`, as a quotient; None where there is nothing to have a part of."""
    return part / whole if whole else None


def known(column: NDArray[Any]) -> Floats:
    """An integer column as numbers: NaN where it holds the -1 of a missing value."""
    return np.where(column < 0, np.nan, column)


def measured_sum(values: Floats) -> float | None:
    """The sum of what was measured; None where nothing was."""
    return None if np.isnan(values).all() else float(np.nansum(values))


def measured_count(column: NDArray[Any]) -> int | None:
    """The sum of an integer column, of what was logged of it; None where nothing was."""
    total = measured_sum(known(column))
    return None if total is None else round(total)


def _duration_s(record: RunRecord) -> float | None:
    """From the first intended arrival to the last delivery; None where nothing was delivered."""
    handed_over_s = np.concatenate([record.tokens["delivered_s"], record.requests["returned_s"]])
    if np.isnan(handed_over_s).all() or not record.requests["arrival_s"].size:
        return None
    return float(np.nanmax(handed_over_s) - record.requests["arrival_s"].min())
