"""The number of blocks in a paged run's KV pool: as many as the workload can use, unless a cap or memory limits it.

The pool is allocated once, before the first pass. On a GPU the rest of the run's memory must hold the activations,
which are only estimated: a pool that just fits may still leave too little for the largest pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.core.kv_layout import blocks_for
from engine.core.presets import PRESETS
from engine.core.request import Request
from engine.core.units import GIB
from engine.memory.memory_model import pass_memory
from engine.memory.memory_plan import EngineShape, blocks_that_fit, largest_pass_tokens, require_lone_request
from engine.runtime.device_memory import cap_bytes, cuda_free_bytes
from engine.runtime.graph.ladder import MAX_CAPTURED_TOKENS
from engine.runtime.prepared_run import PreparedRun

ACTIVATION_MARGIN = 1.5  # the estimate omits attention's workspace and the allocator's rounding


def pool_blocks(prepared: PreparedRun, requests: Sequence[Request]) -> int | None:
    """Blocks of the pool; None for a layout without blocks. May be too few for a request: see `check_lone_request`."""
    config = prepared.config
    if not PRESETS[config.engine].has_blocks:
        return None
    block_bytes = config.block_size * prepared.kv_shape().position_bytes
    return blocks_that_fit(blocks_for(config, requests), block_bytes, lambda p: pool_limit(prepared, requests, p))


def check_lone_request(prepared: PreparedRun, requests: Sequence[Request], num_blocks: int) -> None:
    """EngineOutOfMemory if a request does not fit the pool even when it runs alone: it would wait forever."""
    block_size = prepared.config.block_size
    block_bytes = block_size * prepared.kv_shape().position_bytes
    require_lone_request(requests, num_blocks, block_size, block_bytes, lambda p: pool_limit(prepared, requests, p))


def pool_limit(prepared: PreparedRun, requests: Sequence[Request], preempted: bool) -> int | None:
    """Most bytes for the pool under every cap; None without a limit.

    If requests may be `preempted`, their recompute passes need more of the memory.
    """
    config = prepared.config
    limits = [] if config.pool_gib is None else [int(config.pool_gib * GIB)]
    activation_bytes = _activation_bytes(prepared, requests, preempted)
    if prepared.device.type == "cuda":
        cap = cap_bytes(prepared.device, config.gpu_memory_utilization, config.capacity_gib)
        free = min(cap - torch.cuda.memory_allocated(prepared.device), cuda_free_bytes())
        limits.append(free - int(ACTIVATION_MARGIN * activation_bytes) - _graph_bytes(prepared))
    elif config.capacity_gib is not None:
        limits.append(int(config.capacity_gib * GIB) - prepared.dimensions().weight_bytes - activation_bytes)
    return min(limits, default=None)


def _activation_bytes(prepared: PreparedRun, requests: Sequence[Request], preempted: bool) -> int:
    """Estimated activations of the largest pass that these requests can form."""
    config = prepared.config
    lengths = [r.length for r in requests]
    tokens = largest_pass_tokens(EngineShape.of(config), config.num_slots, lengths, preempted=preempted)
    return _transient_bytes(prepared, tokens, min(config.num_slots, len(requests)))


def _graph_bytes(prepared: PreparedRun) -> int:
    """Memory that captured passes keep: the activations of the largest one. 0 for an eager run."""
    if prepared.config.execution != "graph":
        return 0
    return _transient_bytes(prepared, MAX_CAPTURED_TOKENS, prepared.config.num_slots)


def _transient_bytes(prepared: PreparedRun, tokens: int, rows: int) -> int:
    need = pass_memory(
        prepared.dimensions(),
        kv_positions=0,
        tokens=tokens,
        rows=rows,
        sampled_in_fp32=not prepared.config.sampling.is_greedy,
    )
    return need.transient_bytes
