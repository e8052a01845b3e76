"""A load test as a table: one row per engine and rate with medians over repeats, capacities, saturation points.

Capacity is the completion rate at saturation, counted in the steady window of a run whose queue never empties before
the last admission. It is confirmed when the queue grows at 1.1 times the capacity, does not grow at 0.9 times, and no
rate of the test served more than 5 % above it. The saturation point is between the highest rate at which the queue did
not grow and the lowest at which it did. Both use the rule of `queue_growth`; over repeats the majority decides.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.experiments.experiment import Summary, summarize
from engine.load.load_point import LoadPoint

ALIKE = 0.05  # capacities that differ by less count as about the same
ROLES = ("rate", "saturation", "below", "above")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSample:
    """One run of a load test: its settings, its status, and its numbers (None for a run that did not complete)."""

    engine: str
    role: str
    rate_per_s: float | None
    repeat: int
    status: str
    run_id: str | None
    point: LoadPoint | None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRow:
    """One engine at one rate, over its repeats. `grows` is the majority's verdict, None if no repeat has one.

    `status` is completed if any repeat is; else the status of the first.
    """

    engine: str
    role: str
    rate_per_s: float | None
    samples: tuple[LoadSample, ...]

    @property
    def points(self) -> tuple[LoadPoint, ...]:
        return tuple(sample.point for sample in self.samples if sample.point is not None)

    @property
    def status(self) -> str:
        statuses = [sample.status for sample in self.samples]
        return "completed" if "completed" in statuses else statuses[0]

    @property
    def error(self) -> str | None:
        return None if self.points else next((s.error for s in self.samples if s.error), None)

    def summary(self, value: Callable[[LoadPoint], float | None]) -> Summary | None:
        return summarize(value(point) for point in self.points)

    def median(self, value: Callable[[LoadPoint], float | None]) -> float | None:
        summary = self.summary(value)
        return None if summary is None else summary.median

    @property
    def verdicts(self) -> tuple[bool, ...]:
        """Whether the queue grew, for each repeat that is large enough to judge."""
        return tuple(point.grows for point in self.points if point.grows is not None)

    @property
    def grows(self) -> bool | None:
        return 2 * sum(self.verdicts) > len(self.verdicts) if self.verdicts else None

    @property
    def middle(self) -> LoadPoint | None:
        """The repeat with the median achieved rate: the one to draw."""
        ranked = sorted(self.points, key=lambda point: point.achieved_per_s or 0.0)
        return ranked[len(ranked) // 2] if ranked else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """An engine's completion rate and output tokens/s at saturation, over `n` repeats.

    `is_confirmed`: the queue grows above and not below; None if one of the two runs is missing or too short to judge.
    `refuted_by` is a row that served more than 5 % above the capacity, so the capacity is too low.
    `decode_pass_s` is the median decode pass at saturation, to compare with the runs around the capacity.
    `requests` is the number of requests at saturation, `most_running` how many of them ran at once.
    """

    engine: str
    requests_per_s: Summary
    tokens_per_s: float
    decode_pass_s: float | None
    requests: int
    most_running: int
    below: LoadRow | None
    above: LoadRow | None
    refuted_by: LoadRow | None

    @property
    def is_confirmed(self) -> bool | None:
        if self.refuted_by is not None:
            return False
        grows_below = None if self.below is None else self.below.grows
        grows_above = None if self.above is None else self.above.grows
        if grows_below is None or grows_above is None:
            return None
        return grows_above and not grows_below


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturationPoint:
    """Where the queue begins to grow: above `held_per_s` (None: grew at every rate), at `lost_per_s` (None: at none).

    `held_wait_s` and `lost_wait_s` are the median queue waits at these rates.
    """

    engine: str
    held_per_s: float | None
    lost_per_s: float | None
    held_wait_s: float | None
    lost_wait_s: float | None

    @property
    def wait_ratio(self) -> float | None:
        """The median queue wait above the saturation point divided by the one below."""
        return self.lost_wait_s / self.held_wait_s if self.held_wait_s and self.lost_wait_s is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTable:
    """A whole load test. `engines` are in the requested order; the first is the base of ratios."""

    engines: tuple[str, ...]
    rows: tuple[LoadRow, ...]

    def of(self, engine: str, role: str | None = None) -> tuple[LoadRow, ...]:
        """An engine's rows, of one role or all, by rising rate; saturation is last."""
        return tuple(row for row in self.rows if row.engine == engine and role in (None, row.role))

    def capacity(self, engine: str) -> Capacity | None:
        """None if no saturation run completed with a steady window."""
        row = next(iter(self.of(engine, "saturation")), None)
        point = None if row is None else row.middle
        if row is None or point is None:
            return None
        rate = row.summary(lambda point: point.achieved_per_s)
        tokens = row.median(lambda point: point.output_tokens_per_s)
        if rate is None or tokens is None:
            return None
        return Capacity(
            engine=engine,
            requests_per_s=rate,
            tokens_per_s=tokens,
            decode_pass_s=row.median(lambda point: point.decode_pass_p50_s),
            requests=point.requests,
            most_running=point.most_running,
            below=next(iter(self.of(engine, "below")), None),
            above=next(iter(self.of(engine, "above")), None),
            refuted_by=self._served_above(engine, (1 + ALIKE) * rate.median),
        )

    def _served_above(self, engine: str, least_per_s: float) -> LoadRow | None:
        """The engine's row that served most, if above the given rate. The run at 1.1 times capacity does not count."""
        rows = (*self.of(engine, "rate"), *self.of(engine, "below"))
        served = [(rate, row) for row in rows if (rate := row.median(lambda point: point.achieved_per_s)) is not None]
        most, row = max(served, key=lambda pair: pair[0], default=(0.0, None))
        return row if most > least_per_s else None

    def capacity_ratio(self, engine: str) -> float | None:
        """An engine's capacity divided by the base's; None if one of them is unknown."""
        mine, base = self.capacity(engine), self.capacity(self.engines[0])
        return None if mine is None or base is None else mine.requests_per_s.median / base.requests_per_s.median

    def saturation_point(self, engine: str) -> SaturationPoint | None:
        """From the requested rates; None if no run at them is long enough to judge."""
        judged = [row for row in self.of(engine, "rate") if row.grows is not None]
        if not judged:
            return None
        lost = next((row for row in judged if row.grows), None)
        held = judged[judged.index(lost) - 1] if lost in judged[1:] else judged[-1] if lost is None else None
        return SaturationPoint(
            engine=engine,
            held_per_s=None if held is None else held.rate_per_s,
            lost_per_s=None if lost is None else lost.rate_per_s,
            held_wait_s=None if held is None else _wait_s(held),
            lost_wait_s=None if lost is None else _wait_s(lost),
        )


