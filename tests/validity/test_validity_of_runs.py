"""Validity of real runs of the tiny model, judged from their logs through the store."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.runtime import build_engine
from engine.runtime.prepared_run import WarmModel, prepare_run
from engine.runtime.run import execute_run
from store import Store

OPEN = WorkloadConfig(prompts="p7,p12", requests=30, budget="3-9", arrival="constant:150", seed=3)
CONFIG = RunConfig(model="tiny-random", device="cpu", workload=OPEN)


@pytest.fixture(scope="module")
def warm() -> WarmModel:
    return WarmModel()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


def outcomes(store: Store, warm: WarmModel, config: RunConfig) -> dict[str, str]:
    """What the checks found of a run of `config` made now."""
    folder = store.runs_folder / "r1"
    execute_run(prepare_run(config, warm, lambda what, share: None), "r1", folder, warm)
    store.ingest.run(folder)
    return {row["check_name"]: row["outcome"] for row in store.runs.checks("r1")}


@pytest.mark.parametrize("engine", ["continuous", "static", "paged", "chunked"])
def test_an_ordinary_run_earns_its_badges(store: Store, warm: WarmModel, engine: str) -> None:
    """Badges that depend on the current load of the machine may be lost."""
    found = outcomes(store, warm, replace(CONFIG, engine=engine))
    assert found["offered_rate"] in ("pass", "fail")
    expected = ("exact_prompts", "warm_up", "no_preemption", "unwatched", "measured")
    assert {name: found[name] for name in expected} == dict.fromkeys(expected, "pass")
    assert found["real_weights"] == "fail"


def test_the_clock_starts_when_requests_can_be_seen(
    store: Store, warm: WarmModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preparation time does not count as waiting of requests that arrive at the start."""
    steps: list[str] = []
    freeze, unfreeze, clock = gc.freeze, gc.unfreeze, build_engine.RunClock
    monkeypatch.setattr("gc.freeze", lambda: (steps.append("made ready"), freeze())[1])
    monkeypatch.setattr("gc.unfreeze", lambda: (steps.append("over"), unfreeze())[1])
    monkeypatch.setattr(build_engine, "RunClock", lambda: (steps.append("clock"), clock())[1])
    outcomes(store, warm, replace(CONFIG, workload=replace(OPEN, arrival="closed", requests=4)))
    assert steps == ["made ready", "clock", "over"]


def test_a_run_without_warm_up_says_so(store: Store, warm: WarmModel) -> None:
    assert outcomes(store, warm, replace(CONFIG, warmups=0))["warm_up"] == "fail"


def test_a_run_whose_pool_is_too_small_was_preempted(store: Store, warm: WarmModel) -> None:
    # Blocks of 4 positions: three requests of 12 + 24 tokens want 9 blocks each, and the pool has room for 12.
    workload = WorkloadConfig(prompts="p12", requests=3, budget="24")
    config = replace(CONFIG, engine="paged", slots=3, block_size=4, workload=workload)
    prepared = prepare_run(config, warm, lambda what, share: None)
    block_bytes = 4 * prepared.kv_shape().position_bytes
    found = outcomes(store, warm, replace(config, pool_gib=12 * block_bytes / 2**30))
    assert store.runs.metrics("r1")["finished_requests"] == 3
    assert found["no_preemption"] == "fail"
    assert found["warm_up"] == "pass"
