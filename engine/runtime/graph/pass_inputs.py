"""The integers that a pass's kernels read, for every KV layout, and their copy to the device.

What depends on the layout is in `rows`: the blocks of a row, the columns it sees and the columns it computes. The
integers are one buffer, copied once per pass to fixed addresses that a CUDA graph reads. The host writes into pinned
memory and alternates between a few buffers, since the previous pass's copy may still be pending.

Shapes: B rows of a decode pass, T tokens of a packed pass, D decode rows in it, C segments, R rows that yield a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.core.passes import PlannedPass
from engine.core.request import Request, slot_of
from engine.runtime.graph.rows import NOWHERE, PackedSegment, PoolRows
from engine.runtime.kernels.tiles import SEGMENT, SEGMENT_COLUMNS, make_tiles, max_tiles
from engine.runtime.kv.paged_inputs import ON_DEVICE

RING = 4  # more than the passes that can be in flight

Fill = Mapping[str, NDArray[np.int32]]


class Sections:
    """Names and places of the sections of one pass's integers, end to end."""

    def __init__(self, lengths: Mapping[str, int]) -> None:
        self.places: dict[str, slice] = {}
        at = 0
        for name, length in lengths.items():
            self.places[name] = slice(at, at + length)
            at += length
        self.total = at


class DeviceInputs:
    """A buffer of `size` int32 on `device`, written by the host and read by kernels."""

    def __init__(self, size: int, device: torch.device) -> None:
        pinned = device.type == "cuda"
        self.on_device = torch.zeros(size, dtype=torch.int32, device=device)
        self._hosts = [torch.zeros(size, dtype=torch.int32, pin_memory=pinned) for _ in range(RING)]
        self._arrays: list[NDArray[np.int32]] = [host.numpy() for host in self._hosts]
        self._turn = 0

    def views(self, sections: Sections) -> dict[str, Tensor]:
        """The sections on the device, by name."""
        return {name: self.on_device[place] for name, place in sections.places.items()}

    def fill(self, sections: Sections) -> dict[str, NDArray[np.int32]]:
        """The sections in the next host buffer, to be written and then sent with `send`."""
        self._turn = (self._turn + 1) % RING
        return {name: self._arrays[self._turn][place] for name, place in sections.places.items()}

    def send(self, sections: Sections) -> None:
        """Copy the buffer of the last `fill` in stream order, without waiting."""
        self.on_device[: sections.total].copy_(self._hosts[self._turn][: sections.total], non_blocking=True)


def decode_sections(rows: int) -> Sections:
    names = ("slots", "ids", "positions", "slot_mapping", "starts", "context_lens", "read_ends", "places", "blocks")
    return Sections(dict.fromkeys(names, rows))


def packed_sections(tokens: int, decode_rows: int, segments: int, keep: int, tile_tokens: int) -> Sections:
    return Sections(
        {
            **dict.fromkeys(("ids", "token_slots", "positions", "slot_mapping"), tokens),
            **dict.fromkeys(("slots", "starts", "context_lens", "read_ends"), decode_rows),
            "segments": SEGMENT_COLUMNS * segments,
            "tiles": 2 * max_tiles(tokens, segments, tile_tokens),
            **dict.fromkeys(("keep", "keep_slots"), keep),
        }
    )


def fill_decode(fill: Fill, planned: PlannedPass, rows: PoolRows) -> None:
    """A decode pass of B rows into sections of B rows or more; the padding rows read and write nothing."""
    count = len(planned.rows)
    slots = rows.slots_of(planned.rows)
    columns = rows.cached[slots]
    pads = rows.pads[slots]
    fill["places"][:count], fill["blocks"][:count] = rows.take_new_blocks(planned.rows, slots, columns)
    context_lens = columns + 1
    fill["slots"][:count] = slots
    fill["ids"][:] = ON_DEVICE
    fill["positions"][:count] = columns - pads
    fill["slot_mapping"][:count] = rows.tables.slot_mapping(slots, columns)
    fill["starts"][:count] = pads
    fill["context_lens"][:count] = context_lens
    fill["read_ends"][:count] = rows.read_ends(context_lens, planned)
    _blank(fill, ("positions", "starts", "context_lens", "read_ends", "blocks"), count, 0)
    _blank(fill, ("slot_mapping", "places"), count, NOWHERE)
    _blank(fill, ("slots",), count, rows.slots)
    rows.cached[slots] = context_lens


