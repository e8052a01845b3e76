"""Continuous batching over a pool of KV blocks: free blocks decide on admission, growth and preemption.

A request is admitted when a slot is free and the pool can hold all its tokens so far. A decode row takes a new block
when its last one is full. When no block is free, the youngest request (admitted last) is preempted: it frees its
blocks, returns to the front of the queue, and later recomputes its tokens, as in vLLM. The oldest request is never
preempted and every request becomes the oldest in time, so the engine always makes progress.

A request's slot is its lane. No row moves, because its block table says where its keys and values are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from heapq import heappush
from operator import attrgetter
from typing import Self

from engine.core.block_manager import BlockManager
from engine.core.kv_layout import EngineSettings, KVLayout, PagedLayout, blocks_of
from engine.core.passes import Chunk, Move, PassKind, PassOutcome, PlannedPass, Preemption
from engine.core.request import FinishReason, Request, RequestState
from engine.core.schedulers.scheduler import DecodeRows, Scheduler


class PagedScheduler(Scheduler):
    """Each step admits, prefills the admitted requests whole, runs one decode pass over all rows, and evicts.

    `running` is in order of admission, oldest first. Each request must fit into an empty pool.
    """

    layout: PagedLayout

    def __init__(self, requests: Sequence[Request], slots: int, blocks: BlockManager) -> None:
        super().__init__(requests, slots, PagedLayout(blocks))
        largest = max((blocks_of(r.length, blocks.block_size) for r in requests), default=0)
        assert largest <= blocks.num_blocks, "a request is larger than the pool"
        self.blocks = blocks
        self.prefilling: dict[Request, None] = {}  # running, prefill not complete; oldest first
        self._computed_before: dict[Request, int] = {}  # the most positions computed before a preemption
        self._preemptions: list[Preemption] = []
        # Every decode pass fills one position a row, so a row's last block is full every block_size passes. Group
        # n % block_size holds the rows that need a new block before decode pass n.
        self._full_before: list[dict[Request, None]] = [{} for _ in range(blocks.block_size)]

    @classmethod
    def for_run(cls, config: EngineSettings, requests: Sequence[Request], layout: KVLayout) -> Self:
        assert isinstance(layout, PagedLayout)
        return cls(requests, config.num_slots, layout.blocks)

    def num_admissible(self, now_s: float) -> int:
        """As many as slots are free; `_reserve_blocks` stops admission when too few blocks are free."""
        return min(len(self.waiting), self.slots - len(self.running))

    def _reserve_blocks(self, request: Request) -> bool:
        if not self.blocks.can_allocate(request.num_tokens):
            return False
        self.blocks.allocate(request, request.num_tokens)
        return True

    def _assign_slot(self, request: Request, now_s: float) -> Request:
        super()._assign_slot(request, now_s)
        request.slot = request.lane
        self.prefilling[request] = None
        return request

    def plan(self, kind: PassKind) -> PlannedPass | None:
        if kind is PassKind.PREFILL:
            return self._pack((), (), [self._chunk(r, r.num_tokens) for r in self._admitted])
        self._grow()
        return self._pack(*self.decode_rows(), [])

    def decode_rows(self) -> DecodeRows:
        if self._decode_rows is None:
            rows = sorted((r for r in self.running if r not in self.prefilling), key=attrgetter("slot"))
            self._decode_rows = DecodeRows(tuple(rows), tuple(range(len(rows))))
        return self._decode_rows

    def _pack(self, rows: tuple[Request, ...], live: tuple[int, ...], chunks: list[Chunk]) -> PlannedPass | None:
        """One pass over decode rows and prefill chunks; None when there are neither."""
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
            kv=self.layout.held(self.running, self.num_used + tokens),
            chunks=tuple(chunks),
            block_events=self.blocks.drain_events(),
            preemptions=self._drain_preemptions(),
        )

    def _chunk(self, request: Request, tokens: int) -> Chunk:
        start = request.num_computed_tokens
        end = start + tokens
        return Chunk(
            request=request,
            start=start,
            tokens=tokens,
            is_last=end == request.num_tokens,
            recomputed=max(0, min(self._computed_before.get(request, 0), end) - start),
        )

    def complete(self, planned: PlannedPass, at_eos: Collection[int] = ()) -> PassOutcome:
        prefilled = planned.rows[planned.num_decode_rows :]
        for chunk in planned.partial_chunks:
            chunk.request.num_computed_tokens = chunk.start + chunk.tokens
        for request in prefilled:
            del self.prefilling[request]
            self._decode_rows = None
        outcome = super().complete(planned, at_eos)
        for request in prefilled:
            if request.finish_reason is None:
                self._group(request)[request] = None
        return outcome

    def full_rows(self) -> dict[Request, None]:
        """The rows whose last block is full: each needs one more for the next decode pass."""
        return self._full_before[self.num_decodes % self.blocks.block_size]

    def _group(self, request: Request) -> dict[Request, None]:
        """The request's group in `_full_before`. It stays the same while the request decodes: both counts grow by 1."""
        return self._full_before[(self.num_decodes - request.num_computed_tokens) % self.blocks.block_size]

    def _grow(self) -> None:
        """Reserve one more position for every decode row; if blocks are short, preempt the youngest requests."""
        full = self.full_rows()
        if len(full) <= self.blocks.num_free:
            self.blocks.append_one_each(full)
            return
        for request in [r for r in self.running if r in full]:  # oldest first
            while request.slot is not None and self.blocks.num_free == 0:
                self._preempt(self.running[-1])  # possibly this request
            if request.slot is not None:
                self.blocks.append(request, request.num_computed_tokens + 1)

    def _preempt(self, request: Request) -> None:
        assert request is self.running[-1]
        assert request.lane is not None
        computed = request.num_computed_tokens
        self._preemptions.append(
            Preemption(request=request, lane=request.lane, blocks=len(request.block_table), tokens=computed)
        )
        self._computed_before[request] = max(computed, self._computed_before.get(request, 0))
        self.num_used -= computed
        self._release(request)
        self.running.pop()
        heappush(self._free_lanes, request.lane)
        request.num_computed_tokens = 0
        request.num_preemptions += 1
        request.slot = request.lane = None
        request.state = RequestState.WAITING
        self.waiting.appendleft(request)

    def _release(self, request: Request) -> None:
        """Free the blocks of a request that leaves, and plan no more passes with it."""
        self._group(request).pop(request, None)
        self.prefilling.pop(request, None)
        self._decode_rows = None
        self.blocks.free(request)

    def evict(self, ended: Sequence[Request]) -> tuple[tuple[Request, ...], tuple[Move, ...]]:
        gone = set(ended)
        self.running = [r for r in self.running if r not in gone]
        for request in ended:
            self._release(request)
        return tuple(ended), ()

    def end_late(self, requests: Sequence[Request], issued: Collection[Request]) -> PassOutcome:
        """As in the base class. A request that was preempted meanwhile leaves the queue."""
        preempted = [r for r in requests if r.slot is None and r.finish_reason is None]
        for request in preempted:
            self.waiting.remove(request)
        running = [r for r in requests if r not in preempted]
        outcome = super().end_late(running, issued)
        for request in preempted:
            request.finish_reason = FinishReason.EOS
        return replace(outcome, ended=tuple(requests))

    def check_invariants(self) -> None:
        """Check the block pool between two passes; AssertionError names the fault."""
        self.blocks.check_invariants([*self.running, *self.waiting])

    def _drain_preemptions(self) -> tuple[Preemption, ...]:
        preempted, self._preemptions = tuple(self._preemptions), []
        return preempted


def _prompt_tokens(chunk: Chunk) -> int:
    return max(0, min(chunk.start + chunk.tokens, chunk.request.num_prompt_tokens) - chunk.start)
