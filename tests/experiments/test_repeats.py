"""Repeats with hand-made numbers: run order, invalid plans, medians, ratios by repeat, findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from engine.commands import run as run_command
from engine.core.config import RunConfig, SamplingConfig, WorkloadConfig
from engine.core.form_rule import FormRule
from engine.experiments.experiment import Plan, point_rows, remaining
from engine.experiments.experiment_check import check_plan
from engine.experiments.repeats import by_chance, keys_of, paired, plan_repeats, summary_of, values_of
from engine.predictions.questions import of_plan
from pages.figures.repeats.findings import agreement_text, chance_text, drift_text, findings
from pages.figures.repeats.measures import BY_SHORT, change_text, times_text
from tests.support.no_break import nb

RATE, DEAD = BY_SHORT["tokens/s"], BY_SHORT["dead"]
A, B = RunConfig(engine="static"), RunConfig(engine="continuous")
NAMES = {"static": "static", "continuous": "continuous"}


def planned(*configs: RunConfig, repeats: int = 2) -> Plan:
    return plan_repeats(configs or (A, B), experiment_id="e", created_at="", repeats=repeats)


def points(rates: Mapping[str, tuple[float | None, ...]], metric: str = RATE.name) -> list[dict[str, Any]]:
    """Flat rows: each engine's value by repeat; None is a failed run."""
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


def finding_text(static: tuple[float | None, ...], continuous: tuple[float | None, ...], measure: Any = RATE) -> str:
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
        ((A, replace(B, workload=WorkloadConfig(seed=1))), 2, "workload: use the same value for all engines"),
        ((A, replace(B, model="tiny-random")), 2, "model: use the same value for all engines"),
        (tuple(RunConfig(engine=e) for e in ("static", "paged", "chunked")), 1000, "3,000 points; use fewer engines"),
    ],
)
def test_invalid_plans_get_one_line(configs: tuple[RunConfig, ...], repeats: int, line: str) -> None:
    with pytest.raises(ValueError, match=line) as raised:
        plan_repeats(configs, experiment_id="e", created_at="", repeats=repeats)
    assert "\n" not in str(raised.value)


def test_settings_that_only_static_reads_may_differ() -> None:
    assert len(planned(replace(A, returns="whole", form=FormRule(rule="full")), B).points) == 4


@pytest.mark.parametrize(
    ("name", "value"),
    [("slots", 2), ("sampling", SamplingConfig(top_k=3)), ("execution", "graph"), ("timing", "async"), ("warmups", 0),
     ("block_size", 32), ("pool_gib", 1.0), ("dtype", "fp32")],
)  # fmt: skip
def test_shared_settings_are_equal(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name}: use the same value for all engines"):
        planned(A, replace(B, **{name: value}))


def test_a_plan_of_repeats_can_be_predicted_engine_by_engine() -> None:
    labels = [choice.label for choice in of_plan(planned())]
    assert labels == [
        "static: a metric", "continuous: a metric",
        "static over continuous: a metric's ratio", "continuous over static: a metric's ratio",
    ]  # fmt: skip


def test_medians_and_extremes_cover_completed_runs() -> None:
    rows = points({"static": (100.0, 110.0, 96.0), "continuous": (140.0, None, float("nan"))})
    assert keys_of(rows) == ("static", "continuous")
    found = summary_of(rows, "static", RATE.name)
    assert found is not None
    assert (found.median, found.low, found.high, found.n) == (100.0, 96.0, 110.0, 3)
    assert found.spread == pytest.approx(0.14)
    assert values_of(rows, "continuous", RATE.name) == {0: 140.0}
    assert summary_of(rows, "continuous", "ttft_p50_s") is None


def test_ratios_pair_runs_of_the_same_repeat() -> None:
    """140/100, 132/110, 125/100: 1.4, 1.2, 1.25. The ratio of medians would be 132/100 = 1.32."""
    rows = points({"static": (100.0, 110.0, 100.0), "continuous": (140.0, 132.0, 125.0)})
    found = paired(rows, "continuous", "static", RATE.name)
    assert found.ratios == pytest.approx({0: 1.4, 1: 1.2, 2: 1.25})
    assert found.summary is not None
    assert found.summary.median == pytest.approx(1.25)
    assert (found.n, found.above, found.below, found.equal, found.chance) == (3, 3, 0, 0, 0.25)


def over_100(*rates: float) -> str:
    """The finding on continuous at `rates` against static at 100 in every repeat."""
    return finding_text((100.0,) * len(rates), rates)


