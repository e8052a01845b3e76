"""Bench's preview: simulated results by hand, their mark, and the line without a preview."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.workload.workload import build_workload
from pages.parts.bench.preview import ENOUGH_S, preview, preview_table, simulating_s
from tests.support.no_break import nb
from tests.support.page_app import open_page, words
from tests.support.runs.roofline_runs import calibrate, calibration, timed_passes

TINY = {"model": "tiny-random", "prompts": "lengths", "mix": "p16", "requests": "2", "budget": "3"}


def config_of(engine: str, **workload: object) -> RunConfig:
    """Two requests of 16 tokens, three new tokens each, two slots."""
    given = {"prompts": "p16", "requests": 2, "budget": "3"} | workload
    return RunConfig(engine=engine, model="tiny-random", device="cpu", slots=2, workload=WorkloadConfig(**given))


KNOWN = calibration(passes=timed_passes()).to_json()


def test_serial_takes_one_request_after_the_other() -> None:
    # A prefill of 0.2 s and two decode passes of 0.1 s, twice: the second waits 0.4 s
    metrics = preview(config_of("serial"), KNOWN).metrics
    assert metrics["duration_s"] == pytest.approx(0.8)
    assert metrics["output_tokens_per_s"] == pytest.approx(7.5)
    assert metrics["ttft_p50_s"] == pytest.approx(0.4)
    assert metrics["queue_wait_p50_s"] == pytest.approx(0.2)


def test_two_slots_share_every_pass() -> None:
    metrics = preview(config_of("continuous"), KNOWN).metrics
    assert metrics["duration_s"] == pytest.approx(0.4)
    assert metrics["queue_wait_p50_s"] == 0


def test_the_table_has_a_line_an_engine() -> None:
    config = config_of("serial")
    assert preview_table([(config, preview(config, KNOWN))]).splitlines()[2] == (
        nb("| serial | 800 ms | 7.50 | 400 ms | 200 ms |")
    )


def test_without_a_calibration_there_is_no_guess() -> None:
    other = preview(replace(config_of("serial"), model="smollm2-135m"), KNOWN)
    assert not other.metrics
    assert "calibrated with tiny-random in fp32" in other.problem
    unmeasured = preview(config_of("serial"), calibration().to_json())
    assert "no measured passes of serial" in unmeasured.problem


def test_a_pool_that_is_too_small_is_predicted() -> None:
    config = replace(config_of("paged"), pool_gib=1e-6)
    assert "out of memory" in preview(config, KNOWN).problem


@pytest.mark.parametrize("engine", ["serial", "static", "continuous", "paged", "chunked"])
def test_the_estimate_of_the_simulators_own_time_holds(engine: str) -> None:
    config = config_of(engine, requests=100, budget="64-256")
    estimate_s = simulating_s(config, build_workload(config.workload))
    assert 0 < estimate_s < ENOUGH_S
    # Counted in calls and not by a clock, which tells more of the machine; a laptop's core takes 0.25 us for one.
    counted_s = 2.5e-7 * _calls_of_preview(replace(config, slots=3))
    assert counted_s / 3 < estimate_s < 3 * counted_s


def _calls_of_preview(config: RunConfig) -> int:
    """How many functions a preview calls."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        found = preview(config, KNOWN)
    finally:
        sys.setprofile(before)
    assert found.metrics
    return calls


def test_the_page_shows_it_at_once_for_each_engine(home: Path) -> None:
    calibrate(home, passes=timed_passes())
    text = words(open_page("bench", engine="serial", **TINY))
    assert "Preview" in text
    assert "simulated" in text
    assert "| serial | 800 ms | 7.50 | 400 ms | 200 ms |" in text
    assert "| continuous | 400 ms |" in text
    assert "Simulated: the engine's own scheduler on a virtual clock" in text


def test_without_a_calibration_one_line_says_how_to_make_one(home: Path) -> None:
    app = open_page("bench", **TINY)
    text = words(app)
    assert "No preview: this device is not calibrated." in text
    assert "engine calibrate --model tiny-random" in text
    assert any("engine calibrate --model tiny-random`" in str(caption.value) for caption in app.caption)
    assert "Preview" not in text


def test_another_model_than_the_calibrated_one_has_no_preview(home: Path) -> None:
    calibrate(home, passes=timed_passes())
    text = words(open_page("bench"))
    assert "No preview of static and continuous: calibrated with tiny-random in fp32, not with smollm2" in text


def test_a_workload_that_takes_too_long_has_no_preview(home: Path) -> None:
    calibrate(home, passes=timed_passes())
    text = words(open_page("bench", **(TINY | {"requests": "5000", "budget": "256"})))
    assert "No preview: simulating this many requests and tokens takes too long for this page." in text
