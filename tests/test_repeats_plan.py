"""Repeats by hand-made numbers: the order of runs, bad plans, medians, ratios repeat by repeat, findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from engine.commands import run as run_command
from engine.core.config import RunConfig, WorkloadConfig
from engine.core.experiment import Plan, point_rows, remaining
from engine.core.experiment_check import check_plan
from engine.core.prediction_questions import of_plan
from engine.core.repeats_plan import plan_repeats
from engine.core.repeats_table import by_chance, keys_of, paired, summary_of, values_of
from pages.figures.repeat_measures import BY_SHORT, change_text, times_text
from pages.figures.repeat_words import agreement_words, drift_words, findings

RATE, DEAD = BY_SHORT["tokens/s"], BY_SHORT["dead"]
A, B = RunConfig(engine="static"), RunConfig(engine="continuous")
NAMES = {"static": "static", "continuous": "continuous"}


def planned(*configs: RunConfig, repeats: int = 2) -> Plan:
    return plan_repeats(configs or (A, B), experiment_id="e", created_at="", repeats=repeats)


def points(rates: Mapping[str, tuple[float | None, ...]], metric: str = RATE.name) -> list[dict[str, Any]]:
    """Flat rows: each engine's figure by repeat; None is a run that failed."""
    engines = list(rates)
    return [
        {
            "key": engine,
            "repeat": repeat,
            "position": repeat * len(engines) + place,
            "status": "failed" if value is None else "completed",
            metric: value,
        }
        for place, engine in enumerate(engines)
        for repeat, value in enumerate(rates[engine])
    ]


def said(static: tuple[float | None, ...], continuous: tuple[float | None, ...], measure: Any = RATE) -> str:
    (sentence,) = findings(points({"static": static, "continuous": continuous}, measure.name), NAMES, measure)
    return sentence


def test_all_engines_run_once_then_all_again() -> None:
    plan = planned(repeats=3)
    assert [(p.key, p.repeat) for p in plan.points] == [(key, repeat) for repeat in range(3) for key in NAMES]
    assert [p.position for p in plan.points] == list(range(6))
    assert [p.config for p in plan.points] == [A, B] * 3
    assert (plan.kind, plan.label, plan.settings) == ("repeats", "static, continuous, 3 repeats", {"repeats": 3})
    check_plan(plan)
    assert Plan.from_dict(plan.to_dict()) == plan
    assert remaining(plan, []) == plan.points
    assert [row["engine"] for row in point_rows(plan, [])] == ["static", "continuous"] * 3


@pytest.mark.parametrize(
    ("configs", "repeats", "line"),
    [
        ((A, B), 0, "repeats 0: use 1 to 1,000"),
        ((A, B), 1001, "repeats 1001: use 1 to 1,000"),
        ((), 2, "engines: name one or more to repeat"),
        ((A, A), 2, "engines: static is named twice"),
        ((A, replace(B, workload=WorkloadConfig(seed=1))), 2, "workload: engines are set side by side on the same"),
        ((A, replace(B, model="tiny-random")), 2, "model: engines are set side by side on the same"),
        (tuple(RunConfig(engine=e) for e in ("static", "paged", "chunked")), 1000, "over 2,000 runs; use fewer"),
    ],
)
def test_what_cannot_be_planned_is_one_line(configs: tuple[RunConfig, ...], repeats: int, line: str) -> None:
    with pytest.raises(ValueError, match=line) as raised:
        plan_repeats(configs, experiment_id="e", created_at="", repeats=repeats)
    assert "\n" not in str(raised.value)


def test_what_static_alone_reads_may_differ() -> None:
    assert len(planned(replace(A, returns="whole"), B).points) == 4


def test_a_plan_of_repeats_can_be_predicted_engine_by_engine() -> None:
    labels = [choice.label for choice in of_plan(planned())]
    assert labels == [
        "static: a metric", "continuous: a metric",
        "static over continuous: a metric's ratio", "continuous over static: a metric's ratio",
    ]  # fmt: skip


def test_medians_and_extremes_are_of_completed_runs() -> None:
    rows = points({"static": (100.0, 110.0, 96.0), "continuous": (140.0, None, float("nan"))})
    assert keys_of(rows) == ("static", "continuous")
    found = summary_of(rows, "static", RATE.name)
    assert found is not None
    assert (found.median, found.low, found.high, found.n) == (100.0, 96.0, 110.0, 3)
    assert found.spread == pytest.approx(0.14)
    assert values_of(rows, "continuous", RATE.name) == {0: 140.0}
    assert summary_of(rows, "continuous", "ttft_p50_s") is None


def test_ratios_are_of_the_same_repeat() -> None:
    """140/100, 132/110, 125/100: 1.4, 1.2, 1.25. The ratio of medians would be 132/100 = 1.32."""
    rows = points({"static": (100.0, 110.0, 100.0), "continuous": (140.0, 132.0, 125.0)})
    found = paired(rows, "continuous", "static", RATE.name)
    assert found.ratios == pytest.approx({0: 1.4, 1: 1.2, 2: 1.25})
    assert found.summary is not None
    assert found.summary.median == pytest.approx(1.25)
    assert (found.n, found.above, found.below, found.agreeing, found.finding) == (3, 3, 0, 3, "apart")


