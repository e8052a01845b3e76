"""Load tests on disk for the tests of the Load page: the real schedulers and recorder write every run's log.

Passes take about 10 ms, of a clock that is made up, so that every figure is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from engine.core.config import RunConfig, WorkloadConfig
from engine.experiments.experiment import Plan, Point, PointRecord, remaining
from engine.load.load_plan import plan_load
from engine.runlog.experiment_log import ExperimentLog
from engine.runlog.load_log import next_load_points
from engine.runlog.reader import RunLogReader
from tests.support.runs.sample_runs import write_sample_run

CREATED = "2026-11-29T12:00:00.000+00:00"
WORKLOAD = WorkloadConfig(prompts="p16,p5", requests=24, budget="4-20")

Ending = Callable[[Point], Mapping[str, Any] | None]


def load_plan_of(
    experiment_id: str = "load1", engines: str = "static,continuous", rates: str = "5,20,80", **more: Any
) -> Plan:
    """A load test of tiny-random: 24 requests of 4 to 20 tokens, 4 slots."""
    base = RunConfig(model="tiny-random", slots=4, workload=more.pop("workload", WORKLOAD))
    created = {"experiment_id": experiment_id, "created_at": CREATED}
    rates_per_s = [float(rate) for rate in rates.split(",")]
    return plan_load(base, engines=engines.split(","), rates_per_s=rates_per_s, **created | more)


def out_of_memory(point: Point) -> dict[str, Any]:
    """Every point asks for more than there is."""
    oom = {"asked_bytes": 4 * 2**30, "free_bytes": 2**30, "shape": "(8, 64)", "where": "prefill"}
    return {"status": "oom", "error": "out of memory: prefill asked for 4 GiB", "oom": oom}


def write_load(runs: Path, plan: Plan, ending: Ending | None = None, *, only: Collection[int] | None = None) -> Path:
    """The folder of an experiment. Points run to their end unless `ending` says how one ended without a run.

    Those not in `only` (positions) were not run. Of a plan that is run whole, the points around capacity are run too.
    """
    with ExperimentLog.create(runs, plan) as log:
        for point in plan.points:
            if only is None or point.position in only:
                log.append(_attempt(runs, plan, point, ending))
        if only is None:
            log.add(next_load_points(runs)(log.plan, log.records))
            for point in remaining(log.plan, log.records):
                log.append(_attempt(runs, plan, point, ending))
        return log.folder


def _attempt(runs: Path, plan: Plan, point: Point, ending: Ending | None) -> PointRecord:
    ended: dict[str, Any] = {"key": point.key, "repeat": point.repeat, "ended_at": CREATED}
    how = None if ending is None else ending(point)
    if how is not None:
        return PointRecord(run_id=None, **ended, **how)
    run_id = f"{plan.experiment_id}_{point.key}_{point.repeat}".replace("/", "_").replace(".", "_")
    config = point.config
    experiment = {"id": plan.experiment_id, "kind": plan.kind, "label": plan.label, "key": point.key, "repeat": 0}
    folder = write_sample_run(
        runs, config.engine, run_id=run_id, experiment=experiment, workload=config.workload, slots=config.slots
    )
    result = RunLogReader(folder).result() or {}
    return PointRecord(run_id=run_id, status=str(result["status"]), totals=result["totals"], **ended)
