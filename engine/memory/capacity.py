"""The estimated check of a pass against a memory capacity, for real runs on a CPU and for simulated runs."""

from __future__ import annotations

from engine.core.errors import EngineOutOfMemory
from engine.core.passes import PassKind, PlannedPass
from engine.memory.memory_model import TERM_LABELS, ModelDimensions, PassMemory, pass_memory


def planned_memory(
    model: ModelDimensions, planned: PlannedPass, *, sampled_in_fp32: bool, pool_positions: int = 0
) -> PassMemory:
    """The memory a pass needs, weights and KV included.

    `pool_positions` is the size of a paged layout's pool, which is allocated in full from the start.
    """
    is_padded = planned.kind is PassKind.PREFILL and not planned.chunks
    return pass_memory(
        model,
        kv_positions=max(planned.kv.reserved, pool_positions),
        tokens=planned.shape.computed_positions if is_padded else planned.tokens,
        rows=len(planned.rows),
        sampled_in_fp32=sampled_in_fp32,
    )


def require_capacity(need: PassMemory, planned: PlannedPass, capacity_bytes: int) -> None:
    """EngineOutOfMemory if `need` exceeds `capacity_bytes`, with the failing term and the free bytes."""
    shortage = need.shortage(capacity_bytes)
    if shortage is not None:
        raise EngineOutOfMemory(
            asked_bytes=shortage.asked_bytes,
            free_bytes=shortage.free_bytes,
            shape=f"{planned.kind} of {len(planned.rows)} rows x {planned.shape.width} columns",
            where=f"{TERM_LABELS[shortage.term]} (by estimate)",
        )
