"""Paged batching, step by step: admission, growth, preemption. Every table is calculated by hand.

Blocks hold 4 positions. `4 ! c`: c lost its blocks before the next line's pass.
"""

from collections.abc import Sequence

import pytest

from engine.core.block_manager import BlockManager
from engine.core.config import RunConfig
from engine.core.kv_layout import blocks_for
from engine.core.passes import PassKind
from engine.core.presets import make_scheduler
from engine.core.request import FinishReason, Request, RequestState
from engine.core.schedulers.paged_scheduler import PagedScheduler
from tests.support.schedule import Played, name, play, requests, reserved_for_later


def paged(made: Sequence[Request], slots: int, num_blocks: int) -> PagedScheduler:
    return PagedScheduler(made, slots, BlockManager(num_blocks, 4))


def preemptions(played: Played) -> list[tuple[str, int, int, int]]:
    """Request, lane, blocks and positions to recompute of every preemption."""
    preemptions = [p for planned in played.passes for p in planned.preemptions]
    return [(name(p.request), p.lane, p.blocks, p.tokens) for p in preemptions]


def recomputed(played: Played) -> list[tuple[str, int, int]]:
    """Each prefill after a preemption: its tokens, and how many of them had been computed before."""
    chunks = [c for planned in played.passes for c in planned.chunks if c.recomputed]
    return [(name(c.request), c.tokens, c.recomputed) for c in chunks]


def test_with_enough_blocks_it_is_continuous_batching_without_moves() -> None:
    # Step 0: token 2 ends b; e takes its slot 1. Step 1: a and e end; f and g take slots 0 and 1. Step 2: f and c end;
    # h takes slot 0. Step 3: h and d end; g, which is at its third token, goes on alone.
    made = requests([3, 2, 4, 5, 2, 2, 5, 2])
    played = play(paged(made, 4, 64))
    assert played.table == [
        "0 P abcd", "0 D abcd",
        "1 P e", "1 D aecd",
        "2 P fg", "2 D fgcd",
        "3 P h", "3 D hgd",
        "4 D g",
        "5 D g",
    ]  # fmt: skip
    assert played.moves == []
    assert played.lanes == dict(zip("abcdefgh", [0, 1, 2, 3, 1, 0, 1, 0], strict=True))


def test_an_admission_waits_for_blocks_and_the_watermark() -> None:
    # 6 blocks, one of them the watermark. a and b take 2 each; c's 2 would leave none. Their second tokens need a block
    # each, the last two. c comes in when both have ended.
    played = play(paged(requests([2, 2, 2], prompts=[8, 8, 8]), 3, 6))
    assert played.table == ["0 P ab", "0 D ab", "1 P c", "1 D c"]
    assert [planned.queue_depth for planned in played.passes] == [1, 1, 0, 0]


def test_no_request_overtakes_the_first_in_the_queue() -> None:
    # b needs 4 of the 4 blocks that a leaves; c would need one, and waits after b.
    played = play(paged(requests([3, 1, 1], prompts=[8, 16, 4]), 3, 6))
    assert played.table == ["0 P a", "0 D a", "1 D a", "2 P bc"]


def test_a_request_may_fill_the_pool_to_its_last_position() -> None:
    # 8 + 17 - 1 positions are 6 blocks.
    played = play(paged(requests([17], prompts=[8]), 2, 6))
    assert preemptions(played) == []
    assert [(planned.kv.used, planned.kv.reserved) for planned in played.passes[-3:]] == [(22, 24), (23, 24), (24, 24)]


def test_a_request_larger_than_the_pool_is_refused() -> None:
    with pytest.raises(AssertionError, match="larger than the pool"):
        paged(requests([18], prompts=[8]), 2, 6)


