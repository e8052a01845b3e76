"""The queue of runs: first come, first served for all visitors, one run at a time, in one warm worker process.

Submit a job, watch its snapshots, cancel it while it waits or runs. A run that is canceled before its log exists ends
at once, whatever its worker is doing. If the worker dies, its run is `crashed` with the end of the worker's stderr, and
the next run gets a new worker. A worker that does not react to a cancel is killed. An experiment is one job; each of
its points is recorded when it ends, and a failed point does not end it. The queue's thread never imports torch: only
the worker does.
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
from engine.launcher.experiment_session import ExperimentSession
from engine.launcher.job import Job, JobKind, JobRun, new_job
from engine.launcher.job_table import JobTable
from engine.launcher.messages import Died, Event, Finished, calibrate_command, cancel_command, load_command, run_command
from engine.launcher.progress import after_event, died, ended_unrun
from engine.launcher.worker_process import WORKER_COMMAND, WorkerProcess
from engine.runlog.schema import RUN_FILE
from engine.simulator.machine import SimulationTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a canceled run may take before its worker is killed; `after_pass_s` after the next reported progress."""

    loading_s: float = 20.0
    one_pass_s: float = 60.0
    after_pass_s: float = 4.0


log = logging.getLogger(__name__)
Before = Callable[[Job], object]


