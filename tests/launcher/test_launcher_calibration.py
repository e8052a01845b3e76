"""A calibration in the queue: it waits its turn, can be canceled, and leaves no run."""

from __future__ import annotations

from engine.core.config import RunConfig
from engine.launcher.run_queue import RunQueue


def test_a_calibration_is_a_job_of_the_queue(queue: RunQueue) -> None:
    first = queue.submit([RunConfig(model="slow")])
    queue.wait(first.job_id, lambda job: job.state == "running")
    job = queue.submit_calibration(RunConfig(model="fast"), ["static", "continuous"], "me")
    assert (job.kind, job.label, job.visitor, job.place) == ("calibration", "calibration of fast", "me", 1)
    queue.cancel(first.job_id)
    done = queue.wait(job.job_id)
    (run,) = done.runs
    assert (done.outcome, run.status, run.has_log, run.folder.exists()) == ("completed", "completed", False, False)


def test_a_canceled_calibration_ends_at_once_and_the_queue_goes_on(queue: RunQueue) -> None:
    job = queue.submit_calibration(RunConfig(model="patient"), ["static"])
    queue.wait(job.job_id, lambda job: job.runs[0].message == "passes of static")
    queue.cancel(job.job_id)
    ended = queue.job(job.job_id)
    assert ended is not None
    assert (ended.is_done, ended.outcome) == (True, "stopped")
    after = queue.submit([RunConfig(model="fast")])
    assert queue.wait(after.job_id).outcome == "completed"
