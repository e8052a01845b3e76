"""What the launcher and the worker say to each other: one JSON object a line, commands down stdin, events up stdout.

The worker writes nothing but events to its stdout. `Died` is never sent: the launcher makes it when the process ends.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields
from typing import Any

from engine.core.config import RunConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The worker has started and listens."""

    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """A model is on its way into memory; `fraction` is 0..1, or None when the end is not known."""

    model: str
    message: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The model is in memory and stays there until another is asked for; or it could not be loaded, and why."""

    model: str
    seconds: float | None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Another process has the device; the run starts when it is free."""

    run_id: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The run's folder exists and its run.json is written."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the run is; at most four a second."""

    run_id: str
    finished_requests: int
    requests: int
    output_tokens: int
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The run is over: completed, stopped, oom or failed. `oom` tells of a model that did not fit: it leaves no log."""

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
    """One line of the worker's stdout. ValueError for anything that is not an event; unknown fields are ignored."""
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


def run_command(run_id: str, folder: str, config: RunConfig, experiment: dict[str, Any] | None) -> dict[str, Any]:
    """Carry out a run and log it in `folder`."""
    return {
        "command": "run",
        "run_id": run_id,
        "folder": folder,
        "config": config.to_dict(),
        "experiment": experiment,
    }


def cancel_command(run_id: str) -> dict[str, Any]:
    """Stop a run after the pass at hand."""
    return {"command": "cancel", "run_id": run_id}


def load_command(model: str, device: str, dtype: str) -> dict[str, Any]:
    """Bring a model into memory before a run asks for it."""
    return {"command": "load", "model": model, "device": device, "dtype": dtype}
