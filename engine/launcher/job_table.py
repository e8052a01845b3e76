"""The jobs of a queue in order of submission, as frozen snapshots that are replaced as things happen to them.

Not safe for several threads: the queue asks and changes it with its lock held.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.experiments.experiment import GOES_ON
from engine.launcher.job import Job, JobRun, rest_of
from engine.launcher.progress import ended_unrun

KEPT_JOBS = 100


class JobBook:
    """Jobs by id. Those that are done are forgotten, the oldest first, when there are more than a hundred of them."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    def __getitem__(self, job_id: str) -> Job:
        """KeyError for a job that was never here or is forgotten."""
        return self._jobs[job_id]

    def get(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id)

    def add(self, job: Job) -> None:
        """At the end of the queue."""
        self._jobs[job.job_id] = job
        done = [job_id for job_id, job in self._jobs.items() if job.is_done]
        for job_id in done[:-KEPT_JOBS]:
            del self._jobs[job_id]

    def change(self, job_id: str, **values: Any) -> Job:
        """Replace fields of a job."""
        self._jobs[job_id] = job = replace(self._jobs[job_id], **values)
        return job

    def replace_run(self, job_id: str, run: JobRun) -> None:
        """The newer snapshot of one run of a job."""
        runs = tuple(run if old.run_id == run.run_id else old for old in self._jobs[job_id].runs)
        self.change(job_id, runs=runs)

    def skip_rest(self, job_id: str, reason: str) -> None:
        """Runs that are not done will not be run: `stopped` in a canceled job, else `skipped`."""
        job = self._jobs[job_id]
        status = "stopped" if job.canceled else "skipped"
        runs = tuple(run if run.state == "done" else ended_unrun(run, status, reason) for run in job.runs)
        self.change(job_id, runs=runs)

    def skip_after(self, job_id: str, status: str | None, *, is_recorded: bool) -> None:
        """A run of a job ended so. Only a recorded experiment goes on behind one that did not come to its own end."""
        if self._jobs[job_id].canceled:
            self.skip_rest(job_id, "canceled before it began")
        elif status not in GOES_ON and not is_recorded:
            self.skip_rest(job_id, f"not run: the run before it {status or 'did not end'}")

    def add_rest_of(self, job_id: str, runs_folder: Path, visitor: str) -> str:
        """A job of what is missing of another, unless there is one already; its id. ValueError where nothing is."""
        job = self._jobs.get(job_id)
        made = next((other.job_id for other in self._jobs.values() if other.goes_on_with == job_id), None)
        if made is not None:
            return made
        if job is None or not job.can_go_on:
            raise ValueError("nothing of this job is left to run; start it anew")
        rest = rest_of(runs_folder, job, visitor)
        self.add(rest)
        return rest.job_id

    def end_in_trouble(self, job_id: str, error: Exception) -> None:
        """Nothing more of a job can be run, because of an error that nobody had reckoned with."""
        why = f"{error}".splitlines()[0] if str(error) else ""
        kept = isinstance(error, OSError | ValueError)  # a disk that is full, a record that was changed by hand
        trouble = f"its record cannot be kept: {why}" if kept else f"{type(error).__name__}: {why}"
        self.change(job_id, trouble=trouble)
        self.skip_rest(job_id, f"not run: {trouble}")

    def next(self) -> Job | None:
        """The first job that is not done."""
        return next((job for job in self._jobs.values() if not job.is_done), None)

    def placed(self, job_id: str) -> Job:
        """The snapshot of a job with its place in the queue."""
        job = self._jobs[job_id]
        if job.is_done:
            return replace(job, place=None)
        ahead = [other.job_id for other in self._jobs.values() if not other.is_done]
        return replace(job, place=ahead.index(job_id))

    def all_placed(self) -> list[Job]:
        """Snapshots of all jobs, in order of submission."""
        return [self.placed(job_id) for job_id in self._jobs]
