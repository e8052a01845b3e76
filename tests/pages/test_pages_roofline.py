"""The Roofline page, through app.py over a real store: shares by hand, missing and foreign ceilings, many runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import streamlit as st

from engine.hardware.roofline import ModelShape
from engine.runlog.writer import RunLogWriter
from pages.parts.roofline.bend import cases_of_points, cases_of_runs
from pages.parts.roofline.findings import left_out_text
from pages.parts.roofline.passes import MeasuredPasses
from pages.parts.shared.lab import lab
from tests.support.page_app import figures, links, open_page, take_in, words
from tests.support.runs.page_runs import config_of, run_info, write_run
from tests.support.runs.roofline_runs import DEVICE_NAME, MODEL, calibrate


@pytest.fixture
def runs(lab_home: Path) -> Iterator[Path]:
    """The folder of run folders of this test's own LAB_HOME."""
    yield lab_home / "runs"
    lab().close()
    st.cache_resource.clear()


@pytest.fixture
def one_run(runs: Path) -> Path:
    """One static run that records its model's shape."""
    write_run(runs, "r1", "static", model=MODEL)
    take_in(runs.parent)
    return runs


def test_without_runs_the_page_leads_to_bench(runs: Path) -> None:
    app = open_page("roofline")
    assert "There is no run yet." in words(app)
    assert "Set up a first run on Bench" in dict(links(app))


def test_shares_of_the_ceilings_match_hand_calculation(one_run: Path) -> None:
    calibrate(one_run.parent)
    text = words(open_page("roofline", run="r1"))
    # Prefill: 4,000 + 32 x 64 bytes, 50,688 FLOP, 0.1 s; decode: 3 x 4,000 + 108 x 64 bytes, as many FLOP, 0.3 s
    assert (
        "Prefill did 8.38 FLOP/byte, right of the balance point, and reached 48.0 % of the bandwidth and 80.4 % of "
        "the compute ceiling; decode did 1.00 FLOP/byte, left of the balance point, and reached 50.0 % of the "
        "bandwidth and 10.0 % of the compute ceiling." in text
    )
    tiles = " ".join(text.split())
    assert "decode MBU 50.0 % 3 passes" in tiles
    assert "prefill MFU 80.4 % 1 pass" in tiles
    assert "bend measured between – one batch size only" in tiles
    assert "static 3 decode 100 ms 1.00" in tiles
    assert "Issuing 50 kernels at 1.00 ms each takes 50.0 ms per pass, 50.0 % of a decode pass" in text
    assert "Reading its bytes at the bandwidth ceiling takes 50.0 ms (50.0 %)." in text
    assert "On a CPU, issuing an operation also computes it." in text
    assert ":orange-badge" in text
    assert "random weights" in text


def test_the_bend_is_predicted_with_keys_and_values_counted(one_run: Path) -> None:
    calibrate(one_run.parent)
    text = words(open_page("roofline", run="r1"))
    # Width 18: a row brings 64 x 18 bytes and 2 x 488 + 2 x 512 + 64 x 18 FLOP; 5 FLOP/byte is never met
    assert "At a width of 18 tokens, KV reads keep a decode pass below the balance point of 5.00" in text


def test_the_figure_has_points_under_the_roof(one_run: Path) -> None:
    calibrate(one_run.parent)
    figure = figures(open_page("roofline", run="r1"))["Roofline"]
    names = [str(trace.get("name", "")).strip("\u00a0") for trace in figure["data"]]
    assert names == ["roof", "launch-bound", "prefill pass", "decode pass"]
    said = [annotation["text"] for annotation in figure["layout"]["annotations"]]
    assert "balance point 5.00" in said


def test_without_a_calibration_only_the_points_are_drawn(one_run: Path) -> None:
    app = open_page("roofline", run="r1")
    text = words(app)
    assert f"{DEVICE_NAME} is not calibrated, so there are no ceilings." in text
    assert "engine calibrate" in text
    assert "Decode" not in text.split("Prefill did")[1].split("\n")[0]
    assert "MBU 5" not in text
    assert "decode pass" in str(figures(app)["Roofline"]["data"])