def load_table(engines: Sequence[str], samples: Iterable[LoadSample]) -> LoadTable:
    """One row per engine, role and rate: engines in the given order, rates rising, then the other roles."""
    found: dict[tuple[str, str, float | None], list[LoadSample]] = {}
    for sample in samples:
        found.setdefault((sample.engine, sample.role, sample.rate_per_s), []).append(sample)
    rows = [
        LoadRow(engine=e, role=role, rate_per_s=rate, samples=tuple(sorted(mine, key=lambda sample: sample.repeat)))
        for (e, role, rate), mine in found.items()
    ]
    known = [*engines, *dict.fromkeys(row.engine for row in rows if row.engine not in engines)]
    rows.sort(key=lambda row: (known.index(row.engine), ROLES.index(row.role), row.rate_per_s or 0.0))
    return LoadTable(engines=tuple(known), rows=tuple(rows))


def load_samples(rows: Iterable[Mapping[str, Any]], figures_of: Callable[[str], LoadPoint | None]) -> list[LoadSample]:
    """One sample per row of the experiment's points (`experiment.point_rows`, or the store's).

    `figures_of(run_id)` is called for completed runs only and returns None if the run's log is missing.
    """
    return [
        LoadSample(
            engine=str(row["engine"]),
            role=str(row["role"]),
            rate_per_s=_known(row["rate_per_s"]),
            repeat=int(row["repeat"]),
            status=str(row["status"]),
            run_id=row["run_id"] or None,
            point=figures_of(str(row["run_id"])) if row["status"] == "completed" else None,
            error=row["error"] or None,
        )
        for row in rows
    ]


def _known(rate_per_s: float | None) -> float | None:
    return None if rate_per_s is None or math.isnan(rate_per_s) else float(rate_per_s)


def _wait_s(row: LoadRow) -> float | None:
    waits_s = [point.queue_wait_p50_s for point in row.points if point.queue_wait_p50_s is not None]
    return statistics.median(waits_s) if waits_s else None
