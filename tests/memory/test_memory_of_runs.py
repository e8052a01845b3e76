"""The memory plan against real engines: a run under a capacity ends at the planned batch size, by the planned term."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.core.config import RunConfig, SamplingConfig, WorkloadConfig
from engine.core.errors import EngineOutOfMemory
from engine.core.kv_layout import blocks_for
from engine.core.units import GIB
from engine.hardware.model_presets import model_shape
from engine.memory.memory_model import TERM_LABELS
from engine.memory.memory_plan import EngineShape, MemoryGrid, memory_point
from engine.runtime.device_memory import kept_by_graphs
from engine.runtime.measuring.parity import engine_outputs
from engine.runtime.pool_size import pool_blocks
from engine.runtime.prepared_run import WarmModel, prepare_run

TINY_WEIGHTS = 4 * 151_872
TINY_POSITION = 2 * 2 * 2 * 16 * 4  # keys and values, 2 layers, 2 KV heads of 16, fp32
TINY_MLP_TOKEN = 3 * 160 * 4
TINY_LOGITS_ROW = 512 * 4


def grid(budget_tokens: int, capacity_bytes: int, shape: EngineShape) -> MemoryGrid:
    return MemoryGrid(
        prompt_tokens=(1,), batch_sizes=(1,), budget_tokens=budget_tokens, capacity_bytes=capacity_bytes, shape=shape
    )


@pytest.fixture(scope="module")
def warm() -> WarmModel:
    return WarmModel()


def ended(
    warm: WarmModel, engine: str, prompt: int, size: int, capacity_bytes: int, temperature: float
) -> tuple[str, int | None, int | None] | None:
    """The error of a real run of `size` equal requests under that capacity; None if it completes."""
    config = RunConfig(
        engine=engine,
        model="tiny-random",
        device="cpu",
        slots=size,
        workload=WorkloadConfig(prompts=f"p{prompt}", requests=size, budget="6"),
        sampling=SamplingConfig(temperature=temperature),
        capacity_gib=capacity_bytes / GIB,
    )
    try:
        engine_outputs(prepare_run(config, warm, lambda message, fraction: None))
    except EngineOutOfMemory as error:
        return error.where, error.asked_bytes, error.free_bytes
    return None


@pytest.mark.parametrize("engine", ["serial", "static", "continuous"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_run_under_a_capacity_ends_as_planned(warm: WarmModel, engine: str, temperature: float) -> None:
    """The weights plus different amounts of memory: another term fails each time."""
    model = model_shape("tiny-random", dtype="fp32")
    seen = set()
    for room in (-1, 20_000, 60_000, 130_000, 266_000, 420_000):
        for prompt, size in ((3, 8), (40, 2), (40, 8)):
            plan = grid(
                budget_tokens=6,
                capacity_bytes=TINY_WEIGHTS + room,
                shape=EngineShape(engine=engine, sampled_in_fp32=temperature > 0),
            )
            shortage = memory_point(model, plan, prompt, size).shortage
            found = ended(warm, engine, prompt, size, TINY_WEIGHTS + room, temperature)
            if shortage is None:
                assert found is None, (room, prompt, size)
                continue
            where = f"{TERM_LABELS[shortage.term]} (by estimate)"
            assert found == (where, shortage.asked_bytes, shortage.free_bytes), (room, prompt, size)
            seen.add(shortage.term)
    assert {"weights", "kv_cache", "mlp_activation"} <= seen


@pytest.mark.parametrize("engine", ["paged", "chunked"])
def test_a_paged_run_gets_its_whole_pool_if_the_plan_fits(warm: WarmModel, engine: str) -> None:
    model = model_shape("tiny-random", dtype="fp32")
    config = RunConfig(
        engine=engine,
        model="tiny-random",
        device="cpu",
        slots=4,
        max_num_batched_tokens=64,
        workload=WorkloadConfig(prompts="p30", requests=4, budget="20"),
    )
    run = prepare_run(config, warm, lambda message, fraction: None)
    tokens = 64 if engine == "chunked" else 120
    whole = TINY_WEIGHTS + 17 * 16 * TINY_POSITION + tokens * TINY_MLP_TOKEN + 4 * TINY_LOGITS_ROW
    for capacity, fits in ((whole, True), (whole - 1, False)):
        plan = grid(budget_tokens=20, capacity_bytes=capacity, shape=EngineShape.of(config))
        assert memory_point(model, plan, 30, 4).fits is fits
        capped = replace(run, config=replace(config, capacity_gib=capacity / GIB))
        wanted = blocks_for(config, run.requests())
        assert (pool_blocks(capped, capped.requests()) == wanted == 17) is fits


def test_memory_kept_by_graphs_is_the_idle_part_of_their_pools() -> None:
    segments = [
        {"total_size": 1000, "allocated_size": 100, "segment_pool_id": (0, 0)},
        {"total_size": 500, "allocated_size": 200, "segment_pool_id": (0, 1)},
        {"total_size": 50, "allocated_size": 0, "segment_pool_id": (0, 1)},
        {"total_size": 7, "allocated_size": 0},
    ]
    assert kept_by_graphs(segments) == 350
