"""Experiments in the queue: one job each, every point recorded, failures do not end it, and it can be resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from engine.experiments.experiment import Plan, Point, PointRecord
from engine.launcher import experiment_session
from engine.launcher.job import Job
from engine.launcher.run_queue import RunQueue
from engine.runlog.experiment_log import ExperimentLog
from tests.support.app_server import ROOT
from tests.support.processes import FAKE_WORKER, await_end, worker_of
from tests.support.runs.sweeps import a_sweep, good_records, statuses


def with_models(*models: str) -> Plan:
    """A sweep whose points use these models of the fake worker."""
    plan = a_sweep(",".join(str(1 + i) for i in range(len(models))))
    points = zip(plan.points, models, strict=True)
    return replace(plan, points=tuple(replace(p, config=replace(p.config, model=m)) for p, m in points))


def folder_of(queue: RunQueue, job: Job) -> Path:
    assert job.experiment_id is not None
    return queue.runs_folder / job.experiment_id


def is_running(job: Job) -> bool:
    return job.current is not None and job.current.output_tokens > 0


def test_an_experiment_is_one_job_with_a_record_per_point(queue: RunQueue) -> None:
    plan = with_models("fast", "fast", "fast")
    job = queue.submit_experiment(plan, visitor="ada")
    assert (job.kind, job.label, job.visitor, job.experiment_id) == ("sweep", plan.label, "ada", plan.experiment_id)
    assert (job.done_points, job.all_points, job.state) == (0, 3, "queued")
    assert job.point_values == plan.points[0].values
    done = queue.wait(job.job_id)
    assert (done.done_points, done.state, done.outcome) == (3, "done", "completed")
    logged = ExperimentLog.read(folder_of(queue, job))
    assert [(r.key, r.status, r.run_id) for r in logged.records] == [
        (point.key, "completed", run.run_id) for point, run in zip(plan.points, done.runs, strict=True)
    ]
    assert logged.plan == plan
    assert not ExperimentLog.is_open(folder_of(queue, job))


def test_failed_points_and_worker_crashes_do_not_end_the_experiment(queue: RunQueue) -> None:
    """After out of memory, a worker that dies during a run, and one that dies before it, the rest still runs."""
    job = queue.submit_experiment(with_models("big", "dies", "stillborn", "fast"))
    done = queue.wait(job.job_id)
    assert [run.status for run in done.runs] == ["oom", "crashed", "crashed", "completed"]
    logged = ExperimentLog.read(folder_of(queue, job))
    assert [(r.status, r.run_id is None) for r in logged.records] == [
        ("oom", False), ("crashed", False), ("crashed", True), ("completed", False),
    ]  # fmt: skip
    assert logged.open_attempts == ()
    assert logged.records[1].error is not None
    assert "exit status 7" in logged.records[1].error


def test_a_resume_runs_only_crashed_points_again(queue: RunQueue) -> None:
    plan = with_models("fast", "dies", "fast")
    first = queue.wait(queue.submit_experiment(plan).job_id)
    again = queue.resume_experiment(plan.experiment_id, visitor="bob")
    assert (again.done_points, again.all_points, again.visitor) == (2, 3, "bob")
    assert [run.point.key for run in again.runs if run.point] == [plan.points[1].key]
    assert {run.run_id for run in again.runs}.isdisjoint(run.run_id for run in first.runs)
    done = queue.wait(again.job_id)
    assert (done.done_points, [run.status for run in done.runs]) == (3, ["crashed"])


def test_a_canceled_experiment_keeps_its_records_and_can_be_resumed(queue: RunQueue) -> None:
    plan = with_models("fast", "slow", "fast", "fast")
    job = queue.submit_experiment(plan)
    queue.wait(job.job_id, lambda job: job.done_points == 1 and is_running(job))
    queue.cancel(job.job_id)
    done = queue.wait(job.job_id)
    assert [run.status for run in done.runs] == ["completed", "stopped", "stopped", "stopped"]
    assert (done.done_points, done.outcome) == (1, "stopped")
    folder = folder_of(queue, job)
    assert statuses(folder) == [(plan.points[0].key, "completed"), (plan.points[1].key, "stopped")]
    again = queue.resume_experiment(plan.experiment_id)
    assert [run.point.key for run in again.runs if run.point] == [point.key for point in plan.points[1:]]
    queue.cancel(again.job_id)
    queue.wait(again.job_id)


def test_a_queued_experiment_is_locked_until_it_is_canceled(queue: RunQueue) -> None:
    blocker = queue.submit_experiment(with_models("slow"))
    plan = with_models("fast", "fast")
    waiting = queue.submit_experiment(plan)
    assert waiting.place == 1
    with pytest.raises(ValueError, match="is running"):
        queue.resume_experiment(plan.experiment_id)
    queue.cancel(waiting.job_id)
    done = queue.wait(waiting.job_id)
    assert (done.state, done.done_points) == ("done", 0)
    assert statuses(folder_of(queue, waiting)) == []
    assert queue.resume_experiment(plan.experiment_id).all_points == 2
    queue.cancel(blocker.job_id)


def test_other_jobs_wait_for_the_whole_experiment(queue: RunQueue) -> None:
    """One job runs at a time, first come, first served, regardless of its size."""
    order = [queue.submit_experiment(with_models("fast", "fast")), queue.submit_experiment(with_models("fast"))]
    last = queue.wait(order[1].job_id)
    assert last.outcome == "completed"
    first = queue.job(order[0].job_id)
    assert first is not None
    assert first.is_done


def test_experiments_that_cannot_be_resumed(queue: RunQueue, tmp_path: Path) -> None:
    for odd in ("nowhere", "../elsewhere", ""):
        with pytest.raises(ValueError, match="no experiment|not an experiment id"):
            queue.resume_experiment(odd)
    plan = with_models("fast")
    queue.wait(queue.submit_experiment(plan).job_id)
    again = queue.wait(queue.resume_experiment(plan.experiment_id).job_id)
    assert (again.runs, again.done_points, again.all_points, again.outcome) == ((), 1, 1, "completed")
    with pytest.raises(FileExistsError):
        queue.submit_experiment(plan)


def test_a_failing_before_callback_leaves_no_experiment(queue: RunQueue) -> None:
    def refuse(job: Job) -> None:
        raise ValueError(f"no {job.kind} today")

    plan = with_models("fast")
    with pytest.raises(ValueError, match="no sweep today"):
        queue.submit_experiment(plan, before=refuse)
    assert queue.jobs() == []
    assert not (queue.runs_folder / plan.experiment_id).exists()


def test_added_points_run_in_the_same_job(queue: RunQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Called with the records when all points are done; added points are in the plan from then on."""
    asked: list[int] = []
    plan = with_models("fast", "fast")

    def next_points(plan: Plan, records: Sequence[PointRecord]) -> tuple[Point, ...]:
        asked.append(len(records))
        return () if len(records) > 2 else (replace(plan.points[0], key="more", position=2),)

    monkeypatch.setattr(experiment_session, "next_load_points", lambda runs_folder: next_points)
    done = queue.wait(queue.submit_experiment(replace(plan, kind="load")).job_id)
    assert asked == [2, 3]
    assert (done.done_points, done.all_points, done.is_done) == (3, 3, True)
    assert [point.key for point in ExperimentLog.read(folder_of(queue, done)).plan.points][-1] == "more"


