"""Fast-forwarded and single-stepped simulations are bit-identical: every row, every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.form_rule import FormRule
from engine.core.presets import PRESETS, make_scheduler
from engine.core.schedulers.chunked_scheduler import ChunkedScheduler
from engine.core.schedulers.continuous_scheduler import ContinuousScheduler
from engine.core.schedulers.paged_scheduler import PagedScheduler
from engine.core.schedulers.scheduler import Scheduler
from engine.core.schedulers.static_scheduler import StaticScheduler
from engine.simulator.fast_forward import decode_run_of
from engine.simulator.machine import simulated_machine
from engine.simulator.simulator import Replica, Simulation, simulate, simulated_requests
from engine.workload.workload import build_workload
from tests.support.runs.simulated import STREAMS, on_card, played

MIX = "p16,p64,p256,p1024"
CASES: list[dict[str, Any]] = [
    {"engine": "serial"},
    {"engine": "static"},
    {"engine": "static", "form": FormRule.parse("full")},
    {"engine": "static", "form": FormRule.parse("timeout:0.5"), "returns": "whole"},
    {"engine": "continuous"},
    {"engine": "continuous", "timing": "async"},
    {"engine": "paged"},
    {"engine": "paged", "block_size": 1},
    {"engine": "paged", "pool_gib": 0.05},
    {"engine": "chunked", "max_num_batched_tokens": 64},
    {"engine": "chunked", "pool_gib": 0.05},
]


@pytest.mark.parametrize("arrival", ["closed", "poisson:4", "gamma:2:4"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(v) for v in case.values()))
def test_every_row_is_the_same(case: dict[str, Any], arrival: str) -> None:
    for seed, slots in ((0, 8), (1, 3)):
        workload = WorkloadConfig(prompts=MIX, requests=24, budget="1-90", arrival=arrival, seed=seed)
        config = RunConfig(model="qwen2.5-1.5b", slots=slots, workload=workload, **case)
        fast, slow = (on_card(config, "a10", streams=STREAMS, fast_forward=way) for way in (True, False))
        assert fast.status == slow.status == "completed"
        assert_same(fast, slow)


def assert_same(fast: Simulation, slow: Simulation) -> None:
    for stream in ("requests", *STREAMS):
        fast_rows, slow_rows = fast.sink.rows(stream), slow.sink.rows(stream)
        assert list(fast_rows) == list(slow_rows)
        for name, values in fast_rows.items():
            assert values == slow_rows[name], f"{stream}.{name}"
    for name, column in fast.tokens.items():
        np.testing.assert_array_equal(column, slow.tokens[name])
    assert (fast.duration_s, fast.peak_bytes, fast.kv_bytes) == (slow.duration_s, slow.peak_bytes, slow.kv_bytes)


def test_the_capped_pools_preempt() -> None:
    workload = WorkloadConfig(prompts=MIX, requests=24, budget="1-90")
    for engine in ("paged", "chunked"):
        config = RunConfig(engine=engine, model="qwen2.5-1.5b", slots=8, pool_gib=0.05, workload=workload)
        assert on_card(config, "a10", streams=STREAMS).sink.rows("events")["event"]


@pytest.mark.parametrize(("fast_forward", "plans"), [(True, 4), (False, 1998)])
def test_equal_steps_are_not_planned_one_by_one(
    fast_forward: bool, plans: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two requests of 1,000 tokens: a prefill and 999 decode passes, of which the first and the last are planned.

    Each planned step asks for both kinds of pass.
    """
    asked = []
    plan = ContinuousScheduler.plan
    monkeypatch.setattr(ContinuousScheduler, "plan", lambda self, kind: asked.append(kind) or plan(self, kind))
    simulation = played(
        RunConfig(engine="continuous", slots=2), [(16, 1000, 0.0), (16, 1000, 0.0)], fast_forward=fast_forward
    )
    assert simulation.sink.num_passes == 1000
    assert len(asked) == plans


class RestsAfterEverySixthPass(ContinuousScheduler):
    """An unknown policy: it admits only at certain passes."""

    def num_admissible(self, now_s: float) -> int:
        return super().num_admissible(now_s) if self.num_passes % 6 == 0 else 0


def test_an_unknown_policy_is_stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(4, 30, 0.0), (4, 13, 2.5), (4, 21, 2.75), (4, 3, 12.0)]
    config = RunConfig(engine="continuous", slots=3)
    known = played(config, rows, streams=STREAMS)
    preset = replace(PRESETS["continuous"], scheduler=RestsAfterEverySixthPass)
    monkeypatch.setitem(PRESETS, "continuous", preset)
    fast, slow = (played(config, rows, streams=STREAMS, fast_forward=way) for way in (True, False))
    assert_same(fast, slow)
    assert fast.sink.rows("passes") != known.sink.rows("passes")


@pytest.mark.parametrize("policy", [StaticScheduler, ContinuousScheduler, PagedScheduler, ChunkedScheduler])
def test_all_policies_of_the_lab_can_be_fast_forwarded(policy: type[Scheduler]) -> None:
    engine = next(name for name, preset in PRESETS.items() if preset.scheduler is policy)
    assert decode_run_of(make_scheduler(RunConfig(engine=engine), [])) is not None


class Copy:
    """Forwards rows to a sink and keeps the token rows."""

    def __init__(self, sink: Any) -> None:
        self.sink = sink
        self.tokens: list[tuple[int, int, int, float]] = []

    def append(self, stream: str, **row: Any) -> None:
        self.sink.append(stream, **row)

    def extend(self, stream: str, columns: Mapping[str, Sequence[Any]]) -> None:
        if stream == "tokens":
            names = ("request_id", "token_index", "pass_index", "produced_s")
            self.tokens += zip(*(columns[name] for name in names), strict=True)
        self.sink.extend(stream, columns)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(v) for v in case.values()))
def test_token_times_equal_the_recorders_rows(case: dict[str, Any]) -> None:
    workload = build_workload(WorkloadConfig(prompts=MIX, requests=24, budget="1-90", arrival="poisson:4"))
    config = RunConfig(model="qwen2.5-1.5b", slots=8, **case)
    machine = simulated_machine(config, "a10")
    replica = Replica(config, simulated_requests(workload), machine.cost, machine.shape, fast_forward=False)
    replica.recorder.logs_tokens = True
    replica.recorder.sink = copy = Copy(replica.sink)
    replica.advance()
    fast = simulate(config, workload, machine.cost, machine.shape).tokens
    names = ("request_id", "token_index", "pass_index", "produced_s")
    assert sorted(zip(*(fast[name].tolist() for name in names), strict=True)) == sorted(copy.tokens)


def test_arrivals_while_slots_are_full_join_the_queue_in_their_step() -> None:
    rows = [(4, 30, 0.0), (4, 3, 7.5), (4, 3, 7.75), (4, 3, 12.0)]
    simulation = played(RunConfig(engine="continuous", slots=1), rows, streams=STREAMS)
    requests = simulation.sink.rows("requests")
    assert requests["submitted_s"] == [0.0, 8.0, 8.0, 12.0]
    depth = simulation.sink.rows("passes")["queue_depth"]
    assert depth[7:14] == [0, 2, 2, 2, 2, 3, 3]
