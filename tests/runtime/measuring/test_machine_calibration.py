"""A short calibration of this machine on the tiny model: what a plan needs of each engine, and its end by a cancel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.core.config import RunConfig
from engine.hardware.step_cost import is_measured
from engine.runtime.measuring.machine_calibration import Reports, calibrate_machine
from engine.runtime.prepared_run import WarmModel

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_locks")]

CONFIG = RunConfig(model="tiny-random", device="cpu")


def test_a_short_calibration_has_what_a_plan_needs() -> None:
    seen: list[tuple[str, int, int]] = []
    reports = Reports(
        loading=lambda message, share: None,
        waiting=lambda message: None,
        progress=lambda message, done, of: seen.append((message, done, of)),
    )
    found = calibrate_machine(CONFIG, ("static", "continuous"), WarmModel(), reports, short=True)
    assert found.short
    assert (found.model, found.dtype, found.device) == ("tiny-random", "fp32", "cpu")
    for engine in ("static", "continuous"):
        assert is_measured(found, replace(CONFIG, engine=engine)), engine
    assert not is_measured(found, replace(CONFIG, engine="paged"))
    assert all(measured.samples == 1 and measured.seconds > 0 for measured in found.passes)
    assert [done for _, done, _ in seen] == list(range(len(seen)))  # each measurement once, in order
    assert seen[0][0] == "passes of static, 4 x p16"
    assert {of for _, _, of in seen} == {5 * 2 + 3}


def test_a_cancel_stops_it_before_the_next_measurement() -> None:
    stopped = False

    def progress(message: str, done: int, of: int) -> None:
        nonlocal stopped
        stopped = True

    reports = Reports(
        loading=lambda message, share: None,
        waiting=lambda message: None,
        progress=progress,
        should_stop=lambda: stopped,
    )
    with pytest.raises(InterruptedError):
        calibrate_machine(CONFIG, ("static",), WarmModel(), reports, short=True)
