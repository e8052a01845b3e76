"""The Repeats page over a real store: none, one repeat, all failed, sixty runs, cut off, one and four engines."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from engine.experiments.experiment import PointRecord
from engine.runlog.experiment_log import ExperimentLog
from pages.parts.repeats.measured import load_repeats
from pages.parts.repeats.tables import csv_of
from tests.support.experiment_page import buttons, table
from tests.support.no_break import nb
from tests.support.page_app import figures, links, open_page, take_in, words
from tests.support.runs.page_runs import write_run
from tests.support.runs.repeats_experiments import completed, noisy, out_of_memory, repeats_plan, write_repeats
from tests.support.runs.sweep_experiments import sweep_plan, write_sweep

DOTS = "Output tokens/s, every repeat"


def opened(home: Path, **query: str) -> AppTest:
    """The page, once the store has taken in what is on disk."""
    take_in(home)
    return open_page("repeats", **query)


def test_without_any_the_page_leads_to_bench(home: Path) -> None:
    app = opened(home)
    said = words(app)
    assert "No repeats experiment yet. Start one on Bench." in said
    assert "`.venv/bin/python -m engine run --repeats 3` repeats one engine; its results appear here." in said
    assert "python -m engine run --repeats 3" in said
    assert dict(links(app))["New repeats experiment on Bench"].endswith("?repeats=3")


@pytest.mark.parametrize("name", ["../../etc", "<b>no</b>"])
def test_an_unknown_one_is_reported(home: Path, name: str) -> None:
    write_repeats(home / "runs", repeats_plan())
    app = opened(home, experiment=name)
    assert "No repeats experiment" in words(app)
    assert figures(app) == {}


def test_an_experiment_of_another_kind_is_reported(home: Path) -> None:
    write_sweep(home / "runs", sweep_plan("other"), with_run=False)
    app = opened(home, experiment="other")
    assert "other is an experiment of another kind, not a repeats experiment" in words(app)
    assert figures(app) == {}


def test_engines_are_compared_repeat_by_repeat(home: Path) -> None:
    """100, 96, 92 against 130, 124.8, 119.6: 1.3 in every repeat; time goes by, the ratio stays."""
    write_repeats(home / "runs", repeats_plan(), with_runs=())
    app = opened(home)
    said = words(app)
    assert "Continuous had 1.30x static's output tokens/s, the same in all 3 repeats." in said
    assert "Output tokens/s, first to last repeat: static -8.00 %, continuous -8.00 %." in said
    assert "static and continuous, 3 times each, interleaved: tiny-random, 2 slots; 2 requests of p16" in said
    rows = table(app, "continuous / static")
    assert list(rows["static, tokens/s"]) == [100, 96, 92]
    assert list(rows["continuous / static"]) == pytest.approx([1.3] * 3)
    drawn = figures(app)[DOTS]
    dots = {trace["name"]: trace for trace in drawn["data"]}
    assert dots["static"]["y"] == [100, 96, 92]
    assert dots["continuous"]["x"] == pytest.approx([0.64, 1, 1.36])
    assert dots["static, median"]["y"] == [96, 96]
    assert drawn["layout"]["yaxis"]["title"]["text"] == "tokens/s, not from 0"
    for cell in ("Output tokens/s", "8.33 %", "higher in 3 of 3", "lower in 3 of 3"):  # (100 - 92) / 96
        assert cell in said
    assert "Inter-token latency, p99" not in said  # six tokens have no 99th percentile


def test_another_figure_is_chosen_by_a_link(home: Path) -> None:
    write_repeats(home / "runs", repeats_plan())
    app = opened(home, metric="dead")
    assert "Continuous had none of static's share of dead slot-steps in all 3 repeats." in words(app)
    assert "Dead slot-steps, every repeat" in figures(app)
    app = opened(home, metric="gap p99")
    assert "no ratio, because no repeat has this metric for both" in words(app)
    app = opened(home, metric="speed")
    assert "metric 'speed': use one of tokens/s, TTFT p50" in words(app)
    assert DOTS in figures(app)


def test_the_experiment_is_read_once_for_all_of_a_page(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a plan of 2,000 points takes most of a second."""
    read: list[object] = []
    monkeypatch.setattr("pages.parts.experiments.stored.check_plan", read.append)
    write_repeats(home / "runs", repeats_plan())
    assert DOTS in figures(opened(home, experiment="rep1"))
    assert len(read) == 1


def test_ratios_on_both_sides_of_one_are_reported(home: Path) -> None:
    """104 / 100 and 94 / 96."""
    write_repeats(home / "runs", repeats_plan(repeats=2), noisy)
    said = words(opened(home))
    assert "No clear difference: continuous had 1.01x static's output tokens/s (0.979x to 1.04x), higher in 1" in said
    assert "2 repeats; no evidence (chance alone always does this)." in said
    assert "always runs first, so drift there shifts every ratio the same way" in said


def test_one_repeat_has_no_spread(home: Path) -> None:
    write_repeats(home / "runs", repeats_plan(), only=range(2))
    app = opened(home)
    said = words(app)
    assert "Continuous had 1.30x static's output tokens/s in the only repeat with a ratio" in said
    assert "This experiment was interrupted: 2 of 6 runs done. 4 runs left to run." in said
    assert buttons(app)["Resume"] is True
    assert list(table(app, "TTFT p95, s")["status"]).count("not run yet") == 4


