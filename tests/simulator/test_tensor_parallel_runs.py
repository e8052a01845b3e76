"""Simulated runs with tensor parallelism: one GPU is as before, several share weights, cache and limits."""

from __future__ import annotations

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.errors import FieldError
from engine.simulator.machine import simulated_machine
from engine.simulator.metrics import decode_figures, replica_metrics
from engine.simulator.simulator import Simulation, simulate
from engine.workload.workload import build_workload

CHAPTER = RunConfig(
    model="llama-3.1-8b",
    execution="graph",
    slots=64,
    workload=WorkloadConfig(prompts="p2300", requests=64, budget="32"),
)
BATCHES = RunConfig(
    engine="static",
    model="qwen2.5-1.5b",
    slots=8,
    workload=WorkloadConfig(prompts="p16,p256", requests=32, budget="16-64"),
)
ARRIVALS = RunConfig(
    engine="chunked",
    slots=8,
    timing="async",
    execution="graph",
    workload=WorkloadConfig(prompts="p64,p1024", requests=40, budget="8-48", arrival="poisson:8"),
)
LIMITED = RunConfig(
    engine="paged",
    model="llama-3.1-8b",
    slots=8,
    capacity_gib=18.0,
    workload=WorkloadConfig(prompts="p512", requests=24, budget="64"),
)

# As simulated before there was tensor parallelism: duration, median decode step, TTFT p50, worst gap, peak memory.
BEFORE = (
    (CHAPTER, "h100", (6.381003289034012, 0.01481689109333331, 5.921679665140685, 0.014869319893333177, 48300728320)),
    (BATCHES, "a10", (5.706324712966473, 0.021999999999999995, 2.3614654456040673, 0.02200000000000024, 3272901632)),
    (
        ARRIVALS,
        "h200",
        (3.8446514510750283, 7.479964381129633e-05, 0.00019486599869966703, 0.0001687002864119158, 473649792),
    ),
    (
        LIMITED,
        "a100",
        (3.5409080889107907, 0.012860000000000009, 1.5504153926071766, 0.012860000000000316, 17025167360),
    ),
)


def simulated(config: RunConfig, hardware: str, gpus: int = 1) -> tuple[Simulation, float]:
    """The simulation and its median decode step in seconds."""
    machine = simulated_machine(config, hardware, tensor_parallel_size=gpus)
    simulation = simulate(config, build_workload(config.workload), machine.cost, machine.shard)
    step_s = decode_figures([simulation], machine, config.timing)["decode_step_s"]
    assert step_s is not None
    return simulation, step_s


@pytest.mark.parametrize(("config", "hardware", "before"), BEFORE)
def test_one_gpu_simulates_the_same_numbers_as_before(
    config: RunConfig, hardware: str, before: tuple[float, ...]
) -> None:
    simulation, step_s = simulated(config, hardware)
    metrics = replica_metrics(simulation)
    figures = (metrics["duration_s"], step_s, metrics["ttft_p50_s"], metrics["itl_max_s"], simulation.peak_bytes)
    assert figures == before


def test_a_decode_step_of_an_8b_model_on_two_gpus_by_hand() -> None:
    """64 rows that attend over 2,316 positions at the median: half the bytes, and 64 all-reduces."""
    _, step_s = simulated(CHAPTER, "h100", gpus=2)
    read_bytes = 2 * 8_030_261_248 + 64 * 2316 * 131_072
    transfer_s = 64 * 4096 * 2 / 394e9  # 2 x (2 - 1) / 2 = 1 of the bytes
    by_hand_s = read_bytes / 2 / 2.40e12 + 64 * (17e-6 + transfer_s) + 30e-6
    assert step_s == pytest.approx(by_hand_s, rel=1e-3)


def test_a_70b_model_fits_four_gpus_but_not_one() -> None:
    """141.1 GB of weights: 35.3 GB on each of four."""
    config = RunConfig(
        engine="chunked",
        model="llama-3.1-70b",
        execution="graph",
        capacity_gib=67.0,  # 90 % of 80 GB
        workload=WorkloadConfig(prompts="p256", requests=8, budget="16"),
    )
    alone, shared = (simulated_of(config, gpus) for gpus in (1, 4))
    assert (alone.status, shared.status) == ("oom", "completed")
    assert shared.peak is not None
    assert shared.peak.weights_bytes == 2 * 70_553_706_496 // 4


def simulated_of(config: RunConfig, gpus: int) -> Simulation:
    machine = simulated_machine(config, "h100", tensor_parallel_size=gpus)
    return simulate(config, build_workload(config.workload), machine.cost, machine.shard)


def test_gpus_that_share_a_model_are_named_with_their_number() -> None:
    machine = simulated_machine(CHAPTER, "h100", tensor_parallel_size=4)
    assert (machine.label, machine.memory_bytes) == ("4 x NVIDIA H100 SXM, 80 GB", 80 * 10**9)
    assert machine.shape.kv_heads == 8
    assert machine.shard.kv_heads == 2


def test_a_calibrated_machine_is_one_device() -> None:
    with pytest.raises(FieldError, match="hardware this is one device as calibrated; use 1, or a10"):
        simulated_machine(CHAPTER, "this", tensor_parallel_size=2)
