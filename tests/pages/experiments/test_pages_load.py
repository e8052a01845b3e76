"""The Load page over a real store: no load test, one point, all failed, sixty points, cut off, repeats, bad links."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from engine.core.format import breakable, number
from engine.load.findings import capacity_text, growth_text, ratio_sentence, saturation_text
from engine.load.goodput import Limits
from engine.load.load_point import load_point
from engine.load.load_table import LoadTable, load_samples, load_table
from engine.runlog.reader import RunLogReader
from pages.parts.load.measured import load_load, waiting_of
from pages.parts.load.tables import csv_of
from pages.parts.shared.lab import lab
from tests.support.experiment_page import buttons, table, widget
from tests.support.experiment_page import open_load as opened
from tests.support.no_break import nb
from tests.support.page_app import figures, open_page, take_in, words
from tests.support.runs.load_experiments import WORKLOAD, load_plan_of, out_of_memory, write_load

RATES = "Achieved rate by offered rate"


def table_from_logs(home: Path) -> LoadTable:
    """The newest load test's table, calculated from its runs' logs, not from the store."""
    rows = lab().store.experiments.points("load1").to_dict("records")
    read = {row["run_id"]: load_point(RunLogReader(home / "runs" / row["run_id"]).record()) for row in rows}
    return load_table(["static", "continuous"], load_samples(rows, read.get))


def test_without_a_load_test_the_page_says_what_to_do(home: Path) -> None:
    app = opened(home)
    said = words(app)
    assert "No load test yet" in said
    assert "python -m engine arrivals" in said
    assert "8 runs: static and continuous at 3 rates and all at once, then 4 more around the measured" in said
    assert "Requests arrive over about 48" in said
    assert buttons(app)["Run the load test"] is True
    assert figures(app) == {}


@pytest.mark.parametrize("name", ["nowhere", "../../etc", "<b>no</b>"])
def test_an_unknown_load_test_is_reported(home: Path, name: str) -> None:
    write_load(home / "runs", load_plan_of(), only=())
    app = opened(home, experiment=name)
    assert "No load test" in words(app)
    assert figures(app) == {}


def test_an_experiment_of_another_kind_is_reported(home: Path) -> None:
    write_load(home / "runs", replace(load_plan_of("other"), kind="repeats"), only=())
    assert "other is an experiment of another kind, not a load test" in words(opened(home, experiment="other"))


def test_a_load_test_is_shown_in_full_and_its_captions_are_its_findings(home: Path) -> None:
    write_load(home / "runs", load_plan_of(rates="5,20,80,200"))
    app = opened(home, ttft_within_s="0.2")
    said, known = words(app), table_from_logs(home)
    static, continuous = known.capacity("static"), known.capacity("continuous")
    assert static is not None
    assert continuous is not None
    for engine in ("static", "continuous"):
        knee, capacity = known.saturation_point(engine), known.capacity(engine)
        assert knee is not None
        assert capacity is not None
        assert breakable(saturation_text(knee)) in said
        assert breakable(capacity_text(capacity)) in said
    assert breakable(ratio_sentence(known)) in said
    growing = next(row for row in known.of("static", "rate") if row.grows)
    assert growing.middle is not None
    assert breakable(growth_text("static", growing.middle.growth)) in said
    assert f"Queue over time at {growing.rate_per_s:g}/s" in figures(app)  # the first at which one grows
    drawn = figures(app)
    assert set(drawn) >= {RATES, "Queue wait by offered rate", "Time to first token by offered rate"}
    assert "Goodput by offered rate" in drawn
    lines = [trace for trace in drawn[RATES]["data"] if trace["mode"] == "lines+markers"]
    assert [len(trace["x"]) for trace in lines] == [4, 4]
    assert lines[0]["x"] == lines[1]["x"]  # the same trace for both engines
    dots = {t["name"]: t["y"][0] for t in drawn[RATES]["data"] if t["name"].endswith("capacity")}
    assert dots == {
        "static, capacity": pytest.approx(static.requests_per_s.median),
        "continuous, capacity": pytest.approx(continuous.requests_per_s.median),
    }
    rows = table(app, "achieved/s")
    assert len(rows) == 14  # four rates, all at once, and the two around capacity, of two engines
    assert set(rows["n"]) == {24}
    assert f"{number(static.requests_per_s.median)}" in said
    csv = next(button for button in app.get("download_button") if button.proto.label == "Download as CSV")
    assert csv is not None


def test_the_queue_is_shown_at_the_rate_of_the_link(home: Path) -> None:
    write_load(home / "runs", load_plan_of(rates="80", confirm=False))
    app = opened(home, at="all at once")
    figure = figures(app)["Queue over time at all at once"]
    waiting = waiting_of("load1_static_saturation_0")
    assert waiting is not None
    # Of 24 there from the start, 4 have slots at once.
    assert (waiting["queue_depth"].max(), waiting["queue_depth"].iloc[-1]) == (20, 0)
    assert [note["text"].split(":")[0] for note in figure["layout"]["annotations"]] == ["static", "continuous"]
    shaded = [shape for shape in figure["layout"]["shapes"] if shape["type"] == "rect"]
    assert len(shaded) == 4  # a bar and a ground for each engine's window
    assert "so the queue shrinks until the last is admitted" in words(app)
    assert "This load test has no rate 7/s" in words(opened(home, at="7/s"))


def test_limits_of_the_plan_count_until_others_are_set(home: Path) -> None:
    write_load(home / "runs", load_plan_of(rates="20", confirm=False, limits=Limits(ttft_s=10.0)))
    app = opened(home)
    shares = table(app, "within both")
    assert set(shares["within both"]) == {nb("100 %")}
    widget(app, "ttft_within_s").set_value(0.001)
    app.run()
    assert set(table(app, "within both")["within both"]) == {nb("0 %")}
    assert "0 % of requests within the limits, 0 requests/s" in words(app)


def test_without_limits_the_page_says_how_to_get_goodput(home: Path) -> None:
    write_load(home / "runs", load_plan_of(rates="20", confirm=False))
    app = opened(home)
    assert "Set a limit to see goodput by offered rate." in words(app)
    assert "Goodput by offered rate" not in figures(app)


def test_one_point_still_draws(home: Path) -> None:
    write_load(home / "runs", load_plan_of(engines="continuous", rates="5", confirm=False), only=[0])
    app = opened(home)
    drawn = figures(app)[RATES]["data"]
    assert [len(trace["x"]) for trace in drawn if trace["mode"] == "lines+markers"] == [1]
    said = words(app)
    assert "continuous: saturation point above 5 requests/s; the queue grew at no rate." in said
    assert "No run with all requests at once has completed." in said
    assert list(table(app, "achieved/s")["status"]) == ["completed", "not run yet"]


def test_failed_points_are_drawn_and_listed(home: Path) -> None:
    write_load(home / "runs", load_plan_of(), out_of_memory)
    app = opened(home)
    said = words(app)
    assert "static, 5/s: out of memory: out of memory: prefill asked for 4 GiB" in said
    assert "- and 2 more" in said
    crosses = [t for t in figures(app)[RATES]["data"] if t["name"].startswith("failed")]
    assert [len(trace["x"]) for trace in crosses] == [6]
    assert len(table(app, "achieved/s")) == 8
    assert "No rate has a result yet." in said


def test_sixty_points_some_of_which_failed(home: Path) -> None:
    rates = ",".join(str(rate) for rate in range(2, 60, 2))
    plan = load_plan_of(rates=rates, confirm=False, workload=replace(WORKLOAD, requests=12, budget="3"))
    write_load(home / "runs", plan, lambda p: out_of_memory(p) if (p.values["rate_per_s"] or 99) > 6 else None)
    app = opened(home)
    assert len(table(app, "achieved/s")) == 60
    drawn = figures(app)[RATES]["data"]
    assert [len(t["x"]) for t in drawn if t["mode"] == "lines+markers"] == [3, 3]
    assert [len(t["x"]) for t in drawn if t["name"].startswith("failed")] == [52]
    assert "and 48 more" in words(app)


def test_repeats_are_medians_with_whiskers(home: Path) -> None:
    write_load(home / "runs", load_plan_of(rates="20", repeats=2, confirm=False))
    app = opened(home)
    assert set(table(app, "achieved/s")["repeats"]) == {2}
    assert set(table(app, "achieved/s")["spread"]) == {nb("0 %")}  # this clock is made up: repeats are equal
    assert len(table(app, "whole run, requests/s")) == 8


def test_a_load_test_that_was_cut_off_can_be_resumed(home: Path) -> None:
    write_load(home / "runs", load_plan_of(), only=[0, 1, 2])
    app = opened(home)
    assert "This experiment was interrupted: 3 of 8 points done. 5 points left to run." in words(app)
    assert buttons(app)["Resume"] is True


def test_a_run_that_was_deleted_leaves_its_row(home: Path) -> None:
    write_load(home / "runs", load_plan_of(rates="20", confirm=False))
    take_in(home)
    store = lab().store
    store.trash.delete_run("load1_static_20_0")
    app = open_page("load")
    rows = table(app, "achieved/s")
    gone = rows[(rows["engine"] == "static") & (rows["rate"] == "20/s")].iloc[0]
    assert gone["status"] == "completed; run deleted"
    assert pd.isna(gone["achieved/s"])


def test_runs_on_a_busy_machine_are_reported(home: Path) -> None:
    write_load(home / "runs", load_plan_of(rates="20", confirm=False))
    for name, load in (("load1_static_20_0", 7.25), ("load1_continuous_20_0", 5.0)):
        file = home / "runs" / name / "run.json"
        info = json.loads(file.read_text())
        info["environment"] = {**(info.get("environment") or {}), "load_average_1min": load, "cpu_count": 2}
        file.write_text(json.dumps(info))
    said = words(opened(home))
    assert re.search(r"The machine was busy when 2 of \d+ runs began \(load up to 7\.25 on 2 cores\)", said)


def test_the_csv_holds_every_row(home: Path) -> None:
    write_load(home / "runs", load_plan_of(rates="20", confirm=False))
    opened(home)
    data = load_load("load1")
    assert data is not None
    read = pd.read_csv(io.StringIO(csv_of(data.rows)))
    assert list(read["engine"]) == ["static", "static", "continuous", "continuous"]
    assert read["little_ratio"].notna().sum() == 2
    assert list(read["run_ids"])[0] == "load1_static_20_0"


def test_figures_wait_until_the_store_has_the_whole_of_a_run(home: Path) -> None:
    """The experiment's record may be read before the run's last rows: half a run must not be counted, nor kept."""
    write_load(home / "runs", load_plan_of(engines="static", rates="20", confirm=False))
    result = home / "runs" / "load1_static_20_0" / "result.json"
    hidden = result.rename(result.with_name("later.json"))
    opened(home)
    data = load_load("load1")
    assert data is not None
    assert data.is_being_read
    assert [len(row.points) for row in data.table.rows] == [0, 1]
    hidden.rename(result)
    lab().store.ingest.all_in(home / "runs")
    data = load_load("load1")
    assert data is not None
    assert not data.is_being_read
    assert [len(row.points) for row in data.table.rows] == [1, 1]
