"""Passes over paged KV as arrays, by hand: blocks of 4 positions, two decode rows, chunks beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.core.passes import Chunk, KVHeld, PassKind, PassShape, PlannedPass
from engine.core.request import Request
from engine.runtime.kv.paged_inputs import ON_DEVICE, BlockTables, pack
from tests.support.schedule import requests


def planned(rows: Sequence[Request], chunks: Sequence[Chunk] = ()) -> PlannedPass:
    kind = PassKind.DECODE if not chunks else PassKind.MIXED
    return PlannedPass(
        index=0,
        step=0,
        kind=kind,
        rows=tuple(rows),
        live=tuple(range(len(rows))),
        shape=PassShape(width=0, masked=False, computed_positions=0, padding_positions=0, dead_positions=0),
        prompt_tokens=0,
        queue_depth=0,
        tokens=0,
        kv=KVHeld(reserved=0, used=0),
        chunks=tuple(chunks),
    )


def request(request_id: int, prompt: int, slot: int, blocks: list[int], output: Sequence[int] = ()) -> Request:
    made = requests([9] * (request_id + 1), prompts=[prompt] * (request_id + 1))[request_id]
    made.prompt_ids = [100 * request_id + i for i in range(prompt)]
    made.slot, made.block_table = slot, blocks
    made.output_ids, made.num_scheduled = list(output), len(output)
    return made


def test_decode_rows_come_first_and_chunks_follow_end_to_end() -> None:
    a = request(1, 5, slot=2, blocks=[7, 3], output=[9, 9])  # 7 tokens: the newest, in column 6, is not cached yet
    b = request(2, 4, slot=0, blocks=[5, 1], output=[8])  # 5 tokens: column 4, the first of block 1
    c = request(3, 6, slot=1, blocks=[2, 6])
    d = request(4, 9, slot=3, blocks=[0])
    chunks = [
        Chunk(request=d, start=0, tokens=3, is_last=False),
        Chunk(request=c, start=2, tokens=4, is_last=True),
    ]
    inputs = pack(planned([a, b, c], chunks), BlockTables(slots=4, blocks_per_row=3, block_size=4))
    assert inputs.token_ids.tolist() == [ON_DEVICE, ON_DEVICE, 400, 401, 402, 302, 303, 304, 305]
    assert inputs.positions.tolist() == [6, 4, 0, 1, 2, 2, 3, 4, 5]
    assert inputs.slot_mapping.tolist() == [3 * 4 + 2, 1 * 4, 0, 1, 2, 2 * 4 + 2, 2 * 4 + 3, 6 * 4, 6 * 4 + 1]
    assert inputs.context_lens.tolist() == [7, 5]
    assert inputs.row_slots.tolist() == [2, 0, 1]
    assert inputs.segments.tolist() == [(3, 2, 3, 0, 0), (1, 5, 4, 2, 0)]
    assert inputs.logits_indices.tolist() == [0, 1, 8]
    assert {a.dtype for a in (inputs.token_ids, inputs.positions, inputs.slot_mapping)} == {np.dtype(np.int32)}


def test_a_recomputed_request_prefills_its_prompt_and_output() -> None:
    again = request(1, 3, slot=0, blocks=[4, 2], output=[71, 72, 73])
    chunk = Chunk(request=again, start=1, tokens=5, is_last=True, recomputed=4)
    inputs = pack(planned([again], [chunk]), BlockTables(slots=1, blocks_per_row=2, block_size=4))
    assert inputs.token_ids.tolist() == [101, 102, 71, 72, 73]
    assert inputs.logits_indices.tolist() == [4]


def test_a_request_computed_anew_before_its_tokens_have_landed_is_a_bug() -> None:
    again = request(1, 3, slot=0, blocks=[4, 2], output=[71, 72])
    again.num_scheduled = 3
    with pytest.raises(AssertionError, match="landed"):
        pack(
            planned([again], [Chunk(request=again, start=0, tokens=6, is_last=True)]),
            BlockTables(slots=1, blocks_per_row=2, block_size=4),
        )


def test_tables_learn_what_is_new_alone_and_forget_a_slots_last_owner() -> None:
    tables = BlockTables(slots=2, blocks_per_row=3, block_size=4)
    first, second = request(1, 4, slot=1, blocks=[5]), request(2, 4, slot=0, blocks=[6, 7])
    places, blocks = tables.learn([first, second])
    assert (places.tolist(), blocks.tolist()) == ([3, 0, 1], [5, 6, 7])
    first.block_table.append(9)
    places, blocks = tables.learn([first, second])
    assert (places.tolist(), blocks.tolist()) == ([4], [9])
    other = request(3, 4, slot=1, blocks=[2, 8])
    places, blocks = tables.learn([other])
    assert (places.tolist(), blocks.tolist()) == ([3, 4], [2, 8])
    other.block_table, other.num_preemptions = [1, 0], 1  # it lost its blocks and came back to the same slot
    places, blocks = tables.learn([other])
    assert (places.tolist(), blocks.tolist()) == ([3, 4], [1, 0])
    assert tables.ids.tolist() == [[6, 7, 0], [1, 0, 0]]
