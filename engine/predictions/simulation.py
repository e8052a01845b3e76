"""The simulator's own prediction for a question, from a calibration of the machine.

It uses only the configurations and the calibration, nothing of the run. If it has no answer it gives the reason: no
calibration, an engine whose passes were not measured, or too many requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.core.config import RunConfig
from engine.core.errors import FieldError
from engine.core.record import RunRecord
from engine.hardware.calibration import Calibration
from engine.load.load_point import load_point
from engine.metrics.metrics import run_metrics
from engine.predictions.measure import measure, needed_points
from engine.predictions.prediction import Question
from engine.simulator.machine import THIS, simulated_machine
from engine.simulator.simulator import simulate
from engine.workload.workload import build_workload

MAX_REQUESTS = 5_000  # in all runs of a question; takes some seconds on one core


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run to simulate: its point's key and values, and its configuration with the real device."""

    key: str
    config: RunConfig
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The simulator's prediction, or None. `note` names the calibration, or the reason why there is no value."""

    value: float | None
    note: str


def simulated_answer(question: Question, runs: Sequence[PlannedRun], calibrations: Sequence[Calibration]) -> Simulated:
    """Simulate the runs that the question needs, one per point, and measure them like real runs."""
    rows = [_row(run) for run in {run.key: run for run in runs}.values()]
    keys = {row["key"] for row in needed_points(question, rows)}
    needed = [run for run in {run.key: run for run in runs}.values() if run.key in keys]
    requests = sum(run.config.workload.requests for run in needed)
    if requests > MAX_REQUESTS:
        note = f"{requests:,} requests are too many to simulate (at most {MAX_REQUESTS:,})"
        return Simulated(value=None, note=note)
    records: dict[str, RunRecord] = {}
    sources = []
    for run in needed:
        try:
            source, status, record, peak_bytes = _simulated(run.config, calibrations)
        except (ValueError, OSError) as error:
            return Simulated(value=None, note=_reason(error))
        records[run.key] = record
        sources.append(source)
        row = next(row for row in rows if row["key"] == run.key)
        totals = run_metrics(record, peak_memory_bytes=peak_bytes)
        row |= {"status": status, "run_id": run.key} | {_named(name, row): value for name, value in totals.items()}
    found = measure(question, rows, lambda run_id: load_point(records[run_id]).achieved_per_s, is_over=True)
    if found.value is None:
        return Simulated(value=None, note=found.reason or "the simulated run has no such figure")
    return Simulated(value=found.value, note=sources[0].removesuffix("."))


def _reason(error: ValueError | OSError) -> str:
    """The error as a reason, without advice that applies only to the command line."""
    message = error.message if isinstance(error, FieldError) else str(error)
    return message.splitlines()[0].partition(", or use ")[0]


def _row(run: PlannedRun) -> dict[str, Any]:
    values = {name: run.values.get(name) for name in ("prompts", "prompt_tokens", "batch_size", "role")}
    return {"key": run.key, "engine": run.config.engine, "run_id": None, "status": "pending", "error": None, **values}


def _named(name: str, row: Mapping[str, Any]) -> str:
    """The column of a metric. The run's prompt tokens must not replace the point's prompt length."""
    return f"run_{name}" if name == "prompt_tokens" and row["prompt_tokens"] is not None else name


def _simulated(config: RunConfig, calibrations: Sequence[Calibration]) -> tuple[str, str, RunRecord, int]:
    machine = simulated_machine(config, THIS, calibrations=calibrations)
    done = simulate(config, build_workload(config.workload), machine.cost, machine.shape)
    return machine.source, done.status, done.record(), done.peak_bytes
