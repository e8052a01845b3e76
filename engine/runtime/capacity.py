"""Refuse a pass that would not fit `--capacity-gib`, by estimate. Used where the device cannot enforce it (a CPU)."""

from __future__ import annotations

from engine.core.memory_model import TERM_WORDS, ModelDimensions, pass_memory
from engine.core.out_of_memory import EngineOutOfMemory
from engine.core.passes import PassKind, PlannedPass


class CapacityCheck:
    """Raises EngineOutOfMemory for a pass whose estimated memory is over `capacity_bytes`.

    `pool_positions` of a paged layout are allocated whole, whatever the pass's rows hold of them.
    """

    def __init__(
        self, model: ModelDimensions, capacity_bytes: int, *, sampled_in_fp32: bool, pool_positions: int = 0
    ) -> None:
        self.model = model
        self.capacity_bytes = capacity_bytes
        self.sampled_in_fp32 = sampled_in_fp32
        self.pool_positions = pool_positions

    def __call__(self, planned: PlannedPass) -> None:
        is_padded = planned.kind is PassKind.PREFILL and not planned.chunks
        need = pass_memory(
            self.model,
            kv_positions=max(planned.kv.reserved, self.pool_positions),
            tokens=planned.shape.computed_positions if is_padded else planned.tokens,
            rows=len(planned.rows),
            sampled_in_fp32=self.sampled_in_fp32,
        )
        shortage = need.shortage(self.capacity_bytes)
        if shortage is not None:
            raise EngineOutOfMemory(
                asked_bytes=shortage.asked_bytes,
                free_bytes=shortage.free_bytes,
                shape=f"{planned.kind} of {len(planned.rows)} rows x {planned.shape.width} columns",
                where=f"{TERM_WORDS[shortage.term]} (by estimate)",
            )
