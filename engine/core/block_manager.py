"""The blocks of the KV pool: which are free, which request holds which, and the log of changes.

    pool of num_blocks blocks -> a block holds block_size token positions -> a request's table lists its blocks in order

Paged KV memory follows PagedAttention (Kwon et al., SOSP 2023). A request's table is `Request.block_table`: position p
is in block `block_table[p // block_size]` at offset `p % block_size`. The manager knows only block ids and counts: the
runtime holds the keys and values, and the scheduler decides what to preempt.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from engine.core.passes import BlockEvent
from engine.core.request import Request

WATERMARK = 0.01  # share of the pool that admissions leave free for running requests


def blocks_for_tokens(num_tokens: int, block_size: int) -> int:
    """Blocks that hold `num_tokens` positions."""
    return -(-num_tokens // block_size)


def watermark_blocks(num_blocks: int, watermark: float = WATERMARK) -> int:
    """Blocks that an admission must leave free."""
    return math.ceil(watermark * num_blocks)


def blocks_without_waiting(blocks: Sequence[int], slots: int) -> int:
    """The fewest blocks with which no request is preempted or waits for blocks, with `slots` requests at once.

    `blocks` is how many blocks each request needs in all.
    """
    largest = sorted(blocks, reverse=True)[:slots]
    needed = num_blocks = sum(largest)
    while len(largest) > 1 and num_blocks - watermark_blocks(num_blocks) < needed:
        num_blocks += 1  # a request that runs alone may use the watermark
    return num_blocks


class BlockManager:
    """Allocates the blocks 0 .. num_blocks - 1, each to one request at a time.

    The free list is a stack with the lowest id on top. Freed blocks return in reverse, so the next allocation takes
    them in their old order. Ids therefore stay low and contiguous, blocks used before are used first, and allocating
    or freeing costs one slice. Nothing is random: the same calls give the same ids.
    """

    def __init__(self, num_blocks: int, block_size: int, watermark: float = WATERMARK) -> None:
        assert num_blocks >= 0
        assert block_size >= 1
        assert 0 <= watermark < 1
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.watermark_blocks = watermark_blocks(num_blocks, watermark)
        self._free = list(range(num_blocks - 1, -1, -1))
        self._events: list[BlockEvent] = []
        self.notes_events = True  # set to False where events are not read: each block makes one

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_allocated(self) -> int:
        return self.num_blocks - len(self._free)

    def can_allocate(self, num_tokens: int) -> bool:
        """Whether an admission may reserve `num_tokens` positions and leave the watermark free.

        An empty pool may be filled completely: no running request could need the rest.
        """
        spare = 0 if self.num_free == self.num_blocks else self.watermark_blocks
        return blocks_for_tokens(num_tokens, self.block_size) + spare <= self.num_free

    def allocate(self, request: Request, num_tokens: int) -> None:
        """Allocate blocks for `num_tokens` positions to a request that holds none. Check `can_allocate` first."""
        assert not request.block_table, f"request {request.request_id} holds blocks already"
        self.append(request, num_tokens)

    def append(self, request: Request, num_tokens: int) -> None:
        """Extend the request's table to `num_tokens` positions. The blocks must be free; the watermark may be used."""
        held = len(request.block_table)
        missing = blocks_for_tokens(num_tokens, self.block_size) - held
        if missing <= 0:
            return
        taken = self._take(missing)
        request.block_table += taken
        self._note(request, taken, held, allocated=True)

    def append_one_each(self, requests: Collection[Request]) -> None:
        """Allocate one more block to each of these requests, whose tables are full. Enough blocks must be free."""
        for request, block in zip(requests, self._take(len(requests)), strict=True):
            index = len(request.block_table)
            request.block_table.append(block)
            self._note(request, (block,), index, allocated=True)

    def free(self, request: Request) -> None:
        """Free all blocks of the request and empty its table."""
        self._free += reversed(request.block_table)
        self._note(request, request.block_table, 0, allocated=False)
        request.block_table.clear()

    def drain_events(self) -> tuple[BlockEvent, ...]:
        """The blocks allocated and freed since the last call, in order."""
        events, self._events = tuple(self._events), []
        return events

    def check_invariants(self, requests: Iterable[Request]) -> None:
        """Check the pool; AssertionError names the fault. `requests` are all that may hold blocks.

        Every block is free, or in exactly one table once. A table covers all computed positions and has no more blocks
        than the request's tokens fill. A request that has ended holds none.
        """
        tables = {request.request_id: request for request in requests}
        owned = [block for request in tables.values() for block in request.block_table]
        for block, count in Counter([*owned, *self._free]).items():
            assert 0 <= block < self.num_blocks, f"block {block} is outside this pool of {self.num_blocks}"
            assert count == 1, f"block {block} is held {count} times"
        assert len(owned) + self.num_free == self.num_blocks, (
            f"{len(owned)} held and {self.num_free} free blocks do not add up to {self.num_blocks}"
        )
        for request in tables.values():
            self._check_table(request)

    def _check_table(self, request: Request) -> None:
        held = len(request.block_table)
        if request.finish_reason is not None:
            assert held == 0, f"request {request.request_id} has ended and holds {held} blocks"
            return
        least = blocks_for_tokens(request.num_computed_tokens, self.block_size)
        most = blocks_for_tokens(request.num_tokens, self.block_size)
        assert held >= least, (
            f"request {request.request_id} has computed {request.num_computed_tokens} positions but holds {held} blocks"
        )
        assert held <= most, f"request {request.request_id} of {request.num_tokens} tokens holds {held} blocks"

    def _take(self, count: int) -> list[int]:
        """Pop `count` blocks from the free stack, top first."""
        assert count <= len(self._free), f"{count} blocks needed, {len(self._free)} free"
        taken = self._free[len(self._free) - count :]
        del self._free[len(self._free) - count :]
        taken.reverse()
        return taken

    def _note(self, request: Request, blocks: Sequence[int], first_index: int, *, allocated: bool) -> None:
        if not self.notes_events:
            return
        request_id = request.request_id
        self._events += [
            BlockEvent(block_id=block, request_id=request_id, table_index=index, allocated=allocated)
            for index, block in enumerate(blocks, first_index)
        ]
