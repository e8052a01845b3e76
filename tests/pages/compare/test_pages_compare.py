"""The Compare page, through app.py over a real store: a fair pair, unfair pairs, missing runs, different answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.runlog.locks import hold
from engine.runlog.schema import LOCK_FILE
from pages.parts.shared.lab import lab
from tests.support.page_app import figures, links, open_page, take_in, words
from tests.support.runs.page_runs import TOKEN_IDS, config_of, write_crashed, write_run


@pytest.fixture
def runs(lab_home: Path) -> Iterator[Path]:
    """The folder of run folders of this test's own LAB_HOME."""
    yield lab_home / "runs"
    lab().close()
    st.cache_resource.clear()


@pytest.fixture
def pair(runs: Path) -> Path:
    write_run(runs, "r1", "static")
    write_run(runs, "r2", "continuous")
    take_in(runs.parent)
    return runs


def test_without_runs_the_page_leads_to_bench(runs: Path) -> None:
    app = open_page("compare")
    assert "There is no run yet." in words(app)
    assert "Set up a first run on Bench" in dict(links(app))


def test_without_a_choice_fitting_pairs_are_offered(pair: Path) -> None:
    offered = [address for _, address in links(open_page("compare"))]
    assert [address.endswith("runs=r1,r2") for address in offered] == [True]


def test_a_single_run_asks_for_another(runs: Path) -> None:
    write_run(runs, "r1", "static")
    take_in(runs.parent)
    app = open_page("compare", runs="r1")
    assert "No other run has the same workload, model, dtype and device" in words(app)
    assert "Compare two engines on Bench" in dict(links(app))


def test_unknown_runs_are_one_line_and_a_link(pair: Path) -> None:
    app = open_page("compare", runs="nope,r1")
    assert "There is no run nope here" in words(app)
    assert "All runs in History" in dict(links(app))


def test_the_finding_and_the_ratios_are_as_calculated_by_hand(pair: Path) -> None:
    text = words(open_page("compare", runs="r1,r2"))
    assert (
        "Continuous was 1.33 times as fast as static on the same 2 requests: 20.0 against 15.0 tokens/s; static "
        "computed 25.0 % of its slot-steps for ended requests, continuous none." in text
    )
    tiles = " ".join(text.split())
    assert "Throughput 1.33x better: 20.0 against 15.0 tokens/s" in tiles
    assert "Duration 0.750x better: 300 against 400 ms" in tiles
    assert "Slot-steps 0.750x better: 6 against 8" in tiles


def test_timelines_share_one_axis_and_latencies_one_figure(pair: Path) -> None:
    drawn = figures(open_page("compare", runs="r1,r2", unit="seconds", tab="latencies"))
    static, continuous = drawn["Slot timeline of static"], drawn["Slot timeline of continuous"]
    assert static["layout"]["xaxis"]["range"] == continuous["layout"]["xaxis"]["range"] == pytest.approx([0.0, 0.4])
    overlay = drawn["End-to-end latency (E2E), cumulative, all runs"]
    assert {trace["name"] for trace in overlay["data"] if trace.get("name")} >= {"static", "continuous"}


def test_equal_answers(pair: Path) -> None:
    text = words(open_page("compare", runs="r1,r2", tab="answers"))
    assert "static and continuous gave the same answers: all 6 tokens of 2 requests are equal." in text
    assert "Answer 1." in text


def test_different_answers_name_the_first_difference(runs: Path) -> None:
    write_run(runs, "r1", "static")
    write_run(runs, "r2", "continuous", token_ids={**TOKEN_IDS, 1: (7, 8, 60, 10)})
    take_in(runs.parent)
    text = words(open_page("compare", runs="r1,r2", tab="answers"))
    assert (
        "1 of 2 answers of static and continuous are equal token for token; request 1 first differs at token 3." in text
    )
    assert "request 1 · different answers" in text


@pytest.mark.parametrize(
    ("changes", "what", "values"),
    [
        ({"workload": {"digest": "ff", "requests": 2}}, "workload", "digest ff"),
        ({"model": {"name": "tiny-random", "dtype": "bfloat16"}}, "dtype", "bf16"),
        ({"model": {"name": "other", "dtype": "float32"}}, "model", "other"),
        ({"device": {"kind": "cuda", "name": "H200"}}, "device", "H200"),
        ({"simulated": True}, "kind of run", "simulated"),
    ],
)
def test_unfair_pairs_are_barred_until_the_switch_is_set(
    runs: Path, changes: dict[str, object], what: str, values: str
) -> None:
    write_run(runs, "r1", "static")
    write_run(runs, "r2", "continuous", **changes)
    take_in(runs.parent)
    app = open_page("compare", runs="r1,r2")
    text = words(app)
    assert f"These runs differ in {what}." in text
    assert values in text
    assert not figures(app)
    app.toggle(key="compare.anyway").set_value(True).run()
    assert f"Not a comparison of engines only, because their {what} differs: continuous was" in words(app)
    assert "Slot timeline of static" in figures(app)
    assert values in words(app)


def test_answers_to_different_requests_are_not_compared(runs: Path) -> None:
    write_run(runs, "r1", "static")
    write_run(runs, "r2", "continuous", workload={"digest": "ff", "requests": 2})
    take_in(runs.parent)
    text = words(open_page("compare", runs="r1,r2", anyway="true", tab="answers"))
    assert "The runs have different requests" in text
    assert "gave the same answers" not in text


