"""The inputs of a pass over paged KV as plain arrays, from a planned pass and block tables. Needs no device.

A pass packs its tokens end to end: first one token per decode row, then the chunks. Shapes: T tokens, D decode rows,
C chunks, B rows that yield a token, S engine slots, N blocks per table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.core.passes import Chunk, PlannedPass
from engine.core.request import Request, slot_of
from engine.runtime.kernels.tiles import SEGMENT

Ints = NDArray[np.int32]

ON_DEVICE = -1  # in token_ids: the token was sampled by an earlier pass and is on the device


class BlockTables:
    """The block tables of all engine slots, `ids` (S, N), kept between passes. A request's table is at its slot.

    Unused places hold old values: no kernel reads past a row's length.
    """

    def __init__(self, slots: int, blocks_per_row: int, block_size: int) -> None:
        self.block_size = block_size
        self.ids: Ints = np.zeros((slots, blocks_per_row), dtype=np.int32)
        self._owners: list[tuple[Request, int] | None] = [None] * slots
        self._known = [0] * slots

    def learn(self, requests: Iterable[Request]) -> tuple[Ints, Ints]:
        """Add the requests' new blocks to the tables. Returns their places in flattened `ids`, and their ids."""
        places: list[int] = []
        blocks: list[int] = []
        for request in requests:
            slot = slot_of(request)
            owner = (request, request.num_preemptions)
            if self._owners[slot] != owner:  # requests compare by identity
                self._owners[slot], self._known[slot] = owner, 0
            known, held = self._known[slot], len(request.block_table)
            if held > known:
                first = slot * self.ids.shape[1]
                places.extend(range(first + known, first + held))
                blocks.extend(request.block_table[known:])
                self._known[slot] = held
        new_places, new_blocks = np.array(places, dtype=np.int32), np.array(blocks, dtype=np.int32)
        self.ids.reshape(-1)[new_places] = new_blocks
        return new_places, new_blocks

    def slot_mapping(self, slots: Ints, columns: Ints) -> Ints:
        """Positions in the pool of column `columns[i]` of engine slot `slots[i]`."""
        place, offset = np.divmod(columns, self.block_size)
        positions: Ints = self.ids[slots, place] * self.block_size + offset
        return positions


@dataclass(frozen=True, slots=True, eq=False)
class PackedInputs:
    """The inputs of one pass. `table_places` and `table_blocks` are the tables' new blocks since the last pass."""

    token_ids: Ints  # (T,) ON_DEVICE for decode rows
    positions: Ints  # (T,) columns of their own request
    slot_mapping: Ints  # (T,) positions in the pool for their keys and values
    row_slots: Ints  # (B,) engine slots of the rows that yield a token, the D decode rows first
    context_lens: Ints  # (D,) columns that each decode row attends over, its new token included
    segments: NDArray[np.void]  # (C,) SEGMENT, one per chunk
    logits_indices: Ints  # (B,) the last token of each row, whose logits give the next one
    table_places: Ints
    table_blocks: Ints

    @property
    def num_decode_rows(self) -> int:
        return len(self.context_lens)

    @property
    def of_the_model(self) -> tuple[Ints, Ints, Ints, Ints]:
        """The model's inputs, in the order of `ModelInputs`."""
        return self.token_ids, self.positions, self.row_slots, self.logits_indices


def pack(planned: PlannedPass, tables: BlockTables) -> PackedInputs:
    """The arrays of `planned`. Call once per pass, before it is completed. Adds new blocks to `tables`."""
    decoding = planned.rows[: planned.num_decode_rows]
    chunks = planned.chunks
    places, blocks = tables.learn([*decoding, *(c.request for c in chunks)])
    decode_slots = _ints(slot_of(r) for r in decoding)
    context_lens = _ints(r.num_tokens for r in decoding)
    segments = _segments(chunks, first=len(decoding))
    owners = np.concatenate([decode_slots, np.repeat(segments["slot"], segments["tokens"])])
    chunk_positions = (np.arange(c.start, c.start + c.tokens) for c in chunks)
    positions = np.concatenate([context_lens - 1, *chunk_positions], dtype=np.int32)
    last_tokens = (segments["first_token"] + segments["tokens"] - 1).tolist()
    ends = {c.request.request_id: last for c, last in zip(chunks, last_tokens, strict=True)}
    finishing = planned.rows[len(decoding) :]
    return PackedInputs(
        token_ids=np.concatenate([np.full(len(decoding), ON_DEVICE), *map(chunk_ids, chunks)], dtype=np.int32),
        positions=positions,
        slot_mapping=tables.slot_mapping(owners, positions),
        row_slots=_ints(slot_of(r) for r in planned.rows),
        context_lens=context_lens,
        segments=segments,
        logits_indices=_ints([*range(len(decoding)), *(ends[r.request_id] for r in finishing)]),
        table_places=places,
        table_blocks=blocks,
    )


def _segments(chunks: Iterable[Chunk], first: int) -> NDArray[np.void]:
    rows = []
    for chunk in chunks:
        rows.append((slot_of(chunk.request), first, chunk.tokens, chunk.start, 0))
        first += chunk.tokens
    return np.array(rows, dtype=SEGMENT)


def chunk_ids(chunk: Chunk) -> list[int]:
    """The chunk's tokens. Past the prompt, these are tokens generated before a preemption."""
    prompt, end = chunk.request.prompt_ids, chunk.start + chunk.tokens
    if end <= len(prompt):
        return prompt[chunk.start : end]
    ids = [*prompt, *chunk.request.output_ids][chunk.start : end]
    assert len(ids) == chunk.tokens, "a preempted request is recomputed before its tokens have landed"
    return ids


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int32)
