"""Continuous batching over a pool of blocks: admission, growth and preemption by what is free.

A newcomer is admitted when a slot is free and the pool can hold all that it has to compute. A row that decodes takes a
block when its last one is full. When none is left, the youngest (the last to be admitted) gives its blocks back and
waits again, first in the queue; what it had computed is computed anew (recompute, as in vLLM). So the oldest is never
disturbed, everybody becomes the oldest in time, and nothing stands still.

A slot is a lane here and stays: no row ever moves, since its keys and values lie where its table says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from heapq import heappush
from operator import attrgetter

from engine.core.block_manager import BlockManager, blocks_for_tokens
from engine.core.kv_layout import PagedLayout
from engine.core.passes import Chunk, Move, PassKind, PassOutcome, PlannedPass, Preemption
from engine.core.request import FinishReason, Request, RequestState
from engine.core.scheduler import Scheduler


class PagedScheduler(Scheduler):
    """Each step: admit, prefill the newcomers whole, one decode pass over all rows, evict.

    `running` is in order of admission, oldest first. Each request must fit the pool when it has it to itself.
    """

    layout: PagedLayout

    def __init__(self, requests: Sequence[Request], slots: int, blocks: BlockManager) -> None:
        super().__init__(requests, slots, PagedLayout(blocks))
        assert all(blocks_of(r, blocks.block_size) <= blocks.num_blocks for r in requests), "larger than the pool"
        self.blocks = blocks
        self._prefilling: dict[Request, None] = {}  # running, not yet whole; oldest first
        self._lost: dict[Request, int] = {}  # the most positions that a request had computed when it was preempted
        self._preemptions: list[Preemption] = []
        # Rows whose last block is full at decode pass n are those in place n % block_size: a pass fills one position.
        self._growing: list[dict[Request, None]] = [{} for _ in range(blocks.block_size)]

    def num_admissible(self, now_s: float) -> int:
        """As many as slots are free; `_take_room` ends the row where blocks are short."""
        return min(len(self.waiting), self.slots - len(self.running))

    def _take_room(self, request: Request) -> bool:
        if not self.blocks.can_allocate(request.num_tokens):
            return False
        self.blocks.allocate(request, request.num_tokens)
        return True

    def _seat(self, request: Request, now_s: float) -> Request:
        super()._seat(request, now_s)
        request.slot = request.lane
        self._prefilling[request] = None
        return request

    def plan(self, kind: PassKind) -> PlannedPass | None:
        if kind is PassKind.PREFILL:
            return self._pack((), (), [self._chunk(r, r.num_tokens) for r in self._newcomers])
        self._grow()
        return self._pack(*self._decode_rows(), [])

    def _decode_rows(self) -> tuple[tuple[Request, ...], tuple[int, ...]]:
        if self._decoding is None:
            rows = sorted((r for r in self.running if r not in self._prefilling), key=attrgetter("slot"))
            self._decoding = tuple(rows), tuple(range(len(rows)))
        return self._decoding

    def _pack(self, rows: tuple[Request, ...], live: tuple[int, ...], chunks: list[Chunk]) -> PlannedPass | None:
        """One pass over decode rows and chunks, of the kind that these make it; None when there are neither."""
        if not rows and not chunks:
            return None
        decoding, tokens = rows, len(rows) + sum(c.tokens for c in chunks)
        if chunks:
            rows = (*decoding, *(c.request for c in chunks if c.is_last))
            live = tuple(range(len(rows)))
        return PlannedPass(
            index=self._next_index(),
            step=self.step,
            kind=PassKind.DECODE if not chunks else PassKind.MIXED if decoding else PassKind.PREFILL,
            rows=rows,
            live=live,
            shape=self.layout.packed(decoding, chunks),
            prompt_tokens=sum(_prompt_tokens(c) for c in chunks),
            queue_depth=len(self.waiting),
            tokens=tokens,
            kv=self.layout.held(self.running, self._used + tokens),
            chunks=tuple(chunks),
            block_events=self.blocks.drain_events(),
            preemptions=self._drain_preemptions(),
        )

    def _chunk(self, request: Request, tokens: int) -> Chunk:
        start = request.num_computed
        end = start + tokens
        return Chunk(
            request=request,
            start=start,
            tokens=tokens,
            is_last=end == request.num_tokens,
            recomputed=max(0, min(self._lost.get(request, 0), end) - start),
        )

    def complete(self, planned: PlannedPass, at_eos: Collection[int] = ()) -> PassOutcome:
        whole = planned.rows[planned.num_decode_rows :]
        for chunk in planned.partial_chunks:
            chunk.request.num_computed = chunk.start + chunk.tokens
        for request in whole:
            del self._prefilling[request]
            self._decoding = None
        outcome = super().complete(planned, at_eos)
        for request in whole:
            if request.finish_reason is None:
                self._growing[self._place(request)][request] = None
        return outcome

    def _place(self, request: Request) -> int:
        """The same for as long as the request decodes, since both numbers grow by one a pass."""
        return (self._num_decodes - request.num_computed) % self.blocks.block_size

    def _grow(self) -> None:
        """Every row that decodes gets room for one more token, at the cost of the youngest where blocks are short."""
        full = self._growing[self._num_decodes % self.blocks.block_size]
        if len(full) <= self.blocks.num_free:
            self.blocks.append_one_each(full)
            return
        for request in [r for r in self.running if r in full]:  # the oldest first
            while request.slot is not None and self.blocks.num_free == 0:
                self._preempt(self.running[-1])  # which may be the request itself
            if request.slot is not None:
                self.blocks.append(request, request.num_computed + 1)

    def passes_alike(self) -> int:
        return 0 if self._prefilling else super().passes_alike()

    def would_admit(self, now_s: float) -> bool:
        return super().would_admit(now_s) and self.blocks.can_allocate(self.waiting[0].num_tokens)

    def repeat(self) -> bool:
        full = self._growing[self._num_decodes % self.blocks.block_size]
        if len(full) > self.blocks.num_free:
            return False
        self.blocks.append_one_each(full)
        return super().repeat()

    def _preempt(self, request: Request) -> None:
        assert request is self.running[-1]
        assert request.lane is not None
        computed = request.num_computed
        self._preemptions.append(
            Preemption(request=request, lane=request.lane, blocks=len(request.blocks), tokens=computed)
        )
        self._lost[request] = max(computed, self._lost.get(request, 0))
        self._used -= computed
        self._forget(request)
        self.running.pop()
        heappush(self._free_lanes, request.lane)
        request.num_computed = 0
        request.num_preemptions += 1
        request.slot = request.lane = None
        request.state = RequestState.WAITING
        self.waiting.appendleft(request)

    def _forget(self, request: Request) -> None:
        """It runs no longer: its blocks are free, and no pass is planned with it."""
        self._growing[self._place(request)].pop(request, None)
        self._prefilling.pop(request, None)
        self._decoding = None
        self.blocks.free(request)

    def evict(self, ended: Sequence[Request]) -> tuple[tuple[Request, ...], tuple[Move, ...]]:
        gone = set(ended)
        self.running = [r for r in self.running if r not in gone]
        for request in ended:
            self._forget(request)
        return tuple(ended), ()

    def end_late(self, requests: Sequence[Request], issued: Collection[Request]) -> PassOutcome:
        """As the base class; a request may also have been preempted since, and then leaves the queue."""
        preempted = [r for r in requests if r.slot is None and r.finish_reason is None]
        for request in preempted:
            self.waiting.remove(request)
        running = [r for r in requests if r not in preempted]
        outcome = super().end_late(running, issued)
        for request in preempted:
            request.finish_reason = FinishReason.EOS
        return replace(outcome, ended=tuple(requests))

    def check_invariants(self) -> None:
        """AssertionError with what is wrong with the pool, between two passes."""
        self.blocks.check_invariants([*self.running, *self.waiting])

    def _drain_preemptions(self) -> tuple[Preemption, ...]:
        preempted, self._preemptions = tuple(self._preemptions), []
        return preempted


def blocks_of(request: Request, block_size: int) -> int:
    """Blocks that the request needs from its prompt to its last token, whose own keys nobody reads."""
    return blocks_for_tokens(request.num_prompt_tokens + request.spec.budget_tokens - 1, block_size)


def _prompt_tokens(chunk: Chunk) -> int:
    return max(0, min(chunk.start + chunk.tokens, chunk.request.num_prompt_tokens) - chunk.start)
