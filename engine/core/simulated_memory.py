"""The memory of a simulated run: blocks of its pool, and the pass that would not fit. By estimate, as on a CPU.

The terms are those of `memory_model`. Caps are those that a run's configuration names; the memory of a card is none, so
that a batch which would not fit can still be looked at: the estimated peak says that it would not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.capacity import planned_memory, require_room
from engine.core.config import RunConfig
from engine.core.memory_model import ModelDimensions, PassMemory, pass_memory
from engine.core.memory_plan import EngineShape, Length, largest_pass_tokens
from engine.core.out_of_memory import EngineOutOfMemory
from engine.core.passes import PassKind, PlannedPass
from engine.core.presets import PRESETS, blocks_for, slot_width
from engine.core.request import Request
from engine.core.units import GIB


@dataclass(slots=True, kw_only=True)
class SimulatedMemory:
    """Follows one run. `peak` is what the pass that needed most so far needs, weights and KV included."""

    config: RunConfig
    model: ModelDimensions
    num_blocks: int | None = None  # of the pool, where the layout is paged
    peak: PassMemory | None = None
    kv_bytes: int = 0

    @property
    def pool_bytes(self) -> int | None:
        """What the KV may take; None without a cap."""
        return None if self.config.pool_gib is None else int(self.config.pool_gib * GIB)

    @property
    def capacity_bytes(self) -> int | None:
        """What weights, KV and passes may take together; None without a cap."""
        return None if self.config.capacity_gib is None else int(self.config.capacity_gib * GIB)

    def begin(self, requests: Sequence[Request]) -> None:
        """Size the pool, or the slots, for these requests. EngineOutOfMemory where that cannot be."""
        layout = PRESETS[self.config.engine].kv_layout
        if layout == "paged":
            self.num_blocks = self._pool_blocks(requests)
            self._check_lone_request(requests)
        elif layout == "slots":
            width = slot_width(requests)
            self._check_pool(self.config.num_slots, width)

    def check(self, planned: PlannedPass) -> None:
        """EngineOutOfMemory for a pass that would not fit."""
        if planned.kind is PassKind.PREFILL and not planned.chunks:
            self._check_padded(planned)
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
            require_room(need, planned, self.capacity_bytes)

    def _check_padded(self, planned: PlannedPass) -> None:
        """A padded batch takes its buffer when it is formed."""
        if PRESETS[self.config.engine].kv_layout == "padded":
            rows = len(planned.rows)
            self._check_pool(rows, planned.kv.reserved // rows)

    def _check_pool(self, rows: int, width: int) -> None:
        asked = rows * width * self.model.kv_position_bytes
        if self.pool_bytes is not None and asked > self.pool_bytes:
            raise EngineOutOfMemory(
                asked_bytes=asked, free_bytes=self.pool_bytes, shape=f"{rows} rows x {width} columns", where="KV pool"
            )

    def _pool_blocks(self, requests: Sequence[Request]) -> int:
        """What the workload can use, unless a cap allows less."""
        wanted, block_bytes = blocks_for(self.config, requests), self._block_bytes
        room = self._room_bytes(requests, preempted=False)
        if room is None or wanted * block_bytes <= room:
            return wanted
        return max(0, min(wanted, (self._room_bytes(requests, preempted=True) or 0) // block_bytes))

    @property
    def _block_bytes(self) -> int:
        return self.config.block_size * self.model.kv_position_bytes

    def _room_bytes(self, requests: Sequence[Request], *, preempted: bool) -> int | None:
        rooms = [] if self.pool_bytes is None else [self.pool_bytes]
        if self.capacity_bytes is not None:
            lengths = [Length(prompt_tokens=r.num_prompt_tokens, budget_tokens=r.spec.budget_tokens) for r in requests]
            slots = self.config.num_slots
            need = pass_memory(
                self.model,
                kv_positions=0,
                tokens=largest_pass_tokens(EngineShape.of(self.config), slots, lengths, preempted=preempted),
                rows=min(slots, len(requests)),
                sampled_in_fp32=not self.config.sampling.is_greedy,
            )
            rooms.append(self.capacity_bytes - need.total_bytes)
        return min(rooms, default=None)

    def _check_lone_request(self, requests: Sequence[Request]) -> None:
        """A request that could not run even with the pool to itself would wait for ever."""
        assert self.num_blocks is not None
        longest = max(requests, key=lambda r: r.num_prompt_tokens + r.spec.budget_tokens, default=None)
        needed = 0 if longest is None else blocks_for(self.config, [longest])
        if longest is None or needed <= self.num_blocks:
            return
        tokens = longest.num_prompt_tokens + longest.spec.budget_tokens
        raise EngineOutOfMemory(
            asked_bytes=needed * self._block_bytes,
            free_bytes=max(0, self._room_bytes(requests, preempted=True) or 0),
            shape=f"request {longest.request_id} alone: {tokens:,} tokens in {needed:,} blocks of "
            f"{self.config.block_size} positions, {self.num_blocks:,} to be had",
            where="KV pool",
        )
