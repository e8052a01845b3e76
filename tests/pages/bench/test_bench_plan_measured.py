"""The plan against real runs: the same passes, lanes and spans for every engine, on ten closed workloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.presets import ENGINES
from engine.runlog.reader import RunLogReader
from engine.runtime.prepared_run import WarmModel, prepare_run
from engine.runtime.run import execute_run
from pages.parts.bench.plan import plan_of

pytestmark = pytest.mark.slow

WORKLOADS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "eight unequal requests": ({}, {"budget": "8-48", "requests": 8}),
    "equal requests": ({}, {"prompts": "p16", "budget": "12", "requests": 8}),
    "one request": ({}, {"requests": 1, "budget": "5"}),
    "one token each": ({}, {"budget": "1", "requests": 6}),
    "fewer requests than slots": ({"slots": 8}, {"requests": 3, "budget": "4-9"}),
    "one slot": ({"slots": 1}, {"requests": 4, "budget": "2-6"}),
    "one long prompt": ({"max_num_batched_tokens": 16}, {"prompts": "p8:7,p120:1", "requests": 8, "budget": "4-20"}),
    "counted budgets": ({}, {"requests": 6, "budget": "4x3+2x25"}),
    "many requests": ({"slots": 6, "max_num_batched_tokens": 32}, {"requests": 30, "budget": "1-16"}),
    "a small pool": ({"pool_gib": 3e-5, "block_size": 4}, {"prompts": "p8", "requests": 4, "budget": "24"}),
}


COLUMNS = ["kind", "step", "rows", "live_rows", "prompt_tokens", "kv_reserved_positions", "queue_depth"]


@pytest.fixture(scope="module")
def warm() -> WarmModel:
    return WarmModel()


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_plan_is_the_run(warm: WarmModel, tmp_path: Path, name: str) -> None:
    own, workload = WORKLOADS[name]
    given = WorkloadConfig(**({"prompts": "p8,p24"} | workload))
    for engine in ENGINES:
        settings = {"slots": 4, "warmups": 0} | own
        config = RunConfig(engine=engine, model="tiny-random", device="cpu", workload=given, **settings)
        plan = plan_of(config)
        prepared = prepare_run(config, warm, lambda message, fraction: None)
        result = execute_run(prepared, engine, tmp_path / engine, warm)
        if plan.problem:
            assert ("out of memory" in plan.problem, result["status"]) == (True, "oom"), engine
            continue
        assert result["status"] == "completed"
        log = RunLogReader(tmp_path / engine)
        passes = log.table("passes").to_pandas()
        pd.testing.assert_frame_equal(plan.passes[COLUMNS], passes[COLUMNS], check_dtype=False, obj=engine)
        spans = log.spans().to_pandas().rename(columns={"start_pass": "start_step", "end_pass": "end_step"})
        assert _drawn(plan.spans) == _drawn(spans), engine


def _drawn(spans: pd.DataFrame) -> list[tuple[object, ...]]:
    mine = spans[spans["phase"] != "empty"][["lane", "request_id", "phase", "start_step", "end_step"]]
    return sorted(tuple(row) for row in mine.astype({"lane": int, "request_id": int}).itertuples(index=False))
