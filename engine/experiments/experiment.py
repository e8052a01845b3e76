"""An experiment: points to be measured, each some number of times, and what became of every attempt.

A point is one run that is asked for: a configuration, and the values by which a table or a figure finds it. All repeats
of a point share its key. Repeats run interleaved, every point once before any point twice (ABAB), so that a machine
that grows slower with time slows all points alike; tables show the median over repeats and their spread. An attempt
that failed or ran out of memory is a record like any other: an experiment does not end with it.

Nothing here knows where experiments are kept (`engine.runlog.experiment_log`), or what a kind of experiment asks.
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
CONTINUES_AFTER = (
    "completed",
    "oom",
)  # of runs side by side: behind one that ended otherwise, none of the others is run
ENDED = ("completed", "oom", "failed")  # what settles a point; those of CUT_OFF do not
CUT_OFF = ("stopped", "crashed")
MAX_FIGURE = sys.float_info.max

PointId = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run that is asked for. `position` is its place in the order of running, `repeat` counts from 0."""

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
        """The inverse of `to_dict`. ValueError for what is no point."""
        values = _fields_of(cls, data, "point")
        _check_types(values, "point", key=str, position=int, repeat=int, values=Mapping)
        return cls(**values | {"config": RunConfig.from_dict(values["config"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an experiment sets out to measure. `settings` are its kind's own; `points` are in the order of running.

    An adaptive experiment adds points while it runs; a plan that was read back has them too.
    """

    experiment_id: str
    kind: ExperimentKind
    label: str
    created_at: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    points: tuple[Point, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, with the version of this form."""
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
        """The inverse of `to_dict`. ValueError for what is no plan, or one of another version of the lab."""
        version = data.get("schema_version") if isinstance(data, Mapping) else None
        if version != EXPERIMENT_SCHEMA_VERSION:
            raise ValueError(f"experiment: schema version {version!r}, and this lab reads {EXPERIMENT_SCHEMA_VERSION}")
        values = _fields_of(cls, data, "experiment")
        _check_types(values, "experiment", experiment_id=str, label=str, created_at=str, settings=Mapping, points=list)
        if values["kind"] not in KINDS:
            raise ValueError(f"experiment: kind {values['kind']!r} is none of {', '.join(KINDS)}")
        return cls(**values | {"points": tuple(Point.from_dict(point) for point in values["points"])})

    def with_points(self, added: Iterable[Point]) -> Self:
        """The plan with points added at its end, those it has already left out."""
        known = {point.point_id for point in self.points}
        return replace(self, points=(*self.points, *(point for point in added if point.point_id not in known)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRecord:
    """How one attempt at a point ended. `run_id` is None where no run folder came to be.

    `oom` holds asked_bytes, free_bytes, shape and where of an allocation that failed; `totals` the run's metrics by
    their names.
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
        """The inverse of `to_dict`. ValueError for what is no record, one whose totals are no figures included."""
        values = _fields_of(cls, data, "record")
        _check_types(values, "record", key=str, repeat=int, run_id=str | None, status=str, error=str | None)
        _check_types(values, "record", oom=Mapping | None, ended_at=str, totals=Mapping)
        if values["status"] not in (*ENDED, *CUT_OFF):
            raise ValueError(f"record: status {values['status']!r:.60} is none of {', '.join((*ENDED, *CUT_OFF))}")
        for name, value in values["totals"].items():
            if not _is_figure(value):
                raise ValueError(f"record: totals: {name!r:.60} is {value!r:.60}; a total is a number or null")
        asked = {"asked_bytes": None, "free_bytes": None, "where": None, **(values["oom"] or {})}
        _check_types(asked, "record: oom", asked_bytes=int | None, free_bytes=int | None, where=str | None)
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A measured value over the repeats of a point. `spread` is (highest - lowest) / median; None for one repeat."""

    median: float
    low: float
    high: float
    n: int

    @property
    def spread(self) -> float | None:
        return None if self.n < 2 or self.median == 0 else (self.high - self.low) / self.median


def interleaved(points: Sequence[Point], repeats: int) -> tuple[Point, ...]:
    """Every point once, then every point again: positions run on from 0, repeats from 0. `points` are of repeat 0."""
    assert repeats >= 1
    assert len({point.key for point in points}) == len(points), "two points of one key"
    return tuple(
        replace(point, repeat=repeat, position=repeat * len(points) + place)
        for repeat in range(repeats)
        for place, point in enumerate(points)
    )


def newest_records(records: Iterable[PointRecord]) -> dict[PointId, PointRecord]:
    """What holds for each point: its last settled attempt, or its last attempt where none was settled."""
    newest: dict[PointId, PointRecord] = {}
    for record in records:
        before = newest.get(record.point_id)
        if before is None or record.status in ENDED or before.status not in ENDED:
            newest[record.point_id] = record
    return newest


def remaining(plan: Plan, records: Iterable[PointRecord]) -> tuple[Point, ...]:
    """The points still to be run, in order: those without a record, and those whose attempts were all cut off."""
    newest = newest_records(records)
    return tuple(
        point
        for point in sorted(plan.points, key=lambda point: point.position)
        if point.point_id not in newest or newest[point.point_id].status not in ENDED
    )


def experiment_status(plan: Plan, records: Sequence[PointRecord]) -> str:
    """`stopped` while a point is left, `failed` when one failed, `oom` when none completed, else `completed`.

    Memory that ends somewhere is an answer, not a failure of the experiment.
    """
    if remaining(plan, records):
        return "stopped"
    found = {record.status for record in newest_records(records).values()}
    if "failed" in found:
        return "failed"
    return "oom" if found == {"oom"} else "completed"


def run_stats(plan: Plan, point: Point) -> dict[str, Any]:
    """What the run.json of a point's run says of its experiment."""
    return {
        "id": plan.experiment_id,
        "kind": plan.kind,
        "label": plan.label,
        "key": point.key,
        "repeat": point.repeat,
    }


def point_rows(plan: Plan, records: Iterable[PointRecord]) -> list[dict[str, Any]]:
    """A flat row a point, in order of position: its values, how it ended (`pending` if it has not), its run's totals.

    What tables are made of; the store's rows of an experiment have the same names. A point's `prompt_tokens` are those
    of each of its prompts; all prompts' together are `run_prompt_tokens`.
    """
    newest = newest_records(records)
    return [_row(point, newest.get(point.point_id)) for point in sorted(plan.points, key=lambda point: point.position)]


def summarize(values: Iterable[float | int | None]) -> Summary | None:
    """Median, lowest and highest of the values that are there; None when none is."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return None
    return Summary(median=statistics.median(known), low=min(known), high=max(known), n=len(known))


def _row(point: Point, record: PointRecord | None) -> dict[str, Any]:
    named = {"key": point.key, "repeat": point.repeat, "position": point.position, **point.values}
    if record is None:
        return {**named, "run_id": None, "status": "pending", "error": None}
    oom = record.oom or {}
    return {
        **record.totals,
        "run_prompt_tokens": record.totals.get("prompt_tokens"),
        **named,
        "run_id": record.run_id,
        "status": record.status,
        "error": record.error,
        "asked_bytes": oom.get("asked_bytes"),
        "free_bytes": oom.get("free_bytes"),
        "oom_where": oom.get("where"),
    }


def _is_figure(value: Any) -> bool:
    """None, or a number that a column of figures can hold."""
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_FIGURE


def _fields_of(kind: type, data: Any, what: str) -> dict[str, Any]:
    """The fields of `kind` in `data`; ValueError when one is missing."""
    names = [f.name for f in fields(kind)]
    missing = [name for name in names if not isinstance(data, Mapping) or name not in data]
    if missing:
        raise ValueError(f"{what}: without {', '.join(missing)}")
    return {name: data[name] for name in names}


def _check_types(values: Mapping[str, Any], what: str, /, **types: type | UnionType) -> None:
    """ValueError for the first of `values` that is not of its type."""
    for name, kind in types.items():
        if not isinstance(values[name], kind):
            raise ValueError(f"{what}: {name} is {values[name]!r:.60}")


# How large an experiment may be: how often its points are repeated, and how many runs that makes in all.

MAX_REPEATS = 1_000
MAX_POINTS = 2_000
REPEATS = Option(
    default=1,
    label="Repeats",
    help="of each run, interleaved",
    flags=("--repeats",),
    takes=Bounds(low=1, high=MAX_REPEATS),
    metavar="N",
    group="measuring",
)


def check_repeats(repeats: int) -> None:
    """ValueError, one clear line, for a number of repeats that cannot be asked for."""
    REPEATS.check(repeats)


def check_points(what: str, points: int, fewer: str) -> None:
    """ValueError, one clear line, for more `points`, all repeats counted, than an experiment takes.

    `what` is asked for, and begins with the kind of experiment; of `fewer` there have to be fewer.
    """
    if points > MAX_POINTS:
        raise FieldError(what.split()[0], f"{what}: {points:,} points; use fewer {fewer} ({MAX_POINTS:,} at most)")
