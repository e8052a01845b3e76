"""The KV pool as a table of names: every pass writes its positions where its block tables say, and reads all before.

A position that was overwritten, never written, or lies in somebody else's block is found at the pass that reads it.
"""

from __future__ import annotations

from engine.core.passes import PlannedPass
from engine.core.request import Request


class PoolModel:
    """`watch` each pass of a paged scheduler before it is completed."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.holds: dict[int, tuple[int, int]] = {}  # place in the pool -> request, position
        self.written = 0

    def watch(self, planned: PlannedPass) -> None:
        new = [(r, r.num_tokens - 1, 1) for r in planned.rows[: planned.num_decode_rows]]
        new += [(c.request, c.start, c.tokens) for c in planned.chunks]
        assert sum(tokens for _, _, tokens in new) == planned.tokens
        for request, start, tokens in new:
            for position in range(start, start + tokens):
                self.holds[self._place(request, position)] = request.request_id, position
                self.written += 1
        for request, start, tokens in new:
            for position in range(start + tokens):
                held = self.holds.get(self._place(request, position))
                assert held == (request.request_id, position), f"pass {planned.index} reads {held}"

    def _place(self, request: Request, position: int) -> int:
        block, offset = divmod(position, self.block_size)
        return request.block_table[block] * self.block_size + offset
