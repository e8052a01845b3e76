"""Experiments that need a GPU: out of memory during a sweep, and async timing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from engine.cli import main

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def test_what_an_oom_took_is_given_back_to_the_next_point(lab_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2,048 rows of 512 + 500 positions need more than a quarter of a GiB; the next point fits again."""
    grid = ["--prompts", "p512", "--budget", "500", "--batch-size", "8,2048,4", "--capacity-gib", "0.25"]
    assert main(["sweep", "--model", "tiny-random", "--device", "cuda", *grid, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["points"]
    assert [row["status"] for row in rows] == ["completed", "oom", "completed"]
    assert rows[1]["asked_bytes"] > rows[1]["free_bytes"] > 0
    assert rows[2]["peak_memory_bytes"] < rows[0]["peak_memory_bytes"]


def test_both_timings_are_measured_in_turn(lab_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--configs", "p16:2,p16:8", "--budget", "16", "--repeats", "2"]
    assert main(["overhead", "--model", "tiny-random", "--device", "cuda", *asked, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(row["config"], row["status"], row["repeats"]) for row in report["points"]] == [
        ("p16:2", "completed", 2), ("p16:8", "completed", 2),
    ]  # fmt: skip
    assert all(0 < row["ratio_low"] <= row["ratio_high"] for row in report["points"])