def fill_packed(
    fill: Fill, planned: PlannedPass, segments: Sequence[PackedSegment], rows: PoolRows, tile_tokens: int
) -> None:
    """A prefill or mixed pass: decode rows first, a token each, then the segments end to end."""
    decode_rows = planned.rows[: planned.num_decode_rows]
    count = len(decode_rows)
    lengths = [len(s.ids) for s in segments]
    _fill_decode_rows(fill, decode_rows, rows)
    at = count
    table = fill["segments"].view(SEGMENT)
    for place, (segment, length) in enumerate(zip(segments, lengths, strict=True)):
        _fill_segment(fill, segment, at, rows)
        table[place] = (slot_of(segment.request), at, length, segment.first, segment.pad)
        at += length
    tiles = make_tiles(lengths, tile_tokens)
    fill["tiles"].reshape(-1, 2)[: len(tiles)] = tiles
    fill["tiles"].reshape(-1, 2)[len(tiles) :] = -1
    _blank(fill, ("ids", "positions"), at, 0)
    _blank(fill, ("slot_mapping",), at, NOWHERE)
    _blank(fill, ("token_slots",), at, rows.slots)
    _fill_keep(fill, planned, lengths, rows.slots)


def _fill_decode_rows(fill: Fill, decoding: tuple[Request, ...], rows: PoolRows) -> None:
    count = len(decoding)
    slots = np.fromiter((slot_of(r) for r in decoding), dtype=np.int32, count=count)
    columns = rows.cached[slots]
    fill["ids"][:count] = ON_DEVICE
    fill["token_slots"][:count] = slots
    fill["positions"][:count] = columns
    fill["slot_mapping"][:count] = rows.tables.slot_mapping(slots, columns)
    fill["slots"][:count] = slots
    fill["starts"][:] = 0
    fill["context_lens"][:count] = columns + 1
    fill["read_ends"][:count] = columns + 1
    _blank(fill, ("slots", "context_lens", "read_ends"), count, 0)
    rows.cached[slots] = columns + 1


def _fill_segment(fill: Fill, segment: PackedSegment, at: int, rows: PoolRows) -> None:
    slot, length = slot_of(segment.request), len(segment.ids)
    here = slice(at, at + length)
    columns = np.arange(segment.first, segment.first + length, dtype=np.int32)
    fill["ids"][here] = segment.ids
    fill["token_slots"][here] = slot
    fill["positions"][here] = np.maximum(columns - segment.pad, 0)
    fill["slot_mapping"][here] = rows.tables.slot_mapping(np.full(length, slot, dtype=np.int32), columns)
    rows.cached[slot] = segment.first + length
    rows.pads[slot] = segment.pad


def _fill_keep(fill: Fill, planned: PlannedPass, lengths: Sequence[int], spare_slot: int) -> None:
    """Which tokens' logits are kept, and their slots: every decode row, and each segment that ends its prompt."""
    count = planned.num_decode_rows
    ends = count + np.cumsum(lengths, dtype=np.int32) - 1
    last = [c.is_last for c in planned.chunks] if planned.chunks else [True] * len(lengths)
    yielding = [i for i, ends_here in enumerate(last) if ends_here]
    total = count + len(yielding)
    fill["keep"][:count] = np.arange(count)
    fill["keep"][count:total] = ends[yielding]
    fill["keep_slots"][:total] = [slot_of(r) for r in planned.rows]
    _blank(fill, ("keep",), total, 0)
    _blank(fill, ("keep_slots",), total, spare_slot)


def _blank(fill: Fill, names: Sequence[str], count: int, value: int) -> None:
    """Set everything after the first `count` of each section to `value`."""
    for name in names:
        fill[name][count:] = value
