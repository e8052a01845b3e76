"""How many GPUs serve a rate, by hand: one request a step on a machine whose step time is known."""

from __future__ import annotations

import math

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.errors import FieldError
from engine.load.goodput import Limits
from engine.simulator.fleet import find_fleet
from engine.simulator.machine import SimulationTarget

H100 = SimulationTarget(hardware="h100")


def config_of(arrival: str, model: str = "tiny-random") -> RunConfig:
    """One slot, and one token a request: each request is one captured pass."""
    workload = WorkloadConfig(prompts="p16", requests=8, budget="1", arrival=arrival)
    return RunConfig(model=model, execution="graph", slots=1, workload=workload)


def test_replicas_and_gpus_by_hand() -> None:
    """A pass is one launch of 10 us (its bytes take 0.13), and the host pauses for 30 us. On two GPUs there are four
    all-reduces of 17 us more; 16 vectors of 64 values take 5 ns each."""
    fleet = find_fleet(config_of("constant:50000"), H100, Limits(ttft_s=1.0))
    transfer_s = 16 * 64 * 2 / 394e9
    steps_s = {1: 40e-6, 2: 40e-6 + 4 * (17e-6 + transfer_s)}
    assert [row.tensor_parallel_size for row in fleet.rows] == [1, 2]  # of two KV heads
    for row in fleet.rows:
        # Evenly spaced requests below the capacity never wait: every halving goes up.
        highest = 127 / 128 / steps_s[row.tensor_parallel_size]
        assert row.rate_per_replica == pytest.approx(highest, rel=1e-9)
        assert row.replicas == math.ceil(50_000 / highest)
        assert row.gpus == row.replicas * row.tensor_parallel_size
        assert row.tokens_per_s_per_gpu == pytest.approx(highest / row.tensor_parallel_size)
    assert [row.gpus for row in fleet.rows] == [3, 12]
    assert fleet.best == fleet.rows[0]
    assert (fleet.rate, fleet.requests) == (50_000, 200)


def test_no_rate_is_within_a_limit_shorter_than_a_pass() -> None:
    fleet = find_fleet(config_of("poisson:1"), H100, Limits(ttft_s=9e-6))
    assert [(row.fits, row.rate_per_replica, row.gpus) for row in fleet.rows] == [(True, None, None)] * 2
    assert fleet.best is None


def test_a_burst_waits_longer_than_evenly_spaced_requests() -> None:
    """A step is 40 us: within 210 us a request may wait for four others."""
    rates = [
        find_fleet(config_of(arrival), H100, Limits(ttft_s=210e-6)).rows[0].rate_per_replica or 0.0
        for arrival in ("constant:9", "poisson:9", "gamma:9:1.5")
    ]
    assert rates[0] > rates[1] > rates[2] > 0


def test_a_model_that_does_not_fit_serves_nothing() -> None:
    """141.1 GB of weights on GPUs of which 21.3 GB may be used: 17.6 GB on each of eight."""
    config = config_of("constant:1", "llama-3.1-70b")
    fleet = find_fleet(config, SimulationTarget(hardware="a10"), Limits(ttft_s=60.0))
    assert [(row.tensor_parallel_size, row.fits) for row in fleet.rows] == [
        (1, False),
        (2, False),
        (4, False),
        (8, True),
    ]
    assert "weights" in fleet.rows[0].shortage
    assert fleet.best is not None
    assert fleet.best.tensor_parallel_size == 8


def test_a_rate_and_a_limit_are_needed() -> None:
    with pytest.raises(FieldError, match="use a rate, such as poisson:8"):
        find_fleet(config_of("closed"), H100, Limits(ttft_s=1.0))
    with pytest.raises(FieldError, match="set a limit of TTFT or TPOT"):
        find_fleet(config_of("poisson:8"), H100, Limits())
