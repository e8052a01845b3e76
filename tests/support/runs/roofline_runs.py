"""Runs and calibrations for the tests of the Roofline and What-if pages, small enough to be reckoned by hand.

The model has 1,000 parameters of 4 bytes, 488 of them in the layers and 512 in its table; a cached position takes 64
bytes, a score 64 FLOP. The machine reads 126,080 bytes a second and does 630,400 FLOP a second: the balance point is 5.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.hardware.calibration import Calibration, MeasuredPass
from store import Store

MODEL = {
    "name": "tiny-random",
    "source": "tiny-random",
    "parameters": 1000,
    "layers": 2,
    "hidden": 8,
    "heads": 2,
    "kv_heads": 1,
    "head_dim": 4,
    "intermediate": 8,
    "vocab": 64,
    "dtype": "float32",
    "random_weights": True,
    "tokenizer_file": None,
}
DEVICE_NAME = "A test's CPU"  # that of tests.support.runs.page_runs


def calibration(**changes: Any) -> Calibration:
    """What was measured on the device of tests.support.runs.page_runs; `changes` replace parts."""
    usual: dict[str, Any] = {
        "device": "cpu",
        "device_name": DEVICE_NAME,
        "threads": 2,
        "torch_version": "2.13.0",
        "measured_at": "2026-11-29T11:00:00Z",
        "load_average_1min": 0.1,
        "cache_bytes": None,
        "buffer_bytes": 2**20,
        "read_bytes_per_s": 126_080.0,
        "copy_bytes_per_s": 200_000.0,
        "matmul_flop_per_s": {"fp32": 630_400.0, "bf16": 1_000_000.0},
        "launch_s": 0.001,
        "model": "tiny-random",
        "dtype": "fp32",
        "kernels_per_pass": 50,
        "pass_s": 0.1,
        "pass_issue_s": None,
    }
    return Calibration(**(usual | changes))


def timed_passes(decode_s: float = 0.1, prefill_s: float = 0.2) -> tuple[MeasuredPass, ...]:
    """Passes of every layout that take the same time at any size."""
    passes = []
    for layout in ("slots", "padded", "paged"):
        for kind, seconds in (("decode", decode_s), ("prefill", prefill_s)):
            for size in (1, 64):
                passes.append(
                    MeasuredPass(
                        kv_layout=layout,
                        execution="eager",
                        timing="sync",
                        kind=kind,
                        masked=False,
                        rows=size if kind == "decode" else 1,
                        tokens=size,
                        prompt_tokens=0 if kind == "decode" else size,
                        width=size,
                        computed_positions=0,
                        padding_positions=0,
                        squared_lengths=0,
                        seconds=seconds,
                        samples=9,
                    )
                )
    return tuple(passes)


def calibrate(home: Path, **changes: Any) -> None:
    """Keep a calibration as the command does, and take it into the store."""
    calibration(**changes).save(home / "calibrations")
    store = Store(home)
    store.ingest.calibrations()
    store.close()