def test_fewer_than_six_repeats_have_no_verdict() -> None:
    assert finding_text((100.0, 110.0, 100.0), (140.0, 132.0, 125.0)) == (
        "Continuous had 1.25x static's output tokens/s (1.20x to 1.40x): higher in all 3 repeats; chance alone does "
        "this 1 time in 4."
    )
    assert over_100(80.0, 90.0) == (
        "Continuous had 0.850x static's output tokens/s (0.800x to 0.900x): lower in both repeats; chance alone does "
        "this 1 time in 2."
    )
    assert over_100(105.0, 98.0, 102.0) == (
        "No clear difference: continuous had 1.02x static's output tokens/s (0.980x to 1.05x), higher in 2 of 3 "
        "repeats; no evidence (chance alone always does this)."
    )
    assert over_100(100.0, 102.0).endswith(
        "higher in 1 of 2 repeats, equal in 1; no evidence (chance alone always does this)."
    )
    assert over_100(101.0, 102.0, 103.0, 104.0, 105.0).endswith(
        "higher in all 5 repeats; chance alone does this 1 time in 16."
    )


def test_the_sign_test_allows_a_repeat_the_other_way() -> None:
    """9 or 10 of 10 coins, either side: 2 x 11 / 1024, one in 46.5. 49 or 50 of 50: 2 x 51 / 2^50."""
    assert by_chance(9, 10) == 22 / 1024
    nine = over_100(99.0, *(101.0 + 2 * place for place in range(9)))
    assert nine == (
        "Continuous had 1.08x static's output tokens/s (0.990x to 1.17x): higher in 9 of 10 repeats; chance alone does "
        "this 1 time in 47."
    )
    rows = points({"static": (100.0,) * 50, "continuous": (99.0, *(101.0,) * 49)})
    found = paired(rows, "continuous", "static", RATE.name)
    assert (found.chance, found.finding) == (102 / 2**50, "apart")
    text = over_100(99.0, *(101.0,) * 49)
    assert text.endswith("higher in 49 of 50 repeats; chance alone does this less than 1 time in 1,000,000.")


def test_likely_outcomes_are_no_difference() -> None:
    """7 or more of 10: 2 x 176 / 1024 = 0.344. Ties are left out: six of six is 2 / 64."""
    lean = over_100(98.0, 98.5, 99.0, *(101.0 + place for place in range(7)))
    assert lean == (
        "No clear difference: continuous had 1.02x static's output tokens/s (0.980x to 1.07x), higher in 7 of 10 "
        "repeats; chance alone does this 34 times in 100."
    )
    level = over_100(98.0, 99.0, 97.0, 101.0, 102.0, 103.0)
    assert level.endswith(", higher in 3 and lower in 3 of 6 repeats; no evidence (chance alone always does this).")
    ties = over_100(100.0, 100.0, *(101.0 + place for place in range(6)))
    assert ties.endswith("higher in 6 of 8 repeats, equal in 2; chance alone does this 1 time in 32.")
    assert "clear" not in over_100(*(100.0,) * 8, 101.0, 102.0)  # two that differ are no more than two repeats


def test_repeats_with_a_base_of_zero_are_counted() -> None:
    noun = "share of dead slot-steps"
    assert finding_text((0.5, 0.0, 0.5), (0.25, 0.1, 0.3), DEAD) == (
        f"Continuous had 0.550x static's {noun} (0.500x to 0.600x): lower in both repeats; chance alone does this 1 "
        "time in 2. 1 repeat has no ratio: static's value is 0."
    )
    assert finding_text((0.5, 0.0, 0.0), (0.5, 0.1, 0.3), DEAD) == (
        f"Static and continuous had the same {noun} in the only repeat. 2 repeats have no ratio: static's value is 0."
    )
    rows = points({"static": (0.5, 0.0), "continuous": (0.25, 0.1)}, DEAD.name)
    assert agreement_text(paired(rows, "continuous", "static", DEAD.name)) == "lower in 1 of 1; 1 without a ratio"


def test_single_missing_equal_and_zero_values() -> None:
    assert finding_text((100.0, None), (140.0, 150.0)) == (
        "Continuous had 1.40x static's output tokens/s in the only repeat with a ratio, which shows no spread."
    )
    assert finding_text((100.0, None), (None, 150.0)) == (
        "Continuous over static: no ratio, because no repeat has this metric for both."
    )
    half = (0.5, 0.5, 0.5)
    noun = "share of dead slot-steps"
    assert finding_text(half, half, DEAD) == f"Static and continuous had the same {noun} in all 3 repeats."
    assert finding_text(half, (0.0, 0.0, 0.0), DEAD) == f"Continuous had none of static's {noun} in all 3 repeats."
    assert finding_text(half, (0.25, 0.25), DEAD) == f"Continuous had 0.500x static's {noun}, the same in both repeats."
    assert finding_text((0.0, 0.0), (0.25, 0.25), DEAD) == (
        "Continuous over static: no ratio, because static's share of dead slot-steps is 0."
    )