class RunQueue:
    """The jobs of all visitors and the worker. All methods are thread-safe."""

    def __init__(self, home: Path, *, command: Sequence[str] = WORKER_COMMAND, patience: Patience | None = None):
        self.home = home
        self.runs_folder = home / "runs"
        self._command = tuple(command)
        self._patience = patience or Patience()
        self._changed = threading.Condition()
        self._jobs = JobTable()
        self._sessions: dict[str, ExperimentSession] = {}  # by job, until it is done
        self._worker: WorkerProcess | None = None
        self._current_job: str | None = None  # the job whose runs are run now
        self._current_run: tuple[str, str] | None = None  # job and run that is not done
        self._busy_with: tuple[str, str] | None = None  # job and run in the worker, also one that a cancel has ended
        self._kill_at: float | None = None
        self._owners: dict[str, str] = {}  # the visitor who started a run or an experiment, by its id
        self._wanted_model: tuple[str, str, str] | None = None
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
        target: SimulationTarget | None = None,
    ) -> Job:
        """Add a job of these runs, in this order, to the queue. Returns its first snapshot. Runs with a `target` are
        simulated on it.

        `before` is called with the job before it is queued, and so before a run can start; if it raises, nothing is
        queued.
        """
        job = new_job(self.runs_folder, configs, kind, label, visitor, target)
        before(job)
        return self._put(job)

    def submit_calibration(self, config: RunConfig, engines: Sequence[str], visitor: str = "") -> Job:
        """Add a short calibration of these engines to the queue, with `config`'s model, device and execution."""
        job = new_job(self.runs_folder, [config], "calibration", f"calibration of {config.model}", visitor)
        return self._put(replace(job, calibrates=tuple(engines)))

    def submit_experiment(self, plan: Plan, visitor: str = "", before: Before = lambda job: None) -> Job:
        """Add a new experiment to the queue, all its points as one job; `before` as for `submit`.

        OSError if it cannot be written to disk.
        """
        return self._submit_session(ExperimentSession.create(self.runs_folder, plan), visitor, before)

    def resume_experiment(self, experiment_id: str, visitor: str = "") -> Job:
        """Add the runs left of an experiment to the queue. ValueError if it cannot be resumed."""
        return self._submit_session(ExperimentSession.reopen(self.runs_folder, experiment_id), visitor)

    def repeat_points(self, experiment_id: str, keys: Sequence[str], times: int, visitor: str = "") -> Job:
        """Add further repeats of some points of an experiment to the queue, with what is left of it. ValueError if it
        cannot be resumed or lacks a point."""
        session = ExperimentSession.reopen(self.runs_folder, experiment_id)
        try:
            session.repeat(keys, times)
        except KeyError as error:
            session.close()
            raise ValueError(f"experiment {experiment_id} has no point {error.args[0]!r}") from None
        return self._submit_session(session, visitor)

    def resume(self, job_id: str, visitor: str = "") -> Job:
        """Add the missing runs of runs side by side to the queue, once. ValueError if no run is missing."""
        with self._changed:
            rest = self._jobs.add_rest_of(job_id, self.runs_folder, visitor)
            self._note_owner(self._jobs[rest])
            self._changed.notify_all()
            return self._jobs.placed(rest)

    def cancel(self, job_id: str) -> None:
        """Remove a job from the queue, end it while it loads, or stop it after the current pass. A done job stays as it
        is.

        Points of an experiment that were not run stay pending; the experiment can be resumed later.
        """
        with self._changed:
            job = self._jobs.get(job_id)
            if job is None or job.is_done or job.canceled:
                return
            job = self._jobs.change(job_id, canceled=True)
            worker, run_id = self._worker, None
            if self._current_run is None or self._current_run[0] != job_id:
                self._jobs.skip_rest(job_id, "canceled before it began")
                if job_id != self._current_job:
                    self._close_record(job_id)
            else:
                run_id = self._current_run[1]
                has_log = job.run(run_id).has_log
                if not has_log:
                    self._jobs.replace_run(job_id, ended_unrun(job.run(run_id), "stopped", None))
                    self._jobs.skip_rest(job_id, "canceled before it began")
                patience_s = self._patience.one_pass_s if has_log else self._patience.loading_s
                self._kill_at = time.monotonic() + patience_s
            self._changed.notify_all()
        if worker is not None and run_id is not None:
            worker.send(cancel_command(run_id))

    def warm(self, model: str, device: str, dtype: str) -> None:
        """Load a model in the worker if the queue is empty, so that the first run starts at once."""
        with self._changed:
            self._wanted_model = (model, device, dtype)
            self._changed.notify_all()

    def job(self, job_id: str) -> Job | None:
        """The snapshot of a job; None if it is unknown or was dropped."""
        with self._changed:
            return None if self._jobs.get(job_id) is None else self._jobs.placed(job_id)

    def jobs(self) -> list[Job]:
        """Snapshots of all jobs in order of submission; only the last hundred done jobs are kept."""
        with self._changed:
            return self._jobs.all_placed()

    def owner(self, run_or_experiment_id: str) -> str | None:
        """The visitor who started a run or an experiment in this queue; None if it was not started here."""
        with self._changed:
            return self._owners.get(run_or_experiment_id)

    @property
    def worker_pid(self) -> int | None:
        """The worker's process id; None without a live worker."""
        worker = self._worker
        return worker.pid if worker is not None and worker.is_alive else None

    def wait(self, job_id: str, until: Callable[[Job], bool] = lambda job: job.is_done, timeout_s: float = 60) -> Job:
        """Block until a job satisfies `until`. TimeoutError after `timeout_s`; KeyError for an unknown job."""
        with self._changed:
            if not self._changed.wait_for(lambda: until(self._jobs.placed(job_id)), timeout_s):
                raise TimeoutError(f"job {job_id} is still {self._jobs.placed(job_id).state}")
            return self._jobs.placed(job_id)

    def close(self) -> None:
        """Close the worker and stop the queue; waiting jobs stay as they are. Closing twice does no harm."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._worker is not None:
            self._worker.close()
        self._thread.join(timeout=5)
        for session in self._sessions.values():
            session.close()

    def _submit_session(self, session: ExperimentSession, visitor: str, before: Before = lambda job: None) -> Job:
        job = session.job(new_run_id(), visitor)
        try:
            before(job)
        except BaseException:
            session.discard()
            raise
        with self._changed:
            self._sessions[job.job_id] = session
            return self._put(job)

    def _put(self, job: Job) -> Job:
        with self._changed:
            self._jobs.add(job)
            self._note_owner(job)
            self._changed.notify_all()
            return self._jobs.placed(job.job_id)

    def _note_owner(self, job: Job) -> None:
        """Keep who started the job's runs, also after the job is dropped. Needs the lock."""
        for run in job.runs:
            self._owners.setdefault(run.run_id, job.visitor)
        if job.experiment_id is not None:
            self._owners.setdefault(job.experiment_id, job.visitor)

    # The queue's thread.

    def _work(self) -> None:
        while True:
            with self._changed:
                while not (self._closing or self._jobs.next() or self._wanted_model):
                    self._changed.wait()
                if self._closing:
                    return
                job, wanted, self._wanted_model = self._jobs.next(), self._wanted_model, None
                self._current_job = None if job is None else job.job_id
            if job is not None:
                self._run_all(job)
            elif wanted is not None:
                with contextlib.suppress(OSError):  # the first run reports why no worker can be started
                    self._live_worker().send(load_command(*wanted))

    def _run_all(self, job: Job) -> None:
        """Run all runs of a job one after another, including those that its experiment adds."""
        session = self._sessions.get(job.job_id)
        try:
            while (run := self._next_run(job.job_id, session)) is not None:
                self._run_one(job, run, session)
        except Exception as error:  # an unexpected error must not block the other jobs
            log.exception("job %s stopped by an error", job.job_id)
            with self._changed:
                self._jobs.end_in_trouble(job.job_id, error)
        with self._changed:
            self._current_job = None
            if not self._closing:
                self._close_record(job.job_id)
            self._changed.notify_all()

    def _next_run(self, job_id: str, session: ExperimentSession | None) -> JobRun | None:
        """The next run of a job; None if there is none, or if the queue is closing."""
        with self._changed:
            job = self._jobs[job_id]
            if self._closing or job.current is not None or job.canceled or session is None:
                return None if self._closing else job.current
        more = session.more()
        with self._changed:
            job = self._jobs[job_id]
            if job.canceled:
                return None
            job = self._jobs.change(job_id, runs=(*job.runs, *more))
            self._note_owner(job)
            return job.current

    def _run_one(self, job: Job, run: JobRun, session: ExperimentSession | None) -> None:
        """Run one run in the worker, wait for its end, and record it."""
        self._await_free_worker()
        with self._changed:
            worker = self._worker_for(job, run)
            if worker is None:
                return
            experiment = job.experiment if session is None else session.begin(run)
            self._current_run = self._busy_with = (job.job_id, run.run_id)
            self._kill_at = None
        worker.send(
            calibrate_command(run.run_id, run.config, job.calibrates)
            if job.kind == "calibration"
            else run_command(run.run_id, str(run.folder), run.config, experiment, run.target)
        )
        if self._jobs[job.job_id].canceled:  # the cancel may have been sent before the run command
            worker.send(cancel_command(run.run_id))
        self._await_end_of_run()
        done = self._jobs[job.job_id].run(run.run_id)
        if session is not None and done.state == "done":
            session.end(done)

    def _worker_for(self, job: Job, run: JobRun) -> WorkerProcess | None:
        """A live worker for the run; None if the run was canceled meanwhile, or no worker can be started."""
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
        """Wait for the end of the current run."""
        with self._changed:
            assert self._current_run is not None
            job_id, run_id = self._current_run
            self._wait_for_worker(lambda: self._jobs[job_id].run(run_id).state == "done")
            self._current_run = None
            self._jobs.skip_after(job_id, self._jobs[job_id].run(run_id).status, is_recorded=job_id in self._sessions)
            self._changed.notify_all()

    def _await_free_worker(self) -> None:
        """Wait until the worker has left a run that a cancel has ended."""
        with self._changed:
            self._wait_for_worker(lambda: self._busy_with is None)

    def _wait_for_worker(self, until: Callable[[], bool]) -> None:
        """Wait; kill a worker that takes too long after a cancel. Needs the lock."""
        while not until() and not self._closing:
            left_s = None if self._kill_at is None else self._kill_at - time.monotonic()
            if left_s is not None and left_s <= 0 and self._worker is not None:
                self._worker.kill()
                self._kill_at = left_s = None
            self._changed.wait(left_s)

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
            if isinstance(event, Died):
                self._worker = None
            if self._busy_with is not None:
                job_id, run_id = self._busy_with
                job = self._jobs.get(job_id)
                if job is not None:
                    self._jobs.replace_run(job_id, self._after(job, job.run(run_id), event))
                if isinstance(event, Died) or (isinstance(event, Finished) and event.run_id == run_id):
                    self._busy_with = None
            self._changed.notify_all()

    def _after(self, job: Job, run: JobRun, event: Event) -> JobRun:
        if isinstance(event, Died):
            return died(run, event, has_log=(run.folder / RUN_FILE).exists(), canceled=job.canceled)
        changed = after_event(run, event)
        if self._kill_at is not None and changed.output_tokens > run.output_tokens:
            self._kill_at = min(self._kill_at, time.monotonic() + self._patience.after_pass_s)
        return changed

    def _close_record(self, job_id: str) -> None:
        """Close the record of an experiment whose job has ended, so that it can be resumed. Needs the lock."""
        session = self._sessions.pop(job_id, None)
        if session is not None:
            self._jobs.change(job_id, is_open=False)
            session.close()
