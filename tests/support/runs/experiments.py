"""Experiments without an engine, for the tests of the store and the pages: plans, folders, runs of made-up length."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.core.config import RunConfig, WorkloadConfig
from engine.experiments.experiment import ExperimentKind, Plan, Point, PointRecord, interleaved
from engine.runlog.experiment_log import ExperimentLog, record_of_result
from tests.support.runs.sample_runs import write_sample_run

CREATED_AT = "2026-03-04T05:06:07.000+00:00"
OOM = {"asked_bytes": 4_000, "free_bytes": 3_000, "shape": "2 x 4", "where": "prefill"}


def sweep_plan(
    sizes: Sequence[int] = (1, 2, 4), *, repeats: int = 1, experiment_id: str = "sweep1", engine: str = "static"
) -> Plan:
    """A sweep over batch sizes at one prompt length."""
    points = [
        Point(
            key=f"{engine}/p16/b{size}",
            position=place,
            repeat=0,
            values={"engine": engine, "prompts": "p16", "prompt_tokens": 16, "batch_size": size, "role": "point"},
            config=_config(engine, size),
        )
        for place, size in enumerate(sizes)
    ]
    return plan_of("sweep", interleaved(points, repeats), experiment_id)


def plan_of(kind: ExperimentKind, points: Sequence[Point], experiment_id: str) -> Plan:
    return Plan(
        experiment_id=experiment_id,
        kind=kind,
        label=f"a {kind}",
        created_at=CREATED_AT,
        settings={"repeats": 1},
        points=tuple(points),
    )


def run_point(log: ExperimentLog, point: Point, *, status: str = "completed", run_id: str | None = None) -> str:
    """Run a point for its record: writes the run's folder and appends how it ended. Returns the run's id."""
    folder = write_point_run(log, point, status=status, run_id=run_id)
    log.append(record_of_result(point.key, point.repeat, folder.name, json.loads((folder / "result.json").read_text())))
    return folder.name


def write_point_run(
    log: ExperimentLog, point: Point, *, status: str | None = "completed", run_id: str | None = None
) -> Path:
    """The run's folder alone, as it is before the experiment has a record of it."""
    return write_sample_run(
        log.folder.parent,
        point.config.engine,
        run_id=run_id,
        status=status,
        experiment=experiment_of(log.plan, point),
        workload=point.config.workload,
        slots=point.config.slots,
    )


def experiment_of(plan: Plan, point: Point) -> Mapping[str, Any]:
    """What a run's run.json says of its experiment."""
    return {
        "id": plan.experiment_id,
        "kind": plan.kind,
        "label": plan.label,
        "key": point.key,
        "repeat": point.repeat,
    }


def out_of_memory(log: ExperimentLog, point: Point) -> None:
    """A point that had no room, and no run folder."""
    log.append(
        PointRecord(
            key=point.key, repeat=point.repeat, run_id=None, status="oom", error="no room", oom=OOM, ended_at=CREATED_AT
        )
    )


def _config(engine: str, size: int) -> RunConfig:
    workload = WorkloadConfig(prompts="p16", requests=size, budget="8")
    return RunConfig(engine=engine, slots=size, model="tiny-random", workload=workload)
