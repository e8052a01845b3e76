"""`engine simulate`: its figures against published ones, its run log in a real store, its refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.cli import main
from engine.metrics.metrics import RUN_METRICS
from engine.runlog.reader import RunLogReader
from store.store import Store
from tests.support.no_break import nb

CHAPTER = "--model llama-3.1-8b --hardware h100 --engine continuous --execution graph --prompts p2300 --budget 32"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    return tmp_path


def simulated(options: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    assert main(["simulate", *options.split(), "--json"]) == code
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def chapter(batch_size: int, capsys: pytest.CaptureFixture[str], more: str = "") -> dict[str, Any]:
    return simulated(f"{CHAPTER} --requests {batch_size} --slots {batch_size} --no-log {more}", capsys)


def test_the_published_sweep_of_an_8b_model_on_an_h100(capsys: pytest.CaptureFixture[str]) -> None:
    one, eight, sixty_four, most = (chapter(b, capsys) for b in (1, 8, 64, 128))
    assert eight["weight_bytes"] == pytest.approx(16.06e9, rel=1e-3)
    assert eight["read_bytes_per_s"] == 2.40e12
    close = {"rel": 0.08}
    assert eight["decode_step_s"] == pytest.approx(7.8e-3, **close)
    assert eight["tokens_per_s_per_request"] == pytest.approx(128, **close)
    assert eight["tokens_per_s"] == pytest.approx(1026, **close)
    assert sixty_four["decode_step_s"] == pytest.approx(14.1e-3, **close)
    assert most["tokens_per_s_per_request"] == pytest.approx(46, **close)
    assert most["tokens_per_s"] / one["tokens_per_s"] == pytest.approx(41, **close)
    assert one["tokens_per_s_per_request"] / most["tokens_per_s_per_request"] == pytest.approx(3.1, **close)
    assert eight["tokens_per_s"] / one["tokens_per_s"] == pytest.approx(7.2, **close)
    assert eight["decode_step_s"] / one["decode_step_s"] == pytest.approx(1.11, **close)
    assert most["tokens_per_s"] / sixty_four["tokens_per_s"] == pytest.approx(1.31, **close)
    assert (one["fits_memory"], most["fits_memory"]) == (True, False)


def test_what_does_not_fit_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """128 prompts of 2,300 tokens in one prefill; in chunks their cache fits, as the What-if page has it."""
    at_once = chapter(128, capsys)
    assert at_once["failing_term"] == "mlp_activation"
    assert at_once["asked_bytes"] == 128 * 2300 * 14_336 * 2  # one piece of three
    kv_bytes = 128 * (2300 + 32) * 131_072
    room = int(0.9 * 80e9) - at_once["weight_bytes"] - kv_bytes
    assert at_once["free_bytes"] == room - at_once["asked_bytes"]  # the second piece fails
    in_chunks = chapter(128, capsys, "--engine chunked")
    assert (in_chunks["fits_memory"], in_chunks["failing_term"]) == (True, None)


def test_the_report_is_flat_and_carries_every_metric(capsys: pytest.CaptureFixture[str]) -> None:
    report = chapter(2, capsys)
    assert {metric.name for metric in RUN_METRICS} <= set(report)
    assert report["output_tokens"] == 64
    assert report["simulated"] is True
    assert report["run_id"] is None
    assert not any(isinstance(value, dict) for value in report.values())


def test_the_drawn_rate_is_told_and_can_be_made_exact(capsys: pytest.CaptureFixture[str]) -> None:
    """Seed 3 draws 14 arrivals of poisson:2 at 3.49 requests/s."""
    few = "--hardware a10 --prompts p16 --budget 4 --requests 14 --seed 3 --arrival poisson:2 --no-log"
    drawn, exact = simulated(few, capsys), simulated(f"{few} --rescale-arrivals", capsys)
    assert drawn["requested_requests_per_s"] == exact["requested_requests_per_s"] == 2
    assert drawn["offered_requests_per_s"] == pytest.approx(3.49, abs=0.005)
    assert drawn["offered_deviation"] == pytest.approx(0.745, abs=0.003)
    assert exact["offered_requests_per_s"] == pytest.approx(2.0)
    assert exact["offered_deviation"] == pytest.approx(0.0, abs=1e-9)
    assert main(["simulate", *few.split()]) == 0
    assert nb("arrivals: 2 requests/s requested, 3.49 requests/s drawn (+74.7 %)") in capsys.readouterr().out
    closed = chapter(1, capsys)
    assert closed["requested_requests_per_s"] is closed["offered_deviation"] is None


def test_a_file_is_no_folder_for_a_run_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *CHAPTER.split(), "--out", __file__]) == 2
    line = capsys.readouterr().err
    assert "is a file; name a folder" in line
    assert "LAB_HOME" not in line


def test_eight_bit_weights_and_hand_set_rates(capsys: pytest.CaptureFixture[str]) -> None:
    plain = chapter(1, capsys)
    light = chapter(1, capsys, "--weight-bits 8")
    assert light["weight_bytes"] == plain["weight_bytes"] / 2
    # (8.030 + 0.3036) / (16.061 + 0.3036) of the bytes, and 30 us for the stop after each pass
    read_s = plain["decode_step_s"] - 30e-6
    assert light["decode_step_s"] - 30e-6 == pytest.approx(read_s * 8.3337 / 16.3641, rel=1e-3)
    slow = chapter(1, capsys, "--read-gb-per-s 1200")
    half = chapter(1, capsys, "--efficiency 0.5")
    assert slow["decode_step_s"] == half["decode_step_s"] == pytest.approx(2 * plain["decode_step_s"], rel=0.01)
    launched = chapter(1, capsys, "--execution eager --launch-us 100 --tflop-per-s 500")
    assert launched["decode_step_s"] == pytest.approx(1283 * 100e-6 + 30e-6)
    assert launched["flop_per_s"] == 500e12


def test_a_simulated_run_is_a_run_folder_that_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = simulated("--model tiny-random --hardware h100 --engine paged --requests 6 --prompts p16,p64", capsys)
    folder = home / "runs" / report["run_id"]
    reader = RunLogReader(folder)
    assert reader.run_info()["simulated"] is True
    assert reader.status() == "completed"
    assert reader.table("tokens").num_rows == report["output_tokens"]
    assert reader.table("tokens")["token_id"].null_count == report["output_tokens"]
    assert reader.table("blocks").num_rows > 0
    with Store(home) as store:
        store.ingest.run(folder)
        (row,) = store.runs.list().to_dict("records")
        assert (row["run_id"], row["simulated"], row["status"]) == (report["run_id"], True, "completed")
        metrics = store.runs.metrics(report["run_id"])
        for name in ("output_tokens_per_s", "ttft_p50_s", "itl_max_s", "passes", "kv_unused_fraction"):
            assert metrics[name] == pytest.approx(report[name]), name
        assert len(store.runs.spans(report["run_id"])) > 0


def test_tokens_may_be_left_out_of_the_log(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = "--model tiny-random --hardware h100 --requests 3 --no-token-rows"
    report = simulated(f"{options} --out {home}/elsewhere", capsys)
    reader = RunLogReader(home / "elsewhere" / report["run_id"])
    assert reader.table("tokens").num_rows == 0
    assert reader.table("passes").num_rows == report["passes"] > 0
    assert report["ttft_p50_s"] > 0


def test_replicas_are_runs_of_one_experiment(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = simulated("--model tiny-random --hardware h100 --replicas 2 --router least-loaded --requests 5", capsys)
    infos = [RunLogReader(home / "runs" / run_id).run_info() for run_id in report["run_ids"]]
    assert [info["workload"]["requests"] for info in infos] == [3, 2]
    assert {info["experiment"]["label"] for info in infos} == {"2 replicas, least-loaded, simulated"}
    assert len({info["workload"]["digest"] for info in infos}) == 2
    assert report["replicas"] == 2
    assert report["requests"] == 5


def test_out_of_memory_is_an_end_like_a_real_ones(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = "--model qwen2.5-1.5b --hardware a10 --engine static --prompts p256 --budget 256 --pool-gib 2"
    fits = simulated(f"{options} --requests 128 --slots 128 --no-log", capsys)
    assert fits["status"] == "completed"
    report = simulated(f"{options} --requests 256 --slots 256", capsys, code=1)
    assert report["status"] == "oom"
    assert report["oom"]["asked_bytes"] == 256 * 512 * 28 * 1024
    assert RunLogReader(home / "runs" / report["run_id"]).status() == "oom"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--hardware h900", "hardware 'h900': use one of a10"),
        ("", "no calibration here; run `python -m engine calibrate"),
        ("--hardware this --efficiency 0.5", "only with a preset"),
        ("--hardware h100 --dtype fp32", "dtype fp32"),
        ("--hardware h100 --device cpu", "device cpu"),
        ("--hardware h100 --model nobody/nothing", "model nobody/nothing: use smollm2-135m"),
        ("--hardware h100 --replicas 0", "replicas 0"),
        ("--hardware h100 --efficiency 2", "efficiency 2.0"),
        ("--hardware h100 --read-gb-per-s -1", "read-gb-per-s -1: use 0.000001 to 1e+100"),
        ("--hardware h100 --read-gb-per-s 1e308", "read-gb-per-s 1e+308: use 0.000001 to 1e+100"),
        ("--hardware h100 --efficiency 1e-320", "use a share from 0.000001 to 1"),
        ("--hardware h100 --read-gb-per-s 1e-308", "read-gb-per-s 1e-308: use 0.000001 to 1e+100"),
        ("--hardware h100 --tflop-per-s 0", "tflop-per-s 0: use 0.000001 to 1e+100"),
        ("--hardware h100 --launch-us -2.5", "launch-us -2.5: use 0 or more microseconds"),
        ("--hardware h100 --launch-us nan", "launch-us nan: use 0 or more microseconds"),
        ("--hardware h100 --prompts p8000 --budget 900", "exceed the 8,192 positions of smollm2-135m"),
        ("--hardware h100 --weight-bits 5", "weight-bits"),
        ("--hardware h100 --requests 100000 --budget 4000", "400,000,000 new tokens in total"),
    ],
)
def test_bad_input_is_one_clear_line(options: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["simulate", *options.split()])
    except SystemExit as exit_:
        code = exit_.code
    assert code == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert expected in output.err
    assert output.err.count("\n") == 1


def test_the_report_names_the_batch_of_the_decode_rates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *f"{CHAPTER} --requests 8 --slots 8 --no-log".split()]) == 0
    assert "decode steps without prefill, median batch of 8 rows." in capsys.readouterr().out
    assert main(["simulate", *f"{CHAPTER} --requests 8 --slots 8 --no-log --replicas 2".split()]) == 0
    text = capsys.readouterr().out
    assert "median batch of 4 rows per replica; tokens/s, total, is over 2 replicas." in text


def test_the_report_names_the_gpu_and_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *f"{CHAPTER} --requests 128 --slots 128 --no-log".split()]) == 0
    text = capsys.readouterr().out
    assert "NVIDIA H100 SXM, 80 GB" in text
    assert text.splitlines()[1].startswith("  does not fit: ")
    assert "does not fit: about 75.0\u00a0GiB at the peak, on a GPU with 74.5\u00a0GiB" in text
    assert "the MLP activation needs 7.86\u00a0GiB in one piece of three, and 7.80\u00a0GiB of the usable" in text
    assert "2.40 TB/s (72 %)" in text
