"""Validity badges: a run made by hand earns them all; each way to spoil it costs exactly the badge that it should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.validity.check import Evidence, Outcome
from engine.validity.validity import CHECKS, judge_run
from tests.support.no_break import nb
from tests.support.runs.evidence import COUNT, GAP_S, PASS_S, PASSES, STAY_S, evidence, passes, requests

ARRIVAL_S = np.arange(COUNT) * GAP_S


def with_one(value: Any, column: str) -> dict[str, Any]:
    """The requests, request 7 having another value."""
    values = requests()[column].copy()
    values[7] = value
    return requests(**{column: values})


def lost(run: Evidence) -> list[str]:
    return [name for name, verdict in judge_run(run).items() if verdict.outcome is Outcome.FAIL]


def late(factor: float) -> dict[str, Any]:
    """The requests given to the engine at a lower rate than they were meant to come."""
    given_s = ARRIVAL_S * factor
    return requests(submitted_s=given_s, admitted_s=given_s, finished_s=given_s + STAY_S * factor)


def passes_until(end_s: float) -> dict[str, Any]:
    """Passes without a pause, up to a moment."""
    count = round(end_s / PASS_S)
    index = np.arange(count)
    kinds, missing = np.full(count, "decode", dtype=object), np.full(count, np.nan)
    return passes(
        pass_index=index, step=index, kind=kinds, start_s=index * PASS_S, end_s=(index + 1) * PASS_S, issue_s=missing,
        rows=np.full(count, 2), width=np.full(count, 20), recomputed_tokens=np.zeros(count, np.int32),
    )  # fmt: skip


def slow_end() -> dict[str, Any]:
    """Passes of 50 ms in the first half and 57.5 ms in the second: 15 % more."""
    seconds = np.where(np.arange(PASSES) < 44, 0.050, 0.0575)
    end_s = np.cumsum(seconds)
    return passes(start_s=end_s - seconds, end_s=end_s)


def pauses() -> dict[str, Any]:
    """Every pass begins 7.5 ms after the one before was over: 12 % of the time."""
    return passes(start_s=np.arange(PASSES) * PASS_S + 0.0075)


SPOILED: dict[str, tuple[str, Evidence]] = {
    "given at 6.4 a second instead of 8, when a slot was free": (
        "offered_rate",
        evidence(requests=late(1.25), passes=passes_until(6.4375)),
    ),
    "two requests never given": (
        "offered_rate",
        evidence(info={"workload": {"requests": 42, "arrival": "constant:8"}}),
    ),
    "drawn at 8 a second, named 16": (
        "offered_rate",
        evidence(info={"workload": {"requests": COUNT, "arrival": "constant:16"}}),
    ),
    "one prompt a token longer than asked": (
        "exact_prompts",
        evidence(
            requests=with_one(17, "prompt_tokens"),
            result={"warm_up": {"prompt_tokens": [16, 17], "rows": 0}},
        ),
    ),
    "one request preempted": ("no_preemption", evidence(requests=with_one(1, "preemptions"))),
    "a pass that recomputes": (
        "no_preemption",
        evidence(passes=passes(recomputed_tokens=np.eye(1, PASSES, 9, dtype=np.int32)[0])),
    ),
    "no warm-up": ("warm_up", evidence(info={"config": {"warmups": 0, "slots": 2}})),
    "a length that was not warmed up": ("warm_up", evidence(result={"warm_up": {"prompt_tokens": [8], "rows": 0}})),
    "a GPU's batch that was not": (
        "warm_up",
        evidence(info={"device": {"kind": "cuda"}}, result={"warm_up": {"prompt_tokens": [16], "rows": 1}}),
    ),
    "requests seen 20 ms late": ("host", evidence(requests=requests(submitted_s=ARRIVAL_S + PASS_S + 0.02))),
    "pauses between passes": ("host", evidence(passes=pauses())),
    "passes bound by their issue": ("host", evidence(passes=passes(issue_s=np.full(PASSES, 0.06)))),
    "a busy machine": ("host", evidence(info={"environment": {"load_average_1min": 3.1, "cpu_count": 2}})),
    "a second half that is slower": ("steady_clocks", evidence(passes=slow_end())),
    "a GPU that is throttled": (
        "steady_clocks",
        evidence(result={"clocks": {"clocks.sm": "1350 MHz", "clocks.max.sm": "1980 MHz"}}),
    ),
    "answers that get slower and slower": (
        "littles_law",
        evidence(requests=requests(finished_s=ARRIVAL_S + 0.05 + ARRIVAL_S * 0.3)),
    ),
    "requests that stay for most of the run": (
        "steady_window",
        evidence(requests=requests(finished_s=ARRIVAL_S + 1.0), passes=passes_until(5.875)),
    ),
    "a page that looked on": ("unwatched", evidence(watched=True)),
    "random weights": ("real_weights", evidence(info={"model": {"random_weights": True}})),
    "a simulation": ("measured", evidence(info={"simulated": True})),
}


def test_a_good_run_earns_every_badge() -> None:
    verdicts = judge_run(evidence())
    assert {name: verdict.outcome for name, verdict in verdicts.items()} == dict.fromkeys(verdicts, Outcome.PASS)
    assert list(verdicts) == [check.name for check in CHECKS]
    assert len(CHECKS) == 11


@pytest.mark.parametrize("case", SPOILED)
def test_each_fault_costs_exactly_its_badge(case: str) -> None:
    badge, run = SPOILED[case]
    assert lost(run) == [badge], judge_run(run)[badge].finding


def test_every_badge_can_be_lost() -> None:
    assert {badge for badge, _ in SPOILED.values()} == {check.name for check in CHECKS}


def test_findings_hold_the_figures() -> None:
    findings = {
        name: verdict.finding
        for name, verdict in judge_run(SPOILED["given at 6.4 a second instead of 8, when a slot was free"][1]).items()
    }
    assert findings["offered_rate"] == (
        nb(
            "8 requests/s were requested, 8.00 drawn, and 6.40 submitted to the engine: the last request came 1.22 s "
            "later than intended, counted from the first."
        )
    )
    good = judge_run(evidence())
    # From 0.25 s to 4.875 s 37 requests come, the last of them at the window's end.
    assert good["littles_law"].finding.startswith(
        nb("8.00 requests/s times 250 ms in the engine predict 2.00 requests at a time")
    )
    assert good["littles_law"].value == pytest.approx(0.0)
    assert good["steady_window"].value == pytest.approx(4.625 / 0.25)
    assert good["steady_clocks"].value == pytest.approx(0.0, abs=1e-12)
    assert judge_run(SPOILED["a second half that is slower"][1])["steady_clocks"].value == pytest.approx(0.15)
    inexact = judge_run(SPOILED["one prompt a token longer than asked"][1])["exact_prompts"]
    assert "39 of 40 prompts" in inexact.finding
    assert "; request 7 has 17 tokens instead of 16" in inexact.finding
    assert (inexact.value, inexact.limit) == (39 / 40, 1.0)
    preempted = judge_run(SPOILED["one request preempted"][1])["no_preemption"]
    assert preempted.finding == "1 of 40 requests were preempted, 1 time in total; recomputed: 0 tokens."
    host = judge_run(SPOILED["requests seen 20 ms late"][1])["host"]
    assert host.finding.startswith(nb("Over the limit: requests were seen 20.0 ms late"))
    assert host.value == pytest.approx(2.0)
    assert "load average was 1.55 per core" in judge_run(SPOILED["a busy machine"][1])["host"].finding
    assert (
        nb("was at 68.2 % of its maximum") in judge_run(SPOILED["a GPU that is throttled"][1])["steady_clocks"].finding
    )


def test_a_fault_claims_no_more_than_its_finding() -> None:
    """A busy start need not slow a run, and slower passes on a CPU need not come from its clock."""
    faults = {check.name: check.fault for check in CHECKS}
    busy, slower = SPOILED["a busy machine"][1], SPOILED["a second half that is slower"][1]
    assert judge_run(busy)["host"].outcome is judge_run(slower)["steady_clocks"].outcome is Outcome.FAIL
    assert faults["host"] == "host may have slowed it"
    assert faults["steady_clocks"] == "speed drifted"


def test_checks_that_do_not_apply_are_neither_earned_nor_lost() -> None:
    closed = {"workload": {"requests": COUNT, "arrival": "closed"}}
    at_once = np.zeros(COUNT)
    ends_s = np.repeat(np.arange(1, 11) * 0.4, 4)
    run = evidence(
        requests=requests(
            arrival_s=at_once, submitted_s=at_once, admitted_s=ends_s - 0.4, finished_s=ends_s,
            asked_prompt_tokens=np.full(COUNT, -1), preemptions=np.full(COUNT, -1),
        ),
        passes=passes(step=np.arange(PASSES)),
        info=closed | {"model": {}},
        result={"warm_up": None},
    )  # fmt: skip
    outcomes = {name: verdict.outcome for name, verdict in judge_run(run).items()}
    absent = [name for name, outcome in outcomes.items() if outcome is Outcome.NOT_APPLICABLE]
    assert absent == ["offered_rate", "exact_prompts", "warm_up", "littles_law", "real_weights"]
    assert Outcome.FAIL not in outcomes.values()


def test_a_closed_run_is_steady_while_the_most_requests_run() -> None:
    """Four slots, eight requests: all four run from 0 to 2.00 s, then one after another ends, the last at 5.00 s."""
    admitted_s = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    finished_s = np.array([1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    eight = {name: column[:8] for name, column in requests().items()}
    eight |= {"arrival_s": np.zeros(8), "submitted_s": np.zeros(8), "admitted_s": admitted_s, "finished_s": finished_s}
    run = evidence(requests=eight, passes=passes_until(5.0), info={"workload": {"requests": 8, "arrival": "closed"}})
    verdict = judge_run(run)["steady_window"]
    assert verdict.outcome is Outcome.FAIL
    assert verdict.value == pytest.approx(0.4)
    assert nb("from 0 s to 2.00 s: 40.0 % of the run") in verdict.finding


def test_a_random_draw_may_miss_its_rate_by_chance() -> None:
    """Ten requests drawn at half the rate are within chance for Poisson gaps, and not for nearly even ones."""
    ten = {name: column[:10] for name, column in requests().items()}
    for arrival, outcome in (("poisson:16", Outcome.PASS), ("gamma:16:0.1", Outcome.FAIL)):
        run = evidence(requests=ten, info={"workload": {"requests": 10, "arrival": arrival}})
        assert judge_run(run)["offered_rate"].outcome is outcome, arrival


def test_requests_that_arrive_during_a_long_step_are_not_late() -> None:
    """A step of 2 s is under way when they come; they are seen the moment it ends."""
    seen_s = np.maximum(ARRIVAL_S, 2.0)
    one = np.arange(2)
    long_step = {name: column[:2] for name, column in passes().items()}
    long_step |= {"step": one, "start_s": np.array([0.0, 2.0]), "end_s": np.array([2.0, 5.125])}
    verdicts = judge_run(evidence(requests=requests(submitted_s=seen_s), passes=long_step))
    assert verdicts["host"].outcome is Outcome.PASS
    assert verdicts["offered_rate"].outcome is Outcome.PASS


def test_a_run_without_logs_loses_no_badge() -> None:
    nothing = evidence(
        requests={name: column[:0] for name, column in requests().items()},
        passes={name: column[:0] for name, column in passes().items()},
        info={"workload": {}, "config": {}, "environment": {}},
        result={"status": "failed", "warm_up": None},
    )
    assert lost(nothing) == []
    assert lost(Evidence(record=nothing.record, info={}, result={}, watched=False)) == []


def test_an_older_log_without_newer_columns_is_judged() -> None:
    old_requests = {name: column for name, column in requests().items() if name != "preemptions"}
    old_passes = {name: column for name, column in passes().items() if name != "recomputed_tokens"}
    assert lost(evidence(requests=old_requests, passes=old_passes)) == []


def test_every_check_explains_itself() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    for check in CHECKS:
        assert check.meaning.endswith(".")
        assert check.limit.endswith(".")
        assert check.label == check.label.strip(".")
    for case, (badge, run) in SPOILED.items():
        assert judge_run(run)[badge].finding.endswith("."), case
