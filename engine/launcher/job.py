"""A job: what one press of a button asks for. One run, two side by side, or one of each KV layout on the same requests.

Frozen snapshots: the queue replaces them as events come in, and a page may keep one for as long as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.core.config import RunConfig

RunState = Literal["queued", "loading", "waiting", "running", "done"]
JobKind = Literal["single", "pair", "layouts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One run of a job. `status` is None until it is done, then completed, stopped, oom, failed, crashed or skipped."""

    run_id: str
    folder: Path
    config: RunConfig
    state: RunState = "queued"
    status: str | None = None
    error: str | None = None
    stderr: str = ""
    message: str = ""
    fraction: float | None = None
    has_log: bool = False  # its folder exists, with whatever was logged
    finished_requests: int = 0
    requests: int = 0
    output_tokens: int = 0
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`place` is 0 for the job at work, 1 for the next one, and so on; None once it is done."""

    job_id: str
    kind: JobKind
    label: str
    visitor: str
    experiment_id: str | None
    runs: tuple[JobRun, ...]
    place: int | None = None
    cancelled: bool = False

    @property
    def is_done(self) -> bool:
        return all(run.state == "done" for run in self.runs)

    @property
    def state(self) -> RunState:
        """queued until its first run is taken up, done after its last, between them the state of the run at hand."""
        run = self.current
        if run is None:
            return "done"
        return "running" if run.state == "queued" and run is not self.runs[0] else run.state

    @property
    def current(self) -> JobRun | None:
        """The first run that is not done; None when all are."""
        return next((run for run in self.runs if run.state != "done"), None)

    @property
    def outcome(self) -> str | None:
        """completed when every run is; else the first other status. None while the job is not done."""
        if not self.is_done:
            return None
        return next((run.status for run in self.runs if run.status != "completed"), "completed")

    def run(self, run_id: str) -> JobRun:
        """The run of that id; KeyError when the job has no such run."""
        for run in self.runs:
            if run.run_id == run_id:
                return run
        raise KeyError(run_id)