@pytest.mark.parametrize(
    ("method", "statuses", "error"),
    [
        ("more", ["completed", "completed"], KeyError("ttft_p50_s")),
        ("begin", ["skipped", "skipped"], ZeroDivisionError("float division by zero")),
        ("end", ["completed", "skipped"], OSError("no space left")),
    ],
)
def test_a_failing_record_ends_its_job_and_not_the_queue(
    method: str, statuses: list[str], error: Exception, queue: RunQueue, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    def fail(session: object, *arguments: object) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(experiment_session.ExperimentSession, method, fail)
        plan = with_models("fast", "fast")
        job = queue.wait(queue.submit_experiment(plan, visitor="ada").job_id)
    assert [run.status for run in job.runs] == statuses
    assert job.outcome == ("failed" if method == "more" else "skipped")
    assert str(error) in job.trouble
    assert all(job.trouble in str(run.error) for run in job.runs if run.status == "skipped")
    assert any(record.exc_info for record in caplog.records)
    assert queue.wait(queue.submit_experiment(with_models("fast")).job_id).outcome == "completed"
    assert queue.wait(queue.resume_experiment(plan.experiment_id).job_id).outcome == "completed"


APP = """
import sys, time
from pathlib import Path
from engine.launcher.run_queue import RunQueue
from tests.support.runs.sweeps import a_sweep
queue = RunQueue(Path(sys.argv[1]))
plan = a_sweep("1,2", budget="3000")
queue.submit_experiment(plan)
print(plan.experiment_id, flush=True)
time.sleep(600)
"""


def test_killing_the_app_neither_loses_nor_repeats_a_point(tmp_path: Path) -> None:
    """kill -9 during a run: the worker ends too, a new app resumes, and every point gets exactly one settled record."""
    # A separate cache: its device lock is not shared.
    environment = {**os.environ, "LAB_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", APP, str(tmp_path)]
    app = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    assert app.stdout is not None
    experiment_id = app.stdout.readline().strip()
    points_file = tmp_path / "runs" / experiment_id / "points.jsonl"
    deadline_s = time.monotonic() + 60
    while not list((tmp_path / "runs").glob("*/passes.arrows")) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert list((tmp_path / "runs").glob("*/passes.arrows")), "no run has begun"
    worker = worker_of(app.pid)
    app.send_signal(signal.SIGKILL)
    app.wait()
    app.stdout.close()
    with_fake = RunQueue(tmp_path, command=FAKE_WORKER)
    try:
        job = with_fake.resume_experiment(experiment_id)
        assert await_end(worker, 30)
        done = with_fake.wait(job.job_id)
    finally:
        with_fake.close()
    assert done.outcome == "completed"
    ends = statuses(points_file.parent)
    assert ends[0][1] in ("stopped", "crashed")
    assert set(good_records(points_file.parent).values()) == {1}
    assert len(good_records(points_file.parent)) == 2


def test_further_repeats_join_an_experiment_and_replace_nothing(queue: RunQueue) -> None:
    plan = with_models("fast", "fast")
    first = queue.submit_experiment(plan, visitor="ada")
    queue.wait(first.job_id)
    before = ExperimentLog.read(folder_of(queue, first)).records
    job = queue.repeat_points(plan.experiment_id, [plan.points[0].key], 2, visitor="bea")
    assert (job.kind, job.visitor, job.done_points, job.all_points) == ("sweep", "bea", 2, 4)
    assert queue.wait(job.job_id).outcome == "completed"
    logged = ExperimentLog.read(folder_of(queue, job))
    assert logged.records[:2] == before
    assert [(record.key, record.repeat) for record in logged.records[2:]] == [
        (plan.points[0].key, 1),
        (plan.points[0].key, 2),
    ]
    with pytest.raises(ValueError, match="has no point 'nowhere'"):
        queue.repeat_points(plan.experiment_id, ["nowhere"], 1)
    assert not ExperimentLog.is_open(folder_of(queue, job))
