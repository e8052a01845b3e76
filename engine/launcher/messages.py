"""The messages between launcher and worker: one JSON object per line, commands on stdin, events on stdout.

The worker writes only events to its stdout. `Died` is never sent: the launcher creates it when the process ends.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from engine.core.config import RunConfig
from engine.simulator.machine import SimulationTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The worker has started and accepts commands."""

    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """A model is loading; `message` names the stage."""

    model: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The model is loaded and stays in memory until another one is needed; or it failed to load with `error`."""

    model: str
    seconds: float | None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Another process uses the device; the run starts when it is free."""

    run_id: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The run's folder exists and its run.json is written."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The run's progress; at most four events per second."""

    run_id: str
    finished_requests: int
    requests: int
    output_tokens: int
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The run has ended: completed, stopped, oom or failed. `oom` is for a model that did not fit, which leaves no
    log."""

    run_id: str
    status: str
    error: str | None = None
    oom: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The worker process has ended. `stderr` is the end of what it wrote there."""

    returncode: int
    stderr: str


Event = Ready | Loading | Loaded | Waiting | Started | Progress | Finished | Died

_EVENTS: dict[str, type] = {
    "ready": Ready,
    "loading": Loading,
    "loaded": Loaded,
    "waiting": Waiting,
    "started": Started,
    "progress": Progress,
    "finished": Finished,
}


def parse_event(line: str) -> Event:
    """Parse one line of the worker's stdout. ValueError if it is not an event; unknown fields are ignored."""
    try:
        data = json.loads(line)
    except ValueError:
        raise ValueError(f"not an event: {line.rstrip()}") from None
    kind = _EVENTS.get(str(data.get("event"))) if isinstance(data, dict) else None
    if kind is None:
        raise ValueError(f"not an event: {line.rstrip()}")
    values = {f.name: data[f.name] for f in fields(kind) if f.name in data}
    missing = [f.name for f in fields(kind) if f.name not in values and f.default is MISSING]
    if missing:
        raise ValueError(f"event {data['event']} without {', '.join(missing)}: {line.rstrip()}")
    event: Event = kind(**values)
    return event


def run_command(
    run_id: str,
    folder: str,
    config: RunConfig,
    experiment: dict[str, Any] | None,
    target: SimulationTarget | None = None,
) -> dict[str, Any]:
    """Run a configuration, or simulate it on `target`, and log it in `folder`."""
    return {
        "command": "run",
        "run_id": run_id,
        "folder": folder,
        "config": config.to_dict(),
        "experiment": experiment,
        "target": None if target is None else target.to_dict(),
    }


def calibrate_command(run_id: str, config: RunConfig, engines: Sequence[str]) -> dict[str, Any]:
    """Calibrate the machine in short, for `config`'s model, device and execution, and save the calibration."""
    return {"command": "calibrate", "run_id": run_id, "config": config.to_dict(), "engines": list(engines)}


def cancel_command(run_id: str) -> dict[str, Any]:
    """Stop a run after the current pass."""
    return {"command": "cancel", "run_id": run_id}


def load_command(model: str, device: str, dtype: str) -> dict[str, Any]:
    """Load a model before a run needs it."""
    return {"command": "load", "model": model, "device": device, "dtype": dtype}
