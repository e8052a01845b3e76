"""What a sweep's TPOT is held against: ceilings by hand, or the right calibration of several."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.commands.ceilings import find_ceilings
from engine.hardware.calibration import Calibration

MEASURED = Calibration(
    device="cpu",
    device_name="A CPU",
    threads=2,
    torch_version="2.13",
    measured_at="2026-11-29T10:00:00+00:00",
    load_average_1min=0.1,
    cache_bytes=None,
    buffer_bytes=2**28,
    read_bytes_per_s=2e10,
    copy_bytes_per_s=1.5e10,
    matmul_flop_per_s={"fp32": 1e11, "bf16": 4e11},
    launch_s=1e-6,
    model="smollm2-135m",
    dtype="fp32",
    kernels_per_pass=1000,
    pass_s=0.05,
    pass_issue_s=None,
)


def info(name: str = "A CPU", dtype: str = "float32", model: str = "smollm2-135m") -> dict[str, Any]:
    return {"device": {"name": name}, "model": {"name": model, "dtype": dtype}}


def test_the_newest_of_the_device_and_the_model_is_taken(tmp_path: Path) -> None:
    MEASURED.save(tmp_path)
    later = replace(MEASURED, measured_at="2026-11-29T11:00:00+00:00", read_bytes_per_s=3e10)
    later.save(tmp_path)
    replace(later, measured_at="2026-11-29T12:00:00+00:00", device_name="Another", read_bytes_per_s=9e10).save(tmp_path)
    other = replace(later, measured_at="2026-11-29T13:00:00+00:00", model="tiny-random", read_bytes_per_s=4e10)
    other.save(tmp_path)
    (tmp_path / "torn.json").write_text('{"device": "cpu"')
    found, source = find_ceilings({}, tmp_path, info())
    assert found is not None
    assert (found.read_bytes_per_s, found.flop_per_s) == (3e10, 1e11)
    assert source == "calibrated 2026-11-29T11:00:00+00:00"
    elsewhere, _ = find_ceilings({}, tmp_path, info(model="qwen2.5-1.5b"))
    assert elsewhere is not None
    assert elsewhere.read_bytes_per_s == 4e10


def test_arithmetic_is_of_the_runs_dtype(tmp_path: Path) -> None:
    MEASURED.save(tmp_path)
    found, _ = find_ceilings({}, tmp_path, info(dtype="bfloat16"))
    assert found is not None
    assert found.flop_per_s == 4e11
    assert find_ceilings({}, tmp_path, info(dtype="float16")) == (
        None, "the newest calibration did not measure arithmetic in fp16",
    )  # fmt: skip


def test_what_is_given_by_hand_comes_first(tmp_path: Path) -> None:
    MEASURED.save(tmp_path)
    found, source = find_ceilings({"flop_per_s": 27.6e12, "bytes_per_s": 318e9}, tmp_path, info())
    assert found is not None
    assert (found.flop_per_s, found.read_bytes_per_s, source) == (27.6e12, 318e9, "given")
    assert found.balance_flop_per_byte == pytest.approx(86.8, rel=1e-3)


def test_without_a_calibration_the_command_is_named(tmp_path: Path) -> None:
    found, source = find_ceilings({}, tmp_path / "none", info())
    assert found is None
    assert "python -m engine calibrate" in source
