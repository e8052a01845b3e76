"""Chunked prefill: a budget of tokens a step, the rows that decode first, pieces of prompts in what is left.

A long prompt no longer stalls its neighbors: it is read over several steps, beside them (SARATHI, Agrawal et al.,
2023; OSDI 2024). A step is one pass. Whom it runs is decided when the step begins, in this order: every row that
decodes, one token each; prompts that were begun, the oldest first; newly admitted requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from engine.core.block_manager import BlockManager
from engine.core.config import RunConfig
from engine.core.kv_layout import KVLayout, PagedLayout
from engine.core.paged_scheduler import PagedScheduler
from engine.core.passes import Chunk, PassKind, PlannedPass
from engine.core.request import Request


class ChunkedScheduler(PagedScheduler):
    """`max_num_batched_tokens` of a step are never exceeded; blocks are taken chunk by chunk.

    A request is admitted as in the paged policy, when the pool could hold all that it has to compute. At most one
    prompt is half read when a step ends, since the tokens of the next step go to it first. It is short of blocks only
    where rows have grown meanwhile: then it takes what there is and waits for the rest until a request leaves. It
    preempts no request, and may be preempted.
    """

    kinds: ClassVar[tuple[PassKind, ...]] = (PassKind.MIXED,)

    def __init__(
        self, requests: Sequence[Request], slots: int, blocks: BlockManager, max_num_batched_tokens: int
    ) -> None:
        assert max_num_batched_tokens >= slots, "a step has to hold one token of each row that decodes"
        super().__init__(requests, slots, blocks)
        self.max_num_batched_tokens = max_num_batched_tokens
        self._chunks: list[Chunk] = []

    @classmethod
    def for_run(cls, config: RunConfig, requests: Sequence[Request], layout: KVLayout) -> Self:
        assert isinstance(layout, PagedLayout)
        return cls(requests, config.num_slots, layout.blocks, config.max_num_batched_tokens)

    def admit(self, now_s: float) -> tuple[Request, ...]:
        """Begin a step: decide what its pass runs, and give admitted requests their slot and lane."""
        self._grow()
        self._chunks = []
        left = self.max_num_batched_tokens - len(self.decode_rows()[0])
        for request in self.prefilling:
            left -= self._take_chunk(request, left)
        admitted: list[Request] = []
        # A request that was preempted in this step comes first in the queue, and its blocks are too few by now.
        while left and self.num_admissible(now_s) and self.blocks.can_allocate(self.waiting[0].num_tokens):
            admitted.append(self._assign_slot(self.waiting.popleft(), now_s))
            left -= self._take_chunk(admitted[-1], left)
        self._begin_step()
        return tuple(admitted)

    def _take_chunk(self, request: Request, left: int) -> int:
        """Plan the request's next chunk, as large as tokens and blocks allow. Returns its tokens."""
        start = request.num_computed_tokens
        most = (len(request.block_table) + self.blocks.num_free) * self.blocks.block_size - start
        tokens = min(left, most, request.num_tokens - start)
        if tokens:
            self.blocks.append(request, start + tokens)
            self._chunks.append(self._chunk(request, tokens))
        return tokens

    def plan(self, kind: PassKind) -> PlannedPass | None:
        """The step's one pass: decode, prefill or mixed, by what it holds."""
        chunks, self._chunks = self._chunks, []
        return self._pack(*self.decode_rows(), chunks)
