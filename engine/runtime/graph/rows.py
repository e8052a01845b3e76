"""The rows of a graph run: one pool, divided by the KV layout, and the host's state of each slot.

    layout   blocks of a row              first visible column   columns computed
    paged    from the shared pool         0                      its length
    slots    its own fixed range          0                      the widest row's length, for every row
    padded   its own fixed range          after its padding      the batch's column

A decode pass over 512 rows takes a few milliseconds, too few for a Python loop over its requests. So the state is one
number per slot, and numpy works on all rows at once. Shapes: S slots, N blocks per table, B rows of a pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from engine.core.config import RunConfig
from engine.core.kv_layout import KVLayout, PaddedLayout, PagedLayout, SlotLayout
from engine.core.passes import PlannedPass
from engine.core.presets import PRESETS
from engine.core.request import Request, slot_of
from engine.runtime.graph.ladder import MAX_CAPTURED_TOKENS
from engine.runtime.kv.paged_inputs import BlockTables, Ints, chunk_ids
from engine.runtime.model_runner import PAD_TOKEN_ID

OWN_BLOCK_SIZE = 16  # for rows with their own range of blocks: it only rounds up their width
NOWHERE = -1  # as a place in a table or in the pool: store nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSegment:
    """Tokens of one request that are prefilled together, starting at column `first`; `pad` columns are padding."""

    request: Request
    ids: Sequence[int]
    first: int
    pad: int = 0


class PoolRows(ABC):
    """`cached` (S,): positions in each slot; `pads` (S,): columns before its first token; `tables` (S, N).

    `is_mixed`: decode rows and chunks may share a pass. No pass prefills more than `max_packed_tokens` tokens.
    """

    layout: ClassVar[type[KVLayout]]

    def __init__(
        self,
        slots: int,
        table_width: int,
        block_size: int,
        num_blocks: int,
        *,
        is_mixed: bool = False,
        max_packed_tokens: int = MAX_CAPTURED_TOKENS,
    ) -> None:
        self.slots = slots
        self.num_blocks = num_blocks
        self.is_mixed = is_mixed
        self.max_packed_tokens = max_packed_tokens
        self.cached: Ints = np.zeros(slots, dtype=np.int32)
        self.pads: Ints = np.zeros(slots, dtype=np.int32)
        self.tables = BlockTables(slots, table_width, block_size)
        self._rows: tuple[Request, ...] = ()
        self._slots: Ints = np.zeros(0, dtype=np.int32)

    @classmethod
    @abstractmethod
    def for_run(cls, config: RunConfig, requests: Sequence[Request], num_blocks: int | None) -> Self:
        """Rows sized for the requests. `num_blocks`: size of the pool, if the scheduler allocates blocks."""

    @property
    def block_size(self) -> int:
        return self.tables.block_size

    @property
    def table_width(self) -> int:
        return int(self.tables.ids.shape[1])

    @property
    def width(self) -> int:
        """Most columns of a row."""
        return self.table_width * self.block_size

    @property
    @abstractmethod
    def scheduled_blocks(self) -> int | None:
        """Blocks that the scheduler allocates; None if each slot has its own."""

    @property
    @abstractmethod
    def shape_text(self) -> str:
        """The pool's shape as text, in the layout's terms."""

    @abstractmethod
    def segments(self, planned: PlannedPass) -> list[PackedSegment]:
        """The prompts or chunks of a prefill or mixed pass, in packing order."""

    @abstractmethod
    def take_new_blocks(self, rows: tuple[Request, ...], slots: Ints, columns: Ints) -> tuple[Ints, Ints]:
        """New blocks of rows whose next column starts a block: (B,) places in the tables (-1: none) and (B,) blocks."""

    @abstractmethod
    def new_blocks(self, planned: PlannedPass) -> tuple[Ints, Ints, Ints] | None:
        """Slots, places and ids of the blocks of a prefill or mixed pass that are not in the tables yet.

        None if tables never change.
        """

    @abstractmethod
    def read_ends(self, context_lens: Ints, planned: PlannedPass) -> Ints | int:
        """One past the last column that each row of a decode pass reads: (B,), or the same for all."""

    def slots_of(self, rows: tuple[Request, ...]) -> Ints:
        """(B,) the rows' slots, cached: consecutive decode passes mostly have the same rows."""
        if rows != self._rows:
            self._rows = rows
            self._slots = np.fromiter((slot_of(r) for r in rows), dtype=np.int32, count=len(rows))
        return self._slots

    def move(self, source: int, target: int) -> None:
        """The row of slot `source` is now in `target`. Tables belong to slots and do not move."""
        self.cached[target] = self.cached[source]
        self.pads[target] = self.pads[source]
        self._rows = ()  # the requests are in other slots now