def test_ceilings_of_another_device_are_marked(one_run: Path) -> None:
    text = words(open_page("roofline", run="r1", card="h100"))
    assert "These are ceilings of another device." in text
    assert f"The run was on {DEVICE_NAME}, the ceilings are those of NVIDIA H100" in text
    assert "The ceiling is for 16-bit arithmetic; the run used fp32." in text


def test_a_calibration_of_another_device_is_not_taken_by_itself(one_run: Path) -> None:
    calibrate(one_run.parent, device="cuda:0", device_name="Some GPU", pass_issue_s=0.01)
    text = words(open_page("roofline", run="r1"))
    assert "is not calibrated, so there are no ceilings" in text
    assert "of the bandwidth" not in text
    chosen = words(open_page("roofline", run="r1", card="Some GPU"))
    assert "These are ceilings of another device." in chosen
    assert "50.0 % of the bandwidth" in chosen


def test_a_dtype_that_was_not_calibrated_has_no_ceilings(one_run: Path) -> None:
    calibrate(one_run.parent, matmul_flop_per_s={"bf16": 1e6})
    assert "has matmul rates of bf16, but not of fp32" in words(open_page("roofline", run="r1"))


def test_other_threads_and_a_busy_calibration_are_reported(one_run: Path) -> None:
    calibrate(one_run.parent, threads=8, load_average_1min=7.0)
    text = words(open_page("roofline", run="r1"))
    assert "Calibrated with 8 threads; the run used 2." in text
    assert "Other work ran during the calibration" in text


def test_invalid_parameters_are_reported(one_run: Path) -> None:
    text = words(open_page("roofline", runs="r1,nope", card="abacus", experiment="gone"))
    assert "There is no run nope here" in text
    assert "the ceilings of abacus are unknown" in text
    assert "No experiment gone found." in text
    assert "Decode" in text or "decode did" in text


def test_two_runs_are_compared(runs: Path) -> None:
    write_run(runs, "r1", "static", model=MODEL)
    write_run(runs, "r2", "continuous", model=MODEL)
    take_in(runs.parent)
    calibrate(runs.parent)
    app = open_page("roofline", runs="r1,r2")
    text = words(app)
    assert "static: prefill did 8.38 FLOP/byte" in text
    assert "continuous: prefill did 8.38 FLOP/byte" in text
    names = {str(trace.get("name", "")).strip("\u00a0") for trace in figures(app)["Roofline"]["data"]}
    assert {"static decode", "continuous decode"} <= names


def test_a_run_on_another_device_is_not_compared_with_these_ceilings(runs: Path) -> None:
    write_run(runs, "r1", "static", model=MODEL)
    write_run(runs, "r2", "continuous", model=MODEL, device={"kind": "cuda", "name": "Some GPU"})
    take_in(runs.parent)
    calibrate(runs.parent)
    text = words(open_page("roofline", runs="r1,r2"))
    assert "continuous: other model, dtype or device than the first, so not compared with these ceilings." in text


def test_simulated_runs_and_graphs_are_marked(runs: Path) -> None:
    write_run(runs, "r1", "static", model=MODEL, simulated=True, execution="graph")
    take_in(runs.parent)
    calibrate(runs.parent)
    text = words(open_page("roofline", run="r1"))
    assert "simulated" in text
    assert "Its passes are CUDA graphs with one launch each" in text


def test_a_run_without_its_models_shape_and_one_without_passes(runs: Path) -> None:
    write_run(runs, "r1", "static")
    config = config_of("static")
    with RunLogWriter(runs / "r2", run_info("r2", config, model=MODEL)) as log:
        log.finish({"status": "failed", "error": "no", "oom": None, "totals": {}, "ended_at": None})
    take_in(runs.parent)
    assert "run.json lacks the model's" in words(open_page("roofline", run="r1"))
    assert "No pass of this run has ended" in words(open_page("roofline", run="r2"))


