"""Predictions without a store: questions, ranges, measured figures and grades, calculated by hand."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.experiments.experiment import Plan, Point
from engine.predictions.measure import measure
from engine.predictions.prediction import Expectation, Question, grade
from engine.predictions.questions import of_engines, of_plan
from engine.predictions.simulation import PlannedRun, simulated_answer


@pytest.mark.parametrize(
    ("low", "high", "value", "held", "distance", "relative"),
    [
        (1.0, 2.0, 1.5, True, 0.5, 0.5),  # both ends are as near: the lower one, of which it is a half
        (1.0, 2.0, 1.9, True, 0.1, 0.05),
        (1.0, 2.0, 2.0, True, 0.0, 0.0),
        (1.0, 2.0, 2.5, False, 0.5, 0.25),
        (1.0, 2.0, 0.25, False, 0.75, 0.75),
        (None, 2.0, -3.0, True, 5.0, 2.5),
        (4.0, None, 3.0, False, 1.0, 0.25),
        (0.0, None, 3.0, True, 3.0, None),
        (-2.0, -1.0, -4.0, False, 2.0, 1.0),
    ],
)
def test_a_grade_says_by_how_much(
    low: float | None, high: float | None, value: float, held: bool, distance: float, relative: float | None
) -> None:
    found = grade(low, high, value)
    assert found.held is held
    assert found.distance == pytest.approx(distance)
    assert found.relative == (None if relative is None else pytest.approx(relative))


@pytest.mark.parametrize(
    ("low", "high", "why", "line"),
    [
        (None, None, "so", "give a lowest value, a highest, or both"),
        (2.0, 1.0, "so", "2 to 1 is empty"),
        (float("nan"), 1.0, "so", "the ends must be numbers"),
        (None, float("inf"), "so", "the ends must be numbers"),
        (1.0, 2.0, "  ", "give a reason"),
        (1.0, 2.0, "x" * 2001, "2,001 characters; use at most 2,000"),
    ],
)
def test_what_is_no_expectation_is_refused_in_one_line(
    low: float | None, high: float | None, why: str, line: str
) -> None:
    with pytest.raises(ValueError, match=rf"^{line}|{line}$") as refused:
        Expectation(low=low, high=high, why=why)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"measure": "luck"}, "measure 'luck': use one of metric"),
        ({"measure": "metric"}, "it needs metric"),
        ({"measure": "metric", "metric": "speed"}, "metric 'speed': unknown"),
        ({"measure": "ratio", "metric": "duration_s", "key": "a", "base": "a"}, "a over itself is always 1"),
        ({"measure": "capacity"}, "it needs engine"),
        ({"measure": "metric", "metric": "duration_s", "color": "red"}, "color is not valid"),
        ({"metric": "duration_s"}, "measure is missing"),
    ],
)
def test_what_is_no_question_is_refused_in_one_line(fields: dict[str, str], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        Question.from_dict(fields)


def test_a_question_survives_its_json_and_names_its_unit() -> None:
    question = Question(measure="ratio", metric="ttft_p50_s", key="static", base="continuous")
    assert Question.from_dict(question.to_dict()) == question
    assert question.unit == "times"
    assert question.label == "Time to first token (TTFT), median: static over continuous"
    assert Question(measure="metric", metric="duration_s", key="static").label == "Duration of static"
    assert Question(measure="metric", metric="duration_s").unit == "s"


def row(key: str, status: str = "completed", **values: Any) -> dict[str, Any]:
    """A point of a sweep by its batch size, by default p16 on static."""
    basis = {
        "key": key, "engine": "static", "prompts": "p16", "prompt_tokens": 16, "batch_size": 1, "role": "point",
        "status": status, "run_id": f"run-{key}", "error": None, "rate_per_s": None, "asked_bytes": None,
        "free_bytes": None, "oom_where": None, "run_prompt_tokens": 64.0,
    }  # fmt: skip
    return basis | values


def no_rate(run_id: str) -> float | None:
    raise AssertionError("no rate was needed")


def test_a_metric_is_the_median_of_the_repeats_that_completed() -> None:
    rows = [row("a", duration_s=1.0), row("a", duration_s=5.0), row("a", duration_s=2.0), row("b", duration_s=9.0)]
    question = Question(measure="metric", metric="duration_s", key="a")
    assert measure(question, rows, no_rate).value == 2.0
    ratio = Question(measure="ratio", metric="duration_s", key="b", base="a")
    assert measure(ratio, rows, no_rate).value == 4.5
    prompts = Question(measure="metric", metric="prompt_tokens", key="a")
    assert measure(prompts, rows, no_rate).value == 64.0  # the run's count, not the length of each prompt


@pytest.mark.parametrize("status", ["pending", "running", "stopped", "crashed"])
def test_what_is_yet_to_be_run_keeps_a_prediction_pending(status: str) -> None:
    question = Question(measure="metric", metric="duration_s", key="a")
    found = measure(question, [row("a", duration_s=1.0), row("a", status)], no_rate)
    assert (found.value, found.is_final) == (None, False)
    assert found.reason == "1 of 2 runs that it needs have not ended yet"
    assert measure(question, [row("b")], no_rate).is_final is False


@pytest.mark.parametrize(
    ("metric", "values", "line"),
    [
        ("ttft_p99_s", {"ttft_p99_s": None, "ttft_n": 8.0}, "a 99th percentile needs 100 samples; there are 8"),
        ("offered_requests_per_s", {"offered_requests_per_s": None}, "all requests arrived at once"),
        ("preemptions", {"preemptions": float("nan")}, "the run has no such figure"),
    ],
)
def test_a_figure_that_is_not_there_has_a_reason(metric: str, values: dict[str, Any], line: str) -> None:
    found = measure(Question(measure="metric", metric=metric), [row("", **values)], no_rate)
    assert (found.value, found.is_final) == (None, True)
    assert line in str(found.reason)


@pytest.mark.parametrize(
    ("status", "words"),
    [("oom", "its run ran out of memory: no room"), ("stopped", "was stopped"), ("crashed", "crashed")],
)
def test_a_run_that_did_not_complete_gives_no_figure(status: str, words: str) -> None:
    rows = [row("", status, error="no room", duration_s=1.0)]
    found = measure(Question(measure="metric", metric="duration_s"), rows, no_rate, is_over=True)
    assert found.value is None
    assert found.is_final
    assert words in str(found.reason)


def sweep() -> list[dict[str, Any]]:
    """B = 1, 2, 4, 8: 1.0 s and 0.010 s a token alone; B=2 0.0100, B=4 0.0125 s a token; B=8 does not fit."""
    return [
        row("b1", batch_size=1, duration_s=1.0, tpot_p50_s=0.010),
        row("b2", batch_size=2, duration_s=1.0, tpot_p50_s=0.010),
        row("b4", batch_size=4, duration_s=1.25, tpot_p50_s=0.0125),
        row("b8", "oom", batch_size=8, error="out of memory"),
    ]


def test_figures_of_a_whole_sweep() -> None:
    rows = sweep()
    assert measure(Question(measure="speedup", key="b4"), rows, no_rate).value == pytest.approx(4 * 1.0 / 1.25)
    assert measure(Question(measure="linear_share", key="b4"), rows, no_rate).value == pytest.approx(0.8)
    largest = Question(measure="largest_batch", engine="static", prompts="p16")
    assert measure(largest, rows, no_rate).value == 4.0
    assert measure(largest, [row("b1", "oom")], no_rate).value == 0.0
    found = measure(Question(measure="speedup", key="b8"), rows, no_rate)
    assert found.value is None
    assert "ran out of memory" in str(found.reason)
    pending = measure(Question(measure="speedup", key="b4"), [row("b1", "pending"), *rows[1:]], no_rate)
    assert (pending.value, pending.is_final) == (None, False)


def test_capacities_are_the_rates_at_saturation() -> None:
    rows = [row(f"{name}/{i}", engine=name, role="saturation") for name in ("static", "paged") for i in range(2)]
    rates = {"run-static/0": 1.0, "run-static/1": 3.0, "run-paged/0": 5.0, "run-paged/1": 5.0}
    assert measure(Question(measure="capacity", engine="static"), rows, rates.get).value == 2.0
    ratio = Question(measure="capacity_ratio", engine="paged", base="static")
    assert measure(ratio, rows, rates.get).value == 2.5
    gone = measure(ratio, rows, lambda run_id: None)
    assert (gone.value, gone.is_final) == (None, True)
    assert "deleted" in str(gone.reason)
    assert measure(Question(measure="capacity", engine="chunked"), rows, rates.get, is_over=True).value is None


def test_what_can_be_asked_of_engines_side_by_side() -> None:
    choices = of_engines(["static", "paged"])
    assert [choice.label for choice in choices] == [
        "static: a metric", "paged: a metric", "static over paged: a metric's ratio",
        "paged over static: a metric's ratio",
    ]  # fmt: skip
    assert choices[2].question("duration_s").label == "Duration: static over paged"
    assert choices[2].engines == ("static", "paged")


def test_what_can_be_asked_of_a_sweep() -> None:
    points = tuple(
        Point(
            key=f"b{size}",
            position=size,
            repeat=0,
            values={"engine": "static", "prompts": "p16", "prompt_tokens": 16, "batch_size": size, "role": "point"},
            config=RunConfig(engine="static"),
        )
        for size in (1, 4)
    )
    plan = Plan(experiment_id="e", kind="sweep", label="", created_at="", points=points)
    choices = of_plan(plan)
    assert [(c.measure, c.key) for c in choices] == [
        ("largest_batch", ""), ("speedup", "b4"), ("linear_share", "b4"), ("metric", "b1"), ("metric", "b4"),
    ]  # fmt: skip
    for choice in choices:
        assert choice.question("duration_s").unit
    assert len({choice.label for choice in choices}) == len(choices)


def test_the_simulator_says_why_it_cannot_say() -> None:
    question = Question(measure="metric", metric="duration_s")
    run = PlannedRun(key="", config=RunConfig(model="smollm2-135m", device="cpu"))
    found = simulated_answer(question, [run], [])
    assert found.value is None
    assert found.note == "no calibration of cpu here; run `python -m engine calibrate --model smollm2-135m`"
    many = PlannedRun(key="", config=RunConfig(workload=WorkloadConfig(requests=6000)))
    note = simulated_answer(question, [many], []).note
    assert note == "6,000 requests are too many to simulate (at most 5,000)"
