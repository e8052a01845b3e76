"""A job of the queue: one run, several runs of the same requests side by side, an experiment, or a calibration.

Jobs are frozen snapshots: the queue replaces them at each event, and a page may keep one.
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
from engine.simulator.machine import SimulationTarget

RunState = Literal["queued", "loading", "waiting", "running", "done"]
JobKind = Literal["single", "pair", "layouts", "sweep", "load", "overhead", "repeats", "calibration"]
SIDE_BY_SIDE = ("pair", "layouts")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One run of a job. `status` is None until it is done, then completed, stopped, oom, failed, crashed or skipped.

    `target` is what a simulated run is simulated on; None for a measured one. `point` is the point of its experiment.
    `oom` describes an allocation that failed before there was a log. `kept`: the run was done by the job that this job
    resumes.
    """

    run_id: str
    folder: Path
    config: RunConfig
    target: SimulationTarget | None = None
    state: RunState = "queued"
    status: str | None = None
    error: str | None = None
    stderr: str = ""
    message: str = ""
    has_log: bool = False  # its folder exists
    finished_requests: int = 0
    requests: int = 0
    output_tokens: int = 0
    elapsed_s: float = 0.0
    point: Point | None = None
    oom: Mapping[str, Any] | None = None
    kept: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether the run needs no repetition: it ended by itself and its log still exists."""
        if self.has_log:
            return self.status in ENDED and (self.folder / RUN_FILE).exists()
        return self.status == "oom"  # the model itself did not fit, which is a result too


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`place` is 0 for the running job, 1 for the next one, and so on; None once it is done.

    `points_before` counts the points of an experiment that had a record before this job. `is_open`: the experiment may
    still get more points. `trouble` is the error that stopped the job. `goes_on_with` is the job whose missing runs
    this job repeats. `calibrates` are the engines that a calibration measures; its one run has no log.
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
    calibrates: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        return not self.is_open and all(run.state == "done" for run in self.runs)

    @property
    def state(self) -> RunState:
        """queued until its first run starts, done after its last one, between them the state of the current run."""
        run = self.current
        if run is None:
            return "running" if self.is_open and self.runs else "queued" if self.is_open else "done"
        has_started = any(other.state == "done" and not other.kept for other in self.runs)
        return "running" if run.state == "queued" and has_started else run.state

    @property
    def current(self) -> JobRun | None:
        """The first run that is not done; None when all are."""
        return next((run for run in self.runs if run.state != "done"), None)

    @property
    def outcome(self) -> str | None:
        """completed if every run is, else the first other status. None until the job is done."""
        if not self.is_done:
            return None
        default = "failed" if self.trouble else "completed"
        return next((run.status for run in self.runs if run.status != "completed"), default)

    @property
    def can_go_on(self) -> bool:
        """Whether runs side by side have ended and some of them are missing. Experiments have their own record."""
        return self.is_done and self.kind in SIDE_BY_SIDE and not all(run.is_settled for run in self.runs)

    @property
    def missing(self) -> tuple[JobRun, ...]:
        """The runs that a resume would run: those that are not settled, or all if none had started."""
        return tuple(run for run in self.runs if not self.had_begun or not run.is_settled)

    @property
    def had_begun(self) -> bool:
        """Whether one of its runs had started, which leaves a log."""
        return any(run.has_log or (run.folder / RUN_FILE).exists() for run in self.runs)

    @property
    def experiment(self) -> dict[str, Any] | None:
        """The `experiment` in run.json of runs side by side; None for a single run."""
        if self.experiment_id is None:
            return None
        return {"id": self.experiment_id, "kind": self.kind, "label": self.label}

    @property
    def done_points(self) -> int:
        """Points that need no run in this job, including those done before it; a crashed run counts as done."""
        return self.points_before + sum(run.status not in (None, "stopped", "skipped") for run in self.runs)

    @property
    def all_points(self) -> int:
        """The number of points of the experiment so far."""
        return self.points_before + len(self.runs)

    @property
    def point_values(self) -> Mapping[str, Any]:
        """The values of the current point; empty between points, and for a job that is no experiment."""
        run = self.current
        return {} if run is None or run.point is None else run.point.values

    def run(self, run_id: str) -> JobRun:
        """The run with this id. KeyError if the job has none."""
        for run in self.runs:
            if run.run_id == run_id:
                return run
        raise KeyError(run_id)


def new_job(
    runs_folder: Path,
    configs: Sequence[RunConfig],
    kind: JobKind,
    label: str,
    visitor: str,
    target: SimulationTarget | None = None,
) -> Job:
    """A job with a new run for each configuration, in this order; simulated ones with a `target`."""
    assert configs
    runs = tuple(replace(_new_run(runs_folder, config), target=target) for config in configs)
    return Job(
        job_id=new_run_id(),
        kind=kind,
        label=label,
        visitor=visitor,
        experiment_id=new_run_id() if len(configs) > 1 else None,
        runs=runs,
    )


def rest_of(runs_folder: Path, job: Job, visitor: str) -> Job:
    """A job that repeats the missing runs of runs side by side, and keeps the settled ones.

    If a run had started, the new runs form a new experiment, so that predictions about the first one stay valid. If
    none had, they keep their ids and their experiment.
    """
    assert job.can_go_on
    missing, experiment_id = job.missing, job.experiment_id
    if job.had_begun:
        experiment_id = new_run_id() if len(missing) > 1 else None
    again = {
        run.run_id: replace(_new_run(runs_folder, run.config, None if job.had_begun else run.run_id), target=run.target)
        for run in missing
    }
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