def test_a_row_takes_a_block_when_its_last_is_full() -> None:
    # 3 prompt tokens, then a position a pass: the fifth position needs a second block.
    scheduler = paged(requests([6], prompts=[3]), 1, 4)
    played = play(scheduler)
    assert [planned.kv.used for planned in played.passes] == [3, 4, 5, 6, 7, 8]
    assert [planned.kv.reserved for planned in played.passes] == [4, 4, 8, 8, 8, 8]
    assert [planned.kv.fragment for planned in played.passes] == [1, 0, 3, 2, 1, 0]
    assert [reserved_for_later(planned.kv) for planned in played.passes] == [0] * 6
    assert [[(e.block_id, e.table_index) for e in planned.block_events] for planned in played.passes] == [
        [(0, 0)], [], [(1, 1)], [], [], [],
    ]  # fmt: skip
    left = [(e.block_id, e.allocated) for e in scheduler.blocks.drain_events()]
    assert left == [(0, False), (1, False)]


def test_a_pass_reads_each_row_at_its_true_length() -> None:
    # Prompts of 3 and 8: the prefill computes 11 positions; then rows of 3 + 1 and 8 + 1, 3 + 2 and 8 + 2.
    played = play(paged(requests([3, 3], prompts=[3, 8]), 2, 8))
    shapes = [planned.shape for planned in played.passes]
    assert [s.computed_positions for s in shapes] == [11, 13, 15]
    assert [s.width for s in shapes] == [8, 9, 10]
    assert not any(s.padding_positions or s.dead_positions or s.masked for s in shapes)


class Crowd:
    """a, b and c outgrow 6 blocks; d waits for a slot. Prompts of 4, so that each is full at 4, 8, 12."""

    def __init__(self) -> None:
        self.made = requests([11, 11, 11, 1])
        self.scheduler = paged(self.made, 3, 6)
        self.played = play(self.scheduler)


def test_the_youngest_is_preempted_and_comes_back_first() -> None:
    # Step 0: all three take a second block, the last. Step 4: each has filled 8 positions. a asks first, c goes with
    # its 2 blocks; b has the other. Step 8: 12 positions each; a asks, b goes with 3 blocks. Step 9: a is done.
    # Step 10: b, at 4 + 9 tokens, takes 4 of 6 blocks; c, at 4 + 5, needs 3. d waits after c.
    # Step 11: b is done at its token 11: c and d.
    assert Crowd().played.table == [
        "0 P abc", "0 D abc", "1 D abc", "2 D abc", "3 D abc",
        "4 ! c",
        "4 D ab", "5 D ab", "6 D ab", "7 D ab",
        "8 ! b",
        "8 D a", "9 D a",
        "10 P b", "10 D b",
        "11 P cd", "11 D c", "12 D c", "13 D c", "14 D c", "15 D c",
    ]  # fmt: skip


def test_lost_tokens_are_recomputed_and_counted() -> None:
    crowd = Crowd()
    assert preemptions(crowd.played) == [("c", 2, 2, 8), ("b", 1, 3, 12)]
    # The last token of each had not been cached: it is computed for the first time.
    assert recomputed(crowd.played) == [("b", 13, 12), ("c", 9, 8)]
    again = [p for p in crowd.played.passes if p.step in (10, 11) and p.kind is PassKind.PREFILL]
    assert [(p.tokens, p.prompt_tokens, p.shape.width) for p in again] == [(13, 4, 13), (9 + 4, 4 + 4, 9)]


def test_a_preempted_request_loses_no_token_and_keeps_its_first_admission() -> None:
    crowd = Crowd()
    assert [r.num_scheduled for r in crowd.made] == [11, 11, 11, 1]
    assert [r.num_preemptions for r in crowd.made] == [0, 1, 1, 0]
    assert [r.admitted_s for r in crowd.made] == [0, 0, 0, 13]
    # Both come back in the lowest lane that is free.
    assert crowd.played.lanes == {"a": 0, "b": 0, "c": 0, "d": 1}
    assert crowd.scheduler.blocks.num_free == 6


