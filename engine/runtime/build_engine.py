"""Builds the engine of a prepared run: the runner for its KV layout and execution, and the loop around it.

Only this module depends on the layout: `EAGER_RUNNERS` and `graph_rows` have one line per layout.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from engine.core.kv_layout import KVLayout, PaddedLayout, PagedLayout, SlotLayout, slot_width
from engine.core.passes import PlannedPass
from engine.core.presets import PRESETS, make_scheduler
from engine.core.recorder import Recorder
from engine.core.request import Request
from engine.core.span_log import Sink
from engine.core.units import GIB
from engine.memory.capacity import planned_memory, require_capacity
from engine.runtime.engine import Engine
from engine.runtime.environment import num_multiprocessors
from engine.runtime.model_runner import ModelRunner, PaddedRunner, SlotRunner
from engine.runtime.paged_runner import PagedRunner
from engine.runtime.passes_in_flight import RunClock, make_timing
from engine.runtime.pool_size import check_lone_request, pool_blocks
from engine.runtime.prepared_run import PreparedRun
from engine.runtime.sampler import Sampler


def build_engine(
    prepared: PreparedRun,
    requests: list[Request],
    runner: ModelRunner,
    sink: Sink,
    on_pass: Callable[[Engine, float], None] = lambda engine, now_s: None,
) -> Engine:
    """The engine of `prepared.config`. Its clock starts now."""
    config = prepared.config
    eos_ids = frozenset(prepared.loaded.spec.eos_token_ids)
    clock = RunClock()
    recorder = Recorder(
        sink,
        config.num_slots,
        returns_whole=config.returns == "whole",
        decode=lambda ids: prepared.loaded.encoder.decode(until_eos(ids, eos_ids)),
    )
    engine = Engine(
        make_scheduler(config, requests, runner.num_blocks),
        runner,
        recorder,
        clock,
        make_timing(config.timing, prepared.device, clock),
        eos_ids=eos_ids,
        prompt_texts=prepared.prompt_texts,
        on_pass=lambda now_s: on_pass(engine, now_s),
        check=capacity_check(prepared, runner.num_blocks),
    )
    return engine


def until_eos(ids: list[int], eos_ids: frozenset[int]) -> list[int]:
    """The tokens before the end of sequence (EOS): a fixed budget generates past it, but the answer ends there."""
    return list(itertools.takewhile(lambda token: token not in eos_ids, ids))


def capacity_check(prepared: PreparedRun, num_blocks: int | None) -> Callable[[PlannedPass], None] | None:
    """A check that raises EngineOutOfMemory for a pass that, by estimate, exceeds `--capacity-gib` on a CPU.

    None without a capacity, and on a GPU, where the allocator enforces it.
    """
    config = prepared.config
    if config.capacity_gib is None or prepared.device.type == "cuda":
        return None
    capacity_bytes, model = int(config.capacity_gib * GIB), prepared.dimensions()
    pool_positions = (num_blocks or 0) * config.block_size

    def check(planned: PlannedPass) -> None:
        sampled_in_fp32 = not config.sampling.is_greedy
        need = planned_memory(model, planned, sampled_in_fp32=sampled_in_fp32, pool_positions=pool_positions)
        require_capacity(need, planned, capacity_bytes)

    return check


def make_runner(prepared: PreparedRun, requests: Sequence[Request], num_blocks: int | None = None) -> ModelRunner:
    """The runner of the engine's KV layout. A layout that keeps one cache for the whole run allocates it here.

    `num_blocks`: blocks of a paged layout's pool; None: as many as `pool_blocks` gives. A model that cannot run as CUDA
    graphs runs eager, and `execution_notes` reports it. EngineOutOfMemory if the cache, or one request, does not fit.
    """
    if num_blocks is None:
        num_blocks = pool_blocks(prepared, requests)
    if num_blocks is not None:
        check_lone_request(prepared, requests, num_blocks)
    if prepared.config.execution == "graph":
        # Triton is not installed everywhere; only a graph run needs it.
        from engine.runtime.graph.fused_decoder import why_not_fused

        if why_not_fused(prepared.loaded.model) is None:
            return make_graph_runner(prepared, requests, num_blocks)
    return EAGER_RUNNERS[PRESETS[prepared.config.engine].layout](prepared, requests, num_blocks)


RunnerFactory = Callable[[PreparedRun, Sequence[Request], int | None], ModelRunner]


def _slot_runner(prepared: PreparedRun, requests: Sequence[Request], num_blocks: int | None) -> ModelRunner:
    config, width = prepared.config, slot_width(requests)
    return SlotRunner(
        prepared.loaded.model,
        prepared.kv_shape(),
        Sampler(config.sampling),
        config.num_slots,
        width,
        _pool_bytes(prepared),
    )


def _padded_runner(prepared: PreparedRun, requests: Sequence[Request], num_blocks: int | None) -> ModelRunner:
    sampler = Sampler(prepared.config.sampling)
    return PaddedRunner(prepared.loaded.model, prepared.kv_shape(), sampler, _pool_bytes(prepared))


def _paged_runner(prepared: PreparedRun, requests: Sequence[Request], num_blocks: int | None) -> ModelRunner:
    assert num_blocks is not None
    config = prepared.config
    return PagedRunner(
        prepared.loaded.model,
        prepared.kv_shape(),
        Sampler(config.sampling),
        config.num_slots,
        slot_width(requests),
        num_blocks=num_blocks,
        block_size=config.block_size,
    )


EAGER_RUNNERS: Mapping[type[KVLayout], RunnerFactory] = {
    SlotLayout: _slot_runner,
    PaddedLayout: _padded_runner,
    PagedLayout: _paged_runner,
}


def make_graph_runner(prepared: PreparedRun, requests: Sequence[Request], num_blocks: int | None) -> ModelRunner:
    """A CUDA graph runner with its pool allocated and nothing captured. `why_not_fused` must allow the model."""
    from engine.runtime.graph.fused_decoder import FusedDecoder
    from engine.runtime.graph.graph_runner import GraphRunner
    from engine.runtime.graph.rows import OwnRows, PaddedRows, PagedRows, PoolRows

    graph_rows: Mapping[type[KVLayout], type[PoolRows]] = {
        SlotLayout: OwnRows,
        PaddedLayout: PaddedRows,
        PagedLayout: PagedRows,
    }
    config = prepared.config
    rows = graph_rows[PRESETS[config.engine].layout].for_run(config, requests, num_blocks)
    return GraphRunner(
        prepared.loaded.model,
        FusedDecoder(prepared.loaded.model, rows.width),
        prepared.kv_shape(),
        Sampler(config.sampling),
        rows,
        num_multiprocessors(prepared.device),
        _pool_bytes(prepared),
    )


def _pool_bytes(prepared: PreparedRun) -> int | None:
    pool_gib = prepared.config.pool_gib
    return None if pool_gib is None else int(pool_gib * GIB)
