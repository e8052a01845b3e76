"""What the host knows of each slot: how much it has cached and which blocks it holds, as arrays over all slots.

A decode pass over 512 rows has a few milliseconds; a loop over its requests would take a good part of them. So the
book keeps one number a slot and works on all rows at once. Shapes: S slots, N blocks a table, B rows of a pass.
"""

from __future__ import annotations

import numpy as np

from engine.core.request import Request, slot_of
from engine.runtime.paged_inputs import BlockTables, Ints


class SlotBook:
    """`cached` (S,) positions that each slot holds, `pads` (S,) columns before its first token, `tables` of (S, N)."""

    def __init__(self, slots: int, table_width: int, block_size: int) -> None:
        self.cached: Ints = np.zeros(slots, dtype=np.int32)
        self.pads: Ints = np.zeros(slots, dtype=np.int32)
        self.tables = BlockTables(slots, table_width, block_size)
        self._rows: tuple[Request, ...] = ()
        self._slots: Ints = np.zeros(0, dtype=np.int32)

    def lay_out_rows(self) -> None:
        """Give every slot its own run of blocks, for layouts whose rows never share a pool."""
        ids = self.tables.ids
        ids[:] = np.arange(ids.size, dtype=np.int32).reshape(ids.shape)

    def slots_of(self, rows: tuple[Request, ...]) -> Ints:
        """(B,) the rows' slots. The rows of one decode pass are mostly those of the last."""
        if rows != self._rows:
            self._rows = rows
            self._slots = np.fromiter((slot_of(r) for r in rows), dtype=np.int32, count=len(rows))
        return self._slots

    def take_new_block(self, rows: tuple[Request, ...], slots: Ints, columns: Ints) -> tuple[Ints, Ints]:
        """Rows whose next column begins a block learn its id: (B,) places in the tables, -1 for none, (B,) blocks."""
        fresh = np.flatnonzero(columns % self.tables.block_size == 0)
        where, what = self.tables.learn(rows[i] for i in fresh.tolist())
        places, blocks = np.full(len(slots), -1, dtype=np.int32), np.zeros(len(slots), dtype=np.int32)
        places[fresh] = where - slots[fresh] * self.tables.ids.shape[1]
        blocks[fresh] = what
        return places, blocks

    def move(self, source: int, target: int) -> None:
        """What the slot `source` holds is now in `target`; tables that belong to slots stay."""
        self.cached[target] = self.cached[source]
        self.pads[target] = self.pads[source]
        self._rows = ()  # the same requests now live in other slots
