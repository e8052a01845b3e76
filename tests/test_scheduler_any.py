"""What holds for any workload through any policy: everybody gets what was asked for, and no slot is held twice."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.config import RunConfig
from engine.core.passes import PassKind
from engine.core.presets import make_scheduler
from tests.schedule import Played, name, play, requests

ENGINES = {
    "serial": RunConfig(engine="serial"),
    "static": RunConfig(engine="static"),
    "static, full": RunConfig.from_dict({"engine": "static", "form": "full"}),
    "static, timeout": RunConfig.from_dict({"engine": "static", "form": "timeout:2"}),
    "continuous": RunConfig(engine="continuous"),
}
WORKLOADS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 30), st.sampled_from([0.0, 0.5, 3.0, 3.25, 40.0])), max_size=12
)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=60, deadline=None)
@given(workload=WORKLOADS, slots=st.integers(1, 5))
def test_any_workload_runs_to_its_end(engine: str, workload: list[tuple[int, int, float]], slots: int) -> None:
    budgets, prompts, arrivals_s = zip(*workload, strict=True) if workload else ((), (), ())
    made = requests(budgets, prompts=prompts, arrivals_s=arrivals_s)
    config = RunConfig.from_dict(ENGINES[engine].to_dict() | {"slots": slots})
    played = play(make_scheduler(config, made))
    assert [r.num_scheduled for r in made] == list(budgets)
    assert played.useful_slot_steps == sum(budgets)
    assert all(len(planned.rows) <= config.num_slots for planned in played.passes)
    assert [planned.index for planned in played.passes] == list(range(len(played.passes)))
    for request in made:
        assert played.admitted[name(request)] >= request.spec.arrival_s
    _assert_positions_add_up(played)
    if not engine.startswith("static"):
        assert played.slot_steps == played.useful_slot_steps


def _assert_positions_add_up(played: Played) -> None:
    said: Counter[int] = Counter()
    for planned in played.passes:
        shape = planned.shape
        prompts = sum(r.num_prompt_tokens for r in planned.live_requests)
        # A decode pass attends over the prompt and all tokens so far; a prefill, over the prompt.
        real = prompts + sum(said[r.request_id] for r in planned.live_requests)
        assert shape.computed_positions == real + shape.padding_positions + shape.dead_positions
        assert shape.padding_positions >= 0
        assert shape.dead_positions == shape.width * (len(planned.rows) - len(planned.live))
        assert planned.kv.used <= planned.kv.reserved
        assert planned.prompt_tokens == (prompts if planned.kind is PassKind.PREFILL else 0)
        said.update(r.request_id for r in planned.live_requests)
