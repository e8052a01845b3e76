"""A LAB_HOME in which all text from elsewhere is Markdown and HTML: models, devices, errors, notes, SQL."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from engine.core.config import WorkloadConfig
from engine.experiments.experiment import Point
from engine.predictions.prediction import Expectation, Question
from store import Store
from store.annotations import Annotation
from store.predictions.predictions import Subject
from tests.support.page_app import take_in
from tests.support.runs.load_experiments import load_plan_of, write_load
from tests.support.runs.page_runs import config_of, run_info, write_run
from tests.support.runs.repeats_experiments import repeats_plan, write_repeats
from tests.support.runs.roofline_runs import MODEL, calibrate, timed_passes
from tests.support.runs.sweep_experiments import sweep_plan, write_sweep

EVIL = "m*evil*<u>evil</u>$evil$:red[evil](evil)"


def write_hostile_home(home: Path) -> None:
    """Runs, experiments, notes, predictions, calibrations and saved queries with EVIL in every text."""
    runs = home / "runs"
    with Store(home) as store:
        expected = Expectation(low=0.1, high=0.2, why=EVIL)
        for subject in ("h1", "h3"):
            store.predictions.add(
                Subject(kind="run", subject_id=subject), Question(measure="metric", metric="itl_max_s"), expected
            )
    for run_id, engine, number in (("h1", "static", 1), ("h2", "static", 2), ("h3", "continuous", 3)):
        _write_hostile_run(runs, run_id, engine, f"{EVIL}{number}")
    _write_hostile_run(runs, "h4", "static", EVIL, status="oom", error=EVIL, oom=OOM)
    _write_hostile_run(runs, "h5", "static", EVIL, status="failed", error=EVIL)
    for plan, write in (
        (sweep_plan(), write_sweep),
        (load_plan_of(engines="static", rates="5,80"), write_load),
        (repeats_plan(), write_repeats),
    ):
        hostile = dataclasses.replace(plan, label=EVIL, points=tuple(_hostile_point(point) for point in plan.points))
        write(runs, hostile, _half_fail)  # type: ignore[operator]
    calibrate(home, device_name=EVIL, model=EVIL, passes=timed_passes())
    take_in(home)
    with Store(home) as store:
        store.annotations.set("h1", Annotation(note=EVIL, tags=(EVIL[:20],), pinned=True))
        store.saved_queries.save(EVIL, f"SELECT '{EVIL}' AS x")
        store.saved_queries.remember(f"SELECT 1 AS x -- {EVIL}", EVIL)
        store.trash.delete(["h5"])


OOM: dict[str, Any] = {"asked_bytes": 100, "free_bytes": 10, "shape": EVIL, "where": EVIL}


def _write_hostile_run(runs: Path, run_id: str, engine: str, model: str, **result: object) -> None:
    """The pair's run with foreign text in every part of run.json that has text."""
    config = config_of(engine, model=model, workload=WorkloadConfig(prompts="p16", requests=2, budget="2-4"))
    info = run_info(run_id, config)
    write_run(
        runs,
        run_id,
        engine,
        config=config,
        result=result,
        model=MODEL | {"name": model, "source": EVIL},
        device=info["device"] | {"name": EVIL},
        environment={"python": EVIL, "cpu_count": 2, "load_average_1min": 9.0, EVIL: EVIL},
        workload=info["workload"] | {"prompts": EVIL, "budget": EVIL, "arrival": EVIL},
    )


def _half_fail(point: Point) -> dict[str, Any]:
    """The ending of an experiment's point: every other one fails with EVIL."""
    if point.position % 2:
        return {"status": "oom", "error": EVIL, "oom": OOM}
    totals = {"requests": 2, "output_tokens": 6, "output_tokens_per_s": 20.0, "duration_s": 0.3, "tpot_p50_s": 0.05}
    return {"status": "completed", "totals": totals | {"ttft_p50_s": 0.1, "ttft_p95_s": 0.1, "dead_fraction": 0.0}}


def _hostile_point(point: Point) -> Point:
    return dataclasses.replace(point, config=dataclasses.replace(point.config, model=EVIL))
