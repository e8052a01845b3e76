"""The Run page, through app.py over a real store: a whole run, runs that ended badly, and addresses of no run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st

from engine.runlog.locks import hold
from engine.runlog.schema import LOCK_FILE
from pages.parts.shared.lab import lab
from store import Recorder
from tests.support.no_break import nb
from tests.support.page_app import figures, links, open_page, take_in, words
from tests.support.runs.page_runs import config_of, write_crashed, write_run
from tests.support.runs.sample_runs import without_checksums


@pytest.fixture
def runs(lab_home: Path) -> Iterator[Path]:
    """The folder of run folders of this test's own LAB_HOME."""
    yield lab_home / "runs"
    lab().close()
    st.cache_resource.clear()


def open_run(runs: Path, run_id: str = "r1", **query: str) -> str:
    take_in(runs.parent)
    return words(open_page("run", run_id=run_id, **query))


def test_without_runs_the_page_leads_to_bench(runs: Path) -> None:
    app = open_page("run")
    assert "There is no run yet." in words(app)
    assert "Set up a first run on Bench" in dict(links(app))


def test_an_unknown_run_is_one_line_and_a_link(runs: Path) -> None:
    write_run(runs, "r1")
    text = open_run(runs, "nope")
    assert "There is no run nope here: it may have been deleted, or belong to another LAB_HOME." in text
    assert "Slot timeline" not in text


def test_the_page_waits_for_a_run_that_is_being_read(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorder, "start", lambda self: None)
    write_run(runs, "r1")
    assert "Loading this run into the store" in words(open_page("run", run_id="r1"))


def test_a_run_that_cannot_be_read_says_why(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorder, "start", lambda self: None)
    folder = write_run(runs, "r1")
    (folder / "run.json").write_text("{")
    lab().recorder.look()
    assert "This run cannot be read: " in words(open_page("run", run_id="r1"))


def test_a_link_with_a_request_opens_its_prompt_answer_and_times(runs: Path) -> None:
    write_run(runs, "r1")
    text = open_run(runs, request="1")
    assert "**Prompt of request 1** · 16 tokens" in text
    assert "Question 1?" in text
    assert "4 tokens, waited 0 s, first token after 100 ms, complete after 400 ms, ended by its budget" in text
    assert "**Prompt of request 1**" not in open_run(runs)
    assert "There is no request 9 here." in open_run(runs, request="9")
    assert "Invalid setting in the link: request 'x'" in open_run(runs, request="x")


def test_unused_lanes_are_folded_until_a_link_or_the_switch_opens_them(runs: Path) -> None:
    write_run(runs, "r1", config=config_of("static", slots=64))
    take_in(runs.parent)
    folded = open_page("run", run_id="r1")
    assert figures(folded)["Slot timeline"]["layout"]["annotations"][0]["text"] == "62 more lanes were never used"
    assert folded.toggle[0].label == "Show 62 unused lanes"
    opened = open_page("run", run_id="r1", lanes="all")
    assert "annotations" not in figures(opened)["Slot timeline"]["layout"]
    assert opened.toggle[0].value is True


def test_a_run_id_cannot_draw_on_the_page(runs: Path) -> None:
    app = open_page("run", run_id="**x**<b>")
    assert r"\*\*x\*\*\<b\>" in app.warning[0].value


def test_the_newest_run_is_shown_when_none_is_named(runs: Path) -> None:
    write_run(runs, "r1", "static")
    write_run(runs, "r2", "continuous")
    take_in(runs.parent)
    app = open_page("run")
    assert "Continuous batching, 2 slots" in words(app)
    assert app.query_params["run_id"] in ("r2", ["r2"])


def test_the_figures_of_a_run_are_as_calculated_by_hand(runs: Path) -> None:
    write_run(runs, "r1", "static")
    text = open_run(runs) + words(open_page("run", run_id="r1", tab="details"))
    assert "Static batching, 2 slots, batches formed from what has arrived" in text
    assert "2 requests (p16, budget 2-4, arrival closed, seed 0): 6 new tokens in 400 ms" in text
    tiles = " ".join(text.split())
    assert "Throughput 15.0 tokens/s n = 6 tokens" in tiles
    assert "TTFT p50 100 ms n = 2 requests" in tiles
    assert "ITL max 100 ms n = 4 gaps" in tiles
    assert "E2E p50 300 ms n = 2 requests" in tiles  # 0.2 s and 0.4 s
    assert "Dead slot-steps 25.0 % n = 8 slot-steps" in tiles
    assert "Slot-steps 8 slot_steps" in tiles
    assert "Peak memory 200 B peak_memory_bytes" in tiles
    assert "Padding 0 % n = 140 positions" in tiles  # two rows of 16, 17, 18 and 19 columns


def test_every_section_has_its_figure_and_its_finding(runs: Path) -> None:
    write_run(runs, "r1", "static")
    take_in(runs.parent)
    tabs = [open_page("run", run_id="r1", tab=tab) for tab in ("waste", "latencies", "passes")]
    assert {name for app in tabs for name in figures(app)} == {
        "Slot timeline",
        "Waste",
        "Queue wait, cumulative",
        "Time to first token (TTFT), cumulative",
        "Inter-token latency (ITL), cumulative",
        "Time per output token (TPOT), cumulative",
        "End-to-end latency (E2E), cumulative",
        "Pass trace",
    }
    captions = [caption.value for app in tabs for caption in app.caption]
    assert any(caption.startswith("2 requests ran in 2 lanes for 3 steps") for caption in captions)
    assert any("dead" in caption and caption.startswith("Computed token positions") for caption in captions)
    assert any(caption.startswith(nb("4 forward passes took 400 ms")) for caption in captions)


