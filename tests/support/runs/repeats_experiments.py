"""Repeats on disk for the tests of their page: plans as Bench makes them, figures by hand.

Static makes 100 tokens/s and continuous 130; each of five repeats is slower by 4 % of the first, of either engine.
Figures are in the records alone; runs that `with_runs` names by position have a folder, whose figures are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.units import GIB
from engine.experiments.experiment import Plan, Point, PointRecord, run_stats
from engine.experiments.repeats import plan_repeats
from engine.runlog.experiment_log import ExperimentLog
from tests.support.runs.page_runs import config_of, write_run

CREATED = "2026-11-29T12:00:00.000+00:00"
RATES = {"static": 100.0, "continuous": 130.0}
WORKLOAD = WorkloadConfig(prompts="p16", requests=2, budget="2-4")

Ending = Callable[[Point], Mapping[str, Any]]


def repeats_plan(
    experiment_id: str = "rep1", *, engines: str = "static,continuous", repeats: int = 3, **config: Any
) -> Plan:
    """Repeats of tiny-random."""
    given = {"model": "tiny-random", "slots": 2, "workload": WORKLOAD} | config
    configs = [RunConfig(engine=engine, **given) for engine in engines.split(",")]
    return plan_repeats(configs, experiment_id=experiment_id, created_at=CREATED, repeats=repeats)


def completed(point: Point) -> dict[str, Any]:
    """Every run completes."""
    rate = RATES.get(point.config.engine, 80.0) * (1 - 0.04 * (point.repeat % 5))
    is_static = point.config.engine == "static"
    totals = {
        "requests": 2,
        "output_tokens": 6,
        "output_tokens_per_s": rate,
        "duration_s": 6 / rate,
        "ttft_p50_s": 1 / rate,
        "ttft_p95_s": 2 / rate,
        "tpot_p50_s": 0.5 / rate,
        "dead_fraction": 0.25 if is_static else 0.0,
    }
    return {"status": "completed", "totals": totals}


def out_of_memory(point: Point) -> dict[str, Any]:
    """Every run asks for more than there is."""
    oom = {"asked_bytes": 4 * GIB, "free_bytes": GIB, "shape": "(8, 64)", "where": "prefill"}
    return {"status": "oom", "error": "out of memory: prefill asked for 4 GiB", "oom": oom}


def noisy(point: Point) -> dict[str, Any]:
    """Continuous is faster in the first repeat and slower in the second: 104 and 94 against 100 and 96."""
    ended = completed(point)
    if point.config.engine == "continuous":
        ended["totals"] = ended["totals"] | {"output_tokens_per_s": 104.0 - 10 * point.repeat}
    return ended


def write_repeats(
    runs: Path,
    plan: Plan,
    ending: Ending = completed,
    *,
    only: Collection[int] | None = None,
    with_runs: Collection[int] = (),
) -> Path:
    """The folder of an experiment whose runs ended as `ending` says; those not in `only` (positions) were not run."""
    with ExperimentLog.create(runs, plan) as log:
        for point in plan.points:
            if only is not None and point.position not in only:
                continue
            run_id = f"{plan.experiment_id}_run{point.position}" if point.position in with_runs else None
            if run_id is not None:
                engine = point.config.engine
                write_run(runs, run_id, engine, config=config_of(engine), experiment=run_stats(plan, point))
            log.append(
                PointRecord(key=point.key, repeat=point.repeat, run_id=run_id, ended_at=CREATED, **ending(point))
            )
        return log.folder
