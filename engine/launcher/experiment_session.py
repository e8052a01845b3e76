"""Keeps the record of an experiment that the queue carries out: the same files as the command line writes.

One keeper a job, from the moment it is submitted until it is over; so the experiment is locked while it waits, too. The
queue tells what becomes of each run; an adaptive experiment is asked for more points when its list is done.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.core.run_id import run_id_at
from engine.experiments.experiment import Plan, Point, PointRecord, remaining, run_stats
from engine.launcher.job import Job, JobRun
from engine.runlog.experiment_log import ExperimentLog, record_of_result
from engine.runlog.load_log import next_load_points
from engine.runlog.reader import RUN_ID, RunLogReader
from engine.runlog.schema import RUN_FILE

NextPoints = Callable[[Plan, Sequence[PointRecord]], Sequence[Point]]


class ExperimentKeeper:
    """The record of one experiment, and the runs that it still needs."""

    def __init__(self, log: ExperimentLog) -> None:
        self.log = log
        self._next_points = _next_points_of(log.plan, log.folder.parent)

    @classmethod
    def create(cls, runs_folder: Path, plan: Plan) -> ExperimentKeeper:
        """A new experiment. OSError when it cannot be written."""
        return cls(ExperimentLog.create(runs_folder, plan))

    @classmethod
    def reopen(cls, runs_folder: Path, experiment_id: str) -> ExperimentKeeper:
        """An experiment to go on with. ValueError in one line when there is none, it is damaged, or it is at work."""
        if not RUN_ID.fullmatch(experiment_id):
            raise ValueError(f"{experiment_id!r} is no experiment's id")
        try:
            return cls(ExperimentLog.open(runs_folder / experiment_id))
        except FileExistsError as error:
            raise ValueError(f"experiment {experiment_id} is at work: {error}") from None
        except FileNotFoundError:
            raise ValueError(f"there is no experiment {experiment_id} in {runs_folder}") from None

    def job(self, job_id: str, visitor: str) -> Job:
        """The job of all that is left."""
        plan, runs = self.log.plan, self.runs_left()
        return Job(
            job_id=job_id,
            kind=plan.kind,
            label=plan.label,
            visitor=visitor,
            experiment_id=plan.experiment_id,
            runs=runs,
            points_before=len(plan.points) - len(runs),
            is_open=True,
        )

    def runs_left(self) -> tuple[JobRun, ...]:
        """A run, with an id of its own, for every point that is left."""
        points, now_ms = remaining(self.log.plan, self.log.records), time.time_ns() // 1_000_000
        # A millisecond each, so that the ids are different and sort as the runs do.
        return tuple(self._run(point, run_id_at(now_ms + place)) for place, point in enumerate(points))

    def begin(self, run: JobRun) -> dict[str, Any]:
        """A run is handed to the worker. Returns what its run.json says of the experiment."""
        assert run.point is not None
        self.log.start(run.point, run.run_id)
        return run_stats(self.log.plan, run.point)

    def end(self, run: JobRun) -> None:
        """A run is done, however it ended: its log's word counts for more than the worker's."""
        assert run.point is not None
        assert run.status is not None
        has_log = (run.folder / RUN_FILE).exists()
        result = RunLogReader(run.folder).result() if has_log else None
        result = result or {"status": run.status, "error": run.error, "oom": run.oom}
        self.log.append(record_of_result(run.point.key, run.point.repeat, run.run_id if has_log else None, result))

    def more(self) -> tuple[JobRun, ...]:
        """The runs of points that an adaptive experiment adds, now that all are done."""
        if remaining(self.log.plan, self.log.records):
            return ()  # attempts that crashed: for a later resume
        self.log.add(self._next_points(self.log.plan, tuple(self.log.records)))
        return self.runs_left()

    def close(self) -> None:
        """Let go of the experiment. The lock is free even where its file can no longer be written."""
        with contextlib.suppress(OSError):
            self.log.close()

    def discard(self) -> None:
        """Nobody wants the experiment after all: one without any record leaves nothing behind."""
        self.close()
        if not self.log.records:
            shutil.rmtree(self.log.folder, ignore_errors=True)

    def _run(self, point: Point, run_id: str) -> JobRun:
        folder = self.log.folder.parent / run_id
        requests = point.config.workload.requests
        return JobRun(run_id=run_id, folder=folder, config=point.config, requests=requests, point=point)


def _next_points_of(plan: Plan, runs_folder: Path) -> NextPoints:
    return next_load_points(runs_folder) if plan.kind == "load" else lambda plan, records: ()