def test_another_models_answers_are_shown_without_a_verdict(runs: Path) -> None:
    write_run(runs, "r1", "static")
    write_run(runs, "r2", "continuous", model={"name": "other", "dtype": "float32"})
    take_in(runs.parent)
    text = words(open_page("compare", runs="r1,r2", anyway="true", tab="answers"))
    assert "gave the same answers" not in text
    assert "Answer 1." in text


def test_the_switch_is_kept_in_the_address(runs: Path) -> None:
    write_run(runs, "r1", "static")
    write_run(runs, "r2", "continuous", simulated=True)
    take_in(runs.parent)
    assert "Slot timeline of static" in figures(open_page("compare", runs="r1,r2", anyway="true"))


def test_a_crashed_run_is_compared_as_far_as_it_went_and_without_a_verdict(runs: Path) -> None:
    write_crashed(runs, "r1", "static")
    write_run(runs, "r2", "continuous")
    take_in(runs.parent)
    text = words(open_page("compare", runs="r1,r2", tab="differences"))
    assert "Only continuous completed (20.0 tokens/s): static crashed after 2 of 2 requests" in text
    assert "did not complete: nothing is called better or worse" in text
    assert "better:" not in text


def test_running_runs_have_no_finding_yet(runs: Path) -> None:
    folders = [write_crashed(runs, "r1", "static"), write_crashed(runs, "r2", "continuous")]
    with hold(folders[0] / LOCK_FILE, purpose="run r1"), hold(folders[1] / LOCK_FILE, purpose="run r2"):
        take_in(runs.parent)
        text = words(open_page("compare", runs="r1,r2"))
    assert "static and continuous are still running; the finding follows when every run has ended." in text
    assert "better" not in text.replace("nothing is called better or worse", "")


def test_two_runs_of_one_engine_have_distinct_names(runs: Path) -> None:
    write_run(runs, "r1", "static")
    write_run(runs, "r2", "static", config=config_of("static", slots=3))
    take_in(runs.parent)
    app = open_page("compare", runs="r1,r2")
    assert {"Slot timeline of static, 2 slots", "Slot timeline of static, 3 slots"} <= set(figures(app))
    assert "were equally fast on the same 2 requests" in words(app)


def test_four_runs_at_most(runs: Path) -> None:
    for number in range(5):
        write_run(runs, f"r{number}", "static")
    take_in(runs.parent)
    app = open_page("compare", runs="r0,r1,r2,r3,r4")
    text = words(app)
    assert "The first 4 of 5 runs are compared" in text
    assert "Of 4 runs on the same 2 requests" in text
    assert sum(name.startswith("Slot timeline of") for name in figures(app)) == 4


def test_the_picker_changes_the_address(pair: Path) -> None:
    app: AppTest = open_page("compare", runs="r1")
    app.multiselect[0].set_value(["r1", "r2"]).run()
    assert app.query_params["runs"] in ("r1,r2", ["r1,r2"])
    assert "Slot timeline of static" in figures(app)


def test_a_pair_on_a_busy_host_leads_with_counts(runs: Path) -> None:
    busy = {"python": "3.11", "cpu_count": 2, "load_average_1min": 7.0}
    write_run(runs, "r1", "static", environment=busy)
    write_run(runs, "r2", "continuous", environment=busy)
    take_in(runs.parent)
    app = open_page("compare", runs="r1,r2")
    text = " ".join(words(app).split())
    assert "needed 4 forward passes and 8 slot-steps on the same 2 requests" in text
    assert "The times cannot be trusted: the host may have slowed the engine in both runs." in text
    assert "Throughput 1.33x not trusted: 20.0 against 15.0 tokens/s" in text
    assert "Slot-steps 0.750x better: 6 against 8" in text
    assert [button.disabled for button in app.button if button.label == "Run all again"] == [False]


def test_all_runs_of_a_job_are_offered_at_once(runs: Path) -> None:
    job = {"id": "e1", "kind": "layouts", "label": "static, continuous and serial"}
    for number, engine in enumerate(("static", "continuous", "static")):
        write_run(runs, f"r{number}", engine, experiment=job, created_at=f"2026-11-29T12:0{number}:00.000+00:00")
    take_in(runs.parent)
    label = "All 3 runs of this job: static and continuous, "
    offered = {name: address for name, address in links(open_page("compare", runs="r0,r1")) if name.startswith(label)}
    assert [address.endswith("runs=r0,r1,r2") for address in offered.values()] == [True]
    assert not [name for name, _ in links(open_page("compare", runs="r0,r1,r2")) if name.startswith(label)]
    assert [name for name, _ in links(open_page("compare")) if name.startswith(label)]


def test_only_the_open_section_is_drawn_and_a_link_opens_one(pair: Path) -> None:
    at_first = open_page("compare", runs="r1,r2")
    assert "Waste in time, all runs" in figures(at_first)
    assert not [name for name in figures(at_first) if "cumulative" in name]
    linked = open_page("compare", runs="r1,r2", tab="latencies")
    assert [name for name in figures(linked) if "cumulative" in name]
    assert "Waste in time, all runs" not in figures(linked)
    wrong = open_page("compare", runs="r1,r2", tab="zzz")
    assert "Invalid setting in the link: tab" in words(wrong)
    assert "Waste in time, all runs" in figures(wrong)
