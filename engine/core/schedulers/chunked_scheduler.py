"""Chunked prefill: each step has a token budget. Decode rows come first; prompt chunks use the rest.

A long prompt does not stall other rows: its prefill is split over several steps (SARATHI, Agrawal et al., 2023; OSDI
2024). A step is one pass. It is filled when the step begins, in this order: one token for every decode row, chunks of
prompts already begun (oldest first), newly admitted requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from engine.core.block_manager import BlockManager
from engine.core.kv_layout import EngineSettings, KVLayout, PagedLayout
from engine.core.passes import Chunk, PassKind, PlannedPass
from engine.core.request import Request
from engine.core.schedulers.paged_scheduler import PagedScheduler


class ChunkedScheduler(PagedScheduler):
    """Never runs more than `max_num_batched_tokens` tokens a step. Allocates blocks chunk by chunk.

    A request is admitted, as in the paged policy, when the pool could hold all its tokens so far. At most one prompt
    is partly prefilled when a step ends, because it comes first in the next step. If decode rows have taken blocks
    that it needs, it prefills as far as free blocks reach and continues when a request leaves. A prefill preempts no
    other request, but may be preempted.
    """

    kinds: ClassVar[tuple[PassKind, ...]] = (PassKind.MIXED,)

    def __init__(
        self, requests: Sequence[Request], slots: int, blocks: BlockManager, max_num_batched_tokens: int
    ) -> None:
        assert max_num_batched_tokens >= slots, "a step must hold one token of each decode row"
        super().__init__(requests, slots, blocks)
        self.max_num_batched_tokens = max_num_batched_tokens
        self._chunks: list[Chunk] = []

    @classmethod
    def for_run(cls, config: EngineSettings, requests: Sequence[Request], layout: KVLayout) -> Self:
        assert isinstance(layout, PagedLayout)
        return cls(requests, config.num_slots, layout.blocks, config.max_num_batched_tokens)

    def admit(self, now_s: float) -> tuple[Request, ...]:
        """Begin a step: choose the rows and chunks of its pass; assign slots and lanes to the admitted requests."""
        self._grow()
        self._chunks = []
        left = self.max_num_batched_tokens - len(self.decode_rows()[0])
        for request in self.prefilling:
            left -= self._take_chunk(request, left)
        admitted: list[Request] = []
        # A request preempted in this step is first in the queue; it is not admitted again, since blocks are short.
        while left and self.num_admissible(now_s) and self.blocks.can_allocate(self.waiting[0].num_tokens):
            admitted.append(self._assign_slot(self.waiting.popleft(), now_s))
            left -= self._take_chunk(admitted[-1], left)
        self._begin_step()
        return tuple(admitted)

    def _take_chunk(self, request: Request, left: int) -> int:
        """Plan the request's next chunk, as large as tokens and blocks allow. Returns its number of tokens."""
        start = request.num_computed_tokens
        most = (len(request.block_table) + self.blocks.num_free) * self.blocks.block_size - start
        tokens = min(left, most, request.num_tokens - start)
        if tokens:
            self.blocks.append(request, start + tokens)
            self._chunks.append(self._chunk(request, tokens))
        return tokens

    def plan(self, kind: PassKind) -> PlannedPass | None:
        """The step's one pass: decode, prefill or mixed, depending on what it contains."""
        chunks, self._chunks = self._chunks, []
        return self._pack(*self.decode_rows(), chunks)
