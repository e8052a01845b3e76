"""Latency definitions on Run and Compare: tiles, figures, tables and CSV follow the choice; values calculated by hand.

The run is the one of tests.support.runs.records: 0 and 1 finished, 2 was cut off after two tokens, 3 stayed queued.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.metrics.definitions import Definitions
from engine.runlog.writer import RunLogWriter
from pages.parts.runs.latency_definitions import (
    MetricChange,
    metric_changes,
    metrics_csv,
    recounted_metrics,
    recounted_run,
    requests_csv,
)
from pages.parts.runs.loaded_run import load_run
from pages.parts.shared.lab import lab
from tests.support.no_break import nb
from tests.support.page_app import figures, open_page, take_in, words
from tests.support.runs.page_runs import config_of, run_info, write_run

INFINITE = Definitions(failures="infinite")
# request: arrival, admitted, deliveries
STOPPED = {0: (0.0, 1.0, (2.0, 3.0, 5.0)), 1: (1.0, 1.0, (2.0,)), 2: (3.0, 3.5, (4.0, 6.0)), 3: (6.0, None, ())}


@pytest.fixture
def runs(lab_home: Path) -> Iterator[Path]:
    yield lab_home / "runs"
    lab().close()
    st.cache_resource.clear()


def write_stopped(runs: Path, run_id: str = "r1", created_at: str = "2026-11-29T12:00:00.000+00:00") -> None:
    with RunLogWriter(runs / run_id, run_info(run_id, config_of("continuous"), created_at=created_at)) as log:
        for request_id, (arrival_s, admitted_s, deliveries) in STOPPED.items():
            log.append(
                "requests",
                request_id=request_id,
                state="finished" if request_id < 2 else "stopped",
                prompt_tokens=4,
                arrival_s=arrival_s,
                admitted_s=admitted_s,
                prompt_text=f"Question {request_id}?",
                output_text=f"Answer {request_id}.",
            )
            for index, delivered_s in enumerate(deliveries):
                log.append("tokens", request_id=request_id, token_index=index, delivered_s=delivered_s, pass_index=0)
        log.append(
            "passes", pass_index=0, step=0, kind="decode", start_s=0.0, end_s=6.0, rows=2, live_rows=2, queue_depth=0
        )
        log.finish({"status": "stopped", "error": None, "oom": None, "totals": {}})


def open_run(runs: Path, **query: str) -> AppTest:
    write_stopped(runs)
    take_in(runs.parent)
    return open_page("run", run_id="r1", **{"tab": "latencies"} | query)


def flat(app: AppTest) -> str:
    return " ".join(words(app).split())


def requests_table(app: AppTest) -> pd.DataFrame:
    return next(frame.value for frame in app.dataframe if "TTFT, s" in frame.value)


def test_without_a_choice_the_page_uses_the_default(runs: Path) -> None:
    text = flat(open_run(runs))
    assert "These are the default definitions." in text
    assert "TTFT p50 1.00 s n = 3 requests" in text  # of 2, 1, 1
    assert "ITL max 2.00 s n = 3 gaps" in text  # of 1, 2, 2
    assert "E2E p50 3.00 s n = 2 requests" in text  # of 5, 1
    assert "other than the default" not in text


def test_tiles_tables_and_figures_follow_failures_that_are_infinite(runs: Path) -> None:
    app = open_run(runs, failures="infinite")
    text = flat(app)
    assert "TTFT p50 1.50 s n = 4 requests" in text  # of 1, 1, 2, ∞
    assert "E2E p50 ∞ n = 4 requests" in text  # of 1, 5, ∞, ∞
    assert "End-to-end latency (E2E), median ∞ 3.00 s +∞" in text
    assert "Time to first token (TTFT), median 1.50 s 1.00 s +500 ms (+50.0 %)" in text
    assert "Time to first token (TTFT), samples 4 3 +1 (+33.3 %)" in text
    assert "Latency definitions other than the default: Requests that did not finish: counted as infinite." in text
    drawn = figures(app)["End-to-end latency (E2E), cumulative"]
    assert "<b>continuous</b>  n = 4, 2 unbounded" in [note["text"] for note in drawn["layout"]["annotations"]]
    assert "median ∞, largest ∞ over 4 requests" in text
    app = open_page("run", run_id="r1", failures="infinite", tab="requests")
    assert requests_table(app)["queue wait, s"].tolist() == [1.0, 0.0, 0.5, math.inf]


def test_every_other_choice_is_followed_too(runs: Path) -> None:
    query = {"ttft": "admission", "itl": "mean", "tpot": "with-first", "percentile": "nearest"}
    app = open_run(runs, tab="requests", **query)
    assert requests_table(app)["TTFT, s"].tolist()[:3] == [1.0, 1.0, 0.5]
    assert requests_table(app)["TPOT, s"].tolist()[:2] == [pytest.approx(5 / 3), 1.0]
    app = open_page("run", run_id="r1", tab="latencies", **query)
    text = flat(app)
    assert "ITL max 2.00 s n = 2 requests" in text  # the second of the means 1.5 and 2
    assert "Inter-token latency (ITL), median 1.50 s 2.00 s -500 ms (-25.0 %)" in text
    assert "Time per output token (TPOT), largest 1.67 s 1.50 s +167 ms (+11.1 %)" in text
    assert "Time per output token (TPOT), median 1.00 s 1.50 s -500 ms (-33.3 %)" in text
    assert "Time to first token (TTFT), largest 1.00 s 2.00 s -1.00 s (-50.0 %)" in text
    assert "End-to-end latency (E2E), 95th percentile 5.00 s 4.80 s +200 ms (+4.17 %)" in text
    assert "Gap between tokens: median 1.50 s, largest 2.00 s over 2 requests." in text
    shares = {name: figure["data"][0] for name, figure in figures(app).items() if name.startswith("Time to first")}
    assert shares["Time to first token (TTFT), cumulative"]["y"] != []
    assert app.query_params["ttft"] in ("admission", ["admission"])


def test_a_run_without_changed_figures(runs: Path) -> None:
    write_run(runs, "r1", "static")
    take_in(runs.parent)
    text = flat(open_page("run", run_id="r1", failures="infinite", ttft="admission", tab="latencies"))
    assert "No figure of this run changes." in text


def test_an_unknown_choice_in_the_address_means_the_default(runs: Path) -> None:
    text = flat(open_run(runs, ttft="nonsense", failures="**"))
    assert "These are the default definitions." in text


def test_compare_uses_the_choice_for_all_runs(runs: Path) -> None:
    write_stopped(runs, "r1")
    write_stopped(runs, "r2", "2026-11-29T12:01:00.000+00:00")
    take_in(runs.parent)
    app = open_page("compare", runs="r1,r2", failures="infinite", itl="mean", tab="latencies")
    text = flat(app)
    assert text.count("figures change.") == 2
    differences = flat(open_page("compare", runs="r1,r2", failures="infinite", itl="mean", tab="differences"))
    assert "Time to first token (TTFT), median 1.50 s 1.50 s" in differences
    assert "End-to-end latency (E2E), median ∞ ∞" in differences
    drawn = figures(app)["Inter-token latency (ITL), cumulative, all runs"]
    notes = [note["text"] for note in drawn["layout"]["annotations"]]
    assert "<b>continuous, run 1</b>  n = 3, 2 unbounded" in notes  # a mean of 1.5, and two that never ended


def test_requests_as_csv_follow_the_choice_in_full_precision(runs: Path) -> None:
    write_stopped(runs)
    take_in(runs.parent)
    store = lab().store
    by = Definitions(failures="infinite", tpot="with-first")
    text = requests_csv({"r1": store.runs.requests("r1")}, {"r1": store.latencies.requests("r1", by)}, by)
    table = pd.read_csv(io.StringIO(text))
    assert table["run_id"].tolist() == ["r1"] * 4
    assert table["ttft_s"].tolist() == [2.0, 1.0, 1.0, math.inf]
    assert table["tpot_s"].tolist() == [5 / 3, 1.0, math.inf, math.inf]
    assert table["itl_mean_s"].fillna(-1).tolist() == [1.5, -1, math.inf, math.inf]
    assert table["e2e_s"].tolist() == [5.0, 1.0, math.inf, math.inf]
    assert table["counted_by"].unique().tolist() == ["tpot=with-first&failures=infinite"]
    assert table["prompt_text"].tolist()[3] == "Question 3?"
    assert "\nr1,1," in text
    assert ",inf," in text


def test_metrics_as_csv_have_both_values_and_their_difference(runs: Path) -> None:
    write_stopped(runs)
    take_in(runs.parent)
    run = load_run("r1")
    assert run is not None
    here = recounted_run(run, INFINITE)
    table = pd.read_csv(io.StringIO(metrics_csv({"r1": here.metrics}, {"r1": run.metrics}, INFINITE)))
    rows = table.set_index("metric")
    assert rows.loc["ttft_p50_s", ["value", "value_by_default", "difference"]].tolist() == [1.5, 1.0, 0.5]
    assert rows.loc["e2e_p50_s", ["value", "value_by_default", "difference"]].tolist() == [math.inf, 3.0, math.inf]
    assert rows.loc["output_tokens", ["value", "difference"]].tolist() == [6, 0]
    assert math.isnan(rows.loc["ttft_p99_s", "value"])
    assert set(rows["counted_by"]) == {"failures=infinite"}
    own = pd.read_csv(io.StringIO(metrics_csv({"r1": run.metrics}, {"r1": run.metrics}, Definitions())))
    assert set(own["counted_by"]) == {"the lab's own definitions"}
    assert set(own["difference"].dropna()) == {0}


def test_rounding_is_no_change() -> None:
    assert metric_changes({"ttft_p50_s": 0.1 + 0.2, "ttft_n": 3}, {"ttft_p50_s": 0.3, "ttft_n": 3}) == ()
    (gone,) = metric_changes({"tpot_p50_s": None}, {"tpot_p50_s": 0.3})
    assert (gone.difference, gone.difference_text) == (None, "–")
    assert metric_changes({"e2e_max_s": math.inf}, {"e2e_max_s": math.inf}) == ()


def test_a_difference_from_nothing_has_no_share() -> None:
    (moved,) = metric_changes({"queue_wait_p50_s": 0.25}, {"queue_wait_p50_s": 0.0})
    assert isinstance(moved, MetricChange)
    assert moved.difference_text == nb("+250 ms")


def test_the_worst_gap_over_the_median_follows_the_gaps() -> None:
    kept = {"itl_max_over_p50": 9.0, "passes": 4}
    assert recounted_metrics(kept, {"itl_max_s": 3.0, "itl_p50_s": 1.5})["itl_max_over_p50"] == 2.0
    assert recounted_metrics(kept, {"itl_max_s": None, "itl_p50_s": None})["itl_max_over_p50"] is None
    assert "itl_max_over_p50" not in recounted_metrics({"passes": 4}, {"itl_max_s": 3.0, "itl_p50_s": 1.5})
