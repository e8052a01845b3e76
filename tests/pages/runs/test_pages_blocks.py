"""KV blocks on the Run and Compare pages, through app.py over a real store: the pool, preemptions, memory's parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import streamlit as st

from pages.parts.run.blocks import holder_rows
from pages.parts.run.sections import execution_text, notes_of, simulated_execution_text
from pages.parts.runs.figures import discarded_text
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.shared.lab import lab
from tests.support.no_break import nb
from tests.support.page_app import figures, links, open_page, take_in, words
from tests.support.runs.page_runs import config_of, write_run
from tests.support.runs.page_runs_paged import write_paged_run


@pytest.fixture
def runs(lab_home: Path) -> Iterator[Path]:
    """The folder of run folders of this test's own LAB_HOME."""
    yield lab_home / "runs"
    lab().close()
    st.cache_resource.clear()


def test_the_pool_over_time_and_its_preemption(runs: Path) -> None:
    write_paged_run(runs, "r1")
    take_in(runs.parent)
    app = open_page("run", run_id="r1", tab="kv-blocks")
    text = words(app)
    assert "Paged batching, 2 slots, blocks of 8 positions, a KV pool of at most 0.001 GiB" in text
    # held: 32 and 48 positions for 0.1 s, 24 and 24 for 0.05 s: 10.4; unfilled 14 x 0.1 + (6 + 5) x 0.05 = 1.95
    assert (
        "At most 6 of 6 blocks of 8 positions were held at once (100 %); 18.8 % of the held positions were unfilled "
        "over time. 1 preemption of 1 request freed 3 blocks; 17 tokens were recomputed." in text
    )
    listed = open_page("run", run_id="r1", tab="requests")
    assert "preempted once, ended by its budget" not in words(listed)  # request 0 is shown first
    assert "preempted" in listed.dataframe[0].value
    tiles = " ".join(text.split())
    assert "Worst gap over median gap 1.33 times n = 4 gaps Preemptions 1 n = 2 requests" in tiles
    assert "1 preemption (triangle): a request lost its KV blocks to an older one" in text
    assert "1 1 200 ms 1 3 17" in " ".join(text.split())  # request, step, time, lane, blocks, positions
    drawn = figures(app)["KV blocks over time"]
    held = [trace for trace in drawn["data"] if trace["type"] == "heatmap"][1]
    assert held["customdata"]["shape"] == "6, 4, 3"
    assert any(trace.get("name", "").startswith("preempted") for trace in figures(app)["Slot timeline"]["data"])


def test_the_pool_at_one_moment_follows_the_slider(runs: Path) -> None:
    write_paged_run(runs, "r1")
    take_in(runs.parent)
    app = open_page("run", run_id="r1", tab="kv-blocks")
    text = words(app)  # at first where the pool is fullest
    assert "During pass 1 (step 0, from 100 ms on), 2 requests hold 6 of 6 blocks; 14 of 48 positions" in text
    assert "0 3 17 7 (29.2 %) 1 3 17 7 (29.2 %)" in " ".join(text.split())
    moved = words(app.slider[0].set_value(3).run())
    assert "During pass 3 (step 1, from 250 ms on), 1 request holds 3 of 6 blocks; 5 of 24 positions" in moved


def test_a_run_whose_memory_is_not_paged_has_no_blocks(runs: Path) -> None:
    write_run(runs, "r1", "continuous")
    take_in(runs.parent)
    app = open_page("run", run_id="r1", tab="requests")
    assert "KV blocks" not in [tab.label for tab in app.tabs]
    assert "preempted" not in app.dataframe[0].value
    assert not app.slider


def test_cuda_graphs_with_eager_passes_and_bucket_padding(runs: Path) -> None:
    config = config_of("paged", block_size=8, execution="graph")
    notes = ["Passes of more than 40 tokens are not captured."]
    write_paged_run(runs, "r1", config=config, captured=2, result={"notes": notes})
    take_in(runs.parent)
    text = words(open_page("run", run_id="r1", tab="passes")) + words(open_page("run", run_id="r1"))
    assert "2 of 4 passes replayed a CUDA graph; the others ran eager: Passes of more than 40 tokens are" in text
    assert "blocks of 8 positions, with CUDA graphs" in text
    assert "Tokens in CUDA graphs: 57.5 % bucket padding" in text  # 80 - 34 of 80


