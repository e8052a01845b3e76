"""EOS that is known one pass late, for each policy. Every table is calculated by hand.

Rows decode one pass more than they should; the token of it is taken back, and they leave one pass later.
"""

from engine.core.block_manager import BlockManager
from engine.core.form_rule import FormRule
from engine.core.kv_layout import PaddedLayout, SlotLayout
from engine.core.request import FinishReason, Request
from engine.core.schedulers.chunked_scheduler import ChunkedScheduler
from engine.core.schedulers.continuous_scheduler import ContinuousScheduler
from engine.core.schedulers.paged_scheduler import PagedScheduler
from engine.core.schedulers.scheduler import Scheduler
from engine.core.schedulers.static_scheduler import StaticScheduler
from tests.support.schedule import play, requests

BUDGET, EOS = FinishReason.BUDGET, FinishReason.EOS


def made_with(*budgets: int, prompts: list[int] | None = None, arrivals_s: list[float] | None = None) -> list[Request]:
    return requests(budgets, prompts=prompts, arrivals_s=arrivals_s, ignore_eos=False)


def continuous(made: list[Request], slots: int) -> ContinuousScheduler:
    return ContinuousScheduler(made, slots, SlotLayout(slots, 40))


def static(made: list[Request], slots: int) -> StaticScheduler:
    return StaticScheduler(made, slots, PaddedLayout(), FormRule())


def counts(made: list[Request]) -> list[tuple[int, FinishReason | None]]:
    return [(r.num_scheduled, r.finish_reason) for r in made]


def test_continuous_runs_the_row_once_more_and_discards_the_token() -> None:
    # a ends with token 2, in step 0's decode. Step 1's pass runs it again; then b moves and c comes in.
    made = made_with(5, 5, 1)
    played = play(continuous(made, 2), eos={"a": 2}, late=True)
    assert played.table == ["0 P ab", "0 D ab", "1 D ab", "2 P c", "2 D b", "3 D b"]
    assert played.moves == ["b 1>0"]
    assert counts(made) == [(2, EOS), (5, BUDGET), (1, BUDGET)]


def test_the_discarded_token_may_be_the_last_of_the_budget() -> None:
    # a's third token is its last by budget, so that it has left already when its second turns out to be the end.
    made = made_with(3, 5, 1)
    played = play(continuous(made, 2), eos={"a": 2}, late=True)
    assert played.table == ["0 P ab", "0 D ab", "1 D ab", "2 P c", "2 D b", "3 D b"]
    assert played.moves == ["b 1>0"]
    assert counts(made) == [(2, EOS), (5, BUDGET), (1, BUDGET)]


def test_eos_with_the_last_token_of_a_budget_discards_nothing() -> None:
    made = made_with(2, 3)
    assert play(continuous(made, 2), eos={"a": 2}, late=True).table == ["0 P ab", "0 D ab", "1 D b"]
    assert counts(made) == [(2, EOS), (3, BUDGET)]


def test_nothing_is_discarded_if_the_next_pass_runs_other_requests() -> None:
    # c's prefill is issued between a's end, in step 0's decode, and the decode of step 1: c moves into a's slot.
    made = made_with(5, 3, 2, arrivals_s=[0.0, 0.0, 1.5])
    played = play(continuous(made, 3), eos={"a": 2}, late=True)
    assert played.table == ["0 P ab", "0 D ab", "1 P c", "1 D cb"]
    assert played.moves == ["c 2>0"]
    assert counts(made) == [(2, EOS), (3, BUDGET), (2, BUDGET)]


def test_static_has_its_dead_row_one_pass_later() -> None:
    made = made_with(5, 4)
    played = play(static(made, 2), eos={"a": 2}, late=True)
    assert played.table == ["0 P ab", "0 D ab", "1 D ab", "2 D Ab"]
    assert counts(made) == [(2, EOS), (4, BUDGET)]
    # b's 4, 5, 6 and 7 columns: a's are no longer in use when it is known to be dead.
    assert [planned.kv.used for planned in played.passes] == [8, 10, 12, 7]


def test_a_static_batch_whose_members_all_end_is_over_one_pass_later() -> None:
    made = made_with(9, 9, 1)
    played = play(static(made, 2), eos={"a": 2, "b": 2}, late=True)
    assert played.table == ["0 P ab", "0 D ab", "1 D ab", "2 P c"]
    assert counts(made) == [(2, EOS), (2, EOS), (1, BUDGET)]


def test_paged_keeps_the_blocks_until_it_is_known() -> None:
    # 5 blocks: two each from step 0 on. c comes during step 0, needs one beside the watermark, and waits for a's.
    made = made_with(5, 4, 1, arrivals_s=[0.0, 0.0, 0.5])
    scheduler = PagedScheduler(made, 3, BlockManager(5, 4))
    played = play(scheduler, eos={"a": 2}, late=True)
    assert played.table == ["0 P ab", "0 D ab", "1 D ab", "2 P c", "2 D b"]
    assert [planned.kv.used for planned in played.passes] == [8, 10, 12, 6 + 4, 7]
    assert counts(made) == [(2, EOS), (4, BUDGET), (1, BUDGET)]
    assert scheduler.blocks.num_free == 5


def test_a_request_that_was_preempted_meanwhile_leaves_the_queue() -> None:
    # 3 blocks. b's second token, of step 0, is its end; step 1 preempts it before that is known.
    made = made_with(4, 4, prompts=[4, 3])
    scheduler = PagedScheduler(made, 2, BlockManager(3, 4))
    played = play(scheduler, eos={"b": 2}, late=True)
    assert played.table == ["0 P ab", "0 D ab", "1 ! b", "1 D a", "2 D a"]
    assert played.ended == {"b": 3, "a": 4}
    assert counts(made) == [(4, BUDGET), (2, EOS)]
    assert scheduler.blocks.num_free == 3


def test_chunked_ends_after_the_mixed_pass_that_follows() -> None:
    # a's first token, of step 0, is its end: step 1 decodes it beside b's prompt.
    made = made_with(5, 2, prompts=[4, 7])
    scheduler = ChunkedScheduler(made, 2, BlockManager(64, 4), 6)
    played = play(scheduler, eos={"a": 1}, late=True)
    assert played.table == ["0 P a0+4. b0+2", "1 M a b2+5.", "2 D b"]
    assert counts(made) == [(1, EOS), (2, BUDGET)]
    assert scheduler.blocks.num_free == 64


def test_the_outcome_lists_ended_released_and_moved_requests() -> None:
    made = made_with(3, 5)
    scheduler: Scheduler = continuous(made, 2)
    scheduler.submit_arrived(0.0)
    scheduler.admit(0.0)
    for kind in scheduler.kinds:
        planned = scheduler.plan(kind)
        assert planned is not None
        scheduler.complete(planned)
    outcome = scheduler.end_late([made[0]], [made[0]])
    assert outcome.ended == outcome.released == (made[0],)
    assert [(move.request, move.source, move.target) for move in outcome.moves] == [(made[1], 1, 0)]
    # Again, for a request that has left: it is named, and no request leaves or moves.
    again = scheduler.end_late([made[0]], [])
    assert (again.ended, again.released, again.moves) == ((made[0],), (), ())
