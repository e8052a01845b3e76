"""What the host knows of each slot: how much it has cached and which blocks it holds, as arrays over all slots.

A decode pass over 512 rows has a few milliseconds; a loop over its requests would take a good part of them. So the
book keeps one number a slot and works on all rows at once. Shapes: S slots, N blocks a table, B rows of a pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.core.request import Request

Ints = NDArray[np.int32]


class SlotBook:
    """`cached` (S,) positions that each slot holds, `pads` (S,) columns before its first token, `tables` (S, N)."""

    def __init__(self, slots: int, table_width: int, block_size: int) -> None:
        self.block_size = block_size
        self.cached = np.zeros(slots, dtype=np.int32)
        self.pads = np.zeros(slots, dtype=np.int32)
        self.tables = np.zeros((slots, table_width), dtype=np.int32)
        self._known = np.zeros(slots, dtype=np.int32)  # blocks of each slot that are in its table
        self._rows: tuple[Request, ...] = ()
        self._slots: Ints = np.zeros(0, dtype=np.int32)

    def lay_out_rows(self) -> None:
        """Give every slot its own run of blocks, for layouts whose rows never share a pool."""
        slots, width = self.tables.shape
        self.tables[:] = np.arange(slots * width, dtype=np.int32).reshape(slots, width)

    def slots_of(self, rows: tuple[Request, ...]) -> Ints:
        """(B,) the rows' slots. The rows of one decode pass are mostly those of the last."""
        if rows != self._rows:
            self._rows = rows
            self._slots = np.fromiter((slot_of(r) for r in rows), dtype=np.int32, count=len(rows))
        return self._slots

    def forget_rows(self) -> None:
        """Rows have moved: the same requests now live in other slots."""
        self._rows = ()

    def positions_in_pool(self, slots: Ints, columns: Ints) -> Ints:
        """Where in the pool column `columns[i]` of slot `slots[i]` lies."""
        block, offset = np.divmod(columns, self.block_size)
        return self.tables[slots, block] * self.block_size + offset

    def take_new_block(self, rows: Sequence[Request], slots: Ints, columns: Ints) -> tuple[Ints, Ints]:
        """Rows whose next column begins a block learn its id: (B,) places in the tables, -1 for none, (B,) blocks."""
        index, offset = np.divmod(columns, self.block_size)
        fresh = np.flatnonzero(offset == 0)
        blocks = np.zeros(len(slots), dtype=np.int32)
        blocks[fresh] = [rows[i].blocks[index[i]] for i in fresh.tolist()]
        places = np.full(len(slots), -1, dtype=np.int32)
        places[fresh] = index[fresh]
        self.tables[slots[fresh], index[fresh]] = blocks[fresh]
        self._known[slots[fresh]] = index[fresh] + 1
        return places, blocks

    def take_blocks(self, request: Request, *, from_start: bool) -> tuple[int, list[int]]:
        """The place and the ids of the blocks that `request` holds and the table does not know yet."""
        slot = slot_of(request)
        known = 0 if from_start else int(self._known[slot])
        new = request.blocks[known:]
        self.tables[slot, known : known + len(new)] = new
        self._known[slot] = known + len(new)
        return known, new

    def move(self, source: int, target: int) -> None:
        """What the slot `source` holds is now in `target`; tables that belong to slots stay."""
        self.cached[target] = self.cached[source]
        self.pads[target] = self.pads[source]


def slot_of(request: Request) -> int:
    assert request.slot is not None
    return request.slot
