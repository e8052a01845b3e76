"""How many blocks the KV pool of a paged run gets: what the workload can use, unless a cap or the memory allows less.

The pool is allocated once, before the first pass. On a GPU the rest of the run's share of the card has to hold the
passes' activations, which are estimated; so a pool that just fits may still leave too little for the largest pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.core.memory_model import pass_memory
from engine.core.memory_plan import EngineShape, Length, largest_pass_tokens
from engine.core.out_of_memory import EngineOutOfMemory
from engine.core.presets import PRESETS, blocks_for
from engine.core.request import Request
from engine.core.units import GIB
from engine.runtime.device_memory import cap_bytes, cuda_free_bytes
from engine.runtime.prepared_run import PreparedRun

CAPTURED_TOKENS = 8192  # of the largest captured pass
ACTIVATION_MARGIN = 1.5  # over the estimate, which leaves out attention's workspace and what the allocator rounds up


def pool_blocks(prepared: PreparedRun, requests: Sequence[Request]) -> int | None:
    """Blocks of the pool; None for a layout that has none. May be too few for a request: see `check_lone_request`."""
    config = prepared.config
    if PRESETS[config.engine].kv_layout != "paged":
        return None
    block_bytes = config.block_size * prepared.kv_shape().position_bytes
    wanted = blocks_for(config, requests)
    room = room_bytes(prepared, requests, preempted=False)
    if room is None or wanted * block_bytes <= room:
        return wanted  # nobody will ever be preempted
    return max(0, min(wanted, (room_bytes(prepared, requests) or 0) // block_bytes))


def room_bytes(prepared: PreparedRun, requests: Sequence[Request], *, preempted: bool = True) -> int | None:
    """What the pool may take under every cap; None where nothing limits it.

    Where requests may be `preempted`, the passes that read them anew need more of the memory.
    """
    config = prepared.config
    rooms = [] if config.pool_gib is None else [int(config.pool_gib * GIB)]
    activation_bytes = _activation_bytes(prepared, requests, preempted)
    if prepared.device.type == "cuda":
        cap = cap_bytes(prepared.device, config.gpu_memory_utilization, config.capacity_gib)
        free = min(cap - torch.cuda.memory_allocated(prepared.device), cuda_free_bytes())
        rooms.append(free - int(ACTIVATION_MARGIN * activation_bytes) - _graph_bytes(prepared))
    elif config.capacity_gib is not None:
        rooms.append(int(config.capacity_gib * GIB) - prepared.dimensions().weight_bytes - activation_bytes)
    return min(rooms, default=None)


def _activation_bytes(prepared: PreparedRun, requests: Sequence[Request], preempted: bool) -> int:
    """The estimate for the largest pass that the engine can make of these requests, beside weights and KV."""
    config = prepared.config
    lengths = [Length(prompt_tokens=r.num_prompt_tokens, budget_tokens=r.spec.budget_tokens) for r in requests]
    tokens = largest_pass_tokens(EngineShape.of(config), config.num_slots, lengths, preempted=preempted)
    return _transient_bytes(prepared, tokens, min(config.num_slots, len(requests)))


def _graph_bytes(prepared: PreparedRun) -> int:
    """What captured passes keep to themselves: the activations of the largest of them. Nothing for an eager run."""
    if prepared.config.execution != "graph":
        return 0
    return _transient_bytes(prepared, CAPTURED_TOKENS, prepared.config.num_slots)


def _transient_bytes(prepared: PreparedRun, tokens: int, rows: int) -> int:
    need = pass_memory(
        prepared.dimensions(),
        kv_positions=0,
        tokens=tokens,
        rows=rows,
        sampled_in_fp32=not prepared.config.sampling.is_greedy,
    )
    return need.transient_bytes


def check_lone_request(prepared: PreparedRun, requests: Sequence[Request], num_blocks: int) -> None:
    """EngineOutOfMemory where a request could not run even with the pool to itself: it would wait for ever."""
    if not requests:
        return
    config = prepared.config
    longest = max(requests, key=lambda r: r.num_prompt_tokens + r.spec.budget_tokens)
    tokens = longest.num_prompt_tokens + longest.spec.budget_tokens
    needed = blocks_for(config, [longest])
    if needed <= num_blocks:
        return
    block_bytes = config.block_size * prepared.kv_shape().position_bytes
    room = room_bytes(prepared, requests)
    raise EngineOutOfMemory(
        asked_bytes=needed * block_bytes,
        free_bytes=None if room is None else max(0, room),
        shape=f"request {longest.request_id} alone: {tokens:,} tokens in {needed:,} blocks of {config.block_size} "
        f"positions, {num_blocks:,} to be had",
        where="KV pool",
    )
