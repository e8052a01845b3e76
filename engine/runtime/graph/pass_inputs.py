"""From a planned pass to the integers that its kernels read, for every KV layout.

Rows live in slots of one pool: a paged row's blocks lie anywhere, a slot or a padded row has a run of its own. A layout
is then no more than which columns a row sees and how many it has to compute:

    layout   first visible          columns computed
    paged    0                      its length
    slots    0                      the widest row's length: the width that every row pays for
    padded   behind its padding     the batch's column

Shapes: B rows of a decode pass, T tokens of a packed pass, D decode rows in it, G segments, R rows that yield a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.core.passes import PlannedPass
from engine.core.request import Request, slot_of
from engine.runtime.graph.device_inputs import Sections
from engine.runtime.graph.slot_book import SlotBook
from engine.runtime.kernels.tiles import make_tiles, max_tiles
from engine.runtime.model_runner import PAD_TOKEN_ID
from engine.runtime.paged_inputs import ON_DEVICE, Ints, chunk_ids

NOWHERE = -1  # a place in the pool: store nothing

Fill = Mapping[str, NDArray[np.int32]]


def decode_sections(rows: int) -> Sections:
    names = ("slots", "ids", "positions", "kv_slots", "starts", "lengths", "read_ends", "places", "blocks")
    return Sections(dict.fromkeys(names, rows))


def packed_sections(tokens: int, decode_rows: int, segments: int, keep: int, tile_tokens: int) -> Sections:
    return Sections(
        {
            **dict.fromkeys(("ids", "token_slots", "positions", "kv_slots"), tokens),
            **dict.fromkeys(("slots", "starts", "lengths", "read_ends"), decode_rows),
            "segments": 5 * segments,
            "tiles": 2 * max_tiles(tokens, segments, tile_tokens),
            **dict.fromkeys(("keep", "keep_slots"), keep),
        }
    )


def fill_decode(fill: Fill, planned: PlannedPass, book: SlotBook, layout: str, spare_slot: int) -> None:
    """A decode pass of B rows into sections of as many rows or more; what is left over reads and writes nothing."""
    rows = planned.rows
    count = len(rows)
    slots = book.slots_of(rows)
    columns = book.cached[slots]
    pads = book.pads[slots]
    paged = layout == "paged"
    if paged:
        fill["places"][:count], fill["blocks"][:count] = book.take_new_block(rows, slots, columns)
    else:
        fill["places"][:count] = -1
    lengths = columns + 1
    fill["slots"][:count] = slots
    fill["ids"][:] = ON_DEVICE
    fill["positions"][:count] = columns - pads
    fill["kv_slots"][:count] = book.tables.pool_positions(slots, columns)
    fill["starts"][:count] = pads
    fill["lengths"][:count] = lengths
    fill["read_ends"][:count] = lengths if paged else planned.shape.width
    _blank(fill, ("positions", "starts", "lengths", "read_ends", "blocks"), count, 0)
    _blank(fill, ("kv_slots", "places"), count, -1)
    _blank(fill, ("slots",), count, spare_slot)
    book.cached[slots] = lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Tokens of one request that are prefilled together, from column `first` on; `pad` of the columns are padding."""

    request: Request
    ids: Sequence[int]
    first: int
    pad: int = 0


def segments_of(planned: PlannedPass, layout: str) -> list[Segment]:
    """What a prefill or mixed pass prefills, in the order in which it is packed."""
    if planned.chunks:
        return [
            Segment(request=c.request, ids=chunk_ids(c), first=c.start)
            for c in planned.chunks
        ]
    width = planned.shape.width
    pads = [width - r.num_prompt_tokens if layout == "padded" else 0 for r in planned.rows]
    return [
        Segment(request=r, ids=[PAD_TOKEN_ID] * pad + r.prompt_ids, first=0, pad=pad)
        for r, pad in zip(planned.rows, pads, strict=True)
    ]


