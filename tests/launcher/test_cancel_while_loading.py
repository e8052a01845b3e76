"""A cancel before a run has a log: the job ends at once, whatever its worker is doing, and the queue goes on."""

from __future__ import annotations

from pathlib import Path

from engine.core.config import RunConfig
from engine.launcher.job import Job, JobRun
from engine.launcher.messages import Finished, Loading, Started
from engine.launcher.progress import after_event, ended_unrun
from engine.launcher.run_queue import Patience, RunQueue
from tests.launcher.test_launcher_experiments import with_models
from tests.support.processes import FAKE_WORKER, wait_for


def config(model: str) -> RunConfig:
    return RunConfig(model=model)


def is_loading(job: Job) -> bool:
    return job.state == "loading" and "reading" in (job.runs[0].message or "")


def canceled_while_loading(queue: RunQueue, model: str) -> Job:
    """The job of a model that loads, as it is when `cancel` returns."""
    job = queue.submit([config(model), config("fast")], kind="pair")
    queue.wait(job.job_id, is_loading)
    queue.cancel(job.job_id)
    ended = queue.job(job.job_id)
    assert ended is not None
    return ended


def test_the_job_has_ended_when_the_cancel_returns(queue: RunQueue) -> None:
    """`stuck` loads for ten minutes and hears nothing."""
    ended = canceled_while_loading(queue, "stuck")
    assert ended.is_done
    assert [(run.status, run.error, run.has_log) for run in ended.runs] == [
        ("stopped", None, False),
        ("stopped", "canceled before it began", False),
    ]


def test_the_next_job_uses_the_worker_that_has_heard_the_cancel(queue: RunQueue) -> None:
    canceled_while_loading(queue, "patient")
    worker = queue.worker_pid
    assert worker is not None
    assert queue.wait(queue.submit([config("fast")]).job_id).outcome == "completed"
    assert queue.worker_pid == worker


def test_the_next_job_gets_another_worker_where_none_has_heard_the_cancel(tmp_path: Path) -> None:
    queue = RunQueue(tmp_path, command=FAKE_WORKER, patience=Patience(loading_s=0.3))
    try:
        ended = canceled_while_loading(queue, "stuck")
        stuck = queue.worker_pid
        assert queue.wait(queue.submit([config("fast")]).job_id).outcome == "completed"
        assert queue.worker_pid != stuck
        after = queue.job(ended.job_id)
        assert after is not None
        assert after.runs[0].status == "stopped"  # and not crashed, though its worker was killed
    finally:
        queue.close()


def test_a_canceled_experiment_can_be_resumed_at_once(queue: RunQueue) -> None:
    """Its record is closed although its worker still loads."""
    job = queue.submit_experiment(with_models("stuck", "fast"))
    queue.wait(job.job_id, is_loading)
    queue.cancel(job.job_id)
    wait_for(lambda: queue.job(job.job_id).is_done, 60)  # type: ignore[union-attr]
    again = queue.resume_experiment(str(job.experiment_id))
    assert len(again.runs) == 2


def test_events_of_an_ended_run_only_tell_whether_it_has_a_log() -> None:
    run = JobRun(run_id="a", folder=Path("a"), config=RunConfig(), state="loading")
    ended = ended_unrun(run, "stopped", None)
    assert after_event(ended, Loading(model="m", message="reading m")) == ended
    assert after_event(ended, Finished(run_id="a", status="completed")) == ended
    assert after_event(ended, Started(run_id="b")) == ended
    assert after_event(ended, Started(run_id="a")).has_log
