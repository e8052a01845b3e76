"""The queue of runs: first come, first served over all visitors, one at a time, through one worker that stays warm.

Submit a job, watch its snapshots, cancel it whether it waits or runs. When the worker dies, the run it had is
`crashed`, with the end of its stderr; the next run gets a fresh worker. A worker that does not answer a cancel is
killed. The thread that works the queue never touches torch: all of that is in the worker.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.core.config import RunConfig
from engine.core.run_id import new_run_id
from engine.launcher.job import Job, JobKind, JobRun
from engine.launcher.messages import Died, Event, Loaded, Loading, cancel_command, load_command, run_command
from engine.launcher.progress import after_event, died, ended_unrun
from engine.launcher.worker_process import WORKER_COMMAND, WorkerProcess
from engine.runlog.schema import RUN_FILE

KEPT_JOBS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a cancelled worker may take. A pass is over when progress is reported: from then on `after_pass_s`."""

    loading_s: float = 20.0
    one_pass_s: float = 60.0
    after_pass_s: float = 4.0


class RunQueue:
    """Jobs of all visitors over one worker. Every method may be called from any thread."""

    def __init__(
        self, home: Path, *, command: Sequence[str] = WORKER_COMMAND, patience: Patience | None = None
    ) -> None:
        self.home = home
        self.runs_folder = home / "runs"
        self._command = tuple(command)
        self._patience = patience or Patience()
        self._changed = threading.Condition()
        self._jobs: dict[str, Job] = {}
        self._worker: WorkerProcess | None = None
        self._at_work: tuple[str, str] | None = None  # job and run that the worker has now
        self._kill_at: float | None = None
        self._wanted_model: tuple[str, str, str] | None = None
        self._model_message = ""
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="run-queue", daemon=True)
        self._thread.start()

    def submit(
        self,
        configs: Sequence[RunConfig],
        kind: JobKind = "single",
        label: str = "",
        visitor: str = "",
        before: Callable[[Job], object] = lambda job: None,
    ) -> Job:
        """Put a job of these runs, in this order, at the end of the queue. Returns its first snapshot.

        `before` is given the job before the queue is: what it writes down of the job is there when its first run
        starts, and if it raises, nothing is queued.
        """
        assert configs
        run_ids = [new_run_id() for _ in configs]
        runs = tuple(
            JobRun(run_id=run_id, folder=self.runs_folder / run_id, config=config, requests=config.workload.requests)
            for run_id, config in zip(run_ids, configs, strict=True)
        )
        job = Job(
            job_id=new_run_id(),
            kind=kind,
            label=label,
            visitor=visitor,
            experiment_id=new_run_id() if len(runs) > 1 else None,
            runs=runs,
        )
        before(job)
        with self._changed:
            self._jobs[job.job_id] = job
            self._forget_old()
            self._changed.notify_all()
            return self._placed(job)

    def cancel(self, job_id: str) -> None:
        """Take a job out of the queue, or stop it after the pass at hand. Nothing happens to one that is done."""
        with self._changed:
            job = self._jobs.get(job_id)
            if job is None or job.is_done or job.cancelled:
                return
            self._jobs[job_id] = job = replace(job, cancelled=True)
            worker, run_id = self._worker, None
            if self._at_work is None or self._at_work[0] != job_id:
                self._skip_rest(job, "cancelled before it began")
            else:
                run_id = self._at_work[1]
                patience_s = self._patience.one_pass_s if job.run(run_id).has_log else self._patience.loading_s
                self._kill_at = time.monotonic() + patience_s
            self._changed.notify_all()
        if worker is not None and run_id is not None:
            worker.send(cancel_command(run_id))

    def warm(self, model: str, device: str, dtype: str) -> None:
        """Have the worker load a model now, if nothing else is to be done, so that the first run starts at once."""
        with self._changed:
            self._wanted_model = (model, device, dtype)
            self._changed.notify_all()

    def job(self, job_id: str) -> Job | None:
        """The snapshot of a job, or None for one that was never here or is forgotten."""
        with self._changed:
            job = self._jobs.get(job_id)
            return None if job is None else self._placed(job)

    def jobs(self) -> list[Job]:
        """Snapshots of all jobs in order of submission; the last hundred that are done are kept."""
        with self._changed:
            return [self._placed(job) for job in self._jobs.values()]

    @property
    def worker_pid(self) -> int | None:
        """The worker's process id, or None when no worker lives."""
        worker = self._worker
        return worker.pid if worker is not None and worker.is_alive else None

    @property
    def model_message(self) -> str:
        """What the worker last said about loading a model; empty when it has nothing to load."""
        return self._model_message

    def wait(self, job_id: str, until: Callable[[Job], bool] = lambda job: job.is_done, timeout_s: float = 60) -> Job:
        """Block until a job satisfies `until`. TimeoutError when it does not in time; KeyError for an unknown job."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not until(job := self._placed(self._jobs[job_id])):
                if not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError(f"job {job_id} is still {job.state}")
            return job

    def close(self) -> None:
        """Stop working: the worker leaves, jobs that wait are left as they are. Closing twice does no harm."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._worker is not None:
            self._worker.close()
        self._thread.join(timeout=5)

    # The thread that works the queue.

    def _work(self) -> None:
        while True:
            with self._changed:
                while not (self._closing or self._next() or self._wanted_model):
                    self._changed.wait()
                if self._closing:
                    return
                job, wanted, self._wanted_model = self._next(), self._wanted_model, None
            if job is not None:
                self._carry_out(job)
            elif wanted is not None:
                with contextlib.suppress(OSError):  # the first run will say why no worker can be started
                    self._live_worker().send(load_command(*wanted))

    def _next(self) -> Job | None:
        return next((job for job in self._jobs.values() if not job.is_done), None)

    def _carry_out(self, job: Job) -> None:
        for run in job.runs:
            with self._changed:
                if self._jobs[job.job_id].run(run.run_id).state == "done":
                    continue
                worker = self._hand_over(job, run)
            if worker is not None:
                worker.send(run_command(run.run_id, str(run.folder), run.config, _experiment(job)))
                if self._jobs[job.job_id].cancelled:  # its cancel may have overtaken the run
                    worker.send(cancel_command(run.run_id))
                self._await_end_of_run()

    def _hand_over(self, job: Job, run: JobRun) -> WorkerProcess | None:
        """The run becomes the one at work, on a living worker; None when no worker can be started."""
        try:
            worker = self._live_worker()
        except OSError as error:
            self._replace_run(job.job_id, ended_unrun(run, "failed", f"the worker could not be started: {error}"))
            self._changed.notify_all()
            return None
        self._at_work, self._kill_at = (job.job_id, run.run_id), None
        self._replace_run(job.job_id, replace(run, state="loading"))
        return worker

    def _await_end_of_run(self) -> None:
        """Wait for the run at work to be done; kill a worker whose patience after a cancel is spent."""
        with self._changed:
            assert self._at_work is not None
            job_id, run_id = self._at_work
            while (run := self._jobs[job_id].run(run_id)).state != "done" and not self._closing:
                left_s = None if self._kill_at is None else self._kill_at - time.monotonic()
                if left_s is not None and left_s <= 0 and self._worker is not None:
                    self._worker.kill()
                    self._kill_at = left_s = None
                self._changed.wait(left_s)
            self._at_work = None
            job = self._jobs[job_id]
            if job.cancelled:
                self._skip_rest(job, "cancelled before it began")
            elif run.status not in ("completed", "oom"):
                self._skip_rest(job, f"not run: the run before it {run.status or 'did not end'}")
            self._changed.notify_all()

    def _live_worker(self) -> WorkerProcess:
        with self._changed:
            if self._worker is None or not self._worker.is_alive:
                self._worker = WorkerProcess(self._command, self.home, self._hear)
            return self._worker

    # Events, on the worker's threads.

    def _hear(self, worker: WorkerProcess, event: Event) -> None:
        with self._changed:
            if worker is not self._worker:
                return
            if isinstance(event, Loading):
                self._model_message = event.message
            elif isinstance(event, Loaded | Died):
                self._model_message = ""
            if isinstance(event, Died):
                self._worker = None
            if self._at_work is not None:
                job = self._jobs[self._at_work[0]]
                self._replace_run(job.job_id, self._after(job, job.run(self._at_work[1]), event))
            self._changed.notify_all()

    def _after(self, job: Job, run: JobRun, event: Event) -> JobRun:
        if isinstance(event, Died):
            return died(run, event, has_log=(run.folder / RUN_FILE).exists(), cancelled=job.cancelled)
        changed = after_event(run, event)
        if self._kill_at is not None and changed.output_tokens > run.output_tokens:
            self._kill_at = min(self._kill_at, time.monotonic() + self._patience.after_pass_s)
        return changed

    # All below is called with the lock held.

    def _replace_run(self, job_id: str, run: JobRun) -> None:
        job = self._jobs[job_id]
        runs = tuple(run if old.run_id == run.run_id else old for old in job.runs)
        self._jobs[job_id] = replace(job, runs=runs)

    def _skip_rest(self, job: Job, reason: str) -> None:
        status = "stopped" if job.cancelled else "skipped"
        runs = tuple(run if run.state == "done" else ended_unrun(run, status, reason) for run in job.runs)
        self._jobs[job.job_id] = replace(job, runs=runs)

    def _placed(self, job: Job) -> Job:
        if job.is_done:
            return replace(job, place=None)
        ahead = [other.job_id for other in self._jobs.values() if not other.is_done]
        return replace(job, place=ahead.index(job.job_id))

    def _forget_old(self) -> None:
        done = [job_id for job_id, job in self._jobs.items() if job.is_done]
        for job_id in done[:-KEPT_JOBS]:
            del self._jobs[job_id]


def _experiment(job: Job) -> dict[str, Any] | None:
    if job.experiment_id is None:
        return None
    return {"id": job.experiment_id, "kind": job.kind, "label": job.label}
