"""Static batching, step by step. Every table is calculated by hand. Capitals are dead rows."""

from collections.abc import Sequence

import pytest

from engine.core.form_rule import FormRule
from engine.core.kv_layout import PaddedLayout
from engine.core.request import FinishReason, Request
from engine.core.schedulers.static_scheduler import StaticScheduler
from tests.support.schedule import Played, play, requests


def static(made: Sequence[Request], slots: int, form: str = "arrived") -> StaticScheduler:
    return StaticScheduler(made, slots, PaddedLayout(), FormRule.parse(form))


def play_budgets(budgets: Sequence[int], slots: int) -> Played:
    return play(static(requests(budgets), slots))


def test_a_batch_runs_until_its_slowest_request_ends() -> None:
    # Budgets 2 4 1: c is spent by the prefill, a by the first decode; all three rows are computed to the end.
    played = play_budgets([2, 4, 1], slots=3)
    assert played.table == ["0 P abc", "0 D abC", "1 D AbC", "2 D AbC"]
    assert played.ended == {"c": 1, "a": 2, "b": 4}
    assert (played.useful_slot_steps, played.slot_steps) == (7, 12)


def test_eight_requests_through_four_slots() -> None:
    # The next batch forms when the first has ended, not before.
    played = play_budgets([3, 2, 4, 5, 2, 2, 5, 2], slots=4)
    assert played.table == [
        "0 P abcd", "0 D abcd", "1 D aBcd", "2 D ABcd", "3 D ABCd",
        "4 P efgh", "4 D efgh", "5 D EFgH", "6 D EFgH", "7 D EFgH",
    ]  # fmt: skip
    assert played.admitted == {**dict.fromkeys("abcd", 0), **dict.fromkeys("efgh", 5)}
    assert played.lanes == dict(zip("abcdefgh", [0, 1, 2, 3] * 2, strict=True))
    assert played.moves == []
    # 14 + 11 tokens of two batches of 4 rows x 5 passes.
    assert (played.useful_slot_steps, played.slot_steps) == (25, 40)


def test_sixteen_unequal_requests_waste_seven_sixteenths() -> None:
    played = play_budgets([32] * 8 + [256] * 8, slots=16)
    # 8 x 32 + 8 x 256 of 16 x 256.
    assert (played.useful_slot_steps, played.slot_steps) == (2304, 4096)
    assert 1 - played.useful_slot_steps / played.slot_steps == 0.4375


def test_equal_budgets_have_no_dead_rows() -> None:
    played = play_budgets([3, 3, 3], slots=3)
    assert played.table == ["0 P abc", "0 D abc", "1 D abc"]


def test_a_budget_of_one_ends_with_the_prefill() -> None:
    assert play_budgets([1, 1, 1], slots=2).table == ["0 P ab", "1 P c"]


def test_an_end_of_sequence_at_the_first_token_makes_a_dead_row() -> None:
    made = requests([3, 3], ignore_eos=False)
    played = play(static(made, 2), eos={"a": 1})
    assert played.table == ["0 P ab", "0 D Ab", "1 D Ab"]
    assert [r.finish_reason for r in made] == [FinishReason.EOS, FinishReason.BUDGET]
    assert [r.num_scheduled for r in made] == [1, 3]


def test_a_batch_whose_requests_all_end_at_once_is_over() -> None:
    made = requests([9, 9, 1], ignore_eos=False)
    assert play(static(made, 2), eos={"a": 1, "b": 1}).table == ["0 P ab", "1 P c"]


@pytest.mark.parametrize("slots", [1, 4])
def test_a_single_request_runs_alone(slots: int) -> None:
    assert play_budgets([3], slots).table == ["0 P a", "0 D a", "1 D a"]


def test_more_slots_than_requests_make_a_smaller_batch() -> None:
    played = play_budgets([2, 3], slots=8)
    assert played.table == ["0 P ab", "0 D ab", "1 D Ab"]


@pytest.mark.parametrize("form", ["arrived", "full", "timeout:2"])
def test_an_empty_workload_is_done_at_once(form: str) -> None:
    scheduler = static([], 4, form)
    assert scheduler.is_done
    assert scheduler.wake_s(0.0) is None
    assert play(scheduler).table == []