class PagedRows(PoolRows):
    """Rows share the pool's blocks; the scheduler allocates them, and the tables are updated every pass."""

    layout = PagedLayout

    @classmethod
    def for_run(cls, config: RunConfig, requests: Sequence[Request], num_blocks: int | None) -> Self:
        assert num_blocks is not None
        width = cls.layout.row_width([r.length for r in requests])
        is_chunked = PRESETS[config.engine].is_chunked
        return cls(
            config.num_slots,
            -(-width // config.block_size),
            config.block_size,
            num_blocks,
            is_mixed=is_chunked,
            # A preempted request is prefilled again, including its generated tokens.
            max_packed_tokens=config.max_num_batched_tokens if is_chunked else config.num_slots * width,
        )

    @property
    def scheduled_blocks(self) -> int | None:
        return self.num_blocks

    @property
    def shape_text(self) -> str:
        return f"{self.num_blocks} blocks x {self.block_size} positions"

    def segments(self, planned: PlannedPass) -> list[PackedSegment]:
        return [PackedSegment(request=c.request, ids=chunk_ids(c), first=c.start) for c in planned.chunks]

    def take_new_blocks(self, rows: tuple[Request, ...], slots: Ints, columns: Ints) -> tuple[Ints, Ints]:
        fresh = np.flatnonzero(columns % self.block_size == 0)
        where, what = self.tables.learn(rows[i] for i in fresh.tolist())
        places, blocks = np.full(len(slots), NOWHERE, dtype=np.int32), np.zeros(len(slots), dtype=np.int32)
        places[fresh] = where - slots[fresh] * self.table_width
        blocks[fresh] = what
        return places, blocks

    def new_blocks(self, planned: PlannedPass) -> tuple[Ints, Ints, Ints] | None:
        requests = (*planned.rows[: planned.num_decode_rows], *(c.request for c in planned.chunks))
        where, what = self.tables.learn(requests)
        slots, places = np.divmod(where, self.table_width)
        return slots, places, what

    def read_ends(self, context_lens: Ints, planned: PlannedPass) -> Ints | int:
        return context_lens


class OwnRows(PoolRows):
    """Each slot has its own fixed range of blocks, as wide as the widest request, for the whole run."""

    layout: ClassVar[type[KVLayout]] = SlotLayout
    noun: ClassVar[str] = "slot"

    def __init__(
        self, slots: int, table_width: int, block_size: int = OWN_BLOCK_SIZE, *,
        max_packed_tokens: int = MAX_CAPTURED_TOKENS,
    ) -> None:  # fmt: skip
        super().__init__(slots, table_width, block_size, slots * table_width, max_packed_tokens=max_packed_tokens)
        ids = self.tables.ids
        ids[:] = np.arange(ids.size, dtype=np.int32).reshape(ids.shape)

    @classmethod
    def for_run(cls, config: RunConfig, requests: Sequence[Request], num_blocks: int | None) -> Self:
        width = cls.layout.row_width([r.length for r in requests])
        longest_prompt = max((r.num_prompt_tokens for r in requests), default=1)
        return cls(config.num_slots, -(-width // OWN_BLOCK_SIZE), max_packed_tokens=config.num_slots * longest_prompt)

    @property
    def scheduled_blocks(self) -> int | None:
        return None

    @property
    def shape_text(self) -> str:
        return f"{self.slots} {self.noun}{'' if self.slots == 1 else 's'} x {self.width} columns"

    def segments(self, planned: PlannedPass) -> list[PackedSegment]:
        return [PackedSegment(request=r, ids=r.prompt_ids, first=0) for r in planned.rows]

    def take_new_blocks(self, rows: tuple[Request, ...], slots: Ints, columns: Ints) -> tuple[Ints, Ints]:
        return np.full(len(slots), NOWHERE, dtype=np.int32), np.zeros(len(slots), dtype=np.int32)

    def new_blocks(self, planned: PlannedPass) -> tuple[Ints, Ints, Ints] | None:
        return None

    def read_ends(self, context_lens: Ints, planned: PlannedPass) -> Ints | int:
        return planned.shape.width


class PaddedRows(OwnRows):
    """The same for a batch whose prompts are left-padded to the longest."""

    layout = PaddedLayout
    noun = "row"

    def segments(self, planned: PlannedPass) -> list[PackedSegment]:
        pads = [planned.shape.width - r.num_prompt_tokens for r in planned.rows]
        return [
            PackedSegment(request=r, ids=[PAD_TOKEN_ID] * pad + r.prompt_ids, first=0, pad=pad)
            for r, pad in zip(planned.rows, pads, strict=True)
        ]
