"""An experiment: a plan of points to measure, each one or more times, and a record of every attempt.

A point is one requested run: a configuration, and the values by which tables and figures find it. All repeats of a
point share its key. Repeats are interleaved: every point runs once before any point runs twice (ABAB), so that drift
affects all points equally. Tables show the median over repeats and the spread. An attempt that failed or ran out of
memory is recorded like any other; the experiment continues.

This module does not know where experiments are stored (`engine.runlog.experiment_log`) or what each kind measures.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from types import UnionType
from typing import Any, Literal, Self

from engine.core.config import RunConfig
from engine.core.errors import FieldError
from engine.core.option import Bounds, Option

EXPERIMENT_SCHEMA_VERSION = 1

ExperimentKind = Literal["sweep", "load", "overhead", "repeats"]
KINDS: tuple[ExperimentKind, ...] = ("sweep", "load", "overhead", "repeats")
CONTINUES_AFTER = ("completed", "oom")  # after any other status, runs side by side stop
ENDED = ("completed", "oom", "failed")  # these settle a point; CUT_OFF does not
CUT_OFF = ("stopped", "crashed")
MAX_FIGURE = sys.float_info.max
MAX_REPEATS = 1_000
MAX_POINTS = 2_000
REPEATS = Option(
    default=1,
    label="Repeats",
    help="how often each configuration runs, interleaved",
    flags=("--repeats",),
    takes=Bounds(low=1, high=MAX_REPEATS),
    metavar="N",
    group="measuring",
)

PointId = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One requested run. `position` is its place in the run order, `repeat` counts from 0."""

    key: str
    position: int
    repeat: int
    values: Mapping[str, Any]
    config: RunConfig

    @property
    def point_id(self) -> PointId:
        """Unique within an experiment."""
        return self.key, self.repeat

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "key": self.key,
            "position": self.position,
            "repeat": self.repeat,
            "values": dict(self.values),
            "config": self.config.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`. ValueError for invalid data."""
        values = _fields_of(cls, data, "point")
        _check_types(values, "point", key=str, position=int, repeat=int, values=Mapping)
        return cls(**values | {"config": RunConfig.from_dict(values["config"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All points of an experiment, in run order. `settings` depend on the kind.

    An adaptive experiment adds points while it runs; they are part of the plan when it is read back.
    """

    experiment_id: str
    kind: ExperimentKind
    label: str
    created_at: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    points: tuple[Point, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, with the schema version."""
        return {
            "experiment_id": self.experiment_id,
            "kind": self.kind,
            "label": self.label,
            "created_at": self.created_at,
            "schema_version": EXPERIMENT_SCHEMA_VERSION,
            "settings": dict(self.settings),
            "points": [point.to_dict() for point in self.points],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`. ValueError for invalid data or another schema version."""
        version = data.get("schema_version") if isinstance(data, Mapping) else None
        if version != EXPERIMENT_SCHEMA_VERSION:
            raise ValueError(
                f"experiment: schema version {version!r}; this version of the lab reads {EXPERIMENT_SCHEMA_VERSION}"
            )
        values = _fields_of(cls, data, "experiment")
        _check_types(values, "experiment", experiment_id=str, label=str, created_at=str, settings=Mapping, points=list)
        if values["kind"] not in KINDS:
            raise ValueError(f"experiment: kind {values['kind']!r}; known kinds are {', '.join(KINDS)}")
        return cls(**values | {"points": tuple(Point.from_dict(point) for point in values["points"])})

    def with_points(self, added: Iterable[Point]) -> Self:
        """The plan with points added at its end; points it already has are skipped."""
        known = {point.point_id for point in self.points}
        return replace(self, points=(*self.points, *(point for point in added if point.point_id not in known)))

    def more_repeats(self, keys: Iterable[str], times: int) -> tuple[Point, ...]:
        """Further repeats of the points with these keys, to run after all others. KeyError for an unknown key."""
        last = {point.key: point for point in sorted(self.points, key=lambda point: point.repeat)}
        place = max((point.position for point in self.points), default=-1) + 1
        again = [(turn, last[key]) for turn in range(1, times + 1) for key in dict.fromkeys(keys)]
        return tuple(
            replace(point, repeat=point.repeat + turn, position=place + index)
            for index, (turn, point) in enumerate(again)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRecord:
    """The result of one attempt at a point. `run_id` is None if no run folder was created.

    `oom` holds asked_bytes, free_bytes, shape and where of the failed allocation, `totals` the run's metrics by name.
    """

    key: str
    repeat: int
    run_id: str | None
    status: str
    error: str | None = None
    oom: Mapping[str, Any] | None = None
    ended_at: str = ""
    totals: Mapping[str, Any] = field(default_factory=dict)

    @property
    def point_id(self) -> PointId:
        return self.key, self.repeat

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`. ValueError for invalid data, also for totals that are not numbers."""
        values = _fields_of(cls, data, "record")
        _check_types(values, "record", key=str, repeat=int, run_id=str | None, status=str, error=str | None)
        _check_types(values, "record", oom=Mapping | None, ended_at=str, totals=Mapping)
        if values["status"] not in (*ENDED, *CUT_OFF):
            known = ", ".join((*ENDED, *CUT_OFF))
            raise ValueError(f"record: status {values['status']!r:.60}; known statuses are {known}")
        for name, value in values["totals"].items():
            if not _is_number(value):
                raise ValueError(f"record: totals: {name!r:.60} is {value!r:.60}; a total is a number or null")
        oom = {"asked_bytes": None, "free_bytes": None, "where": None, **(values["oom"] or {})}
        _check_types(oom, "record: oom", asked_bytes=int | None, free_bytes=int | None, where=str | None)
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A value over the repeats of a point. `spread` is (highest - lowest) / median; None for one repeat."""

    median: float
    low: float
    high: float
    n: int

    @property
    def spread(self) -> float | None:
        return None if self.n < 2 or self.median == 0 else (self.high - self.low) / self.median


def check_points(field: str, what: str, points: int, fewer: str) -> None:
    """FieldError about `field` if `points`, all repeats included, exceed the limit of an experiment.

    `what` names the request, `fewer` what to reduce.
    """
    if points > MAX_POINTS:
        raise FieldError(field, f"{what}: {points:,} points; use fewer {fewer} ({MAX_POINTS:,} at most)")


def interleaved(points: Sequence[Point], repeats: int) -> tuple[Point, ...]:
    """All points once, then all again, with positions and repeats counted from 0. `points` are of repeat 0."""
    assert repeats >= 1
    assert len({point.key for point in points}) == len(points), "two points of one key"
    return tuple(
        replace(point, repeat=repeat, position=repeat * len(points) + place)
        for repeat in range(repeats)
        for place, point in enumerate(points)
    )


def newest_records(records: Iterable[PointRecord]) -> dict[PointId, PointRecord]:
    """The record that counts for each point: its last settled attempt, else its last attempt."""
    newest: dict[PointId, PointRecord] = {}
    for record in records:
        before = newest.get(record.point_id)
        if before is None or record.status in ENDED or before.status not in ENDED:
            newest[record.point_id] = record
    return newest


def remaining(plan: Plan, records: Iterable[PointRecord]) -> tuple[Point, ...]:
    """The points still to run, in order: without a record, or with attempts that were all cut off."""
    newest = newest_records(records)
    return tuple(
        point
        for point in sorted(plan.points, key=lambda point: point.position)
        if point.point_id not in newest or newest[point.point_id].status not in ENDED
    )


def experiment_status(plan: Plan, records: Sequence[PointRecord]) -> str:
    """`stopped` while points remain, `failed` if one failed, `oom` if all ran out of memory, else `completed`.

    Running out of memory at some points is a result, not a failure of the experiment.
    """
    if remaining(plan, records):
        return "stopped"
    found = {record.status for record in newest_records(records).values()}
    if "failed" in found:
        return "failed"
    return "oom" if found == {"oom"} else "completed"


def run_stats(plan: Plan, point: Point) -> dict[str, Any]:
    """The experiment's entry in the run.json of a point's run."""
    return {
        "id": plan.experiment_id,
        "kind": plan.kind,
        "label": plan.label,
        "key": point.key,
        "repeat": point.repeat,
    }


def point_rows(plan: Plan, records: Iterable[PointRecord]) -> list[dict[str, Any]]:
    """One flat row per point, by position: its values, its status (`pending` without a record), its run's totals.

    The store's rows of an experiment have the same names. `prompt_tokens` is the length of each prompt of the point;
    `run_prompt_tokens` is the sum over all prompts of the run.
    """
    newest = newest_records(records)
    return [_row(point, newest.get(point.point_id)) for point in sorted(plan.points, key=lambda point: point.position)]


def summarize(values: Iterable[float | int | None]) -> Summary | None:
    """Median, lowest and highest of the known values; None without any."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return None
    return Summary(median=statistics.median(known), low=min(known), high=max(known), n=len(known))


