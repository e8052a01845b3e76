"""Headlines: which percentiles n supports, what is said where times cannot be trusted, and running the same again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.metrics.distribution import least_samples
from pages.parts.run.finding import cautions_label, run_finding
from pages.parts.runs.again import again_problem, run_again
from pages.parts.runs.loaded_run import LoadedRun, load_run
from pages.parts.runs.validity import distrust, distrust_text
from pages.parts.shared.lab import lab
from pages.parts.shared.metric_text import headline_metric
from tests.support.no_break import nb
from tests.support.page_app import open_page, take_in, words
from tests.support.runs.page_runs import config_of, write_run

BUSY = {"python": "3.11", "cpu_count": 2, "load_average_1min": 7.0}  # over 1.5 per core: the host check fails


def loaded(home: Path, run_id: str = "r1", engine: str = "static", **info: Any) -> LoadedRun:
    write_run(home / "runs", run_id, engine, **info)
    take_in(home)
    run = load_run(run_id)
    assert run is not None
    return run


@pytest.mark.parametrize(("percent", "fewest"), [(50, 2), (95, 20), (99, 100), (100, 1)])
def test_a_percentile_needs_a_sample_above_it(percent: int, fewest: int) -> None:
    assert least_samples(percent) == fewest


def test_a_percentile_of_few_samples_gives_way_to_the_largest() -> None:
    few, many = {"itl_n": 19}, {"itl_n": 20}
    assert headline_metric("itl_p95_s", many) == "itl_p95_s"
    assert headline_metric("itl_p95_s", few) == "itl_max_s"
    assert headline_metric("itl_p95_s", many, few) == "itl_max_s"
    assert headline_metric("itl_p99_s", {"itl_n": 99}) == "itl_max_s"
    assert headline_metric("ttft_p50_s", {"ttft_n": 2}) == "ttft_p50_s"
    assert headline_metric("output_tokens_per_s", {}) == "output_tokens_per_s"


def checks(**outcomes: str) -> list[dict[str, Any]]:
    return [{"check_name": name, "outcome": outcome, "finding": ""} for name, outcome in outcomes.items()]


def test_distrust_names_the_runs() -> None:
    slowed, steady = checks(host="fail", steady_clocks="pass"), checks(host="pass", steady_clocks="pass")
    assert distrust({"static": steady, "continuous": steady}) == ""
    assert distrust({"static": slowed}) == "the host may have slowed the engine"
    assert distrust({"static": slowed, "paged": slowed}) == "the host may have slowed the engine in both runs"
    assert distrust({"static": slowed, "paged": steady}) == "the host may have slowed the engine in static"
    three = {"a": slowed, "b": slowed, "c": checks(host="fail", steady_clocks="fail")}
    assert distrust(three) == (
        "the host may have slowed the engine in all 3 runs and passes of one shape did not keep their speed in c"
    )
    assert distrust({"static": []}) == ""


def test_counts_of_arrivals_over_time_depend_on_the_times() -> None:
    assert distrust_text(["closed"], "x") == "The times cannot be trusted: x."
    assert distrust_text(["poisson:2"], "x") == (
        "The times cannot be trusted, nor, as requests arrived over time, these counts: x."
    )


def test_the_finding_of_a_run(home: Path) -> None:
    run = loaded(home)
    assert run_finding(run) == nb(
        "Static answered 2 requests in 400 ms, 15.0 tokens/s; 25.0 % of its slot-steps went to ended requests."
    )
    assert run_finding(run, "the clocks changed") == nb(
        "Static needed 4 forward passes and 8 slot-steps for 6 tokens; 25.0 % of its slot-steps went to ended "
        "requests. The times cannot be trusted: the clocks changed."
    )


def test_a_run_on_a_busy_host_leads_with_counts_and_can_be_run_again(home: Path) -> None:
    loaded(home, environment=BUSY)
    app = open_page("run", run_id="r1")
    assert "Static needed 4 forward passes and 8 slot-steps for 6 tokens" in words(app)
    assert "The times cannot be trusted: the host may have slowed the engine." in words(app)
    assert [button.disabled for button in app.button if button.label == "Run again"] == [False]
    assert "Run again" not in {button.label for button in open_page("run", run_id=loaded(home, "r2").run_id).button}


def test_runs_again_are_a_job_of_the_same_configurations(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [loaded(home, "r1", "static"), loaded(home, "r2", "continuous")]
    monkeypatch.setattr(type(lab().queue), "_put", lambda self, job: self._jobs.add(job) or job)  # no worker runs here
    assert again_problem(runs) == ""
    job = lab().queue.job(run_again(runs))
    assert job is not None
    assert (job.kind, job.label) == ("pair", "static and continuous")
    assert [run.config for run in job.runs] == [run.config for run in runs]
    assert {run.run_id for run in job.runs}.isdisjoint({"r1", "r2"})


def test_what_cannot_be_run_again_says_why(home: Path) -> None:
    simulated = loaded(home, "r1", simulated=True)
    assert again_problem([simulated]).startswith("A simulated run has no measured times")
    foreign = loaded(home, "r2", device={"kind": "cuda", "name": "H200"}, config=config_of("static", device="cpu"))
    assert again_problem([foreign]) == "Static ran on cuda, which this machine does not have."


def test_cautions_are_counted() -> None:
    assert cautions_label(checks(host="fail", real_weights="fail", measured="pass"), "busy") == "3 cautions"
    assert cautions_label(checks(host="fail"), "") == "1 caution"
    assert cautions_label(checks(host="pass", measured="pass"), "") == "All 2 badges earned"