def test_a_single_engine_has_a_median_and_a_spread() -> None:
    def alone(*rates: float | None) -> str:
        (sentence,) = findings(points({"static": rates}), {"static": "static"}, RATE)
        return sentence

    assert alone(100.0, 110.0, 96.0) == (
        nb("Static: 100 tokens/s, 96.0 tokens/s to 110 tokens/s over 3 repeats, a spread of 14.0 %.")
    )
    assert alone(100.0, None) == nb("Static: 100 tokens/s in the only completed run, which shows no spread.")
    assert alone(None) == "Static: no completed run has this metric."
    assert alone(100.0, 100.0) == nb("Static: 100 tokens/s in both repeats.")
    assert alone(1.0, 1.0, 46.0).endswith(nb("a spread of 4,500 %."))


def test_drift_and_agreement_text() -> None:
    rows = points({"static": (100.0, 95.0, 90.0), "continuous": (140.0, 130.0, 141.4)})
    assert drift_text(rows, NAMES, RATE) == nb(
        "Output tokens/s, first to last repeat: static -10.0 %, continuous +1.00 %."
    )
    assert drift_text(points({"static": (1.0,)}), {"static": "static"}, RATE) == ""
    rows_cut = points({"static": (100.0, 95.0, 90.0), "continuous": (None, 130.0, 143.0)})
    assert drift_text(rows_cut, NAMES, RATE) == (
        nb(
            "Output tokens/s, first to last repeat: static -10.0 %. Output tokens/s, first to last completed repeat: "
            "continuous +10.0 % (repeat 2 to 3)."
        )
    )
    assert drift_text(points({"static": (100.0, 90.0, None)}), {"static": "static"}, RATE) == (
        nb("Output tokens/s, first to last completed repeat: static -10.0 % (repeat 1 to 2).")
    )
    assert agreement_text(paired(rows, "continuous", "static", RATE.name)) == "higher in 3 of 3"
    mixed = points({"static": (100.0, 100.0, 100.0), "continuous": (90.0, 95.0, 101.0)})
    assert agreement_text(paired(mixed, "continuous", "static", RATE.name)) == "lower in 2 of 3"
    assert [by_chance(n, n) for n in (1, 2, 3, 8)] == [1, 1 / 2, 1 / 4, 1 / 128]
    assert [chance_text(chance) for chance in (1, 0.6875, 1 / 16, 22 / 1024)] == [
        "no evidence (chance alone always does this)", "chance alone does this 69 times in 100",
        "chance alone does this 1 time in 16", "chance alone does this 1 time in 47",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.32, "1.32x"), (0.043, "0.0430x"), (1.0, "1.00x"), (1.0004, "1.0004x"), (0.9996, "0.9996x"), (120.4, "120x"),
     (0.0, "0x"), (99.96, "100x")],
)  # fmt: skip
def test_a_ratio_has_enough_digits_to_differ_from_one(value: float, text: str) -> None:
    assert times_text(value) == text


def test_a_change_is_signed() -> None:
    assert [change_text(100.0, after) for after in (101.25, 99.0, 100.001)] == [nb("+1.25 %"), nb("-1.00 %"), nb("0 %")]


def test_the_command_reports_each_engine_by_itself() -> None:
    """An experiment of two engines from Bench, resumed on the command line: no medians across engines."""
    one = {"engine": "static", "run_id": "a", "status": "completed", "error": None, "oom": None, "passes": 3}
    other = {**one, "engine": "continuous", "run_id": "b", "passes": 9}
    report = run_command._report([one, other, {**one, "passes": 5}, other], asked=4)
    assert "passes" not in report
    assert report["engines"] == {
        "static": {"engine": "static", "passes": 4.0},
        "continuous": {"engine": "continuous", "passes": 9.0},
    }
    lines = run_command._table(report).splitlines()
    assert [line.split() for line in lines[1:5]] == [["static:"], ["passes", "4"], ["continuous:"], ["passes", "9"]]
    assert lines[-1] == "  medians over 4 completed runs, per engine"
