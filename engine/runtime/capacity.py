"""Refuse a pass that would not fit `--capacity-gib`, by estimate. Used where the device cannot enforce it (a CPU)."""

from __future__ import annotations

from engine.core.memory_model import ModelDimensions, PassMemory, pass_memory
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
        tokens = planned.shape.computed_positions if is_padded else planned.tokens
        need = pass_memory(
            self.model,
            kv_positions=max(planned.kv.reserved, self.pool_positions),
            tokens=tokens,
            rows=len(planned.rows),
            sampled_in_fp32=self.sampled_in_fp32,
        )
        if need.total_bytes <= self.capacity_bytes:
            return
        asked, where = _failing_term(need, self.capacity_bytes)
        raise EngineOutOfMemory(
            asked_bytes=asked,
            free_bytes=max(0, self.capacity_bytes - (need.total_bytes - asked)),
            shape=f"{planned.kind} of {len(planned.rows)} rows x {planned.shape.width} columns",
            where=f"{where} (by estimate)",
        )


def _failing_term(need: PassMemory, capacity_bytes: int) -> tuple[int, str]:
    """The first term that no longer fits, in the order in which memory is taken."""
    terms = (
        ("weights", need.weights_bytes),
        ("KV cache", need.kv_bytes),
        ("MLP activation", need.mlp_activation_bytes),
        ("logits", need.logits_bytes),
    )
    held = 0
    for name, size in terms:
        held += size
        if held > capacity_bytes:
            return size, name
    raise AssertionError("asked only when the total does not fit")
