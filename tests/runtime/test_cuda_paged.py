"""Paged KV on a real GPU, kernel by kernel: the kernels give generate's tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engine.core.config import RunConfig, SamplingConfig, WorkloadConfig
from engine.core.kv_layout import blocks_for
from engine.core.units import GIB
from engine.runtime.measuring.oracles import generate_outputs
from engine.runtime.measuring.parity import engine_outputs, run_engine
from engine.runtime.pool_size import pool_blocks
from engine.runtime.prepared_run import PreparedRun, WarmModel, prepare_run

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

RAGGED = WorkloadConfig(prompts="p5,p9,p17,p30,p150", requests=10, budget="1-20")


@pytest.fixture(scope="module")
def warm() -> WarmModel:
    return WarmModel()


@pytest.fixture(scope="module")
def expected(warm: WarmModel) -> dict[int, list[int]]:
    return generate_outputs(prepared(warm, "serial"))


def prepared(warm: WarmModel, engine: str, workload: WorkloadConfig = RAGGED, **more: object) -> PreparedRun:
    base = RunConfig(engine=engine, model="tiny-random", device="cuda", dtype="fp32", workload=workload)
    return prepare_run(replace(base, **more), warm, lambda message, fraction: None)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["paged", "chunked"])
@pytest.mark.parametrize("timing", ["sync", "async"])
@pytest.mark.parametrize("block_size", [16, 32])
def test_tokens_are_generates(
    warm: WarmModel, expected: dict[int, list[int]], engine: str, timing: str, block_size: int
) -> None:
    run = prepared(warm, engine, timing=timing, block_size=block_size, max_num_batched_tokens=24)
    assert engine_outputs(run) == expected


@pytest.mark.parametrize("timing", ["sync", "async"])
@pytest.mark.parametrize("engine", ["paged", "chunked"])
def test_tokens_survive_preemptions(warm: WarmModel, engine: str, timing: str) -> None:
    """13 blocks of 4 hold little more than the longest request."""
    workload = WorkloadConfig(prompts="p5,p9,p17,p30", requests=9, budget="1-20")
    run = prepared(warm, engine, workload, timing=timing, block_size=4)
    pool_bytes = 13 * 4 * run.kv_shape().position_bytes
    result = run_engine(replace(run, config=replace(run.config, pool_gib=pool_bytes / GIB)))
    assert result.preemptions > 0
    assert result.outputs == generate_outputs(run)


def test_sampled_tokens_do_not_depend_on_layout_or_timing(warm: WarmModel) -> None:
    sampling = SamplingConfig(temperature=0.9, top_k=40, top_p=0.95)
    outputs = [
        engine_outputs(prepared(warm, engine, sampling=sampling, timing=timing))
        for engine in ("continuous", "paged", "chunked")
        for timing in ("sync", "async")
    ]
    assert all(each == outputs[0] for each in outputs)


def test_a_capacity_bounds_the_pool(warm: WarmModel) -> None:
    """The pool gets what weights, cap and activations leave, and the run fits."""
    work = WorkloadConfig(prompts="p512", requests=2048, budget="500")
    run = prepared(warm, "chunked", work, slots=2048, max_num_batched_tokens=2048)
    requests, block_bytes = run.requests(), 16 * run.kv_shape().position_bytes
    large, small = (
        pool_blocks(replace(run, config=replace(run.config, capacity_gib=g)), requests) for g in (0.5, 0.25)
    )
    assert large is not None
    assert small is not None
    assert 0 < small < large < blocks_for(run.config, requests)
    assert (large - small) * block_bytes == pytest.approx(0.25 * GIB, abs=block_bytes)
