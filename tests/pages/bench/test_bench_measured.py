"""Measured timelines beside planned ones: passes by hand, the sentence, and the page with and without a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.launcher.job import JobRun
from pages.parts.bench.measured import MeasuredTimeline, in_passes, measured_text
from pages.parts.bench.plan import plan_of
from tests.support.no_break import nb
from tests.support.page_app import figures, links, open_page, take_in, words
from tests.support.runs.page_runs import write_run

WORKLOAD = WorkloadConfig(prompts="p16", requests=4, budget="8")
LINK = {"model": "tiny-random", "prompts": "lengths", "mix": "p16", "requests": "4", "budget": "8"}


def done(engine: str, passes: int, duration_s: float) -> MeasuredTimeline:
    empty = pd.DataFrame()
    return MeasuredTimeline(
        run_id=engine,
        unit="pass",
        num_passes=passes,
        duration_s=duration_s,
        ttft_p50_s=0.1,
        spans=empty,
        queue=empty,
        preemptions=empty,
    )


def test_steps_become_passes() -> None:
    """Step 0 is a prefill and a decode pass, steps 1 and 2 a decode pass each: passes 0 to 3."""
    passes = pd.DataFrame({"start_step": [0.0, 0.5, 1.0, 2.0]})
    spans = pd.DataFrame({"start_step": [0.0, 0.5, 1.0], "end_step": [0.5, 3.0, 2.0]})
    found = in_passes(spans, passes)
    assert found["start_step"].tolist() == [0, 1, 2]
    assert found["end_step"].tolist() == [1, 4, 3]


def test_one_pass_is_one_pass() -> None:
    found = in_passes(pd.DataFrame({"start_step": [0.0], "end_step": [1.0]}), pd.DataFrame({"start_step": [0.0]}))
    assert (found["start_step"].tolist(), found["end_step"].tolist()) == ([0], [1])


def test_the_sentence_says_whether_the_plan_held() -> None:
    """Four requests of 8 tokens in two slots: 16 passes for both engines."""
    configs = [RunConfig(engine=name, slots=2, workload=WORKLOAD) for name in ("static", "continuous")]
    known = [(config, plan_of(config)) for config in configs]
    assert [plan.num_passes for _, plan in known] == [16, 16]
    both = {"static": done("static", 16, 2.0), "continuous": done("continuous", 16, 1.5)}
    assert measured_text(known, both) == nb(
        "Measured as planned: static 16 forward passes in 2.00 s, continuous 16 in 1.50 s."
    )
    odd = both | {"continuous": done("continuous", 17, 1.5)}
    assert measured_text(known, odd).startswith("Not as planned: continuous planned 16, measured 17. Measured: static")
    at_most = [(config, replace(plan, basis="at most")) for config, plan in known]
    assert measured_text(at_most, odd).startswith("Measured: static")


def test_without_a_run_the_page_has_the_plan_alone(home: Path) -> None:
    app = open_page("bench", **LINK)
    assert list(figures(app)) == ["Planned slot timeline of static", "Planned slot timeline of continuous"]
    assert "Measured" not in words(app).replace("the measured timeline", "")


def test_a_run_lies_beside_its_plan_and_leads_to_its_page(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig(engine="static", model="tiny-random", workload=WORKLOAD)
    folder = write_run(home / "runs", "r1", "static", config=config)
    take_in(home)

    def runs(configs: Sequence[RunConfig]) -> dict[str, JobRun]:
        assert config in configs
        return {"static": JobRun(run_id="r1", folder=folder, config=config)}

    monkeypatch.setattr("pages.parts.bench.planned.measured_runs", runs)
    app = open_page("bench", **LINK)
    assert list(figures(app)) == [
        "Planned slot timeline of static",
        "Measured slot timeline of static",
        "Planned slot timeline of continuous",
        "No measured slot timeline of continuous",
    ]
    assert len({str(drawn["layout"]["xaxis"]["range"]) for drawn in figures(app).values()}) == 1
    assert "static, measured: " in words(app).replace("*", "")
    assert ("Open the static run", "run?run_id=r1") in links(app)
