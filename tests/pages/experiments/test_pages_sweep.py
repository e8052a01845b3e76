"""The Sweep page over a real store: no sweep, one point, all failed, sixty points, cut off, ragged, bad links."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from engine.experiments.experiment import PointRecord
from engine.hardware.calibration import Calibration
from engine.runlog.experiment_log import ExperimentLog
from pages.parts.shared.lab import lab
from tests.support.experiment_page import buttons, table, widget
from tests.support.experiment_page import open_sweep as opened
from tests.support.no_break import nb
from tests.support.page_app import figures, links, open_page, words
from tests.support.runs.sweep_experiments import completed, oom_from, out_of_memory, sweep_plan, write_sweep


@pytest.mark.parametrize("name", ["nowhere", "../../etc", "x" * 300, "<b>no</b>"])
def test_an_unknown_sweep_is_reported(home: Path, name: str) -> None:
    write_sweep(home / "runs", sweep_plan())
    app = opened(home, experiment=name)
    assert "No sweep" in words(app)
    assert figures(app) == {}


def test_an_experiment_of_another_kind_is_reported(home: Path) -> None:
    write_sweep(home / "runs", replace(sweep_plan("other"), kind="load"), with_run=False)
    app = opened(home, experiment="other")
    assert "other is an experiment of another kind, not a sweep" in words(app)


def test_the_newest_sweep_is_shown_in_full(home: Path) -> None:
    """B / TPOT: 1 / 11 ms = 90.9, 2 / 12 ms = 167, 4 / 14 ms = 286, 8 / 18 ms = 444 tokens/s."""
    write_sweep(home / "runs", replace(sweep_plan("old"), created_at="2026-11-28T12:00:00.000+00:00"))
    write_sweep(home / "runs", sweep_plan("new"), with_run=False)
    app = opened(home)
    said = words(app)
    assert app.query_params["experiment"] in ("new", ["new"])
    assert "static, tiny-random, budget 32: p16,p64 at B = 1, 2, 4, 8" in said
    line = "p16 scales linearly up to B = 2, with 78.6 % of linear scaling at B = 4 (286 tokens/s)"
    assert line in said
    assert "TPOT from B = 1 to 8: p16 11.0 ms to 18.0 ms (+63.6 %)" in said
    assert "TTFT from B = 1 to 8: p16 16.0 ms to 128 ms (8.00x)" in said
    rows = table(app, "TPOT, ms")
    row = rows[(rows["prompts"] == "p16") & (rows["B"] == 4)].iloc[0]
    assert row["TTFT, s"] == pytest.approx(0.064)
    assert row["TPOT, ms"] == pytest.approx(14)
    assert row["tok/s per request"] == pytest.approx(1000 / 14)
    assert row["tok/s"] == pytest.approx(4000 / 14)
    assert row["peak, GiB"] == pytest.approx(1 + 4 * 16 / 1024)
    one_s = 0.016 + 31 * 0.011
    assert row["serial, s"] == pytest.approx(4 * one_s)
    assert row["speed-up"] == pytest.approx(4 * one_s / (0.064 + 31 * 0.014))
    assert list(rows.columns[1:11]) == [
        *("prompts", "B", "TTFT, s", "TPOT, ms", "tok/s per request", "tok/s", "peak, GiB", "FLOP/byte"),
        *("compute, %", "bandwidth, %"),
    ]


def test_the_largest_batch_size_within_limits(home: Path) -> None:
    """Within 100 ms to the first token: p16 16 ms a row, so B = 4; p64 64 ms a row, so B = 1."""
    write_sweep(home / "runs", sweep_plan(), with_run=False)
    app = opened(home, ttft_limit_s="0.1", tpot_limit_ms="50")
    said = words(app).replace("*", "")
    assert ("p16: B = 4, 286 tokens/s total and 71.4 per request, with TTFT 64.0 ms and TPOT 14.0 ms.") in said
    assert ("The fastest, B = 8, has 444 tokens/s (1.56x), TTFT 128 ms (2.00x) and TPOT 18.0 ms (1.29x).") in said
    assert "p64: B = 1, 90.9 tokens/s total" in said
    assert widget(app, "tpot_limit_ms").label == "TPOT limit, s"
    assert widget(app, "tpot_limit_ms").value == 0.05
    widget(app, "ttft_limit_s").set_value(0.01)
    said = words(app.run()).replace("*", "")
    assert "p16: no measured batch size is within these limits; the smallest, B = 1, has TTFT 16.0 ms" in said
    widget(app, "ttft_limit_s").set_value(0.125)
    said = words(app.run()).replace("*", "")
    assert "B = 8 exceeds the TTFT limit by 2.40 %." in said


def test_a_point_opens_its_run(home: Path) -> None:
    write_sweep(home / "runs", sweep_plan("s", prompts="p16", batch_sizes="1,2"))
    app = opened(home)
    for column in ("TPOT, ms", "repeat"):
        assert list(table(app, column)["run"].fillna("")) == ["", "/run?run_id=run_of_s"]
    back = dict(links(open_page("run", run_id="run_of_s")))
    assert back["Sweep with this run"] == "sweep?experiment=s"


def test_one_point_still_draws(home: Path) -> None:
    write_sweep(home / "runs", sweep_plan(prompts="p16", batch_sizes="4"), with_run=False)
    app = opened(home)
    assert "p16 has one point, 286 tokens/s at B = 4" in words(app)
    drawn = figures(app)["Throughput by batch size"]
    assert any(trace["type"] == "scatter" and len(trace["x"]) == 1 for trace in drawn["data"])


def test_failed_points_are_drawn_and_listed(home: Path) -> None:
    write_sweep(home / "runs", sweep_plan(), out_of_memory)
    app = opened(home)
    said = words(app)
    assert "p16, B = 1 (and at B = 2, 4, 8): out of memory: asked for 4.00 GiB, 1.00 GiB free (prefill)" in said
    assert "Failed: p16 from B = 1 on; p64 from B = 1 on." in said
    assert "Largest batch size within limits" not in said  # there is none to choose from
    drawn = figures(app)["Throughput by batch size"]["data"]
    assert [len(trace["x"]) for trace in drawn if trace["name"].endswith("failed")] == [4, 4]
    assert len(table(app, "TPOT, ms")) == 8
    assert set(table(app, "TPOT, ms")["status"]) == {nb("out of memory: asked for 4.00 GiB, 1.00 GiB free (prefill)")}


def test_sixty_points_with_memory_that_ends(home: Path) -> None:
    plan = sweep_plan(prompts="p16,p32,p64,p128,p256,p512", batch_sizes="1,2,4,8,16,32,64,128,256,512")
    write_sweep(home / "runs", plan, oom_from(256), with_run=False)
    app = opened(home)
    assert "p512, B = 256 (and at B = 512): out of memory" in words(app)
    rows = table(app, "TPOT, ms")
    assert len(rows) == 60
    assert rows["status"].str.startswith("out of memory").sum() == 12
    drawn = figures(app)["Throughput by batch size"]["data"]
    assert sum(trace["mode"] == "lines+markers" for trace in drawn) == 6


def test_repeats_give_a_median_whiskers_and_a_spread(home: Path) -> None:
    """TPOT at B = 1: 11, 12.1 and 13.2 ms. All times grow alike, so tokens/s are as 1 : 1/1.1 : 1/1.2."""
    write_sweep(home / "runs", sweep_plan(prompts="p16", batch_sizes="1,2", repeats=3), with_run=False)
    app = opened(home)
    row = table(app, "TPOT, ms").iloc[0]
    assert row["TPOT, ms"] == pytest.approx(12.1)
    assert row["n"] == 3
    assert row["spread"] == nb("18.3 %")  # (1 - 1/1.2) x 1.1
    line = figures(app)["Time per output token by batch size"]["data"][0]
    assert line["text"][0].endswith(nb("12.1 ms<br>11.0 ms to 13.2 ms over repeats"))
    assert "error_y" in line
    assert len(table(app, "repeat")) == 6


def test_a_sweep_that_was_cut_off_can_be_resumed(home: Path) -> None:
    write_sweep(home / "runs", sweep_plan("cut"), only=range(3), with_run=False)
    app = opened(home)
    assert "This experiment was interrupted: 3 of 8 points done. 5 points left to run." in words(app)
    assert buttons(app)["Resume"] is True
    assert list(table(app, "TPOT, ms")["status"]).count("not run yet") == 5


def test_a_sweep_of_the_command_line_is_followed(home: Path) -> None:
    plan = sweep_plan("elsewhere")
    with ExperimentLog.create(home / "runs", plan) as log:
        first = plan.points[0]
        log.append(PointRecord(key=first.key, repeat=0, run_id=None, **completed(first)))
        app = opened(home)
        said = words(app)
        assert app.get("progress")[0].proto.text == "1 of 8 points done."
    assert "Running on the command line" in said
    assert "Resume" not in buttons(app)
    assert "p16 has one point" in said


def test_a_ragged_batch_is_compared_with_its_control(home: Path) -> None:
    """The ragged batch takes twice its control's time for as many tokens."""
    write_sweep(home / "runs", sweep_plan(prompts=None, batch_sizes="8", mix="p16,p64"), with_run=False)
    app = opened(home)
    said = words(app)
    assert "Ragged batches" in said
    assert "tokens/s at B = 8 (50.0 %, control p64). 25.0 % of its KV memory was unused." in said
    assert "Throughput by batch size" not in said  # there is no grid
    rows = table(app, "share of control, %")
    assert list(rows["batch"]) == ["ragged", "control"]
    assert rows["share of control, %"].iloc[0] == pytest.approx(50)


