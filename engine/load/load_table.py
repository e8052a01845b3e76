"""A load test as a table: a row an engine and rate, medians over repeats; each engine's capacity, and its knee.

Capacity is the completion rate at saturation: of a run whose queue never empties before its last request is admitted,
counted in the steady window. It is confirmed when the queue grows at 1.1 times it and does not at 0.9 times it, and no
rate of the test served over a twentieth more. The knee lies between the last of the rising rates before the queue grew,
and that at which it did. Both rest on the one rule of `queue_growth`; over repeats the majority of those that tell
decides.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.experiments.experiment import Summary, summarize
from engine.load.load_point import LoadPoint

ALIKE = 0.05  # capacities that differ by less are called alike
ROLES = ("rate", "saturation", "below", "above")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSample:
    """One run of a load test: what was asked, how it ended, its figures (None for a run that did not complete)."""

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
    """One engine at one rate, over its repeats. `grows` is the majority's verdict, None where no repeat tells.

    `status` is completed when any repeat is; else that of the first.
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
        """Of each repeat that tells, whether its queue grew."""
        return tuple(point.grows for point in self.points if point.grows is not None)

    @property
    def grows(self) -> bool | None:
        return 2 * sum(self.verdicts) > len(self.verdicts) if self.verdicts else None

    @property
    def middle(self) -> LoadPoint | None:
        """The repeat in the middle by what it achieved: the one to draw."""
        ranked = sorted(self.points, key=lambda point: point.achieved_per_s or 0.0)
        return ranked[len(ranked) // 2] if ranked else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """An engine's completion rate and output tokens a second at saturation, over `n` repeats.

    `is_confirmed`: the queue grows above and not below; None where one of the two is missing or cannot tell.
    `refuted_by` is a row that served over a twentieth more: whatever its queue did, the capacity is too low.
    `decode_pass_s`: the median decode pass at saturation, which those of the runs around it are held against.
    `requests` were there at saturation, and `most_running` of them ran at once.
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
class Knee:
    """Where the queue begins to grow: above `held_per_s` (None: it grew at all), at `lost_per_s` (None: at none).

    The queue waits are the medians at the two rates.
    """

    engine: str
    held_per_s: float | None
    lost_per_s: float | None
    held_wait_s: float | None
    lost_wait_s: float | None

    @property
    def wait_ratio(self) -> float | None:
        """By how many times the median queue wait grows over the knee."""
        return self.lost_wait_s / self.held_wait_s if self.held_wait_s and self.lost_wait_s is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTable:
    """All of a load test. `engines` in the order in which they were asked for: the first is the base of ratios."""

    engines: tuple[str, ...]
    rows: tuple[LoadRow, ...]

    def of(self, engine: str, role: str | None = None) -> tuple[LoadRow, ...]:
        """An engine's rows, of one role or all, in order of rate; saturation is last."""
        return tuple(row for row in self.rows if row.engine == engine and role in (None, row.role))

    def capacity(self, engine: str) -> Capacity | None:
        """None where no saturation run completed, or none had a steady window."""
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
        """The row of an engine that served most, if that is more than the given rate; the run at 1.1 times apart."""
        rows = (*self.of(engine, "rate"), *self.of(engine, "below"))
        served = [(rate, row) for row in rows if (rate := row.median(lambda point: point.achieved_per_s)) is not None]
        most, row = max(served, key=lambda pair: pair[0], default=(0.0, None))
        return row if most > least_per_s else None

    def capacity_ratio(self, engine: str) -> float | None:
        """An engine's capacity over the base's; None where one of the two is not known."""
        mine, base = self.capacity(engine), self.capacity(self.engines[0])
        return None if mine is None or base is None else mine.requests_per_s.median / base.requests_per_s.median

    def knee(self, engine: str) -> Knee | None:
        """From the rates that were asked for; None where no rate tells."""
        told = [row for row in self.of(engine, "rate") if row.grows is not None]
        if not told:
            return None
        lost = next((row for row in told if row.grows), None)
        held = told[told.index(lost) - 1] if lost in told[1:] else told[-1] if lost is None else None
        return Knee(
            engine=engine,
            held_per_s=None if held is None else held.rate_per_s,
            lost_per_s=None if lost is None else lost.rate_per_s,
            held_wait_s=None if held is None else _wait_s(held),
            lost_wait_s=None if lost is None else _wait_s(lost),
        )


def load_table(engines: Sequence[str], samples: Iterable[LoadSample]) -> LoadTable:
    """The table of all samples, engines in the order of `engines`, within each the rates rising, then the other roles.

    Repeats of one engine, role and rate become one row.
    """
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
    """A sample a row of the experiment's points (`experiment.point_rows`, or the store's). `figures_of` a run's id is
    asked of completed runs alone; it says None where the run's log is gone."""
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
