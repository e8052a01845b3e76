"""Continuous batching and the serial engine, step by step. Every table is calculated by hand."""

from collections.abc import Sequence

import pytest

from engine.core.kv_layout import SlotLayout
from engine.core.request import FinishReason, Request
from engine.core.schedulers.continuous_scheduler import ContinuousScheduler
from tests.support.schedule import Played, play, requests


def continuous(made: Sequence[Request], slots: int) -> ContinuousScheduler:
    width = max((r.num_prompt_tokens + r.spec.budget_tokens for r in made), default=1)
    return ContinuousScheduler(made, slots, SlotLayout(slots, width))


def play_budgets(budgets: Sequence[int], slots: int) -> Played:
    return play(continuous(requests(budgets), slots))


def test_serial_takes_one_request_after_the_other() -> None:
    # A prefill yields the first token, so a budget of 3 is a prefill and two decodes.
    played = play_budgets([3, 1, 2], slots=1)
    assert played.table == ["0 P a", "0 D a", "1 D a", "2 P b", "3 P c", "3 D c"]
    assert played.admitted == {"a": 0, "b": 3, "c": 4}
    assert played.ended == {"a": 3, "b": 4, "c": 6}


def test_admitted_requests_join_the_decode_pass_of_their_step() -> None:
    # a b start; b ends in step 1 and c takes its slot in step 2: prefilled alone, then decoded beside a.
    played = play_budgets([5, 3, 2], slots=2)
    assert played.table == ["0 P ab", "0 D ab", "1 D ab", "2 P c", "2 D ac", "3 D a"]
    assert played.moves == []
    assert played.ended == {"b": 3, "c": 5, "a": 6}


def test_eight_requests_through_four_slots() -> None:
    # Step 0: abcd get token 1, then 2: b (2) ends and d moves into its slot.
    # Step 1: e comes in behind d; tokens a3 d3 c3 e2: a (3) and e (2) end; c, the last that lives, moves to slot 0.
    # Step 2: f g; tokens c4 d4 f2 g2: c (4) and f (2) end; g moves to slot 0.
    # Step 3: h; tokens g3 d5 h2: d (5), h (2) end. Step 4: g4. Step 5: g5.
    played = play_budgets([3, 2, 4, 5, 2, 2, 5, 2], slots=4)
    assert played.table == [
        "0 P abcd", "0 D abcd",
        "1 P e", "1 D adce",
        "2 P fg", "2 D cdfg",
        "3 P h", "3 D gdh",
        "4 D g",
        "5 D g",
    ]  # fmt: skip
    assert played.moves == ["d 3>1", "c 2>0", "g 3>0"]


def test_a_slot_moves_but_a_lane_stays() -> None:
    # b frees lane 1 while d moves into slot 1: the admitted e gets slot 3 and the free lane 1.
    made = requests([3, 2, 4, 5, 2])
    played = play(continuous(made, 4))
    assert played.moves[0] == "d 3>1"
    assert played.lanes == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 1}


def test_several_that_leave_at_once_are_replaced_by_the_last_that_live() -> None:
    # a, c and d leave together after token 2: of b e f, only the last two move: f to slot 0, e to slot 2.
    played = play_budgets([2, 3, 2, 2, 3, 3], slots=6)
    assert played.table == ["0 P abcdef", "0 D abcdef", "1 D fbe"]
    assert played.moves == ["f 5>0", "e 4>2"]


def test_no_row_moves_when_the_last_rows_leave() -> None:
    played = play_budgets([3, 3, 2, 2], slots=4)
    assert played.table == ["0 P abcd", "0 D abcd", "1 D ab"]
    assert played.moves == []


def test_a_budget_of_one_ends_with_the_prefill() -> None:
    # b and c are done before the decode pass of their own step; a goes on alone, d follows one step later.
    played = play_budgets([3, 1, 1, 2], slots=3)
    assert played.table == ["0 P abc", "0 D a", "1 P d", "1 D ad"]


def test_all_budgets_of_one_never_decode() -> None:
    played = play_budgets([1, 1, 1], slots=2)
    assert played.table == ["0 P ab", "1 P c"]