def test_a_batch_of_what_has_arrived_does_not_wait_for_more() -> None:
    # a runs alone at seconds 0 to 3; b and c arrive meanwhile and make the second batch.
    played = play(static(requests([3, 1, 2], arrivals_s=[0.0, 0.5, 2.5]), 2))
    assert played.table == ["0 P a", "0 D a", "1 D a", "2 P bc", "2 D Bc"]
    assert played.admitted == {"a": 0, "b": 3, "c": 3}


def test_a_full_batch_waits_until_it_is_full() -> None:
    played = play(static(requests([2, 1, 1, 1], arrivals_s=[0.0, 4.0, 4.5, 20.0]), 2, "full"))
    assert played.table == ["0 P ab", "0 D aB", "1 P cd"]
    assert played.admitted == {"a": 4, "b": 4, "c": 20, "d": 20}


def test_the_last_batch_need_not_be_full() -> None:
    played = play(static(requests([1, 1, 1], arrivals_s=[0.0, 1.0, 2.0]), 2, "full"))
    assert played.table == ["0 P ab", "1 P c"]
    # c is there at second 2, when the first batch has ended, and is the last of all.
    assert played.admitted == {"a": 1, "b": 1, "c": 2}


def test_a_timeout_counts_from_the_oldest_arrival() -> None:
    # a waits from 1.0 to 3.0 with b at its side since 2.5; c, which comes at 3.5, is too late for them.
    played = play(static(requests([1, 1, 1], arrivals_s=[1.0, 2.5, 3.5]), 4, "timeout:2"))
    assert played.table == ["0 P ab", "1 P c"]
    assert played.admitted == {"a": 3, "b": 3, "c": 4}


def test_a_timeout_does_not_hold_back_a_full_batch() -> None:
    played = play(static(requests([1, 1, 1], arrivals_s=[0.0, 0.5, 9.0]), 2, "timeout:5"))
    assert played.admitted == {"a": 0.5, "b": 0.5, "c": 9}


def test_a_timeout_that_ended_during_a_batch_starts_the_next_at_once() -> None:
    # a has waited its second at 1 and runs to 5; b came at 1.5, and its timeout ended long before 5.
    played = play(static(requests([4, 1, 1], arrivals_s=[0.0, 1.5, 99.0]), 2, "timeout:1"))
    assert played.table == ["0 P a", "0 D a", "1 D a", "2 D a", "3 P b", "4 P c"]
    assert (played.admitted["a"], played.admitted["b"]) == (1, 5)


def test_an_idle_engine_wakes_at_the_timeout_or_the_next_arrival() -> None:
    scheduler = static(requests([1, 1, 1], arrivals_s=[0.0, 1.0, 9.0]), 4, "timeout:2")
    assert scheduler.wake_s(0.0) == 0.0
    scheduler.submit_arrived(0.0)
    assert scheduler.admit(0.0) == ()
    assert scheduler.wake_s(0.0) == 1.0
    scheduler.submit_arrived(1.0)
    assert scheduler.wake_s(1.0) == 2.0
    assert static(requests([1], arrivals_s=[5.0]), 4, "full").wake_s(0.0) == 5.0


def test_passes_report_width_padding_and_dead_positions() -> None:
    # Prompts 2 and 5, budgets 2 and 3: a buffer of 2 rows x (5 + 3) columns, a left-padded by 3.
    played = play(static(requests([2, 3], prompts=[2, 5]), 2))
    assert played.table == ["0 P ab", "0 D ab", "1 D Ab"]
    shapes = [planned.shape for planned in played.passes]
    assert [s.width for s in shapes] == [5, 6, 7]
    assert [s.computed_positions for s in shapes] == [10, 12, 14]
    assert [s.padding_positions for s in shapes] == [3, 3, 0]
    assert [s.dead_positions for s in shapes] == [0, 0, 7]
    assert all(s.masked for s in shapes)
    assert [planned.kv.reserved for planned in played.passes] == [16, 16, 16]
    # 2 + 5 prompt tokens; one more each; b alone: 5 + 2.
    assert [planned.kv.used for planned in played.passes] == [7, 9, 7]


def test_a_batch_frees_its_memory() -> None:
    scheduler = static(requests([2, 3]), 2)
    play(scheduler)
    assert scheduler.layout.reserved == 0
