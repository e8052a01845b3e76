"""The memory of a simulated run: the blocks of its pool, and passes that do not fit. Estimated, as on a CPU.

The terms are those of `memory_model`. Only the limits in the run's configuration apply. The GPU's memory does not, so a
batch that would not fit can still be simulated; the estimated peak shows that it does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.config import RunConfig
from engine.core.errors import EngineOutOfMemory
from engine.core.kv_layout import KVLayout, blocks_for
from engine.core.passes import PassKind, PlannedPass
from engine.core.presets import PRESETS
from engine.core.request import Request
from engine.core.units import GIB
from engine.memory.capacity import planned_memory, require_capacity
from engine.memory.memory_model import ModelDimensions, PassMemory, pass_memory
from engine.memory.memory_plan import EngineShape, blocks_that_fit, largest_pass_tokens, require_lone_request


@dataclass(slots=True, kw_only=True)
class SimulatedMemory:
    """The memory of one run. `peak` is the largest need of a pass so far, weights and KV included."""

    config: RunConfig
    model: ModelDimensions
    num_blocks: int | None = None  # of the pool, where the layout is paged
    peak: PassMemory | None = None
    kv_bytes: int = 0

    @property
    def layout(self) -> type[KVLayout]:
        return PRESETS[self.config.engine].layout

    @property
    def pool_bytes(self) -> int | None:
        """The limit of the KV pool; None without one."""
        return None if self.config.pool_gib is None else int(self.config.pool_gib * GIB)

    @property
    def capacity_bytes(self) -> int | None:
        """The limit of weights, KV and passes together; None without one."""
        return None if self.config.capacity_gib is None else int(self.config.capacity_gib * GIB)

    def begin(self, requests: Sequence[Request]) -> None:
        """Size the pool, or the slots, for these requests. EngineOutOfMemory if they do not fit."""
        if self.layout.has_blocks:
            self._size_pool(requests)
        self._check_buffer(self.layout.run_buffer([r.length for r in requests], self.config.num_slots))

    def check(self, planned: PlannedPass) -> None:
        """EngineOutOfMemory for a pass that does not fit."""
        if planned.kind is PassKind.PREFILL:
            self._check_buffer(self.layout.batch_buffer(planned))
        need = planned_memory(
            self.model,
            planned,
            sampled_in_fp32=not self.config.sampling.is_greedy,
            pool_positions=(self.num_blocks or 0) * self.config.block_size,
        )
        self.kv_bytes = need.kv_bytes
        if self.peak is None or need.total_bytes > self.peak.total_bytes:
            self.peak = need
        if self.capacity_bytes is not None:
            require_capacity(need, planned, self.capacity_bytes)

    def _check_buffer(self, size: tuple[int, int] | None) -> None:
        """EngineOutOfMemory for a buffer of rows x columns above the pool's limit."""
        if size is None or self.pool_bytes is None:
            return
        rows, width = size
        buffer_bytes = rows * width * self.model.kv_position_bytes
        if buffer_bytes > self.pool_bytes:
            raise EngineOutOfMemory(
                asked_bytes=buffer_bytes,
                free_bytes=self.pool_bytes,
                shape=f"{rows} rows x {width} columns",
                where="KV pool",
            )

    def _size_pool(self, requests: Sequence[Request]) -> None:
        """As many blocks as the workload can use, or fewer if a limit requires it."""
        config = self.config
        block_bytes = config.block_size * self.model.kv_position_bytes

        def limit_bytes(preempted: bool) -> int | None:
            return self._limit_bytes(requests, preempted)

        self.num_blocks = blocks_that_fit(blocks_for(config, requests), block_bytes, limit_bytes)
        require_lone_request(requests, self.num_blocks, config.block_size, block_bytes, limit_bytes)

    def _limit_bytes(self, requests: Sequence[Request], preempted: bool) -> int | None:
        limits = [] if self.pool_bytes is None else [self.pool_bytes]
        if self.capacity_bytes is not None:
            slots = self.config.num_slots
            lengths = [r.length for r in requests]
            need = pass_memory(
                self.model,
                kv_positions=0,
                tokens=largest_pass_tokens(EngineShape.of(self.config), slots, lengths, preempted=preempted),
                rows=min(slots, len(requests)),
                sampled_in_fp32=not self.config.sampling.is_greedy,
            )
            limits.append(self.capacity_bytes - need.total_bytes)
        return min(limits, default=None)