def test_an_end_of_sequence_at_the_first_token_frees_the_slot_at_once() -> None:
    made = requests([5, 5, 5], ignore_eos=False)
    played = play(continuous(made, 2), eos={"a": 1, "b": 3})
    # a generates EOS with the prefill's token, so b moves to slot 0 and c is admitted in step 1.
    # b ends with its third token in step 1, c is spent after its fifth in step 4.
    assert played.table == ["0 P ab", "0 D b", "1 P c", "1 D bc", "2 D c", "3 D c", "4 D c"]
    assert played.moves == ["b 1>0", "c 1>0"]
    assert [r.finish_reason for r in made] == [FinishReason.EOS, FinishReason.EOS, FinishReason.BUDGET]
    assert [r.num_scheduled for r in made] == [1, 3, 5]


def test_a_numeric_budget_goes_on_past_the_end_of_sequence() -> None:
    made = requests([3], ignore_eos=True)
    assert play(continuous(made, 1), eos={"a": 1}).table == ["0 P a", "0 D a", "1 D a"]
    assert made[0].finish_reason is FinishReason.BUDGET


def test_an_end_of_sequence_with_the_last_token_counts_as_an_end() -> None:
    made = requests([2], ignore_eos=False)
    play(continuous(made, 1), eos={"a": 2})
    assert made[0].finish_reason is FinishReason.EOS


@pytest.mark.parametrize("slots", [1, 4])
def test_a_single_request_runs_alone(slots: int) -> None:
    assert play_budgets([3], slots).table == ["0 P a", "0 D a", "1 D a"]


def test_more_slots_than_requests_leave_slots_empty() -> None:
    played = play_budgets([2, 3], slots=8)
    assert played.table == ["0 P ab", "0 D ab", "1 D b"]
    assert played.moves == ["b 1>0"]


def test_an_empty_workload_is_done_at_once() -> None:
    scheduler = continuous([], 4)
    assert scheduler.is_done
    assert scheduler.wake_s(0.0) is None
    assert play(scheduler).table == []


def test_a_request_is_not_seen_before_it_arrives() -> None:
    # a runs at seconds 0 to 3. b arrives at 1.5, during step 0's decode: it joins in step 1, at second 2.
    played = play(continuous(requests([3, 2], arrivals_s=[0.0, 1.5]), 2))
    assert played.table == ["0 P a", "0 D a", "1 P b", "1 D ab"]
    assert played.admitted == {"a": 0, "b": 2}


def test_an_idle_engine_wakes_at_the_next_arrival() -> None:
    made = requests([2, 1], arrivals_s=[0.5, 9.0])
    scheduler = continuous(made, 2)
    assert scheduler.wake_s(0.0) == 0.5
    played = play(scheduler)
    assert played.admitted == {"a": 0.5, "b": 9.0}
    # An idle engine counts no steps.
    assert played.table == ["0 P a", "0 D a", "1 P b"]
    assert [r.submitted_s for r in made] == [0.5, 9.0]


def test_the_queue_goes_by_arrival_and_then_by_number() -> None:
    played = play(continuous(requests([1, 1, 1], arrivals_s=[5.0, 0.0, 0.0]), 1))
    assert played.table == ["0 P b", "1 P c", "2 P a"]


def test_the_queue_is_counted_after_admission() -> None:
    played = play_budgets([2, 2, 2, 2], slots=1)
    assert [planned.queue_depth for planned in played.passes] == [3, 3, 2, 2, 1, 1, 0, 0]


def test_no_slot_step_is_ever_wasted() -> None:
    played = play_budgets([32] * 8 + [256] * 8, slots=16)
    # 8 x 32 + 8 x 256 tokens, one live row each.
    assert (played.useful_slot_steps, played.slot_steps) == (2304, 2304)


def test_passes_tell_how_much_memory_is_reserved_and_used() -> None:
    # Prompts of 4 and 6 tokens, budgets 2 and 4: 2 slots of 10 columns.
    made = requests([2, 4], prompts=[4, 6])
    played = play(continuous(made, 2))
    assert played.table == ["0 P ab", "0 D ab", "1 D b", "2 D b"]
    assert [planned.kv.reserved for planned in played.passes] == [20, 20, 20, 20]
    # The prompts; then one more column each; then b alone: 8, 9.
    assert [planned.kv.used for planned in played.passes] == [10, 12, 8, 9]
    assert [planned.prompt_tokens for planned in played.passes] == [10, 0, 0, 0]
