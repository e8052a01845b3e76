"""The plan of a load test: the same traces for every engine, and the points around a known capacity."""

from dataclasses import replace

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.errors import FieldError
from engine.core.form_rule import FormRule
from engine.experiments.experiment import Plan, Point, PointRecord, remaining
from engine.load.goodput import Limits
from engine.load.load_plan import arrival_spec, next_points, parse_rates, plan_load
from engine.workload.workload import build_workload

BASE = RunConfig(model="tiny-random", slots=4, workload=WorkloadConfig(prompts="p16,p64", requests=12, budget="4-9"))


def plan(**changes: object) -> Plan:
    settings = {"engines": ("static", "continuous"), "rates_per_s": (1.0, 2.0), "repeats": 2} | changes
    return plan_load(BASE, experiment_id="e1", created_at="2026-11-29", **settings)  # type: ignore[arg-type]


def record(point: Point, status: str = "completed") -> PointRecord:
    return PointRecord(key=point.key, repeat=point.repeat, run_id=f"{point.key}-{point.repeat}", status=status)


def test_engines_alternate_at_every_rate_and_repeats_follow() -> None:
    points = plan().points
    once = ["static/1", "continuous/1", "static/2", "continuous/2", "static/saturation", "continuous/saturation"]
    assert [point.key for point in points] == once * 2
    assert [point.repeat for point in points] == [0] * 6 + [1] * 6
    assert [point.position for point in points] == list(range(12))
    assert points[0].values == {"engine": "static", "rate_per_s": 1.0, "role": "rate"}
    assert points[4].values == {"engine": "static", "rate_per_s": None, "role": "saturation"}


def test_every_engine_gets_the_same_trace_at_a_rate() -> None:
    points = plan(engines=("serial", "static", "continuous", "paged", "chunked"), repeats=1).points
    digests: dict[object, set[str]] = {}
    for point in points:
        workload = build_workload(point.config.workload)
        digests.setdefault(point.values["rate_per_s"], set()).add(workload.digest)
    assert {rate: len(found) for rate, found in digests.items()} == {None: 1, 1.0: 1, 2.0: 1}
    assert len(set.union(*digests.values())) == 3


def test_rates_change_only_arrival_times_and_seeds_change_all() -> None:
    slow, fast = (build_workload(point.config.workload).requests for point in (plan().points[0], plan().points[2]))
    assert [replace(r, arrival_s=0.0) for r in slow] == [replace(r, arrival_s=0.0) for r in fast]
    assert [r.arrival_s for r in slow] == pytest.approx([2 * r.arrival_s for r in fast])
    other = replace(BASE, workload=replace(BASE.workload, seed=1))
    reseeded = plan_load(other, experiment_id="e2", created_at="", engines=("static",), rates_per_s=(1.0,))
    assert build_workload(reseeded.points[0].config.workload).requests != slow


def test_only_static_gets_form_and_returns() -> None:
    base = replace(BASE, engine="static", form=FormRule.parse("timeout:2"), returns="whole")
    made = plan_load(base, experiment_id="e", created_at="", engines=("static", "paged"), rates_per_s=(1.0,))
    assert [(str(p.config.form), p.config.returns) for p in made.points[:2]] == [
        ("timeout:2", "whole"),
        ("arrived", "stream"),
    ]


def test_each_capacity_gets_a_run_below_and_above() -> None:
    made = plan()
    rates = {"static/saturation-0": 1.0, "static/saturation-1": 3.0, "continuous/saturation-0": 4.0}
    records = [record(point) for point in made.points]
    added = next_points(made, records, lambda found: rates.get(str(found.run_id)))
    assert [(p.key, p.repeat, p.values["rate_per_s"], p.config.workload.arrival) for p in added[:4]] == [
        ("static/below", 0, 1.8, "constant:1.8"),  # the median of 1 and 3 is 2
        ("static/above", 0, 2.2, "constant:2.2"),
        ("continuous/below", 0, 3.6, "constant:3.6"),
        ("continuous/above", 0, 4.4, "constant:4.4"),
    ]
    assert [p.repeat for p in added] == [0] * 4 + [1] * 4
    assert [p.position for p in added] == list(range(12, 20))
    grown = made.with_points(added)
    assert remaining(grown, records) == added
    assert next_points(grown, records, lambda found: 1.0) == ()


def test_an_engine_without_a_capacity_gets_no_points_around_it() -> None:
    made = plan(repeats=1)
    records = [record(p, "oom" if p.values["engine"] == "static" else "completed") for p in made.points]
    added = next_points(made, records, lambda found: 2.0)
    assert [p.key for p in added] == ["continuous/below", "continuous/above"]
    assert next_points(made, records, lambda found: None) == ()
    assert next_points(plan(confirm=False), records, lambda found: 2.0) == ()


def test_a_plan_survives_json() -> None:
    made = plan(limits=Limits(ttft_s=0.5))
    assert Plan.from_dict(made.to_dict()) == made
    assert made.settings["ttft_limit_s"] == 0.5
    assert made.label == "static, continuous at 1, 2 requests/s"


def test_rates_are_parsed_or_refused_in_one_line() -> None:
    assert parse_rates("2, 0.5,1") == (0.5, 1.0, 2.0)
    for text in ("", "x", "0", "-1", "1,,2", "nan", "inf", "1e9", "1e-300"):
        with pytest.raises(ValueError, match=r"use requests/s from 0\.000001 to 1,000,000, for example 0\.5,1,2"):
            parse_rates(text)
    with pytest.raises(ValueError, match="name each once"):
        parse_rates("1,1.0")


def test_a_law_has_no_rate() -> None:
    assert arrival_spec("poisson", 2.0) == "poisson:2.0"
    assert arrival_spec("constant", 0.1) == "constant:0.1"
    assert arrival_spec("gamma:3", 2.0) == "gamma:2.0:3"
    for law in ("closed", "poisson:2", "gamma", "constant:1", ""):
        with pytest.raises(ValueError, match="use poisson, constant or gamma:CV"):
            arrival_spec(law, 1.0)
    with pytest.raises(ValueError, match="coefficient of variation"):
        arrival_spec("gamma:x", 1.0)


def test_too_many_points_are_refused() -> None:
    with pytest.raises(ValueError, match="repeats 0: use 1 to 1,000"):
        plan(repeats=0)
    with pytest.raises(FieldError, match="points; use fewer engines, rates or repeats") as refusal:
        plan(repeats=1000)
    assert refusal.value.field == "rates"
    with pytest.raises(ValueError, match="budget"):
        plan_load(
            replace(BASE, workload=replace(BASE.workload, budget="3x4")),
            experiment_id="e", created_at="", engines=("static",), rates_per_s=(1.0,),
        )  # fmt: skip