def test_the_finding_never_claims_more_than_the_repeats_do() -> None:
    assert said((100.0, 110.0, 100.0), (140.0, 132.0, 125.0)) == (
        "Continuous had 1.25x static's output tokens/s, 1.20x to 1.40x over 3 repeats: all 3 agree that it is higher, "
        "as by chance they would one time in 4."
    )
    assert said((100.0, 100.0), (80.0, 90.0)) == (
        "Continuous had 0.850x static's output tokens/s, 0.800x to 0.900x over 2 repeats: both agree that it is lower, "
        "as by chance they would one time in 2."
    )
    assert said((100.0, 100.0, 100.0), (105.0, 98.0, 102.0)) == (
        "The repeats differ by more than the engines do: continuous had 0.980x to 1.05x static's output tokens/s, and "
        "3 repeats do not tell them apart (higher in 2, lower in 1)."
    )
    level = said((100.0, 100.0), (100.0, 102.0))
    assert level.endswith("2 repeats do not tell them apart (higher in 1, lower in 0, equal in 1).")


def test_one_repeat_none_and_figures_that_are_equal_or_zero() -> None:
    assert said((100.0, None), (140.0, 150.0)) == (
        "Continuous had 1.40x static's output tokens/s in the one repeat that both completed, which says nothing of "
        "the spread."
    )
    assert said((100.0, None), (None, 150.0)) == (
        "Continuous over static: no ratio, since there is no repeat in which both completed with this figure."
    )
    half = (0.5, 0.5, 0.5)
    noun = "share of dead slot-steps"
    assert said(half, half, DEAD) == f"Static and continuous had the same {noun} in all 3 repeats."
    assert said(half, (0.0, 0.0, 0.0), DEAD) == f"Continuous had none of static's {noun} in all 3 repeats."
    assert said(half, (0.25, 0.25), DEAD) == f"Continuous had 0.500x static's {noun}, the same in both repeats."
    assert said((0.0, 0.0), (0.25, 0.25), DEAD) == (
        "Continuous over static: no ratio, since static's share of dead slot-steps is 0."
    )


def test_one_engine_alone_has_a_median_and_a_spread() -> None:
    def alone(*rates: float | None) -> str:
        (sentence,) = findings(points({"static": rates}), {"static": "static"}, RATE)
        return sentence

    assert alone(100.0, 110.0, 96.0) == (
        "Static: 100 tokens/s, 96 tokens/s to 110 tokens/s over 3 repeats, a spread of 14.0 %."
    )
    assert alone(100.0, None) == "Static: 100 tokens/s in the one run that completed, which says nothing of the spread."
    assert alone(None) == "Static: no completed run has this figure."
    assert alone(100.0, 100.0) == "Static: 100 tokens/s in every one of 2 repeats."


def test_drift_and_agreement_in_words() -> None:
    rows = points({"static": (100.0, 95.0, 90.0), "continuous": (140.0, 130.0, 141.4)})
    assert drift_words(rows, NAMES, RATE) == "From the first repeat to the last: static -10.0 %, continuous +1.0 %."
    assert drift_words(points({"static": (1.0,)}), {"static": "static"}, RATE) == ""
    assert agreement_words(paired(rows, "continuous", "static", RATE.name)) == "3 of 3 higher"
    mixed = points({"static": (100.0, 100.0, 100.0), "continuous": (90.0, 95.0, 101.0)})
    assert agreement_words(paired(mixed, "continuous", "static", RATE.name)) == "2 of 3 lower"
    assert [by_chance(n) for n in (1, 2, 3, 8)] == [1, 2, 4, 128]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.32, "1.32x"), (0.043, "0.0430x"), (1.0, "1.00x"), (1.0004, "1.0004x"), (0.9996, "0.9996x"), (120.4, "120x"),
     (0.0, "0x"), (99.96, "100x")],
)  # fmt: skip
def test_a_ratio_has_as_many_digits_as_it_takes_to_tell_it_from_one(value: float, text: str) -> None:
    assert times_text(value) == text


def test_a_change_is_signed() -> None:
    assert [change_text(100.0, after) for after in (101.25, 99.0, 100.01)] == ["+1.2 %", "-1.0 %", "0 %"]


def test_the_command_reports_each_engine_by_itself() -> None:
    """What Bench began the command line may end: medians over two engines together would mean nothing."""
    one = {"engine": "static", "run_id": "a", "status": "completed", "error": None, "oom": None, "passes": 3}
    other = {**one, "engine": "continuous", "run_id": "b", "passes": 9}
    report = run_command._report([one, other, {**one, "passes": 5}, other], asked=4)
    assert "passes" not in report
    assert report["engines"] == {
        "static": {"engine": "static", "passes": 4.0},
        "continuous": {"engine": "continuous", "passes": 9.0},
    }
    lines = run_command._table(report).splitlines()
    assert lines[1:3] == ["static:", "  passes                      4"]
    assert lines[-1] == "  medians over 4 completed runs, each engine's over its own"