def test_layouts_side_by_side_show_kv_positions_by_use(runs: Path) -> None:
    experiment = {"id": "e1", "kind": "layouts", "label": "static, continuous and paged"}
    write_run(runs, "r1", "static", experiment=experiment)
    write_run(runs, "r2", "continuous", experiment=experiment)
    write_paged_run(runs, "r3", experiment=experiment)
    take_in(runs.parent)
    app = open_page("compare", runs="r1,r2,r3", tab="kv-memory")
    text = words(app) + words(open_page("compare", runs="r1,r2,r3", tab="latencies"))
    assert "KV positions by use, all runs" in figures(app)
    # computed: static 140 with 37 dead; paged 32 + 34 + 18 + 19 = 103, all real
    assert "share of positions computed: static 73.6 %, continuous 100 %, paged 100 %" in text
    assert "Preemptions (triangles): static none, continuous none, paged 1." in text
    assert "Worst gap over median gap: static 1.00 times (100 ms over 100 ms)" in text
    windows = {tuple(f["layout"]["xaxis"]["range"]) for name, f in figures(app).items() if "timeline" in name}
    assert len(windows) == 1
    addresses = dict(links(open_page("run", run_id="r2")))
    assert addresses["Compare with the other engines"].split("runs=")[1].split(",")[1:] != []


def test_differences_in_execution_timing_or_block_size_are_cautions(runs: Path) -> None:
    write_paged_run(runs, "r1")
    other = config_of("paged", block_size=16, execution="graph", timing="async")
    write_paged_run(runs, "r2", config=other, block_size=16, captured=4)
    take_in(runs.parent)
    text = words(open_page("compare", runs="r1,r2", tab="answers"))
    assert "The execution differs too (paged, eager eager, paged, graph graph)" in text
    assert "The timing differs too" in text
    assert "The block size differs too (paged, eager 8, paged, graph 16): larger blocks" in text
    assert "gave the same answers: all 6 tokens" in text  # a caution is no bar


def test_a_waste_row_holds_metrics_and_totals_over_all_passes() -> None:
    """A value that neither knows is missing; totals are not recomputed from the passes that are drawn."""
    empty = pd.DataFrame()
    run = LoadedRun(
        run_id="r1",
        row={},
        info={},
        config=config_of("paged"),
        metrics={"decode_s": 2.0, "mixed_s": 1.0, "kv_dead_position_s": None, "kv_reserved_position_s": 300.0},
        spans=empty,
        passes=pd.DataFrame({"kind": ["mixed"], "start_s": [0.0], "end_s": [9.0], "bucket_tokens": [64]}),
        pass_totals={"bucket_tokens": 16, "bucket_padding_tokens": 6, "kv_dead_position_s": None},
        pass_kinds=empty,
        requests=empty,
        latencies={},
        events=empty,
    )
    assert run.waste_row("x") == {
        "series": "x",
        "bucket_tokens": 16,
        "bucket_padding_tokens": 6,
        "kv_dead_position_s": None,
        "decode_s": 2.0,
        "mixed_s": 1.0,
        "kv_reserved_position_s": 300.0,
    }


def test_execution_text() -> None:
    graph = config_of("paged", execution="graph")
    assert execution_text(graph, 2, 3, ()) == "2 of 3 passes replayed a CUDA graph; the others ran eager."
    assert execution_text(graph, 2, 2, ()) == "2 of 2 passes replayed a CUDA graph."
    assert execution_text(graph, 0, 3, ("No GPU.",)) == "0 of 3 passes replayed a CUDA graph; all ran eager: No GPU."
    assert execution_text(config_of("paged"), 0, 3, ()) == ""
    assert notes_of({"result": {"notes": ["a", "b"]}}) == ("a", "b")
    assert notes_of({"result": None, "info": {}}) == ()


def test_rows_computed_after_a_late_end_are_discarded() -> None:
    late = discarded_text(config_of("paged"), {"slot_steps": 200, "useful_slot_steps": 199})
    assert late.startswith("1 row-step of 200 (0.500\u00a0%) was discarded and counted as dead: the next pass")
    assert discarded_text(config_of("static"), {"slot_steps": 200, "useful_slot_steps": 100}) == ""
    assert discarded_text(config_of("paged"), {"slot_steps": 200, "useful_slot_steps": 200}) == ""
    assert discarded_text(config_of("paged"), {}) == ""


def test_requests_are_listed_with_their_unfilled_positions() -> None:
    held = pd.DataFrame({"block_id": [0, 1, 3], "request_id": [2, 7, 7], "positions": [1, 8, 4]})
    assert holder_rows(held, 8) == [["7", "2", "12", nb("4 (25.0 %)")], ["2", "1", "1", nb("7 (87.5 %)")]]


def test_simulated_graphs_were_not_replayed_and_are_not_called_eager() -> None:
    graph = config_of("paged", execution="graph")
    assert simulated_execution_text(graph, 624) == "624 passes simulated as CUDA graphs: one launch each."
    assert simulated_execution_text(config_of("paged"), 624) == ""
    assert simulated_execution_text(graph, 0) == ""
