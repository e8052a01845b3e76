"""Bench's plan with pass times: simulated metrics by hand, their mark, and the line without a calibration."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.hardware.calibration import Calibration
from engine.simulator.machine import THIS, simulated_machine
from pages.parts.bench.plan import PLANNING_S, Plan, make_plan, planning_s
from pages.parts.bench.planned import plan_table
from pages.parts.shared.workloads import workload_of
from tests.support.no_break import nb
from tests.support.page_app import open_page, words
from tests.support.runs.roofline_runs import calibrate, calibration, timed_passes

TINY = {"model": "tiny-random", "prompts": "lengths", "mix": "p16", "requests": "2", "budget": "3"}


def config_of(engine: str, **workload: object) -> RunConfig:
    """Two requests of 16 tokens, three new tokens each, two slots."""
    given = {"prompts": "p16", "requests": 2, "budget": "3"} | workload
    return RunConfig(engine=engine, model="tiny-random", device="cpu", slots=2, workload=WorkloadConfig(**given))


KNOWN = calibration(passes=timed_passes())


def timed(config: RunConfig, known: Calibration = KNOWN) -> Plan:
    machine = simulated_machine(config, THIS, calibrations=[known])
    return make_plan(config, workload_of(config.workload), machine)


def test_serial_takes_one_request_after_the_other() -> None:
    # A prefill of 0.2 s and two decode passes of 0.1 s, twice: the second waits 0.4 s
    metrics = timed(config_of("serial")).metrics
    assert metrics["duration_s"] == pytest.approx(0.8)
    assert metrics["output_tokens_per_s"] == pytest.approx(7.5)
    assert metrics["ttft_p50_s"] == pytest.approx(0.4)
    assert metrics["queue_wait_p50_s"] == pytest.approx(0.2)


def test_two_slots_share_every_pass() -> None:
    metrics = timed(config_of("continuous")).metrics
    assert metrics["duration_s"] == pytest.approx(0.4)
    assert metrics["queue_wait_p50_s"] == 0


def test_the_table_has_times_where_they_are_known() -> None:
    config = config_of("serial")
    assert plan_table([(config, timed(config))]).splitlines()[2].endswith(nb(" | 800 ms | 7.50 | 400 ms |"))


def test_arrivals_are_planned_in_seconds() -> None:
    """Two requests, one second apart: each is alone, 0.4 s long."""
    plan = timed(config_of("continuous", arrival="constant:1"))
    assert (plan.basis, plan.unit) == ("simulated", "second")
    assert plan.spans["end_s"].max() == pytest.approx(1.4)
    assert plan.queue["time_s"].max() == pytest.approx(1.4)


def test_a_pool_that_is_too_small_is_predicted() -> None:
    config = replace(config_of("paged"), pool_gib=1e-6)
    assert "out of memory" in timed(config).problem


@pytest.mark.parametrize("engine", ["serial", "static", "continuous", "paged", "chunked"])
def test_the_estimate_of_the_planning_time_holds(engine: str) -> None:
    config = config_of(engine, requests=100, budget="64-256")
    estimate_s = planning_s(config, workload_of(config.workload).requests)
    assert 0 < estimate_s < 2 * PLANNING_S
    # Counted in calls and not by a clock, which tells more of the machine; a laptop's core takes 0.25 us for one.
    counted_s = 2.5e-7 * _calls_of_simulating(replace(config, slots=3))
    assert counted_s / 3 < estimate_s < 3 * counted_s


def _calls_of_simulating(config: RunConfig) -> int:
    """How many functions a plan calls."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    workload = workload_of(config.workload)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        plan = make_plan(config, workload)
    finally:
        sys.setprofile(before)
    assert plan.is_known
    return calls


def test_the_page_shows_times_at_once_for_each_engine(home: Path) -> None:
    calibrate(home, passes=timed_passes())
    app = open_page("bench", first="serial", **TINY)
    text = words(app)
    assert "Calibrate" not in [button.label for button in app.button]
    assert "**serial**, planned: 6 passes" in text
    assert "about 800 ms · TTFT 400 ms" in text
    assert "| 800 ms | 7.50 | 400 ms |" in text
    assert "| 400 ms |" in text
    assert "Times are simulated" in text


def test_without_a_calibration_a_button_offers_one(home: Path) -> None:
    app = open_page("bench", **TINY)
    text = words(app)
    assert "Calibrate adds seconds and TTFT." in text
    assert "No times" not in text
    (button,) = [button for button in app.button if button.label == "Calibrate"]
    assert "engine calibrate --model tiny-random`" in button.help
    assert "TTFT p50" not in text.split("Exact")[0]


def test_another_model_than_the_calibrated_one_has_no_times(home: Path) -> None:
    calibrate(home, passes=timed_passes())
    text = words(open_page("bench"))
    assert "No times of continuous: calibrated with tiny-random in fp32, not with smollm2" in text


def test_arrivals_without_a_calibration_have_no_plan(home: Path) -> None:
    text = words(open_page("bench", **TINY, arrival="poisson:2"))
    assert "Requests arrive during the run, so the plan needs pass times." in text
