"""Metrics: name, unit, formula, meaning, and the function that computes each.

Percentiles interpolate linearly between samples (`distribution`). With fewer than 100 samples there is no 99th
percentile, because it would be close to the maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.core.record import RunRecord
from engine.metrics.latency import LATENCIES, Floats, latencies

Value = float | int | None
Level = Literal["request", "gap", "pass", "run"]
Better = Literal["higher", "lower"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One quantity. `level` is what it is measured on; `better` which direction is better, or None.

    `meaning` is for users who are new to the field. `formula` uses names of metrics and of run log columns.
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
    """A metric of a whole run. `function` computes it and returns None if the run has no such value."""

    level: Level = "run"
    function: Callable[[MeasuredRun], Value]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredRun:
    """A run with the intermediate values that its metrics share. `samples` holds each latency's samples by key;
    `pass_s` is the duration of each pass."""

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
        """An integer column of the passes as floats, NaN where it was not logged."""
        return known(self.record.passes[name])

    def of_kind(self, kind: str) -> Floats:
        """Seconds of each pass of this kind (prefill, decode or mixed)."""
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
    """`part / whole`; None if `whole` is 0 or missing."""
    return part / whole if whole else None


def known(column: NDArray[Any]) -> Floats:
    """An integer column as floats: NaN in place of -1, the missing value."""
    return np.where(column < 0, np.nan, column)


def measured_sum(values: Floats) -> float | None:
    """The sum of the measured values; None if there are none."""
    return None if np.isnan(values).all() else float(np.nansum(values))


def measured_count(column: NDArray[Any]) -> int | None:
    """The sum of the logged values of an integer column; None if there are none."""
    total = measured_sum(known(column))
    return None if total is None else round(total)


def _duration_s(record: RunRecord) -> float | None:
    """From the first intended arrival to the last delivery; None if nothing was delivered."""
    delivered_s = np.concatenate([record.tokens["delivered_s"], record.requests["returned_s"]])
    if np.isnan(delivered_s).all() or not record.requests["arrival_s"].size:
        return None
    return float(np.nanmax(delivered_s) - record.requests["arrival_s"].min())
