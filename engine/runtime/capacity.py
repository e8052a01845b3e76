"""Refuse a pass that would not fit `--capacity-gib`, by estimate. Used where the device cannot enforce it (a CPU)."""

from __future__ import annotations

from engine.core.capacity import planned_memory, require_room
from engine.core.memory_model import ModelDimensions
from engine.core.passes import PlannedPass


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
        need = planned_memory(
            self.model, planned, sampled_in_fp32=self.sampled_in_fp32, pool_positions=self.pool_positions
        )
        require_room(need, planned, self.capacity_bytes)