def test_without_a_calibration_the_page_says_how_to_make_one(home: Path) -> None:
    write_sweep(home / "runs", sweep_plan())
    app = opened(home)
    said = words(app).replace("`", "")
    assert "The ceilings of A test's CPU are not known. Run .venv/bin/python -m engine calibrate" in said
    assert table(app, "TPOT, ms")["compute, %"].isna().all()
    assert table(app, "TPOT, ms")["FLOP/byte"].notna().all()  # counted from the shape alone


def test_with_a_calibration_shares_of_both_ceilings_are_shown(home: Path) -> None:
    """1 MB of fp32 parameters are 4 MB of weights; at B = 1, p16 and budget 32 a step attends over 32 positions.

    A position's keys and values take 2 x 2 layers x 2 KV heads x 16 x 4 bytes = 512 bytes: 4,016,384 bytes in 11 ms.
    """
    write_sweep(home / "runs", sweep_plan())
    calibration().save(home / "calibrations")
    app = opened(home)
    lab().store.ingest.calibrations()
    app.run()
    row = table(app, "TPOT, ms").iloc[0]
    assert row["bandwidth, %"] == pytest.approx(100 * 4_016_384 / 0.011 / 1e9, rel=1e-3)
    said = words(app)
    assert "p16 112 MiB for 7 more rows, of which KV 168 KiB" in said  # 7 x 48 positions x 512 bytes
    assert "0.0100 TFLOP/s and 1.00 GB/s, balance point 10.0 FLOP/byte" in said
    assert "Share of the bandwidth ceiling by batch size" in figures(app)


