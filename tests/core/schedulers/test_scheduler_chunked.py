"""Chunked prefill, step by step: how a step's tokens are shared. Every table is calculated by hand.

Blocks hold 4 positions. `b2+5` are five tokens of b's prompt from its third on; a dot marks the end of b's prefill.
"""

from collections.abc import Sequence

import pytest

from engine.core.block_manager import BlockManager
from engine.core.passes import PassKind
from engine.core.request import FinishReason, Request
from engine.core.schedulers.chunked_scheduler import ChunkedScheduler
from tests.support.schedule import name, play, requests


def chunked(made: Sequence[Request], slots: int, tokens: int, num_blocks: int = 64) -> ChunkedScheduler:
    return ChunkedScheduler(made, slots, BlockManager(num_blocks, 4), tokens)


def test_a_step_is_one_pass() -> None:
    assert ChunkedScheduler.kinds == (PassKind.MIXED,)


def test_a_long_prompt_is_split_and_its_last_chunk_yields_the_token() -> None:
    played = play(chunked(requests([3], prompts=[20]), 1, 8))
    assert played.table == ["0 P a0+8", "1 P a8+8", "2 P a16+4.", "3 D a", "4 D a"]
    assert [len(planned.rows) for planned in played.passes] == [0, 0, 1, 1, 1]
    assert [planned.prompt_tokens for planned in played.passes] == [8, 8, 4, 0, 0]
    # Blocks are allocated chunk by chunk; the first decode pass writes position 20, in a sixth.
    assert [planned.kv.reserved for planned in played.passes] == [8, 16, 20, 24, 24]
    assert [planned.kv.used for planned in played.passes] == [8, 16, 20, 21, 22]


def test_decode_rows_come_first_and_a_last_chunk_may_be_one_token() -> None:
    # b's 13 tokens get what a leaves of 6: 2, then 5, 5 and the last one.
    played = play(chunked(requests([6, 2], prompts=[4, 13]), 2, 6))
    assert played.table == ["0 P a0+4. b0+2", "1 M a b2+5", "2 M a b7+5", "3 M a b12+1.", "4 D ab", "5 D a"]
    assert [planned.tokens for planned in played.passes] == [6, 6, 6, 2, 2, 1]
    assert [planned.num_decode_rows for planned in played.passes] == [0, 1, 1, 1, 2, 1]
    assert [len(planned.partial_chunks) for planned in played.passes] == [1, 1, 1, 0, 0, 0]


def test_a_mixed_pass_computes_row_lengths_and_chunks() -> None:
    played = play(chunked(requests([6, 2], prompts=[4, 13]), 2, 6))
    shapes = [planned.shape for planned in played.passes]
    # a's columns 5, 6, 7, 8 beside chunks of 5, 5 and 1; then b's 14 beside them.
    assert [s.computed_positions for s in shapes] == [4 + 2, 5 + 5, 6 + 5, 7 + 1, 8 + 14, 9]
    assert [s.width for s in shapes] == [4, 7, 12, 13, 14, 9]
    assert not any(s.padding_positions or s.dead_positions or s.masked for s in shapes)


@pytest.mark.parametrize(("tokens", "steps"), [(2, 3), (3, 2), (5, 1), (512, 1)])
def test_chunks_end_where_the_token_budget_ends(tokens: int, steps: int) -> None:
    played = play(chunked(requests([1], prompts=[5]), 2, tokens))
    assert [c.tokens for planned in played.passes for c in planned.chunks] == {
        2: [2, 2, 1],
        3: [3, 2],
        5: [5],
        512: [5],
    }[tokens]
    assert len(played.passes) == steps


def test_chunks_of_one_token() -> None:
    played = play(chunked(requests([2], prompts=[3]), 1, 1))
    assert played.table == ["0 P a0+1", "1 P a1+1", "2 P a2+1.", "3 D a"]


def test_several_admitted_requests_share_a_step() -> None:
    played = play(chunked(requests([3, 3, 3], prompts=[3, 3, 3]), 3, 8))
    assert played.table == ["0 P a0+3. b0+3. c0+2", "1 M ab c2+1.", "2 D abc", "3 D c"]


def test_begun_prompts_come_before_admissions() -> None:
    # Both wait from the start; b is not touched before a is whole, and gets the rest of that step.
    played = play(chunked(requests([1, 1], prompts=[10, 5]), 2, 4))
    assert played.table == ["0 P a0+4", "1 P a4+4", "2 P a8+2. b0+2", "3 P b2+3."]
    assert played.admitted == {"a": 0, "b": 2}


def test_an_admission_needs_a_slot() -> None:
    # a leaves with step 1, so that b comes in step 2.
    played = play(chunked(requests([2, 2], prompts=[2, 2]), 1, 8))
    assert played.table == ["0 P a0+2.", "1 D a", "2 P b0+2.", "3 D b"]


def test_an_admission_needs_blocks_for_the_whole_prompt() -> None:
    # 6 blocks, one of them kept: a's prompt takes 2 and a third with step 1. b needs 3 of the 3 left: it waits for a.
    played = play(chunked(requests([3, 1], prompts=[8, 12]), 2, 8, num_blocks=6))
    assert played.table == ["0 P a0+8.", "1 D a", "2 D a", "3 P b0+8", "4 P b8+4."]


