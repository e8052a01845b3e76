"""Paged KV and chunked prefill on a tiny model: generate's tokens for all blocks, chunks and preemptions."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.core.config import RunConfig, SamplingConfig, WorkloadConfig
from engine.core.errors import EngineOutOfMemory
from engine.core.kv_layout import blocks_for
from engine.core.passes import Chunk
from engine.core.units import GIB
from engine.runlog.reader import RunLogReader
from engine.runtime.build_engine import build_engine, capacity_check, make_runner
from engine.runtime.kv.kv_cache import KVPool, KVShape
from engine.runtime.measuring.oracles import generate_outputs
from engine.runtime.measuring.parity import engine_outputs
from engine.runtime.paged_runner import PagedRunner
from engine.runtime.pool_size import check_lone_request, pool_blocks
from engine.runtime.prepared_run import PreparedRun, WarmModel, prepare_run
from engine.runtime.run import execute_run
from engine.runtime.warm_up import NoSink, warm_up
from tests.runtime.kv.test_paged_inputs import planned, request

RAGGED = WorkloadConfig(prompts="p5,p9,p17,p30", requests=9, budget="1-20")
POSITION_BYTES = 2 * 2 * 2 * 16 * 4  # keys and values, 2 layers, 2 KV heads of 16, fp32


@pytest.fixture(scope="module")
def warm() -> WarmModel:
    return WarmModel()


@pytest.fixture(scope="module")
def expected(warm: WarmModel) -> dict[int, list[int]]:
    return generate_outputs(prepared(warm, "serial"))


def prepared(warm: WarmModel, engine: str, workload: WorkloadConfig = RAGGED, **more: Any) -> PreparedRun:
    config = RunConfig(engine=engine, model="tiny-random", device="cpu", workload=workload, **more)
    return prepare_run(config, warm, lambda message, fraction: None)


def pool(blocks: int, block_size: int) -> dict[str, Any]:
    """Settings that give exactly that many blocks."""
    return {"block_size": block_size, "pool_gib": blocks * block_size * POSITION_BYTES / GIB}


@pytest.mark.parametrize("engine", ["paged", "chunked"])
@pytest.mark.parametrize("block_size", [1, 4, 16, 256])
def test_tokens_are_generates_whatever_the_block(
    warm: WarmModel, expected: dict[int, list[int]], engine: str, block_size: int
) -> None:
    run = prepared(warm, engine, block_size=block_size, max_num_batched_tokens=24)
    assert engine_outputs(run) == expected


@pytest.mark.parametrize("engine", ["paged", "chunked"])
@pytest.mark.parametrize("timing", ["sync", "async"])
def test_tokens_are_generates_as_requests_arrive(
    warm: WarmModel, expected: dict[int, list[int]], engine: str, timing: str
) -> None:
    workload = replace(RAGGED, arrival="poisson:150")
    assert engine_outputs(prepared(warm, engine, workload, timing=timing, max_num_batched_tokens=16)) == expected


@pytest.mark.parametrize(("tokens", "slots"), [(1, 1), (4, 4), (7, 4), (29, 1), (512, 4)])
def test_tokens_are_generates_whatever_the_chunk(
    warm: WarmModel, expected: dict[int, list[int]], tokens: int, slots: int
) -> None:
    """With 29, the last chunk of the longest prompt (30) has one token."""
    assert engine_outputs(prepared(warm, "chunked", slots=slots, max_num_batched_tokens=tokens)) == expected


def test_sampled_tokens_are_those_of_the_other_engines(warm: WarmModel) -> None:
    sampling = SamplingConfig(temperature=0.9, top_k=40, top_p=0.95)
    crowded = pool(13, 4)
    outputs = [
        engine_outputs(prepared(warm, engine, sampling=sampling, **more))
        for engine, more in (("serial", {}), ("paged", crowded), ("chunked", crowded))
    ]
    assert outputs[0] == outputs[1] == outputs[2]


def test_what_lies_past_a_rows_length_is_never_read(warm: WarmModel, expected: dict[int, list[int]]) -> None:
    """The pool is full of NaN: reading one position too many in any row would change its tokens."""
    for engine in ("paged", "chunked"):
        run = prepared(warm, engine, max_num_batched_tokens=16)
        requests = run.requests()
        runner = make_runner(run, requests)
        assert isinstance(runner, PagedRunner)
        runner.pool.keys.fill_(torch.nan)
        runner.pool.values.fill_(torch.nan)
        assert build_engine(run, requests, runner, NoSink()).run(lambda: False)
        assert {r.request_id: r.output_ids for r in requests} == expected


@pytest.mark.parametrize("engine", ["paged", "chunked"])
def test_the_log_of_a_preempted_run_tells_the_truth(
    warm: WarmModel, expected: dict[int, list[int]], engine: str, tmp_path: Path
) -> None:
    result = execute_run(prepared(warm, engine, **pool(13, 4)), engine, tmp_path / engine, warm)
    assert result["status"] == "completed"
    reader = RunLogReader(tmp_path / engine)
    logged = {name: reader.table(name).to_pylist() for name in ("requests", "tokens", "events", "blocks", "passes")}
    outputs: dict[int, list[int]] = {}
    for token in logged["tokens"]:
        assert token["token_index"] == len(outputs.setdefault(token["request_id"], []))  # none lost, none twice
        outputs[token["request_id"]].append(token["token_id"])
    assert outputs == expected

    assert logged["events"], "13 blocks of 4 are too few for four rows"
    assert {e["event"] for e in logged["events"]} == {"preempt"}
    losses = Counter(e["request_id"] for e in logged["events"])
    assert {r["request_id"]: r["preemptions"] for r in logged["requests"] if r["preemptions"]} == losses
    recomputed = sum(p["recomputed_tokens"] for p in logged["passes"])
    assert 0 < recomputed <= sum(e["tokens"] for e in logged["events"])

    owner: dict[int, int] = {}
    for block in logged["blocks"]:
        assert 0 <= block["block_id"] < 13
        if block["allocated"]:
            assert block["block_id"] not in owner
            owner[block["block_id"]] = block["request_id"]
        else:
            assert owner.pop(block["block_id"]) == block["request_id"]
    assert all(p["kv_reserved_positions"] <= 13 * 4 for p in logged["passes"])
    assert result["totals"]["preemptions"] == len(logged["events"])


def test_the_end_of_a_sequence_gives_its_blocks_back(warm: WarmModel, expected: dict[int, list[int]]) -> None:
    run = prepared(warm, "paged", replace(RAGGED, budget="eos:20"), block_size=4)
    free = engine_outputs(prepared(warm, "serial", replace(RAGGED, budget="20")))
    eos = free[0][3]
    requests = run.requests()
    engine = build_engine(run, requests, make_runner(run, requests), NoSink())
    engine.eos_ids = frozenset({eos})
    assert engine.run(lambda: False)
    assert {r.request_id: r.output_ids for r in requests} == {
        i: ids[: ids.index(eos) + 1] if eos in ids else ids for i, ids in free.items()
    }
    assert not any(r.block_table for r in requests)


def test_a_pool_is_what_the_workload_can_use_unless_a_cap_allows_less(warm: WarmModel) -> None:
    run = prepared(warm, "paged", WorkloadConfig(prompts="p30", requests=6, budget="20"), block_size=16)
    requests = run.requests()
    # 49 positions in 4 blocks each, 4 slots, and 1 % of the pool kept free by admissions: one block more.
    assert pool_blocks(run, requests) == blocks_for(run.config, requests) == 17
    for gib, blocks in ((17 * 16, 17), (9 * 16 + 15, 9), (8 * 16, 8)):
        capped = replace(run, config=replace(run.config, pool_gib=gib * POSITION_BYTES / GIB))
        assert pool_blocks(capped, requests) == blocks
    assert pool_blocks(replace(run, config=replace(run.config, engine="continuous")), requests) is None


def test_a_capacity_leaves_the_pool_what_weights_and_the_largest_pass_do_not_take(warm: WarmModel) -> None:
    run = prepared(warm, "chunked", WorkloadConfig(prompts="p30", requests=6, budget="20"), max_num_batched_tokens=64)
    weights = 4 * 151_872
    activations = 3 * 64 * 160 * 4  # gate, up-projection and product of one step's tokens
    logits = 4 * 512 * 4
    room = 11 * 16 * POSITION_BYTES
    capacity = (weights + activations + logits + room) / GIB
    capped = replace(run, config=replace(run.config, capacity_gib=capacity))
    assert pool_blocks(capped, capped.requests()) == 11
    assert engine_outputs(capped) == engine_outputs(run)


def test_a_request_that_alone_does_not_fit_is_out_of_memory_with_clear_numbers(warm: WarmModel, tmp_path: Path) -> None:
    run = prepared(warm, "paged", WorkloadConfig(prompts="p30", requests=2, budget="20"), **pool(12, 4))
    check_lone_request(run, run.requests(), 13)  # 30 + 20 - 1 positions: the last token's keys are never needed
    with pytest.raises(EngineOutOfMemory, match="request 0: 50 tokens in 13 blocks of 4 positions, 12 available"):
        check_lone_request(run, run.requests(), 12)
    result = execute_run(run, "lone", tmp_path / "lone", warm)
    assert result["status"] == "oom"
    assert result["oom"]["asked_bytes"] == 13 * 4 * POSITION_BYTES
    assert result["oom"]["free_bytes"] == 12 * 4 * POSITION_BYTES
    assert result["oom"]["where"] == "KV pool"


def test_a_run_says_how_its_pool_is_cut(warm: WarmModel, tmp_path: Path) -> None:
    for engine, expected in (("paged", (13, 4, None)), ("chunked", (13, 4, 24)), ("continuous", (None, None, None))):
        run = (
            prepared(warm, engine, max_num_batched_tokens=24, **pool(13, 4))
            if engine != "continuous"
            else (prepared(warm, engine))
        )
        execute_run(run, engine, tmp_path / engine, warm)
        info = json.loads((tmp_path / engine / "run.json").read_text())
        assert (info["kv_blocks"], info["block_size"], info["max_num_batched_tokens"]) == expected


def test_a_pool_over_its_cap_is_refused() -> None:
    shape = KVShape(layers=2, kv_heads=2, head_dim=16, dtype=torch.float32, device=torch.device("cpu"))
    pool = KVPool(shape, 3, 4, pool_bytes=12 * POSITION_BYTES)
    assert pool.keys.shape == (2, 12, 2, 16)
    assert pool.num_bytes == 12 * POSITION_BYTES
    with pytest.raises(EngineOutOfMemory, match="3 blocks x 4 positions") as caught:
        KVPool(shape, 3, 4, pool_bytes=12 * POSITION_BYTES - 1)
    assert caught.value.asked_bytes == 12 * POSITION_BYTES


def test_prompts_warmed_whole_are_not_warm_in_chunks(warm: WarmModel) -> None:
    warm.warmed.clear()
    workload = WorkloadConfig(prompts="p30", requests=2, budget="4")
    for engine, tokens in (("paged", 512), ("chunked", 16), ("chunked", 16), ("chunked", 8)):
        run = prepared(warm, engine, workload, max_num_batched_tokens=tokens)
        warm_up(run, make_runner(run, run.requests()), warm, lambda: False)
    assert warm.warmed == {("paged", 30), ("paged in 16", 30), ("paged in 8", 30)}


def test_an_empty_workload_completes_with_nothing(warm: WarmModel, tmp_path: Path) -> None:
    for engine in ("paged", "chunked"):
        run = prepared(warm, engine, replace(RAGGED, requests=0))
        result = execute_run(run, engine, tmp_path / engine, warm)
        assert (result["status"], result["totals"]["output_tokens"]) == ("completed", 0)


def test_a_mixed_pass_needs_its_new_tokens_and_the_whole_pool(warm: WarmModel) -> None:
    """Two decode rows and 14 prompt tokens: 16 tokens through the MLP, two rows of logits."""
    num_blocks = 11
    pool_positions = num_blocks * 16
    needed = 4 * 151_872 + pool_positions * POSITION_BYTES + 3 * 16 * 160 * 4 + 2 * 512 * 4
    asked = [request(i, 20, slot=i, blocks=[]) for i in range(3)]
    mixed = replace(planned(asked[:2], [Chunk(request=asked[2], start=0, tokens=14, is_last=False)]), tokens=16)
    enough, too_little = (
        capacity_check(prepared(warm, "chunked", block_size=16, capacity_gib=capacity / GIB), num_blocks)
        for capacity in (needed, needed - 1)
    )
    assert enough is not None
    assert too_little is not None
    enough(mixed)
    with pytest.raises(EngineOutOfMemory, match="mixed of 2 rows"):
        too_little(mixed)
