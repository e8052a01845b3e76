"""A run's peak memory on a CPU: memory that a pass allocates and frees counts, if there is a high-water mark."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.passes import PlannedPass
from engine.core.units import MIB
from engine.runlog.reader import RunLogReader
from engine.runtime import device_memory
from engine.runtime.device_memory import DeviceMemory
from engine.runtime.model_runner import ModelRunner
from engine.runtime.prepared_run import WarmModel, prepare_run
from engine.runtime.run import execute_run

CPU = torch.device("cpu")


def keeps_high_water() -> bool:
    memory = DeviceMemory(CPU)
    memory.begin_run(0.9, None)
    return memory.has_high_water


needs_high_water = pytest.mark.skipif(not keeps_high_water(), reason="this system keeps no mark that can be set back")


def take_and_give_back(mebibytes: int) -> None:
    np.ones(mebibytes * MIB, dtype=np.uint8)


@needs_high_water
def test_memory_freed_between_two_samples_counts() -> None:
    memory = DeviceMemory(CPU)
    memory.begin_run(0.9, None)
    before = memory.sample()
    take_and_give_back(256)
    after = memory.sample()
    # The process may free memory of its own in between, so the peak stands over the lower of the two.
    assert after.peak_bytes - min(before.allocated_bytes, after.allocated_bytes) > 250 * MIB
    assert after.allocated_bytes - before.allocated_bytes < 100 * MIB


@needs_high_water
def test_the_next_run_resets_the_peak() -> None:
    memory = DeviceMemory(CPU)
    memory.begin_run(0.9, None)
    take_and_give_back(256)
    first = memory.sample()
    memory.begin_run(0.9, None)
    assert first.peak_bytes - memory.sample().peak_bytes > 150 * MIB


@needs_high_water
def test_a_transient_inside_a_pass_is_in_the_runs_peak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = ModelRunner.run

    def greedy(runner: ModelRunner, planned: PlannedPass) -> torch.Tensor:
        take_and_give_back(256)
        return passes(runner, planned)

    monkeypatch.setattr(ModelRunner, "run", greedy)
    warm = WarmModel()
    workload = WorkloadConfig(prompts="p8", requests=1, budget="3")
    run = prepare_run(
        RunConfig(model="tiny-random", device="cpu", workload=workload), warm, lambda message, share: None
    )
    peak_bytes = execute_run(run, "greedy", tmp_path / "greedy", warm)["totals"]["peak_memory_bytes"]
    rows = RunLogReader(tmp_path / "greedy").table("memory").to_pydict()
    assert peak_bytes == max(rows["peak_bytes"])
    assert peak_bytes - max(rows["allocated_bytes"]) > 200 * MIB


def test_without_a_mark_the_highest_sample_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "status").write_text("VmHWM:\t 999999 kB\n")  # of the whole process; cannot be reset
    monkeypatch.setattr(device_memory, "PROC", tmp_path)
    memory = DeviceMemory(CPU)
    memory.begin_run(0.9, None)
    peaks = []
    for pages in (100, 300, 200):
        (tmp_path / "statm").write_text(f"1000 {pages} 10 1 0 1 0\n")
        peaks.append(memory.sample().peak_bytes // resource.getpagesize())
    assert peaks == [100, 300, 300]
    assert sorted(os.listdir(tmp_path)) == ["statm", "status"]
