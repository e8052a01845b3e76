"""The one pool that a graph run's rows live in, whatever the KV layout: how it is cut, and how much a pass may hold."""

from __future__ import annotations

from dataclasses import dataclass

from engine.runtime.graph.ladder import MAX_CAPTURED_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """Where rows live, and how much a pass may hold.

    Of `layout` paged all rows share `num_blocks`; of slots and padded, each slot has `table_width` blocks of its own.
    `mixed`: decode rows and chunks may share a pass.
    """

    layout: str
    slots: int
    num_blocks: int
    block_size: int
    table_width: int
    mixed: bool = False
    max_packed_tokens: int = MAX_CAPTURED_TOKENS

    @property
    def words(self) -> str:
        """The pool's shape as a person knows it."""
        if self.layout == "paged":
            return f"{self.num_blocks} blocks x {self.block_size} positions"
        row = "row" if self.layout == "padded" else "slot"
        return f"{self.slots} {row}{'' if self.slots == 1 else 's'} x {self.table_width * self.block_size} columns"