def test_an_experiments_runs_are_one_series(runs: Path) -> None:
    for number in range(12):
        experiment = {"id": "e1", "kind": "sweep", "label": "a dozen"}
        write_run(runs, f"r{number:02}", "static", model=MODEL, experiment=experiment)
    take_in(runs.parent)
    calibrate(runs.parent)
    app = open_page("roofline", experiment="e1")
    text = words(app)
    assert "decode did 1.00 FLOP/byte, left of the balance point, and reached 50.0 % of the bandwidth" in text
    assert "48 passes in 2 marks" in text
    assert "12 runs" in text


def test_a_sweep_has_a_bend_for_each_engine_and_prompt_length() -> None:
    workload = {"workload": {"budget": "32"}}
    columns = ["engine", "prompts", "prompt_tokens", "batch_size", "role", "config", "decode_pass_p50_s"]
    rows = [("static", "p16", 16, size, "point", workload, seconds) for size, seconds in ((1, 1.0), (2, 1.2), (4, 2.0))]
    rows += [("static", "p64", 64, size, "point", workload, 1.0) for size in (1, 2)]
    rows += [("static", "p64", 64, 2, "ragged", workload, 9.0), ("static", "p64", 64, 4, "point", workload, None)]
    short, long = cases_of_points(pd.DataFrame(rows, columns=columns))
    assert (short.name, short.width) == ("static, p16", 32)
    assert short.seen is not None
    assert (short.seen.low, short.seen.high) == (2, 4)
    assert long.width == 80
    assert long.seconds == {1: 1.0, 2: 1.0}
    assert cases_of_points(pd.DataFrame()) == []


def test_a_simulated_run_opens_with_the_ceilings_it_was_simulated_with(runs: Path) -> None:
    """An H100 whose read rate the user had set to 1 TB/s."""
    environment = {"hardware": "h100", "source": "a preset.", "read_bytes_per_s": 1e12, "flop_per_s": 362e12}
    device = {"kind": "cuda", "name": "NVIDIA H100 SXM, 80 GB"}
    write_run(runs, "r1", "static", model=MODEL, simulated=True, environment=environment, device=device)
    take_in(runs.parent)
    app = open_page("roofline", run="r1")
    assert app.selectbox(key="roofline.card").value == "h100"
    text = words(app)
    assert "The run was simulated with these rates. a preset." in text
    assert "ceilings of another device" not in text
    assert "is not calibrated" not in text
    # decode: 3 x 4,000 + 108 x 64 bytes in 0.3 s, of 1 TB/s: under 0.01 %; the balance point is 362 FLOP/byte
    said = [annotation["text"] for annotation in figures(app)["Roofline"]["layout"]["annotations"]]
    assert "balance point 362" in said
    assert "These are ceilings of another device." in words(open_page("roofline", run="r1", card="a100"))


def test_rows_with_too_few_passes_for_the_bend_are_named() -> None:
    """1, 2 and 4 rows with 5, 2 and 9 decode passes: 2 rows have no median, and a prefill pass does not count."""
    by_rows = pd.DataFrame(
        {
            "kind": ["decode", "decode", "decode", "prefill"],
            "passes": [5, 2, 9, 1],
            "rows": [5, 4, 36, 3],
            "width": [50, 20, 90, 9],
            "median_s": [0.010, 0.0166, 0.018, 0.1],
        }
    )
    shape = object.__new__(ModelShape)
    one = MeasuredPasses(name="run", rows=({},), shape=shape, bins=by_rows, groups=by_rows, by_rows=by_rows)
    (case,) = cases_of_runs([one])
    assert (case.seconds, case.left_out) == ({1: 0.010, 4: 0.018}, (2,))
    assert left_out_text(case.left_out) == "Left out: 2 rows, with fewer than 3 decode passes each."
    assert left_out_text((1,)) == "Left out: 1 row, with fewer than 3 decode passes each."
    assert left_out_text(tuple(range(1, 10))).startswith("Left out: 1, 2, 3, 4, 5, 6 and 3 more rows")
    assert left_out_text(()) == ""