class Crowd:
    """Three slots and three tokens a step, 7 blocks: c's prompt is read a token a step beside a and b, which grow."""

    def __init__(self) -> None:
        self.made = requests([10, 10, 1], prompts=[4, 4, 8])
        self.scheduler = chunked(self.made, 3, 3, num_blocks=7)
        self.played = play(self.scheduler)


def test_a_begun_prompt_waits_for_blocks_and_may_be_preempted() -> None:
    # Steps 2 and 3 give a and b their second block; c, whose 2 blocks and the watermark are there, takes its first.
    # Steps 6 and 7 give a and b their third, the last ones: c, 4 tokens in, has to wait.
    # Step 10: a is full at 12. c, the youngest, gives its block. a ends there; c starts again beside b's last token.
    assert Crowd().played.table == [
        "0 P a0+3",
        "1 P a3+1. b0+2",
        "2 M a b2+2.",
        "3 M ab c0+1", "4 M ab c1+1", "5 M ab c2+1", "6 M ab c3+1",
        "7 D ab", "8 D ab", "9 D ab",
        "10 ! c",
        "10 D ab",
        "11 M b c0+2",
        "12 P c2+3", "13 P c5+3.",
    ]  # fmt: skip


def test_a_preemption_in_the_middle_of_a_prefill_is_counted() -> None:
    crowd = Crowd()
    (lost,) = [p for planned in crowd.played.passes for p in planned.preemptions]
    assert (name(lost.request), lost.lane, lost.blocks, lost.tokens) == ("c", 2, 1, 4)
    # The two pieces that cover its four lost positions; the second has one new token.
    chunks = [c for planned in crowd.played.passes for c in planned.chunks]
    assert [(name(c.request), c.start, c.recomputed) for c in chunks if c.recomputed] == [("c", 0, 2), ("c", 2, 2)]
    assert [r.num_scheduled for r in crowd.made] == [10, 10, 1]
    assert crowd.scheduler.blocks.num_free == 7


def test_a_second_preemption_forgets_nothing_of_the_first() -> None:
    # e, the youngest of four, has 12 positions when the 16 blocks are spent in step 16, and 10 again in step 25.
    # Its last prefill recomputes all 12 in four chunks, then computes its newest token for the first time.
    made = requests([20, 1, 24, 29, 12], prompts=[1, 3, 7, 3, 3])
    played = play(chunked(made, 4, 4, num_blocks=16))
    assert [line for line in played.table if "e" in line and ("!" in line or "+" in line)][2:] == [
        "6 M acd e2+1.",
        "16 ! e",
        "20 M cd e0+2", "21 M cd e2+2", "22 M cd e4+2", "23 M cd e6+2", "24 M cd e8+2",
        "25 ! e",
        "27 M d e0+3", "28 M d e3+3", "29 M d e6+3", "30 M d e9+3", "31 M d e12+1.",
    ]  # fmt: skip
    assert [p.tokens for planned in played.passes for p in planned.preemptions] == [12, 10]
    chunks = [c for planned in played.passes for c in planned.chunks if c.request is made[4]]
    assert [c.recomputed for c in chunks] == [0, 0, 0, *[2] * 5, *[3] * 4, 0]


def test_a_preempted_row_that_decoded_is_read_again_with_its_answer() -> None:
    # 3 blocks: b, full at 4 in step 2, is the youngest. Its 4 + 1 tokens come back in pieces of the 3 beside a's.
    made = requests([5, 3], prompts=[4, 4])
    played = play(chunked(made, 2, 8, num_blocks=3))
    assert played.table == ["0 P a0+4. b0+4.", "1 ! b", "1 D a", "2 D a", "3 D a", "4 D a", "5 P b0+5.", "6 D b"]
    assert [r.num_scheduled for r in made] == [5, 3]


def test_an_end_of_sequence_in_a_mixed_pass() -> None:
    # b's first token ends it; c, which waited for its slot, begins in the next step.
    made = requests([4, 4, 1], prompts=[2, 3, 2], ignore_eos=False)
    played = play(chunked(made, 2, 4), eos={"b": 1})
    assert played.table == ["0 P a0+2. b0+2", "1 M a b2+1.", "2 M a c0+2.", "3 D a"]
    assert [r.finish_reason for r in made] == [FinishReason.BUDGET, FinishReason.EOS, FinishReason.BUDGET]


def test_a_budget_of_tokens_below_the_slots_is_refused() -> None:
    with pytest.raises(AssertionError, match="one token of each decode row"):
        chunked(requests([1]), 4, 3)


def test_an_empty_workload_is_done_at_once() -> None:
    scheduler = chunked([], 2, 8)
    assert scheduler.is_done
    assert play(scheduler).table == []


def test_an_idle_engine_plans_nothing() -> None:
    scheduler = chunked(requests([1], arrivals_s=[5.0]), 2, 8)
    assert scheduler.admit(0.0) == ()
    assert scheduler.plan(PassKind.MIXED) is None
    assert scheduler.step == -1
