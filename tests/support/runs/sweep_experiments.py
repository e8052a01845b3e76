"""Sweeps on disk for the tests of the Sweep page: plans as the lab makes them, points with figures worked out by hand.

A decode step takes 10 ms and 1 ms a row, a prefill 1 ms a prompt token: B = 1 of p16 decodes 1000 / 11 tokens/s.
Figures are in the records alone; `with_run`, the last point that completed has a run, whose figures are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.units import GIB
from engine.experiments.experiment import Plan, Point, PointRecord, run_stats
from engine.experiments.sweep_plan import plan_sweep
from engine.runlog.experiment_log import ExperimentLog
from tests.support.runs.page_runs import config_of, write_run

CREATED = "2026-11-29T12:00:00.000+00:00"
BUDGET = 32
SHAPE = {
    "name": "tiny-random",
    "parameters": 1_000_000,
    "layers": 2,
    "hidden": 64,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "intermediate": 160,
    "vocab": 512,
    "dtype": "float32",
    "random_weights": True,
    "tokenizer_file": None,
}

Ending = Callable[[Point], Mapping[str, Any]]


def sweep_plan(
    experiment_id: str = "sweep1", prompts: str | None = "p16,p64", batch_sizes: str = "1,2,4,8", **more: Any
) -> Plan:
    """A sweep of tiny-random with a budget of 32."""
    base = RunConfig(engine="static", model="tiny-random", workload=WorkloadConfig(prompts="p16", budget=str(BUDGET)))
    created = {"experiment_id": experiment_id, "created_at": CREATED}
    return plan_sweep(base, prompts=prompts, batch_sizes=batch_sizes, **created | more)


def totals_of(point: Point) -> dict[str, Any]:
    """The figures of a completed point, by hand; later repeats are slower by 10 % each."""
    size, tokens = int(point.values["batch_size"]), int(point.values["prompt_tokens"])
    slower = 1 + 0.1 * point.repeat
    is_ragged = point.values["role"] == "ragged"
    tpot_s, ttft_s = (0.010 + 0.001 * size) * slower, 0.001 * tokens * size * slower
    duration_s = (ttft_s + (BUDGET - 1) * tpot_s) * (2 if is_ragged else 1)
    return {
        "requests": size,
        "prompt_tokens": tokens * size,
        "output_tokens": BUDGET * size,
        "output_tokens_per_s": BUDGET * size / duration_s,
        "duration_s": duration_s,
        "ttft_p50_s": ttft_s,
        "tpot_p50_s": tpot_s,
        "peak_memory_bytes": GIB + size * tokens * 2**20,
        "kv_unused_fraction": 0.25 if is_ragged else 0.0,
    }


def completed(point: Point) -> dict[str, Any]:
    """Every point completes."""
    return {"status": "completed", "totals": totals_of(point)}


def out_of_memory(point: Point) -> dict[str, Any]:
    """Every point asks for more than there is."""
    oom = {"asked_bytes": 4 * GIB, "free_bytes": GIB, "shape": "(8, 64)", "where": "prefill"}
    return {"status": "oom", "error": "out of memory: prefill asked for 4 GiB", "oom": oom}


def oom_from(batch_size: int) -> Ending:
    """Batches of that size and larger do not fit."""
    return lambda point: out_of_memory(point) if point.values["batch_size"] >= batch_size else completed(point)


def write_sweep(
    runs: Path, plan: Plan, ending: Ending = completed, *, only: Collection[int] | None = None, with_run: bool = True
) -> Path:
    """The folder of an experiment whose points ended as `ending` says; those not in `only` (positions) were not run."""
    run_id = f"run_of_{plan.experiment_id}"
    with ExperimentLog.create(runs, plan) as log:
        ended = {p.point_id: ending(p) for p in plan.points if only is None or p.position in only}
        good = [point for point in plan.points if ended.get(point.point_id, {}).get("status") == "completed"]
        if good and with_run:
            facts = run_stats(plan, good[-1])
            write_run(runs, run_id, "static", config=config_of("static"), model=SHAPE, experiment=facts)
        for (key, repeat), how in ended.items():
            mine = run_id if with_run and good and (key, repeat) == good[-1].point_id else None
            log.append(PointRecord(key=key, repeat=repeat, run_id=mine, ended_at=CREATED, **how))
        return log.folder
