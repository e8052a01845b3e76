"""The table of a queue's jobs, in order of submission, as frozen snapshots that are replaced at each change.

Not thread-safe: the queue uses it with its lock held.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.core.errors import first_line
from engine.experiments.experiment import CONTINUES_AFTER
from engine.launcher.job import Job, JobRun, rest_of
from engine.launcher.progress import ended_unrun

KEPT_JOBS = 100


class JobTable:
    """Jobs by id. The last KEPT_JOBS done jobs are kept, older ones are dropped."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    def __getitem__(self, job_id: str) -> Job:
        """KeyError for a job that is unknown or was dropped."""
        return self._jobs[job_id]

    def get(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id)

    def add(self, job: Job) -> None:
        """Add a job at the end of the queue."""
        self._jobs[job.job_id] = job
        done = [job_id for job_id, job in self._jobs.items() if job.is_done]
        for job_id in done[:-KEPT_JOBS]:
            del self._jobs[job_id]

    def change(self, job_id: str, **values: Any) -> Job:
        """Replace fields of a job."""
        self._jobs[job_id] = job = replace(self._jobs[job_id], **values)
        return job

    def replace_run(self, job_id: str, run: JobRun) -> None:
        """Replace the snapshot of one run of a job."""
        runs = tuple(run if old.run_id == run.run_id else old for old in self._jobs[job_id].runs)
        self.change(job_id, runs=runs)

    def skip_rest(self, job_id: str, reason: str) -> None:
        """End the runs that are not done: `stopped` in a canceled job, else `skipped`."""
        job = self._jobs[job_id]
        status = "stopped" if job.canceled else "skipped"
        runs = tuple(run if run.state == "done" else ended_unrun(run, status, reason) for run in job.runs)
        self.change(job_id, runs=runs)

    def skip_after(self, job_id: str, status: str | None, *, is_recorded: bool) -> None:
        """After a run ended with `status`, skip the rest if needed. Only a recorded experiment continues after a stop
        or crash."""
        if self._jobs[job_id].canceled:
            self.skip_rest(job_id, "canceled before it began")
        elif status not in CONTINUES_AFTER and not is_recorded:
            self.skip_rest(job_id, f"not run: the run before it {status or 'did not end'}")

    def add_rest_of(self, job_id: str, runs_folder: Path, visitor: str) -> str:
        """The id of a job that repeats the missing runs of another one; created once. ValueError if no run is
        missing."""
        job = self._jobs.get(job_id)
        existing = next((other.job_id for other in self._jobs.values() if other.goes_on_with == job_id), None)
        if existing is not None:
            return existing
        if job is None or not job.can_go_on:
            raise ValueError("this job has no runs left; start a new one")
        rest = rest_of(runs_folder, job, visitor)
        self.add(rest)
        return rest.job_id

    def end_in_trouble(self, job_id: str, error: Exception) -> None:
        """End a job because of an unexpected error."""
        why = first_line(error) if str(error) else ""
        is_record = isinstance(error, OSError | ValueError)  # a full disk, or a record edited by hand
        trouble = f"the record cannot be written: {why}" if is_record else f"{type(error).__name__}: {why}"
        self.change(job_id, trouble=trouble)
        self.skip_rest(job_id, f"not run: {trouble}")

    def next(self) -> Job | None:
        """The first job that is not done."""
        return next((job for job in self._jobs.values() if not job.is_done), None)

    def placed(self, job_id: str) -> Job:
        """A job's snapshot with its place in the queue."""
        job = self._jobs[job_id]
        if job.is_done:
            return replace(job, place=None)
        ahead = [other.job_id for other in self._jobs.values() if not other.is_done]
        return replace(job, place=ahead.index(job_id))

    def all_placed(self) -> list[Job]:
        """The snapshots of all jobs with their places, in order of submission."""
        return [self.placed(job_id) for job_id in self._jobs]