def test_the_table_is_downloaded_whole(home: Path) -> None:
    from pages.parts.sweep.measured import load_sweep
    from pages.parts.sweep.tables import csv_of

    write_sweep(home / "runs", sweep_plan(batch_sizes="1,64"), oom_from(64), with_run=False)
    app = opened(home)
    assert any(button.proto.label == "Download as CSV" for button in app.get("download_button"))
    data = load_sweep("sweep1")
    assert data is not None
    frame = pd.read_csv(io.StringIO(csv_of(data.table)))
    assert list(frame["status"]) == ["completed", "oom", "completed", "oom"]
    assert frame["tpot_s"].iloc[0] == pytest.approx(0.011)
    assert frame["asked_bytes"].iloc[1] == 4 * 2**30


def calibration() -> Calibration:
    """A CPU of round numbers: 1 GB/s and 10 GFLOP/s."""
    return Calibration(
        device="cpu",
        device_name="A test's CPU",
        threads=2,
        torch_version="2",
        measured_at="2026-11-29T11:00:00+00:00",
        load_average_1min=0.1,
        cache_bytes=None,
        buffer_bytes=1,
        read_bytes_per_s=1e9,
        copy_bytes_per_s=1e9,
        matmul_flop_per_s={"fp32": 1e10},
        launch_s=1e-6,
        model="tiny-random",
        dtype="fp32",
        kernels_per_pass=10,
        pass_s=0.001,
        pass_issue_s=None,
    )
