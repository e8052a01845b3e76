"""The queue of runs: first come, first served over all visitors, one at a time, through one worker that stays warm.

Submit a job, watch its snapshots, cancel it whether it waits or runs. When the worker dies, the run it had is
`crashed`, with the end of its stderr; the next run gets a fresh worker. A worker that does not answer a cancel is
killed. An experiment is one job; what becomes of its points is recorded as they end, and none of them ends it. The
thread that works the queue never touches torch: all of that is in the worker.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core.config import RunConfig
from engine.core.run_id import new_run_id
from engine.experiments.experiment import Plan
from engine.launcher.experiment_keeper import ExperimentKeeper
from engine.launcher.job import Job, JobKind, JobRun, new_job
from engine.launcher.job_book import JobBook
from engine.launcher.messages import Died, Event, Loaded, Loading, cancel_command, load_command, run_command
from engine.launcher.progress import after_event, died, ended_unrun
from engine.launcher.worker_process import WORKER_COMMAND, WorkerProcess
from engine.runlog.schema import RUN_FILE

# How long the queue waits for a worker that was told to stop, before it kills it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a canceled worker may take. A pass is over when progress is reported: from then on `after_pass_s`."""

    loading_s: float = 20.0
    one_pass_s: float = 60.0
    after_pass_s: float = 4.0


log = logging.getLogger(__name__)
Before = Callable[[Job], object]


