"""Calibration: the arithmetic by hand, the stored form, and one real measurement of this machine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from engine.commands.calibrate import table
from engine.core.home import device_lock
from engine.hardware.calibration import Calibration
from engine.runtime.measuring import calibration

pytestmark = pytest.mark.usefixtures("own_locks")  # a lab that is in use is not waited for

CPU = torch.device("cpu")

SAMPLE = Calibration(
    device="cuda:0",
    device_name="Some GPU",
    threads=8,
    torch_version="2.11.0",
    measured_at="2026-11-29T15:04:05Z",
    load_average_1min=0.5,
    cache_bytes=50 * 2**20,
    buffer_bytes=4 * 2**30,
    read_bytes_per_s=4.39e12,
    copy_bytes_per_s=4.30e12,
    matmul_flop_per_s={"fp32": 5.0e13, "bf16": 8.06e14},
    launch_s=5e-6,
    model="qwen2.5-1.5b-random",
    dtype="bf16",
    kernels_per_pass=1170,
    pass_s=0.084,
    pass_issue_s=0.0835,
)


def test_a_calibration_survives_its_json() -> None:
    assert Calibration.from_json(SAMPLE.to_json()) == SAMPLE
    on_cpu = replace(SAMPLE, device="cpu", pass_issue_s=None, cache_bytes=None)
    assert Calibration.from_json(on_cpu.to_json()) == on_cpu


def test_a_calibration_from_before_short_ones_is_in_full() -> None:
    text = SAMPLE.to_json().replace(',\n  "short": false', "")
    assert "short" not in text
    assert Calibration.from_json(text) == SAMPLE
    assert Calibration.from_json(replace(SAMPLE, short=True).to_json()).short


def test_it_is_kept_under_its_device_and_time(tmp_path: Path) -> None:
    path = SAMPLE.save(tmp_path / "calibrations")
    assert path == tmp_path / "calibrations" / "cuda0-20261129T150405Z.json"
    assert Calibration.from_json(path.read_text()) == SAMPLE
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"device": "cpu"}'])
def test_what_is_no_calibration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="calibration: "):
        Calibration.from_json(text)


def test_the_table_has_units() -> None:
    lines = table(SAMPLE).splitlines()
    assert lines[1] == "read         4,390\u00a0GB/s over 4.00\u00a0GiB"
    assert lines[2] == "copy         4,300\u00a0GB/s, reads plus writes"
    assert lines[4] == "matmul bf16  806\u00a0TFLOP/s"
    assert lines[5] == "launch       5.00\u00a0µs per operation"
    assert (
        "84.0\u00a0ms for one row of qwen2.5-1.5b-random in bf16, of which the host issues for 83.5\u00a0ms" in lines[6]
    )
    assert "issue" not in table(replace(SAMPLE, pass_issue_s=None))
    assert "other work" not in table(SAMPLE)
    assert "other work was running" in table(replace(SAMPLE, load_average_1min=4.5))


def test_bandwidth_counts_a_copy_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_median_s", lambda operation, device, enough_s: 0.5)
    assert calibration.bandwidth(CPU, 1000) == (2000.0, 4000.0)


def test_a_product_is_two_flop_a_multiply_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_product_s", lambda size, device, dtype, repeats, enough_s=1.5: 0.5)
    assert calibration.matmul_flop_per_s(CPU, torch.float32) == 2 * 512**3 / 0.5


def test_a_dtype_without_a_product_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(size: int, device: torch.device, dtype: torch.dtype, repeats: int, enough_s: float = 1.5) -> float:
        raise RuntimeError("not implemented for 'Half'")

    monkeypatch.setattr(calibration, "_product_s", refuse)
    assert calibration.matmul_flop_per_s(CPU, torch.float16) is None


def test_views_are_no_operations() -> None:
    value = torch.ones(4, 4)
    assert calibration._count_operations(lambda: (value + 1).view(16).t() * 2) == 2


def test_times_are_those_of_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that the operation advances: 9 s for the warm-up call, then 1, 3 and 2 s."""
    clock_s, took_s = 100.0, iter([9.0, 1.0, 3.0, 2.0])

    def operation() -> None:
        nonlocal clock_s
        clock_s += next(took_s)

    monkeypatch.setattr(calibration, "time", SimpleNamespace(perf_counter=lambda: clock_s))
    assert calibration._median_s(operation, CPU, repeats=3) == 2.0


def test_slow_measurements_stop_early() -> None:
    assert calibration._wants_more([1.0, 1.0], repeats=9, enough_s=1.5)
    assert not calibration._wants_more([1.0, 1.0, 1.0], repeats=9, enough_s=1.5)
    assert calibration._wants_more([0.1] * 8, repeats=9, enough_s=1.5)
    assert not calibration._wants_more([0.1] * 9, repeats=9, enough_s=1.5)


def run_calibrate(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "engine", "calibrate", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_real_calibration_waits_for_the_device_then_measures_and_is_kept(lab_home: Path) -> None:
    from engine.runlog.locks import hold

    with hold(device_lock("cpu"), purpose="run 0123456789ab"):
        process = run_calibrate("--model", "tiny-random", "--device", "cpu", "--engines", "static", "--json")
        assert process.stderr is not None
        lines = [process.stderr.readline(), process.stderr.readline()]
        assert any("waiting: the device is in use" in line and "run 0123456789ab" in line for line in lines)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    measured = Calibration.from_json(output)
    assert [Calibration.from_json(p.read_text()) for p in (lab_home / "calibrations").iterdir()] == [measured]
    assert (measured.device, measured.model, measured.dtype) == ("cpu", "tiny-random", "fp32")
    # Two layers of at least seven matrix products, a norm twice, attention, and the output's.
    assert 40 < measured.kernels_per_pass < 400
    # Any computer that runs PyTorch reads more than 100 MB/s and less than 100 TB/s.
    assert 1e8 < measured.read_bytes_per_s < 1e14
    assert 1e8 < measured.copy_bytes_per_s < 1e14
    assert measured.matmul_flop_per_s["fp32"] > 1e8
    assert 1e-8 < measured.launch_s < measured.pass_s < 10
    assert measured.pass_issue_s is None
    assert {(p.kv_layout, p.kind) for p in measured.passes} == {("padded", "prefill"), ("padded", "decode")}


def test_bad_options_are_one_line_and_exit_2(lab_home: Path) -> None:
    process = run_calibrate("--model", "no-such-model")
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    assert output == ""
    assert errors.count("\n") == 1
    assert "no such name or folder" in errors
    assert not (lab_home / "calibrations").exists()