def test_a_run_and_a_repeat_are_opened(home: Path) -> None:
    write_repeats(home / "runs", repeats_plan(), with_runs=(2, 3))
    app = opened(home)
    assert list(table(app, "TTFT p95, s")["run"].fillna("")) == [
        "", "", "/run?run_id=rep1_run2", "/run?run_id=rep1_run3", "", "",
    ]  # fmt: skip
    assert list(table(app, "compare")["compare"].fillna("")) == ["", "/compare?runs=rep1_run2,rep1_run3", ""]
    back = dict(links(open_page("run", run_id="rep1_run2")))
    assert back["Repeats of this run"] == "repeats?experiment=rep1"


def test_failed_runs_are_drawn_and_listed(home: Path) -> None:
    write_repeats(home / "runs", repeats_plan(), out_of_memory)
    app = opened(home)
    said = words(app)
    assert "static, repeat 1 (and 2 more): out of memory: asked for 4.00 GiB, 1.00 GiB free (prefill)" in said
    assert "Continuous over static: no ratio" in said
    assert "No ratio yet" in said
    assert set(table(app, "TTFT p95, s")["status"]) == {
        nb("out of memory: asked for 4.00 GiB, 1.00 GiB free (prefill)")
    }
    assert "No run has completed." in str(figures(app)[DOTS]["layout"]["annotations"])


def test_a_failed_repeat_is_a_cross_and_a_gap(home: Path) -> None:
    write_repeats(home / "runs", repeats_plan(), lambda p: out_of_memory(p) if p.position == 2 else completed(p))
    app = opened(home)
    data = figures(app)[DOTS]["data"]
    assert next(trace for trace in data if trace["name"] == "static")["y"] == [100, None, 92]
    cross = next(trace for trace in data if trace["name"].startswith("did not complete"))
    assert (cross["x"], len(cross["y"])) == ([0], 1)
    assert "Continuous had 1.30x static's output tokens/s, the same in both repeats." in words(app)


def test_sixty_runs_of_four_engines_and_of_one(home: Path) -> None:
    four = repeats_plan("four", engines="static,continuous,paged,chunked", repeats=15)
    write_repeats(home / "runs", four)
    write_repeats(home / "runs", repeats_plan("one", engines="paged", repeats=60))
    app = opened(home, experiment="four")
    said = words(app)
    for engine in ("continuous", "paged", "chunked"):
        assert f"{engine.capitalize()} had" in said
    assert len(table(app, "TTFT p95, s")) == 60
    assert {"paged / static", "chunked / static"} <= set(table(app, "continuous / static"))
    app = opened(home, experiment="one")
    assert "Paged: " in words(app)
    assert "over 60 repeats, a spread of" in words(app)
    assert len(figures(app)[DOTS]["data"]) == 2


def test_the_way_back_to_bench_carries_the_settings(home: Path) -> None:
    write_repeats(home / "runs", repeats_plan(engines="paged,static", repeats=3))
    write_repeats(home / "runs", repeats_plan("many", engines="paged", repeats=51), only=())
    assert "repeats=50" in dict(links(opened(home, experiment="many")))["Use these settings on Bench"]
    link = dict(links(open_page("repeats", experiment="rep1")))["Use these settings on Bench"]
    for part in ("model=tiny-random", "slots=2", "first=paged", "second=static", "repeats=3", "engine=paged"):
        assert part in link
    app = open_page("bench", **dict(part.split("=") for part in link.split("?")[1].split("&")))
    assert "6 for the two engines" in words(app)


def test_one_of_the_command_line_is_followed(home: Path) -> None:
    plan = repeats_plan("elsewhere", engines="static")
    with ExperimentLog.create(home / "runs", plan) as log:
        first = plan.points[0]
        log.append(PointRecord(key=first.key, repeat=0, run_id=None, **completed(first)))
        said = words(opened(home))
    assert "Running on the command line" in said
    assert "Static: 100 tokens/s in the only completed run" in said


def test_an_experiment_without_a_plan_leads_to_history(home: Path) -> None:
    write_run(home / "runs", "lone", "static", experiment={"id": "planless", "kind": "repeats", "label": "two"})
    assert "The store has no plan of this experiment" in words(opened(home, experiment="planless"))


def test_arrivals_over_time_have_a_note(home: Path) -> None:
    workload = replace(repeats_plan().points[0].config.workload, arrival="poisson:2")
    write_repeats(home / "runs", repeats_plan(workload=workload))
    assert "throughput and duration mostly reflect the arrivals" in words(opened(home))
    assert "throughput and duration mostly reflect the arrivals" in words(open_page("repeats", metric="duration"))
    assert "throughput and duration mostly reflect the arrivals" not in words(opened(home, metric="TTFT p50"))


def test_every_run_is_downloaded_whole(home: Path) -> None:
    write_repeats(home / "runs", repeats_plan(), lambda p: out_of_memory(p) if p.position == 5 else completed(p))
    app = opened(home)
    assert {"Download as CSV", "Export"} <= {button.proto.label for button in app.get("download_button")}
    assert any(button.key == "repeats.delete_rep1" and not button.disabled for button in app.button)
    data = load_repeats("rep1")
    assert data is not None
    frame = pd.read_csv(io.StringIO(csv_of(data.points)))
    assert list(frame["engine"]) == ["static", "continuous"] * 3
    assert list(frame["repeat"]) == [0, 0, 1, 1, 2, 2]
    assert frame["output_tokens_per_s"].iloc[3] == pytest.approx(124.8)
    assert frame["asked_bytes"].iloc[5] == 4 * 2**30
