"""A simulated run as the worker makes it: the numbers of one simulation in one go, progress, cancel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.runlog.reader import RunLogReader
from engine.runtime.run_watcher import RunProgress
from engine.runtime.simulated_run import simulate_run
from engine.simulator.machine import SimulationTarget
from engine.simulator.metrics import replica_metrics
from engine.simulator.simulator import simulate
from engine.workload.workload import build_workload

CONFIG = RunConfig(
    engine="chunked",
    model="llama-3.1-8b",
    execution="graph",
    slots=8,
    workload=WorkloadConfig(prompts="p64,p512", requests=40, budget="8-64", arrival="poisson:2"),
)
TARGET = SimulationTarget(hardware="h100", tensor_parallel_size=4)


def made(
    folder: Path, target: SimulationTarget = TARGET, config: RunConfig = CONFIG, **more: Any
) -> dict[str, Any] | None:
    given = {"experiment": None, "on_stage": lambda text, share: None, "on_progress": lambda progress: None}
    return simulate_run(config, target, "r1", folder, **{**given, "should_stop": lambda: False, **more})


def test_it_has_the_numbers_of_one_simulation_in_one_go(tmp_path: Path) -> None:
    result = made(tmp_path / "r1")
    assert result is not None
    machine = TARGET.machine(CONFIG)
    at_once = simulate(CONFIG, build_workload(CONFIG.workload), machine.cost, machine.shard)
    assert result["totals"] == replica_metrics(at_once)
    log = RunLogReader(tmp_path / "r1")
    info = log.run_info()
    assert (info["simulated"], info["device"]["name"]) == (True, "4 x NVIDIA H100 SXM, 80 GB")
    assert info["environment"]["tensor_parallel_size"] == 4
    assert {name: value for name, value in log.result().items() if name in result} == result
    assert SimulationTarget.of_run(info) == TARGET


def test_progress_ends_with_every_request_and_token(tmp_path: Path) -> None:
    seen: list[RunProgress] = []
    made(tmp_path / "r1", on_progress=seen.append)
    tokens = sum(spec.budget_tokens for spec in build_workload(CONFIG.workload).requests)
    assert len(seen) > 1
    assert (seen[-1].finished_requests, seen[-1].requests, seen[-1].output_tokens) == (40, 40, tokens)
    assert [each.output_tokens for each in seen] == sorted(each.output_tokens for each in seen)


def test_a_canceled_simulation_leaves_no_log(tmp_path: Path) -> None:
    answers = iter([False, True])
    assert made(tmp_path / "r1", should_stop=lambda: next(answers)) is None
    assert not (tmp_path / "r1").exists()


def test_a_run_that_does_not_fit_is_out_of_memory_with_a_log(tmp_path: Path) -> None:
    result = made(tmp_path / "r1", config=replace(CONFIG, capacity_gib=1.0))
    assert result is not None
    assert result["status"] == "oom"
    logged = RunLogReader(tmp_path / "r1").result() or {}
    assert {name: value for name, value in logged.items() if name in result} == result


def test_a_bad_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="5 GPUs cannot share the 8 KV heads"):
        made(tmp_path / "r1", SimulationTarget(hardware="h100", tensor_parallel_size=5))
