"""A job: what one press of a button asks for. One run, several side by side on the same requests, or an experiment.

Frozen snapshots: the queue replaces them as events come in, and a page may keep one for as long as it likes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from engine.core.config import RunConfig
from engine.core.run_id import new_run_id
from engine.experiments.experiment import ENDED, Point
from engine.runlog.schema import RUN_FILE

RunState = Literal["queued", "loading", "waiting", "running", "done"]
JobKind = Literal["single", "pair", "layouts", "sweep", "load", "overhead", "repeats"]
SIDE_BY_SIDE = ("pair", "layouts")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One run of a job. `status` is None until it is done, then completed, stopped, oom, failed, crashed or skipped.

    `point` is what an experiment wants of it. `oom` is what an allocation asked for that failed before there was a log.
    One that is `kept` was done by the job that this one goes on with.
    """

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
    point: Point | None = None
    oom: Mapping[str, Any] | None = None
    kept: bool = False

    @property
    def is_settled(self) -> bool:
        """It came to an end of its own, as a point of an experiment does, and what was logged of it is still there."""
        if self.has_log:
            return self.status in ENDED and (self.folder / RUN_FILE).exists()
        return self.status == "oom"  # of what never began, no room for the model alone is an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`place` is 0 for the job at work, 1 for the next one, and so on; None once it is done.

    `points_before` counts points of an experiment that had a record before this job; `is_open` holds while its record
    is not closed: it may still get further points. `trouble` is why the queue could not go on with it. `goes_on_with`
    is the job whose missing runs this one makes up for.
    """

    job_id: str
    kind: JobKind
    label: str
    visitor: str
    experiment_id: str | None
    runs: tuple[JobRun, ...]
    place: int | None = None
    canceled: bool = False
    points_before: int = 0
    is_open: bool = False
    trouble: str = ""
    goes_on_with: str | None = None

    @property
    def is_done(self) -> bool:
        return not self.is_open and all(run.state == "done" for run in self.runs)

    @property
    def state(self) -> RunState:
        """queued until its first run is taken up, done after its last, between them the state of the run at hand."""
        run = self.current
        if run is None:
            return "running" if self.is_open and self.runs else "queued" if self.is_open else "done"
        has_begun = any(other.state == "done" and not other.kept for other in self.runs)
        return "running" if run.state == "queued" and has_begun else run.state

    @property
    def current(self) -> JobRun | None:
        """The first run that is not done; None when all are."""
        return next((run for run in self.runs if run.state != "done"), None)

    @property
    def outcome(self) -> str | None:
        """completed when every run is; else the first other status. None while the job is not done."""
        if not self.is_done:
            return None
        good = "failed" if self.trouble else "completed"
        return next((run.status for run in self.runs if run.status != "completed"), good)

    @property
    def can_go_on(self) -> bool:
        """Whether runs side by side have ended with some of them missing. Experiments keep their own record of that."""
        return self.is_done and self.kind in SIDE_BY_SIDE and not all(run.is_settled for run in self.runs)

    @property
    def missing(self) -> tuple[JobRun, ...]:
        """What going on with runs side by side would run: those that are not settled, and all where none had begun."""
        return tuple(run for run in self.runs if not self.had_begun or not run.is_settled)

    @property
    def had_begun(self) -> bool:
        """Whether there ever was a log of any of its runs."""
        return any(run.has_log or (run.folder / RUN_FILE).exists() for run in self.runs)

    @property
    def experiment(self) -> dict[str, Any] | None:
        """What the run.json of each of several runs side by side says of them; None for a single one."""
        if self.experiment_id is None:
            return None
        return {"id": self.experiment_id, "kind": self.kind, "label": self.label}

    @property
    def done_points(self) -> int:
        """Points that need no run any more, those of before this job included; a crashed one counts as tried."""
        return self.points_before + sum(run.status not in (None, "stopped", "skipped") for run in self.runs)

    @property
    def all_points(self) -> int:
        """Points of the experiment, as far as it knows them by now."""
        return self.points_before + len(self.runs)

    @property
    def point_values(self) -> Mapping[str, Any]:
        """The values of the point at hand; empty between points, and for a job that is no experiment."""
        run = self.current
        return {} if run is None or run.point is None else run.point.values

    def run(self, run_id: str) -> JobRun:
        """The run of that id; KeyError when the job has no such run."""
        for run in self.runs:
            if run.run_id == run_id:
                return run
        raise KeyError(run_id)


def new_job(runs_folder: Path, configs: Sequence[RunConfig], kind: JobKind, label: str, visitor: str) -> Job:
    """A job of these runs, in this order, with ids of their own."""
    assert configs
    runs = tuple(_new_run(runs_folder, config) for config in configs)
    return Job(
        job_id=new_run_id(),
        kind=kind,
        label=label,
        visitor=visitor,
        experiment_id=new_run_id() if len(configs) > 1 else None,
        runs=runs,
    )


def rest_of(runs_folder: Path, job: Job, visitor: str) -> Job:
    """A job of what is missing of runs side by side, beside those that are there already.

    Where a run had begun, its new runs are an experiment of their own: what was written down, and graded, of the first
    stays true of that. Where none had, they are the very runs that were asked for.
    """
    assert job.can_go_on
    missing, experiment_id = job.missing, job.experiment_id
    if job.had_begun:
        experiment_id = new_run_id() if len(missing) > 1 else None
    again = {run.run_id: _new_run(runs_folder, run.config, None if job.had_begun else run.run_id) for run in missing}
    return Job(
        job_id=new_run_id(),
        kind=job.kind,
        label=job.label,
        visitor=visitor,
        experiment_id=experiment_id,
        runs=tuple(again.get(run.run_id) or replace(run, kept=True) for run in job.runs),
        goes_on_with=job.job_id,
    )


def _new_run(runs_folder: Path, config: RunConfig, run_id: str | None = None) -> JobRun:
    run_id = run_id or new_run_id()
    return JobRun(run_id=run_id, folder=runs_folder / run_id, config=config, requests=config.workload.requests)
