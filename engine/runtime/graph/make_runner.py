"""The graph runner of a run, sized for its requests; or, in words, why the run has to be eager."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.presets import PRESETS, slot_width
from engine.core.request import Request
from engine.core.units import GIB
from engine.runtime.graph.fused_decoder import FusedDecoder, why_not_fused
from engine.runtime.graph.graph_runner import GraphRunner
from engine.runtime.graph.pool_plan import PoolPlan
from engine.runtime.pool_size import check_lone_request, pool_blocks
from engine.runtime.prepared_run import PreparedRun
from engine.runtime.sampler import Sampler

OWN_BLOCK_SIZE = 16  # of rows that have a run of blocks to themselves: only their width is rounded up to it


def why_not_graph(prepared: PreparedRun) -> str | None:
    """In words, why `prepared` cannot run as CUDA graphs; None where it can."""
    return why_not_fused(prepared.loaded.model)


def make_graph_runner(prepared: PreparedRun, requests: Sequence[Request], num_blocks: int | None) -> GraphRunner:
    """A runner with its pool allocated and nothing captured. `num_blocks` is the paged layouts' pool.

    EngineOutOfMemory where the pool, or a request alone, does not fit.
    """
    config = prepared.config
    if num_blocks is None:
        num_blocks = pool_blocks(prepared, requests)
    if num_blocks is not None:
        check_lone_request(prepared, requests, num_blocks)
    plan = pool_plan(prepared, requests, num_blocks)
    pool_bytes = None if config.pool_gib is None else int(config.pool_gib * GIB)
    decoder = FusedDecoder(prepared.loaded.model, plan.table_width * plan.block_size)
    sampler = Sampler(config.sampling)
    return GraphRunner(prepared.loaded.model, decoder, prepared.kv_shape(), sampler, plan, pool_bytes)


def pool_plan(prepared: PreparedRun, requests: Sequence[Request], num_blocks: int | None) -> PoolPlan:
    """Where rows live and how much a pass may hold. Padded rows are as wide as the widest batch could be."""
    config = prepared.config
    layout = PRESETS[config.engine].kv_layout
    longest = max((r.num_prompt_tokens for r in requests), default=1)
    width = slot_width(requests)
    if layout == "padded":
        width = longest + max((r.spec.budget_tokens for r in requests), default=1)
    block_size = config.block_size if layout == "paged" else OWN_BLOCK_SIZE
    table_width = -(-width // block_size)
    if layout != "paged":
        num_blocks = config.num_slots * table_width
    assert num_blocks is not None
    mixed = config.engine == "chunked"
    # A preempted request is prefilled anew, with what it had said.
    prefilled = width if layout == "paged" else longest
    return PoolPlan(
        layout=layout,
        slots=config.num_slots,
        num_blocks=num_blocks,
        block_size=block_size,
        table_width=table_width,
        mixed=mixed,
        max_packed_tokens=config.max_num_batched_tokens if mixed else config.num_slots * prefilled,
    )
