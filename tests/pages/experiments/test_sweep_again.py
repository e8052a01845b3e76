"""A sweep whose smallest batch was slowed: the page offers to measure it again, and the repeats join the sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.experiments.experiment import Point
from engine.runlog.experiment_log import ExperimentLog
from pages.parts.shared.lab import lab
from tests.support.experiment_page import buttons, open_sweep
from tests.support.page_app import words
from tests.support.runs.sweep_experiments import completed, sweep_plan, totals_of, write_sweep


def slowed_at_one(point: Point) -> dict[str, Any]:
    """B = 1 of p16 took ten times as long per token: 110 ms instead of 11."""
    totals = totals_of(point)
    if point.values["batch_size"] == 1 and point.values["prompts"] == "p16":
        totals |= {"tpot_p50_s": 0.110}
    return {"status": "completed", "totals": totals}


def test_a_plausible_sweep_offers_nothing(home: Path) -> None:
    write_sweep(home / "runs", sweep_plan(), completed)
    assert "Measure B = 1 again" not in buttons(open_sweep(home))


def test_the_disturbed_batch_is_measured_again_in_the_same_sweep(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = sweep_plan()
    folder = write_sweep(home / "runs", plan, slowed_at_one)
    app = open_sweep(home)
    assert "B = 1 was probably disturbed, so measure it again" in words(app)
    assert "2 runs of p16 join this sweep as repeats. No run is replaced" in words(app)
    monkeypatch.setattr(type(lab().queue), "_put", lambda self, job: self._closing or job)  # no worker runs here
    next(button for button in app.button if button.label == "Measure B = 1 again").click().run()
    added = added_points(folder, len(plan.points))
    assert [(point.values["prompts"], point.values["batch_size"], point.repeat) for point in added] == [
        ("p16", 1, 1),
        ("p16", 1, 2),
    ]
    assert [point.position for point in added] == [len(plan.points), len(plan.points) + 1]
    assert len(ExperimentLog.read(folder).records) == len(plan.points)  # what was measured stays


def added_points(folder: Path, planned: int) -> Sequence[Point]:
    return ExperimentLog.read(folder).plan.points[planned:]
