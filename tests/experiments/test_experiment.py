"""Plans and records of experiments: the order of repeats, the points left to run, flat rows."""

from __future__ import annotations

import json

import pytest

from engine.core.config import RunConfig
from engine.experiments.experiment import (
    Plan,
    Point,
    PointRecord,
    experiment_status,
    interleaved,
    newest_records,
    point_rows,
    remaining,
    summarize,
)


def a_point(key: str, position: int = 0) -> Point:
    values = {"engine": "static", "prompt_tokens": 16}
    return Point(key=key, position=position, repeat=0, values=values, config=RunConfig())


def a_plan(keys: str, repeats: int = 1) -> Plan:
    points = interleaved([a_point(key, place) for place, key in enumerate(keys)], repeats)
    return Plan(experiment_id="e", kind="sweep", label="l", created_at="2026-11-29T10:00:00.000+00:00", points=points)


def record(key: str, status: str = "completed", repeat: int = 0, run_id: str | None = "r") -> PointRecord:
    return PointRecord(key=key, repeat=repeat, run_id=run_id, status=status)


def test_repeats_run_interleaved() -> None:
    """ABCABC, not AABBCC: drift affects all points equally."""
    points = a_plan("abc", repeats=2).points
    assert [(p.key, p.repeat, p.position) for p in points] == [
        ("a", 0, 0), ("b", 0, 1), ("c", 0, 2), ("a", 1, 3), ("b", 1, 4), ("c", 1, 5),
    ]  # fmt: skip


def test_keys_are_unique() -> None:
    with pytest.raises(AssertionError):
        interleaved([a_point("a"), a_point("a")], 2)


def test_a_plan_survives_json() -> None:
    plan = a_plan("ab", repeats=2)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    kept = record("a", "oom")
    assert PointRecord.from_dict(json.loads(json.dumps(kept.to_dict()))) == kept


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"schema_version": 2}, "schema version 2"),
        ({"kind": "walk"}, "kind 'walk'; known kinds are sweep"),
        ({"points": [{"key": "a"}]}, "point: missing position"),
    ],
)
def test_invalid_plans_are_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Plan.from_dict({**a_plan("a").to_dict(), **change})
    with pytest.raises(ValueError, match="missing label"):
        Plan.from_dict({key: value for key, value in a_plan("a").to_dict().items() if key != "label"})


def test_settled_points_do_not_run_again_and_cut_off_points_do() -> None:
    plan = a_plan("abcdef")
    records = [record("a"), record("b", "oom"), record("c", "failed"), record("d", "stopped"), record("e", "crashed")]
    assert [point.key for point in remaining(plan, records)] == ["d", "e", "f"]
    assert [point.key for point in remaining(plan, [*records, record("e")])] == ["d", "f"]


def test_a_settled_attempt_counts_over_later_cut_off_ones() -> None:
    first, cut_off = record("a", run_id="first"), record("a", "crashed", run_id="second")
    assert newest_records([first, cut_off])["a", 0] == first
    assert newest_records([cut_off, first])["a", 0] == first
    again = record("a", "oom", run_id="third")
    assert newest_records([first, again])["a", 0] == again


def test_repeats_of_a_point_are_settled_one_by_one() -> None:
    plan = a_plan("ab", repeats=2)
    left = remaining(plan, [record("a"), record("b"), record("b", repeat=1)])
    assert [(point.key, point.repeat) for point in left] == [("a", 1)]


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (["completed", "completed"], "completed"),
        (["completed", "oom"], "completed"),
        (["oom", "oom"], "oom"),
        (["completed", "failed"], "failed"),
        (["completed", "stopped"], "stopped"),
        (["failed"], "stopped"),
    ],
)
def test_experiment_status(statuses: list[str], status: str) -> None:
    assert experiment_status(a_plan("ab"), [record(k, s) for k, s in zip("ab", statuses, strict=False)]) == status


def test_a_point_is_added_once() -> None:
    plan = a_plan("a").with_points([a_point("b", 1), a_point("a", 2)])
    assert [point.key for point in plan.points] == ["a", "b"]


def test_rows_are_flat_and_keep_the_prompt_tokens_of_the_point() -> None:
    """`prompt_tokens` is 16 per prompt; the run's total, 128, is `run_prompt_tokens`."""
    done = PointRecord(
        key="b", repeat=0, run_id="r", status="completed", totals={"prompt_tokens": 128, "ttft_p50_s": 0.5}
    )
    short = PointRecord(
        key="a", repeat=0, run_id=None, status="oom", error="no", oom={"asked_bytes": 9, "free_bytes": 1, "where": "x"}
    )
    rows = point_rows(a_plan("abc"), [done, short])
    assert [row["status"] for row in rows] == ["oom", "completed", "pending"]
    assert (rows[0]["asked_bytes"], rows[0]["free_bytes"], rows[0]["oom_where"], rows[0]["error"]) == (9, 1, "x", "no")
    assert (rows[1]["prompt_tokens"], rows[1]["run_prompt_tokens"], rows[1]["ttft_p50_s"]) == (16, 128, 0.5)


def test_median_and_spread() -> None:
    found = summarize([3.0, None, 1.0, 2.0])
    assert found is not None
    assert (found.median, found.low, found.high, found.n, found.spread) == (2.0, 1.0, 3.0, 3, 1.0)
    assert summarize([None]) is None
    one = summarize([4])
    assert one is not None
    assert one.spread is None