def fill_packed(
    fill: Fill, planned: PlannedPass, segments: Sequence[Segment], book: SlotBook, tile_tokens: int, spare_slot: int
) -> None:
    """A prefill or mixed pass: decode rows first, a token each, then the segments end to end."""
    decode_rows = planned.rows[: planned.num_decode_rows]
    count = len(decode_rows)
    lengths = [len(s.ids) for s in segments]
    _fill_decode_rows(fill, decode_rows, book)
    at = count
    table = fill["segments"].reshape(-1, 5)
    for place, (segment, length) in enumerate(zip(segments, lengths, strict=True)):
        _fill_segment(fill, segment, at, book)
        table[place] = (slot_of(segment.request), at, length, segment.first, segment.pad)
        at += length
    tiles = make_tiles(lengths, tile_tokens)
    fill["tiles"].reshape(-1, 2)[: len(tiles)] = tiles
    fill["tiles"].reshape(-1, 2)[len(tiles) :] = -1
    _blank(fill, ("ids", "positions"), at, 0)
    _blank(fill, ("kv_slots",), at, NOWHERE)
    _blank(fill, ("token_slots",), at, spare_slot)
    _fill_keep(fill, planned, segments, lengths, spare_slot)


def _fill_decode_rows(fill: Fill, rows: tuple[Request, ...], book: SlotBook) -> None:
    count = len(rows)
    slots = np.fromiter((slot_of(r) for r in rows), dtype=np.int32, count=count)
    columns = book.cached[slots]
    fill["ids"][:count] = ON_DEVICE
    fill["token_slots"][:count] = slots
    fill["positions"][:count] = columns
    fill["kv_slots"][:count] = book.tables.pool_positions(slots, columns)
    fill["slots"][:count] = slots
    fill["starts"][:] = 0
    fill["lengths"][:count] = columns + 1
    fill["read_ends"][:count] = columns + 1
    _blank(fill, ("slots", "lengths", "read_ends"), count, 0)
    book.cached[slots] = columns + 1


def _fill_segment(fill: Fill, segment: Segment, at: int, book: SlotBook) -> None:
    slot, length = slot_of(segment.request), len(segment.ids)
    here = slice(at, at + length)
    columns = np.arange(segment.first, segment.first + length, dtype=np.int32)
    fill["ids"][here] = segment.ids
    fill["token_slots"][here] = slot
    fill["positions"][here] = np.maximum(columns - segment.pad, 0)
    fill["kv_slots"][here] = book.tables.pool_positions(np.full(length, slot, dtype=np.int32), columns)
    book.cached[slot] = segment.first + length
    book.pads[slot] = segment.pad


def _fill_keep(
    fill: Fill, planned: PlannedPass, segments: Sequence[Segment], lengths: Sequence[int], spare_slot: int
) -> None:
    """Which tokens' logits are wanted, and whose they are: every decode row, and each segment that ends its request."""
    count = planned.num_decode_rows
    ends = count + np.cumsum(lengths, dtype=np.int32) - 1
    last = [c.is_last for c in planned.chunks] if planned.chunks else [True] * len(segments)
    yielding = [i for i, ends_here in enumerate(last) if ends_here]
    total = count + len(yielding)
    fill["keep"][:count] = np.arange(count)
    fill["keep"][count:total] = ends[yielding]
    fill["keep_slots"][:total] = [slot_of(r) for r in planned.rows]
    _blank(fill, ("keep",), total, 0)
    _blank(fill, ("keep_slots",), total, spare_slot)


def new_blocks(planned: PlannedPass, book: SlotBook) -> tuple[Ints, Ints, Ints]:
    """Slots, places and ids of the blocks that a prefill or mixed pass's rows hold and their tables did not know."""
    requests = (*planned.rows[: planned.num_decode_rows], *(c.request for c in planned.chunks))
    where, what = book.tables.learn(requests)
    slots, places = np.divmod(where, book.tables.ids.shape[1])
    return slots, places, what


def _blank(fill: Fill, names: Sequence[str], count: int, value: int) -> None:
    """What stands behind the first `count` of each part."""
    for name in names:
        fill[name][count:] = value
