"""Behavior that needs a GPU: device events, passes issued ahead, memory caps, and memory that is returned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.core.config import RunConfig, SamplingConfig, WorkloadConfig
from engine.runlog.reader import RunLogReader
from engine.runtime.measuring.oracles import generate_outputs
from engine.runtime.measuring.parity import engine_outputs
from engine.runtime.prepared_run import WarmModel, prepare_run
from engine.runtime.run import execute_run

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

RAGGED = WorkloadConfig(prompts="p5,p9,p17,p30", requests=9, budget="1-20")


@pytest.fixture(scope="module")
def warm() -> WarmModel:
    return WarmModel()


def config(engine: str = "continuous", **more: object) -> RunConfig:
    base = RunConfig(engine=engine, model="tiny-random", device="cuda", dtype="fp32", workload=RAGGED)
    return replace(base, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("timing", ["sync", "async"])
@pytest.mark.parametrize("engine", ["serial", "static", "continuous"])
def test_tokens_equal_generates(warm: WarmModel, engine: str, timing: str) -> None:
    run = prepare_run(config(engine, timing=timing), warm, lambda m, f: None)
    assert engine_outputs(run) == generate_outputs(run)


def test_sampled_tokens_do_not_depend_on_engine_or_timing(warm: WarmModel) -> None:
    sampling = SamplingConfig(temperature=0.9, top_k=40, top_p=0.95)
    outputs = [
        engine_outputs(prepare_run(config(engine, timing=timing, sampling=sampling), warm, lambda m, f: None))
        for engine in ("static", "continuous")
        for timing in ("sync", "async")
    ]
    assert all(o == outputs[0] for o in outputs)


def test_async_times_come_from_the_device_and_are_in_order(warm: WarmModel, tmp_path: Path) -> None:
    run = prepare_run(config(timing="async"), warm, lambda m, f: None)
    assert execute_run(run, "async", tmp_path / "async", warm)["status"] == "completed"
    passes = RunLogReader(tmp_path / "async").table("passes").to_pylist()
    assert all(p["start_s"] < p["end_s"] and p["issue_s"] > 0 for p in passes)
    assert all(a["end_s"] <= b["start_s"] + 1e-4 for a, b in zip(passes, passes[1:], strict=False))
    tokens = RunLogReader(tmp_path / "async").table("tokens").to_pylist()
    assert all(t["delivered_s"] >= t["produced_s"] for t in tokens)


def test_a_real_shortage_is_told_and_the_memory_given_back(warm: WarmModel, tmp_path: Path) -> None:
    big = config("static", slots=2048, workload=WorkloadConfig(prompts="p512", requests=2048, budget="500"))
    capped = replace(big, capacity_gib=0.25)
    before = torch.cuda.memory_allocated()
    result = execute_run(prepare_run(capped, warm, lambda m, f: None), "oom", tmp_path / "oom", warm)
    assert result["status"] == "oom"
    assert result["oom"]["asked_bytes"] > result["oom"]["free_bytes"] > 0
    assert torch.cuda.memory_allocated() <= before + 2**20
    after = execute_run(prepare_run(config(), warm, lambda m, f: None), "next", tmp_path / "next", warm)
    assert after["status"] == "completed"


def test_a_caps_end_is_the_runs_end(warm: WarmModel, tmp_path: Path) -> None:
    capped = config(capacity_gib=0.25)
    assert (
        execute_run(prepare_run(capped, warm, lambda m, f: None), "cap", tmp_path / "cap", warm)["status"]
        == "completed"
    )
    assert torch.empty(2**30, dtype=torch.uint8, device="cuda").numel() == 2**30


def test_async_issues_a_prefill_without_waiting_for_it(warm: WarmModel, tmp_path: Path) -> None:
    work = WorkloadConfig(prompts="p4096", requests=16, budget="2")
    run = prepare_run(config(timing="async", slots=16, workload=work), warm, lambda m, f: None)
    assert execute_run(run, "ahead", tmp_path / "ahead", warm)["status"] == "completed"
    prefill = RunLogReader(tmp_path / "ahead").table("passes").to_pylist()[0]
    assert prefill["issue_s"] < prefill["device_s"]