class RunQueue:
    """Jobs of all visitors over one worker. Every method may be called from any thread."""

    def __init__(self, home: Path, *, command: Sequence[str] = WORKER_COMMAND, patience: Patience | None = None):
        self.home = home
        self.runs_folder = home / "runs"
        self._command = tuple(command)
        self._patience = patience or Patience()
        self._changed = threading.Condition()
        self._jobs = JobBook()
        self._keepers: dict[str, ExperimentKeeper] = {}  # by job, until it is done
        self._worker: WorkerProcess | None = None
        self._carried: str | None = None  # the job whose runs are being worked through
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
        before: Before = lambda job: None,
    ) -> Job:
        """Put a job of these runs, in this order, at the end of the queue. Returns its first snapshot.

        `before` gets the job first: what it writes down is there when a run starts; if it raises, nothing is queued.
        """
        job = new_job(self.runs_folder, configs, kind, label, visitor)
        before(job)
        return self._put(job)

    def submit_experiment(self, plan: Plan, visitor: str = "", before: Before = lambda job: None) -> Job:
        """Put a new experiment at the end of the queue, all its points as one job; `before` as for `submit`.

        OSError when it cannot be kept on disk.
        """
        return self._submit_kept(ExperimentKeeper.create(self.runs_folder, plan), visitor, before)

    def resume_experiment(self, experiment_id: str, visitor: str = "") -> Job:
        """Put what is left of an experiment at the end of the queue. ValueError when there is none to go on with."""
        return self._submit_kept(ExperimentKeeper.reopen(self.runs_folder, experiment_id), visitor)

    def resume(self, job_id: str, visitor: str = "") -> Job:
        """Put what is missing of runs side by side at the end of the queue, once. ValueError where nothing is."""
        with self._changed:
            rest = self._jobs.add_rest_of(job_id, self.runs_folder, visitor)
            self._changed.notify_all()
            return self._jobs.placed(rest)

    def cancel(self, job_id: str) -> None:
        """Take a job out of the queue, or stop it after the pass at hand. Nothing happens to one that is done.

        Points of an experiment that were not run stay pending: it can be gone on with later.
        """
        with self._changed:
            job = self._jobs.get(job_id)
            if job is None or job.is_done or job.canceled:
                return
            job = self._jobs.change(job_id, canceled=True)
            worker, run_id = self._worker, None
            if self._at_work is None or self._at_work[0] != job_id:
                self._jobs.skip_rest(job_id, "canceled before it began")
                if job_id != self._carried:
                    self._close_record(job_id)
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
            return None if self._jobs.get(job_id) is None else self._jobs.placed(job_id)

    def jobs(self) -> list[Job]:
        """Snapshots of all jobs in order of submission; the last hundred that are done are kept."""
        with self._changed:
            return self._jobs.all_placed()

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
        with self._changed:
            if not self._changed.wait_for(lambda: until(self._jobs.placed(job_id)), timeout_s):
                raise TimeoutError(f"job {job_id} is still {self._jobs.placed(job_id).state}")
            return self._jobs.placed(job_id)

    def close(self) -> None:
        """Stop working: the worker leaves, jobs that wait are left as they are. Closing twice does no harm."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._worker is not None:
            self._worker.close()
        self._thread.join(timeout=5)
        for keeper in self._keepers.values():
            keeper.close()

    def _submit_kept(self, keeper: ExperimentKeeper, visitor: str, before: Before = lambda job: None) -> Job:
        job = keeper.job(new_run_id(), visitor)
        try:
            before(job)
        except BaseException:
            keeper.discard()
            raise
        with self._changed:
            self._keepers[job.job_id] = keeper
            return self._put(job)

    def _put(self, job: Job) -> Job:
        with self._changed:
            self._jobs.add(job)
            self._changed.notify_all()
            return self._jobs.placed(job.job_id)

    # The thread that works the queue.

    def _work(self) -> None:
        while True:
            with self._changed:
                while not (self._closing or self._jobs.next() or self._wanted_model):
                    self._changed.wait()
                if self._closing:
                    return
                job, wanted, self._wanted_model = self._jobs.next(), self._wanted_model, None
                self._carried = None if job is None else job.job_id
            if job is not None:
                self._carry_out(job)
            elif wanted is not None:
                with contextlib.suppress(OSError):  # the first run will say why no worker can be started
                    self._live_worker().send(load_command(*wanted))

    def _carry_out(self, job: Job) -> None:
        """All runs of a job, one after the other, those that it finds it needs included."""
        keeper = self._keepers.get(job.job_id)
        try:
            while (run := self._next_run(job.job_id, keeper)) is not None:
                self._carry_out_run(job, run, keeper)
        except Exception as error:  # whatever it was, the other jobs are not to wait for ever
            log.exception("job %s cannot go on", job.job_id)
            with self._changed:
                self._jobs.end_in_trouble(job.job_id, error)
        with self._changed:
            self._carried = None
            if not self._closing:
                self._close_record(job.job_id)
            self._changed.notify_all()

    def _next_run(self, job_id: str, keeper: ExperimentKeeper | None) -> JobRun | None:
        """The next run of a job that is to be carried out; None when there is none, or the queue is closing."""
        with self._changed:
            job = self._jobs[job_id]
            if self._closing or job.current is not None or job.canceled or keeper is None:
                return None if self._closing else job.current
        more = keeper.more()
        with self._changed:
            job = self._jobs[job_id]
            return None if job.canceled else self._jobs.change(job_id, runs=(*job.runs, *more)).current

    def _carry_out_run(self, job: Job, run: JobRun, keeper: ExperimentKeeper | None) -> None:
        """Hand a run to the worker, wait for its end, and record it."""
        with self._changed:
            worker = self._hand_over(job, run)
            if worker is None:
                return
            experiment = job.experiment if keeper is None else keeper.begin(run)
            self._at_work, self._kill_at = (job.job_id, run.run_id), None
        worker.send(run_command(run.run_id, str(run.folder), run.config, experiment))
        if self._jobs[job.job_id].canceled:  # its cancel may have overtaken the run
            worker.send(cancel_command(run.run_id))
        self._await_end_of_run()
        done = self._jobs[job.job_id].run(run.run_id)
        if keeper is not None and done.state == "done":
            keeper.end(done)

    def _hand_over(self, job: Job, run: JobRun) -> WorkerProcess | None:
        """A living worker for the run; None when it was canceled just now, or no worker can be started."""
        if self._jobs[job.job_id].run(run.run_id).state == "done":
            return None
        try:
            worker = self._live_worker()
        except OSError as error:
            reason = f"the worker could not be started: {error}"
            self._jobs.replace_run(job.job_id, ended_unrun(run, "failed", reason))
            self._jobs.skip_rest(job.job_id, f"not run: {reason}")
            return None
        self._jobs.replace_run(job.job_id, replace(run, state="loading"))
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
            self._jobs.skip_after(job_id, run.status, is_recorded=job_id in self._keepers)
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
                self._jobs.replace_run(job.job_id, self._after(job, job.run(self._at_work[1]), event))
            self._changed.notify_all()

    def _after(self, job: Job, run: JobRun, event: Event) -> JobRun:
        if isinstance(event, Died):
            return died(run, event, has_log=(run.folder / RUN_FILE).exists(), canceled=job.canceled)
        changed = after_event(run, event)
        if self._kill_at is not None and changed.output_tokens > run.output_tokens:
            self._kill_at = min(self._kill_at, time.monotonic() + self._patience.after_pass_s)
        return changed

    def _close_record(self, job_id: str) -> None:
        """An experiment's job is over: whoever likes may go on with what is left of it. Called with the lock held."""
        keeper = self._keepers.pop(job_id, None)
        if keeper is not None:
            self._jobs.change(job_id, is_open=False)
            keeper.close()