def test_a_preempted_request_waits_without_slot_lane_or_blocks() -> None:
    made = requests([11, 11, 11])
    scheduler = paged(made, 3, 6)
    seen: list[Request] = []

    def watch(planned: object) -> None:
        if not seen and scheduler.waiting:
            seen.append(scheduler.waiting[0])
            request = seen[0]
            assert (request.state, request.slot, request.lane) == (RequestState.WAITING, None, None)
            assert (request.block_table, request.num_computed_tokens, request.num_scheduled) == ([], 0, 5)

    play(scheduler, watch=watch)
    assert seen == [made[2]]


def test_the_youngest_may_preempt_itself() -> None:
    # 3 blocks. Step 0: a, full at 4, takes the last. Step 1: b is full at 4, and is the youngest. It needs 2 blocks for
    # its 5 tokens, which are there when a has ended.
    made = requests([4, 4], prompts=[4, 3])
    played = play(paged(made, 2, 3))
    assert played.table == ["0 P ab", "0 D ab", "1 ! b", "1 D a", "2 D a", "3 P b", "3 D b"]
    assert preemptions(played) == [("b", 1, 1, 4)]


def test_a_request_may_be_preempted_in_the_step_that_admitted_it() -> None:
    # 5 blocks: three prompts of one block each, and two left for three rows that are full.
    made = requests([2, 2, 2])
    played = play(paged(made, 3, 5))
    assert played.table == ["0 P abc", "0 ! c", "0 D ab", "1 P c"]
    # a and b asked before c: it had not grown when it went.
    assert preemptions(played) == [("c", 2, 1, 4)]
    assert recomputed(played) == [("c", 5, 4)]


def test_an_end_of_sequence_frees_its_blocks_at_once() -> None:
    made = requests([9, 9, 9], ignore_eos=False)
    scheduler = paged(made, 3, 64)
    played = play(scheduler, eos={"a": 1, "b": 3})
    assert played.table[:4] == ["0 P abc", "0 D bc", "1 D bc", "2 D c"]
    assert [r.finish_reason for r in made] == [FinishReason.EOS, FinishReason.EOS, FinishReason.BUDGET]
    assert scheduler.blocks.num_free == 64


def test_rows_stay_the_same_tuple_while_no_request_joins_or_leaves() -> None:
    played = play(paged(requests([4, 6, 2]), 3, 64))
    assert played.table == ["0 P abc", "0 D abc", "1 D ab", "2 D ab", "3 D b", "4 D b"]
    decodes = [planned.rows for planned in played.passes if planned.kind is PassKind.DECODE]
    assert decodes[1] is decodes[2]
    assert decodes[3] is decodes[4]
    assert decodes[0] is not decodes[1]


@pytest.mark.parametrize(
    ("slots", "num_blocks"),
    [
        (1, 3),  # one at a time may use up the watermark: 12 positions
        (2, 6),  # 12 and 8 positions: 5 blocks, and one that is kept
        (9, 7),  # all three: 6, and one
    ],
)
def test_blocks_without_waiting(slots: int, num_blocks: int) -> None:
    # Prompts of 4; the last token of each is never cached: 4, 8 and 12 positions.
    made = requests([1, 5, 9])
    config = RunConfig(engine="paged", slots=slots, block_size=4)
    assert blocks_for(config, made) == num_blocks
    scheduler = make_scheduler(config, made)
    assert isinstance(scheduler, PagedScheduler)
    assert scheduler.blocks.num_blocks == num_blocks


def test_many_blocks_have_a_larger_watermark() -> None:
    # 200 blocks are needed: of 202 three would be kept, of 203 as well.
    made = requests([1] * 100, prompts=[8] * 100)
    assert blocks_for(RunConfig(engine="paged", slots=100, block_size=4), made) == 203
    assert blocks_for(RunConfig(engine="paged", slots=4), []) == 0
