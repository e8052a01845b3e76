"""The KV pool's blocks: which are free, which request holds which, and what changed hands.

    pool of num_blocks blocks -> a block holds block_size token positions -> a request's table lists its blocks in order

Paged KV memory follows PagedAttention (Kwon et al., SOSP 2023). A request's table is `Request.block_table`: position p
lives in block `block_table[p // block_size]`, at offset `p % block_size`. The manager knows ids and counts; the keys
and values are the runtime's, and whom to preempt when no block is left is the scheduler's business.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from engine.core.passes import BlockEvent
from engine.core.request import Request

WATERMARK = 0.01  # of the pool, kept free by admissions so that those who run have room to grow


def blocks_for_tokens(num_tokens: int, block_size: int) -> int:
    """Blocks that hold `num_tokens` positions."""
    return -(-num_tokens // block_size)


def watermark_blocks(num_blocks: int, watermark: float = WATERMARK) -> int:
    """Blocks that an admission has to leave free."""
    return math.ceil(watermark * num_blocks)


def blocks_without_waiting(blocks: Sequence[int], slots: int) -> int:
    """The fewest blocks that avoid preemption and waiting for blocks, with `slots` requests at once.

    `blocks` are what each request needs from its prompt to its last token.
    """
    largest = sorted(blocks, reverse=True)[:slots]
    needed = num_blocks = sum(largest)
    while len(largest) > 1 and num_blocks - watermark_blocks(num_blocks) < needed:
        num_blocks += 1  # a request that runs alone may use the watermark up
    return num_blocks


class BlockManager:
    """Hands out the blocks 0 .. num_blocks - 1, each to one request at a time.

    The free list is a stack. At first the lowest id lies on top; a table that is freed goes back so that it would be
    handed out again in its own order. So ids stay low and contiguous, no block is touched for the first time while one
    that was used before is free, and both ways cost a slice, however many blocks. Nothing is random: the same calls
    give the same ids.
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
        self.notes_events = True  # False where the events are not read: there is one for each block that changes hands

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_allocated(self) -> int:
        return self.num_blocks - len(self._free)

    def can_allocate(self, num_tokens: int) -> bool:
        """Whether an admission may reserve `num_tokens` positions, the watermark left over.

        A pool that is not in use may be filled to the last block: no request runs that could need the rest.
        """
        spare = 0 if self.num_free == self.num_blocks else self.watermark_blocks
        return blocks_for_tokens(num_tokens, self.block_size) + spare <= self.num_free

    def allocate(self, request: Request, num_tokens: int) -> None:
        """Give a request that holds no blocks a table for `num_tokens` positions. Ask `can_allocate` first."""
        assert not request.block_table, f"request {request.request_id} holds blocks already"
        self.append(request, num_tokens)

    def append(self, request: Request, num_tokens: int) -> None:
        """Make the request's table hold `num_tokens` positions. There must be enough free; the watermark counts."""
        held = len(request.block_table)
        missing = blocks_for_tokens(num_tokens, self.block_size) - held
        if missing <= 0:
            return
        taken = self._take(missing)
        request.block_table += taken
        self._note(request, taken, held, allocated=True)

    def append_one_each(self, requests: Collection[Request]) -> None:
        """One more block for each request, whose tables are full. There have to be as many free."""
        for request, block in zip(requests, self._take(len(requests)), strict=True):
            index = len(request.block_table)
            request.block_table.append(block)
            self._note(request, (block,), index, allocated=True)

    def free(self, request: Request) -> None:
        """Take back all blocks of the request; its table is empty then."""
        self._free += reversed(request.block_table)
        self._note(request, request.block_table, 0, allocated=False)
        request.block_table.clear()

    def drain_events(self) -> tuple[BlockEvent, ...]:
        """What changed hands since the last call, in order."""
        events, self._events = tuple(self._events), []
        return events

    def check_invariants(self, requests: Iterable[Request]) -> None:
        """AssertionError with what is wrong, where `requests` are all that may hold blocks.

        Every block is free or in one table once. A table holds all computed positions and no more blocks than the
        request's tokens fill; of a request that ended, none.
        """
        tables = {request.request_id: request for request in requests}
        owned = [block for request in tables.values() for block in request.block_table]
        for block, count in Counter([*owned, *self._free]).items():
            assert 0 <= block < self.num_blocks, f"block {block} is not of this pool of {self.num_blocks}"
            assert count == 1, f"block {block} is held {count} times"
        assert len(owned) + self.num_free == self.num_blocks, (
            f"{len(owned)} owned and {self.num_free} free blocks are not the pool's {self.num_blocks}"
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
        """The next free blocks, in the order in which the stack gives them."""
        assert count <= len(self._free), f"{count} blocks wanted, {len(self._free)} free"
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
