"""Records an experiment that the queue runs, in the same files that the command line writes.

One session per job, from its submission to its end, so a queued experiment is locked too. The queue reports each run to
its session; an adaptive experiment may add points after its last run.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
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


class ExperimentSession:
    """The log of one experiment, and the runs that it still needs."""

    def __init__(self, log: ExperimentLog) -> None:
        self.log = log
        self._next_points = _next_points_of(log.plan, log.folder.parent)

    @classmethod
    def create(cls, runs_folder: Path, plan: Plan) -> ExperimentSession:
        """Create a new experiment. OSError if it cannot be written."""
        return cls(ExperimentLog.create(runs_folder, plan))

    @classmethod
    def reopen(cls, runs_folder: Path, experiment_id: str) -> ExperimentSession:
        """Resume an experiment. ValueError in one line if it does not exist, is damaged, or is running."""
        if not RUN_ID.fullmatch(experiment_id):
            raise ValueError(f"{experiment_id!r} is not an experiment id")
        try:
            return cls(ExperimentLog.open(runs_folder / experiment_id))
        except FileExistsError as error:
            raise ValueError(f"experiment {experiment_id} is running: {error}") from None
        except FileNotFoundError:
            raise ValueError(f"no experiment {experiment_id} in {runs_folder}") from None

    def job(self, job_id: str, visitor: str) -> Job:
        """The job of all runs that are left."""
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

    def repeat(self, keys: Iterable[str], times: int) -> None:
        """Add further repeats of some points; what was measured stays. KeyError for an unknown key."""
        self.log.add(self.log.plan.more_repeats(list(keys), times))

    def runs_left(self) -> tuple[JobRun, ...]:
        """A new run for every point that is left."""
        points, now_ms = remaining(self.log.plan, self.log.records), time.time_ns() // 1_000_000
        # One millisecond apart, so that the ids are unique and sort in the order of the runs.
        return tuple(self._run(point, run_id_at(now_ms + index)) for index, point in enumerate(points))

    def begin(self, run: JobRun) -> dict[str, Any]:
        """Record that a run starts. Returns the `experiment` of its run.json."""
        assert run.point is not None
        self.log.start(run.point, run.run_id)
        return run_stats(self.log.plan, run.point)

    def end(self, run: JobRun) -> None:
        """Record the end of a run; the result in its log takes precedence over the worker's message."""
        assert run.point is not None
        assert run.status is not None
        has_log = (run.folder / RUN_FILE).exists()
        result = RunLogReader(run.folder).result() if has_log else None
        result = result or {"status": run.status, "error": run.error, "oom": run.oom}
        self.log.append(record_of_result(run.point.key, run.point.repeat, run.run_id if has_log else None, result))

    def more(self) -> tuple[JobRun, ...]:
        """The runs of the points that an adaptive experiment adds after its last run."""
        if remaining(self.log.plan, self.log.records):
            return ()  # crashed attempts are left for a later resume
        self.log.add(self._next_points(self.log.plan, tuple(self.log.records)))
        return self.runs_left()

    def close(self) -> None:
        """Release the experiment's lock, even if its file can no longer be written."""
        with contextlib.suppress(OSError):
            self.log.close()

    def discard(self) -> None:
        """Drop the experiment; if it has no record, delete its folder."""
        self.close()
        if not self.log.records:
            shutil.rmtree(self.log.folder, ignore_errors=True)

    def _run(self, point: Point, run_id: str) -> JobRun:
        folder = self.log.folder.parent / run_id
        requests = point.config.workload.requests
        return JobRun(run_id=run_id, folder=folder, config=point.config, requests=requests, point=point)


def _next_points_of(plan: Plan, runs_folder: Path) -> NextPoints:
    return next_load_points(runs_folder) if plan.kind == "load" else lambda plan, records: ()
