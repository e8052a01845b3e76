"""Whether a planned pass fits a capacity, by estimate: real runs on a CPU and simulated ones are refused by this."""

from __future__ import annotations

from engine.core.errors import EngineOutOfMemory
from engine.core.passes import PassKind, PlannedPass
from engine.memory.memory_model import TERM_LABELS, ModelDimensions, PassMemory, pass_memory


def planned_memory(
    model: ModelDimensions, planned: PlannedPass, *, sampled_in_fp32: bool, pool_positions: int = 0
) -> PassMemory:
    """What the pass needs, weights and KV included.

    `pool_positions` of a paged layout are allocated whole, whatever the pass's rows hold of them.
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
    """EngineOutOfMemory for a pass whose `need` is over `capacity_bytes`: by which term, and what was left for it."""
    shortage = need.shortage(capacity_bytes)
    if shortage is not None:
        raise EngineOutOfMemory(
            asked_bytes=shortage.asked_bytes,
            free_bytes=shortage.free_bytes,
            shape=f"{planned.kind} of {len(planned.rows)} rows x {planned.shape.width} columns",
            where=f"{TERM_LABELS[shortage.term]} (by estimate)",
        )