def test_the_axis_can_be_seconds_and_the_address_keeps_it(runs: Path) -> None:
    write_run(runs, "r1")
    take_in(runs.parent)
    by_step = figures(open_page("run", run_id="r1"))["Slot timeline"]
    by_second = figures(open_page("run", run_id="r1", unit="seconds"))["Slot timeline"]
    assert by_step["layout"]["xaxis"]["range"] == [0.0, 3.0]
    assert by_second["layout"]["xaxis"]["range"] == pytest.approx([0.0, 0.4])


def test_prompts_and_answers_are_read_in_full_and_as_text(runs: Path) -> None:
    write_run(runs, "r1")
    take_in(runs.parent)
    app = open_page("run", run_id="r1", tab="requests")
    blocks = "".join(element.proto.body for element in app.get("html"))
    assert "Question 0?" in blocks
    assert "Answer 0.\n&lt;b&gt;Done&lt;/b&gt;" in blocks
    assert "<b>Done" not in blocks


def test_a_run_repeats_on_bench_with_its_own_settings(runs: Path) -> None:
    write_run(runs, "r1", config=config_of("static", slots=3))
    take_in(runs.parent)
    addresses = dict(links(open_page("run", run_id="r1")))
    assert "slots=3" in addresses["Repeat on Bench"]
    assert "model=tiny-random" in addresses["Repeat on Bench"]
    assert addresses["Compare with another run"].endswith("runs=r1")


def test_a_pair_links_to_its_comparison(runs: Path) -> None:
    pair = {"id": "e1", "kind": "pair", "label": "static and continuous"}
    write_run(runs, "r1", "static", experiment=pair)
    write_run(runs, "r2", "continuous", experiment=pair)
    take_in(runs.parent)
    addresses = dict(links(open_page("run", run_id="r1")))
    assert addresses["Compare with the other engine"].endswith("runs=r1,r2")


def test_answers_returned_whole_explain_two_missing_latencies(runs: Path) -> None:
    write_run(runs, "r1", returned_whole=True, config=config_of("static", returns="whole"))
    text = open_run(runs, tab="latencies")
    assert text.count("Not defined: in full response mode") == 2
    assert "ITL max – no sample in this run" in " ".join(text.split())


def test_badges(runs: Path) -> None:
    folder = write_run(runs, "r1", simulated=True)
    (folder / "watched").touch()
    text = open_run(runs)
    assert all(badge in text for badge in ("completed", "random weights", "simulated", "watched live"))


def test_out_of_memory_shows_the_request_and_what_was_kept(runs: Path) -> None:
    oom = {"asked_bytes": 3 * 2**30, "free_bytes": 2**30, "shape": "2 rows x 16 columns", "where": "decode pass 4"}
    write_run(runs, "r1", result={"status": "oom", "error": "out of memory", "oom": oom})
    text = open_run(runs)
    assert "This run ran out of memory." in text
    assert "Requested: 3.00 GiB, in decode pass 4" in text
    assert "Free at that moment: 1.00 GiB" in text
    assert "Kept and shown below: 6 tokens, 2 of 2 requests finished." in text


def test_a_failed_run_shows_its_message(runs: Path) -> None:
    write_run(runs, "r1", result={"status": "failed", "error": "the disk is full"})
    assert "Error message: the disk is full" in open_run(runs)


def test_a_crashed_run_shows_what_was_logged(runs: Path) -> None:
    write_crashed(runs, "r1")
    text = open_run(runs)
    assert "The worker died during this run" in text
    assert "Kept and shown below: 6 tokens" in text
    assert "2 requests ran in 2 lanes" in text


def test_an_answer_that_was_cut_off_is_read_from_its_tokens(runs: Path) -> None:
    write_crashed(runs, "r1", unfinished=True)
    text = open_run(runs, tab="requests")
    assert "5 6" in text  # no tokenizer here: the ids themselves
    assert re.search(r"2 tokens, .*, stopped", text)


def test_a_running_run_shows_what_was_logged(runs: Path) -> None:
    folder = write_crashed(runs, "r1")
    with hold(folder / LOCK_FILE, purpose="run r1"):
        text = open_run(runs)
    assert "Still running: 2 requests finished, 6 tokens so far." in text
    assert "2 requests ran in 2 lanes" in text


def test_an_empty_run_has_a_page_too(runs: Path) -> None:
    folder = write_crashed(runs, "r1")
    for stream in folder.glob("*.arrows"):
        stream.unlink()
    text = open_run(runs)
    assert "No token was logged." in text
    assert "No request was logged." in words(open_page("run", run_id="r1", tab="requests"))
    text = words(open_page("run", run_id="r1", tab="latencies"))
    assert text.count("No request has arrived.") == 5


def test_a_damaged_log_is_reported_and_its_intact_part_is_shown(runs: Path) -> None:
    folder = without_checksums(write_run(runs, "r1"))
    stream = folder / "memory.arrows"
    stream.write_bytes(b"rubbish!" + stream.read_bytes()[8:])
    text = open_run(runs)
    assert "Part of this run's log cannot be read: memory.arrows: damaged after byte 0" in text
    assert "2 requests ran in 2 lanes" in text
