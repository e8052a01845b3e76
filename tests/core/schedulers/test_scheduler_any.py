"""Invariants of every policy over any workload: every request gets its tokens, and no slot is held twice."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.config import RunConfig
from engine.core.kv_layout import blocks_for, blocks_of
from engine.core.passes import PassKind, PlannedPass
from engine.core.presets import make_scheduler
from engine.core.request import FinishReason, Request
from engine.core.schedulers.paged_scheduler import PagedScheduler
from tests.support.pool_model import PoolModel
from tests.support.schedule import Played, name, play, requests, reserved_for_later

ENGINES = {
    "serial": RunConfig(engine="serial"),
    "static": RunConfig(engine="static"),
    "static, full": RunConfig.from_dict({"engine": "static", "form": "full"}),
    "static, timeout": RunConfig.from_dict({"engine": "static", "form": "timeout:2"}),
    "continuous": RunConfig(engine="continuous"),
    "paged": RunConfig(engine="paged", block_size=4),
    "chunked": RunConfig(engine="chunked", block_size=4, max_num_batched_tokens=9),
}
WORKLOADS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 30), st.sampled_from([0.0, 0.5, 3.0, 3.25, 40.0])), max_size=12
)
Workload = list[tuple[int, int, float]]


def made_of(workload: Workload, *, ignore_eos: bool = True) -> list[Request]:
    budgets, prompts, arrivals_s = zip(*workload, strict=True) if workload else ((), (), ())
    return requests(budgets, prompts=prompts, arrivals_s=arrivals_s, ignore_eos=ignore_eos)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=60, deadline=None)
@given(workload=WORKLOADS, slots=st.integers(1, 5))
def test_any_workload_runs_to_its_end(engine: str, workload: Workload, slots: int) -> None:
    made = made_of(workload)
    config = replace(ENGINES[engine], slots=slots)
    played = play(make_scheduler(config, made))
    budgets = [budget for budget, _, _ in workload]
    assert [r.num_scheduled for r in made] == budgets
    assert played.useful_slot_steps == sum(budgets)
    assert all(len(planned.rows) <= config.num_slots for planned in played.passes)
    assert [planned.index for planned in played.passes] == list(range(len(played.passes)))
    for request in made:
        assert played.admitted[name(request)] >= request.spec.arrival_s
    _assert_positions_add_up(played)
    if not engine.startswith("static"):
        assert played.slot_steps == played.useful_slot_steps
    # A large enough pool preempts no request.
    assert not any(planned.preemptions for planned in played.passes)


def _assert_positions_add_up(played: Played) -> None:
    generated: Counter[int] = Counter()
    for planned in played.passes:
        shape, count = planned.shape, planned.num_decode_rows
        decoding = [r for i, r in enumerate(planned.rows[:count]) if i in planned.live]
        prefilled = [c.tokens for c in planned.chunks] or [r.num_prompt_tokens for r in planned.rows[count:]]
        # A decode row attends over its prompt and all its tokens so far, a prefill over its own tokens.
        real = sum(r.num_prompt_tokens + generated[r.request_id] for r in decoding) + sum(prefilled)
        assert shape.computed_positions == real + shape.padding_positions + shape.dead_positions
        assert shape.padding_positions >= 0
        assert shape.dead_positions == shape.width * (len(planned.rows) - len(planned.live))
        is_whole_prefill = planned.kind is PassKind.PREFILL and not planned.chunks  # a padded one computes its padding
        computed = shape.computed_positions if is_whole_prefill else count + sum(prefilled)
        assert planned.tokens == computed
        assert planned.prompt_tokens == sum(prefilled)
        assert reserved_for_later(planned.kv) >= 0
        generated.update(r.request_id for r in planned.live_requests)


@st.composite
def crowded(draw: st.DrawFn) -> tuple[RunConfig, Workload, int]:
    """A paged or chunked engine, requests, and a pool that holds each of them but not always all."""
    workload = draw(WORKLOADS.filter(bool))
    slots = draw(st.integers(1, 5))
    config = RunConfig(
        engine=draw(st.sampled_from(["paged", "chunked"])),
        slots=slots,
        block_size=draw(st.sampled_from([1, 2, 4, 16])),
        max_num_batched_tokens=slots + draw(st.integers(0, 20)),
    )
    made = made_of(workload)
    least = max(blocks_of(r.length, config.block_size) for r in made)
    return config, workload, draw(st.integers(least, max(least, blocks_for(config, made))))


class _Watched:
    """A run with a full pool; checks the invariants in every pass."""

    def __init__(self, config: RunConfig, made: Sequence[Request], num_blocks: int) -> None:
        scheduler = make_scheduler(config, made, num_blocks)
        assert isinstance(scheduler, PagedScheduler)
        self.config, self.scheduler, self.pool = config, scheduler, PoolModel(config.block_size)

    def watch(self, planned: PlannedPass) -> None:
        self.scheduler.check_invariants()
        self.pool.watch(planned)
        assert planned.rows or planned.chunks
        assert len(set(planned.rows)) == len(planned.rows)
        assert planned.kv.used == sum(r.num_computed_tokens for r in self.scheduler.running) + planned.tokens
        assert planned.kv.reserved == planned.kv.used + planned.kv.fragment
        # No request holds more than the block of its next position.
        assert planned.kv.fragment < self.config.block_size * len(self.scheduler.running)
        if self.config.engine == "chunked":
            assert planned.tokens <= self.config.max_num_batched_tokens


@settings(max_examples=400, deadline=None)
@given(case=crowded())
def test_a_full_pool_loses_and_doubles_no_token(case: tuple[RunConfig, Workload, int]) -> None:
    config, workload, num_blocks = case
    made = made_of(workload)
    watched = _Watched(config, made, num_blocks)
    played = play(watched.scheduler, watch=watched.watch)
    assert [r.num_scheduled for r in made] == [budget for budget, _, _ in workload]
    assert played.slot_steps == played.useful_slot_steps == sum(budget for budget, _, _ in workload)
    assert watched.scheduler.blocks.num_free == num_blocks
    _assert_computed_once_unless_preempted(played, made)


def _assert_computed_once_unless_preempted(played: Played, made: Sequence[Request]) -> None:
    recomputed = sum(c.recomputed for planned in played.passes for c in planned.chunks)
    lost = [p for planned in played.passes for p in planned.preemptions]
    assert recomputed == sum(p.tokens for p in lost)
    assert Counter(p.request for p in lost) == Counter({r: r.num_preemptions for r in made if r.num_preemptions})
    # The last token of a request is generated but never computed.
    once = sum(r.num_prompt_tokens + r.spec.budget_tokens - 1 for r in made)
    assert sum(planned.tokens for planned in played.passes) == once + recomputed
    if not lost:
        assert sum(planned.prompt_tokens for planned in played.passes) == sum(r.num_prompt_tokens for r in made)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=60, deadline=None)
@given(workload=WORKLOADS, slots=st.integers(1, 5), ends=st.lists(st.integers(1, 12), min_size=12, max_size=12))
def test_late_eos_changes_no_answer(engine: str, workload: Workload, slots: int, ends: list[int]) -> None:
    config = replace(ENGINES[engine], slots=slots)
    answers = []
    for late in (False, True):
        made = made_of(workload, ignore_eos=False)
        eos = {name(r): end for r, end in zip(made, ends, strict=False)}
        scheduler = make_scheduler(config, made)
        played = play(scheduler, eos=eos, late=late)
        assert set(played.ended) == {name(r) for r in made}
        assert len(scheduler._free_lanes) == config.num_slots
        answers.append([(r.num_scheduled, r.finish_reason) for r in made])
    expected = [
        (min(budget, end), FinishReason.EOS if end <= budget else FinishReason.BUDGET)
        for (budget, _, _), end in zip(workload, ends, strict=False)
    ]
    assert answers == [expected, expected]


@settings(max_examples=200, deadline=None)
@given(case=crowded(), ends=st.lists(st.integers(1, 12), min_size=12, max_size=12))
def test_late_eos_in_a_full_pool(case: tuple[RunConfig, Workload, int], ends: list[int]) -> None:
    config, workload, num_blocks = case
    made = made_of(workload, ignore_eos=False)
    watched = _Watched(config, made, num_blocks)
    play(watched.scheduler, eos={name(r): e for r, e in zip(made, ends, strict=False)}, late=True, watch=watched.watch)
    assert [r.num_scheduled for r in made] == [min(b, e) for (b, _, _), e in zip(workload, ends, strict=False)]
    assert watched.scheduler.blocks.num_free == num_blocks


def test_the_kind_of_a_pass_follows_from_its_rows() -> None:
    made = requests([3, 2], prompts=[4, 12], arrivals_s=[0.0, 0.5])
    scheduler = make_scheduler(RunConfig(engine="chunked", slots=2, block_size=4, max_num_batched_tokens=9), made)
    kinds = [planned.kind for planned in play(scheduler).passes]
    assert kinds == [PassKind.PREFILL, PassKind.MIXED, PassKind.MIXED, PassKind.DECODE]