def _row(point: Point, record: PointRecord | None) -> dict[str, Any]:
    identity = {"key": point.key, "repeat": point.repeat, "position": point.position, **point.values}
    if record is None:
        return {**identity, "run_id": None, "status": "pending", "error": None}
    oom = record.oom or {}
    return {
        **record.totals,
        "run_prompt_tokens": record.totals.get("prompt_tokens"),
        **identity,
        "run_id": record.run_id,
        "status": record.status,
        "error": record.error,
        "asked_bytes": oom.get("asked_bytes"),
        "free_bytes": oom.get("free_bytes"),
        "oom_where": oom.get("where"),
    }


def _is_number(value: Any) -> bool:
    """None, or a number that a float column can hold."""
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_FIGURE


def _fields_of(kind: type, data: Any, what: str) -> dict[str, Any]:
    """The fields of `kind` in `data`; ValueError if one is missing."""
    names = [f.name for f in fields(kind)]
    missing = [name for name in names if not isinstance(data, Mapping) or name not in data]
    if missing:
        raise ValueError(f"{what}: missing {', '.join(missing)}")
    return {name: data[name] for name in names}


def _check_types(values: Mapping[str, Any], what: str, /, **types: type | UnionType) -> None:
    """ValueError for the first value of a wrong type."""
    for name, kind in types.items():
        if not isinstance(values[name], kind):
            raise ValueError(f"{what}: {name} is {values[name]!r:.60}")
