"""Small sweeps of the tiny model for tests, and what their folders say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.run_id import new_run_id, utc_now
from engine.experiments.experiment import Plan, PointId, remaining
from engine.experiments.sweep_plan import plan_sweep
from engine.runlog.experiment_log import ExperimentLog


def a_sweep(
    batch_sizes: str = "1,2,4",
    *,
    model: str = "tiny-random",
    prompts: str | None = "p16",
    mix: str | None = None,
    budget: str = "4",
    repeats: int = 1,
    engine: str = "static",
    pool_gib: float | None = None,
) -> Plan:
    """A sweep on the CPU."""
    base = RunConfig(
        engine=engine, model=model, device="cpu", slots=1, pool_gib=pool_gib, workload=WorkloadConfig(budget=budget)
    )
    return plan_sweep(
        base,
        experiment_id=new_run_id(),
        created_at=utc_now(),
        prompts=prompts,
        batch_sizes=batch_sizes,
        mix=mix,
        repeats=repeats,
    )


def good_records(folder: Path) -> Counter[PointId]:
    """How many settled records each point of an experiment has."""
    return Counter(r.point_id for r in ExperimentLog.read(folder).records if r.status in ("completed", "oom", "failed"))


def is_done(folder: Path) -> bool:
    """Whether nothing of an experiment is left to run and no process is at work on it."""
    logged = ExperimentLog.read(folder)
    return not ExperimentLog.is_open(folder) and not remaining(logged.plan, logged.records)


def statuses(folder: Path) -> list[tuple[str, str]]:
    """Key and status of every attempt that ended, in order."""
    return [(record.key, record.status) for record in ExperimentLog.read(folder).records]
