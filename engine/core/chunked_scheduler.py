"""Chunked prefill: a budget of tokens a step, the rows that decode first, pieces of prompts in what is left.

A long prompt no longer stalls its neighbours: it is read over several steps, beside them (SARATHI, Agrawal et al.,
2023; OSDI 2024). A step is one pass. Whom it runs is decided when the step begins, in this order: every row that
decodes, one token each; prompts that were begun, the oldest first; newcomers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from engine.core.block_manager import BlockManager, blocks_for_tokens
from engine.core.paged_scheduler import PagedScheduler
from engine.core.passes import Chunk, PassKind, PlannedPass
from engine.core.request import Request


class ChunkedScheduler(PagedScheduler):
    """`max_num_batched_tokens` of a step are never exceeded; blocks are taken chunk by chunk.

    A newcomer is admitted when its whole prompt would fit beside what those who are still reading theirs have yet to
    take, as in the paged policy. So a prompt that was begun waits for blocks only where others have grown meanwhile. It
    then takes them from those who are younger, but never gives up its own for want of more: it waits, and the older
    ones go on.
    """

    kinds: ClassVar[tuple[PassKind, ...]] = (PassKind.MIXED,)

    def __init__(
        self, requests: Sequence[Request], slots: int, blocks: BlockManager, max_num_batched_tokens: int
    ) -> None:
        assert max_num_batched_tokens >= slots, "a step has to hold one token of each row that decodes"
        super().__init__(requests, slots, blocks)
        self.max_num_batched_tokens = max_num_batched_tokens
        self._chunks: list[Chunk] = []

    def admit(self, now_s: float) -> tuple[Request, ...]:
        """Begin a step: decide whom its pass runs, and give newcomers their slot and lane."""
        self._grow()
        self._chunks = []
        left = self.max_num_batched_tokens - len(self._decode_rows()[0])
        short = bool(self._preemptions)
        for request in list(self._prefilling):
            if left == 0 or request.slot is None:
                continue
            wanted = min(left, request.num_tokens - request.num_computed)
            tokens = self._take_blocks(request, wanted)
            left -= tokens
            short = short or tokens < wanted or bool(self._preemptions)
        newcomers = [] if short else self._take_newcomers(left, now_s)
        self._begin_step()
        return tuple(newcomers)

    def _take_newcomers(self, left: int, now_s: float) -> list[Request]:
        newcomers: list[Request] = []
        while left and self.num_admissible(now_s) and self._fits(self.waiting[0]):
            request = self._seat(self.waiting.popleft(), now_s)
            newcomers.append(request)
            left -= self._take_blocks(request, min(left, request.num_tokens))
        return newcomers

    def _fits(self, request: Request) -> bool:
        size = self.blocks.block_size
        promised = sum(blocks_for_tokens(r.num_tokens, size) - len(r.blocks) for r in self._prefilling)
        return self.blocks.can_allocate((promised + blocks_for_tokens(request.num_tokens, size)) * size)

    def _take_blocks(self, request: Request, wanted: int) -> int:
        """Plan the request's next chunk, of `wanted` tokens or as many as there are blocks for. Returns how many."""
        while not self.blocks.can_append(request, request.num_computed + wanted) and self.running[-1] is not request:
            self._preempt(self.running[-1])
        room = (len(request.blocks) + self.blocks.num_free) * self.blocks.block_size - request.num_computed
        tokens = min(wanted, room)
        if tokens:
            self.blocks.append(request, request.num_computed + tokens)
            self._chunks.append(self._chunk(request, tokens))
        return tokens

    def plan(self, kind: PassKind) -> PlannedPass | None:
        """The step's one pass: decode, prefill or mixed, by what it holds."""
        chunks, self._chunks = self._chunks, []
        return self._pack(*self._decode_rows(), chunks)
