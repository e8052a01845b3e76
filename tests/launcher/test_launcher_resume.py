"""Stopped runs side by side: the missing runs are run once, and the others are kept."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.config import RunConfig
from engine.launcher.job import Job
from engine.launcher.run_queue import RunQueue


def config(model: str) -> RunConfig:
    return RunConfig(model=model)


def stopped_in_its_second_run(queue: RunQueue) -> Job:
    """Three runs side by side, one of them completed. The second would complete if it were run again."""
    job = queue.submit([config("fast"), config("once"), config("fast")], kind="layouts", label="three", visitor="ada")
    queue.wait(job.job_id, lambda job: job.runs[0].state == "done" and job.runs[1].output_tokens > 0)
    assert not queue.jobs()[0].can_go_on  # it is running
    queue.cancel(job.job_id)
    return queue.wait(job.job_id)


def test_missing_runs_are_run_and_completed_ones_kept(queue: RunQueue) -> None:
    stopped = stopped_in_its_second_run(queue)
    assert [run.status for run in stopped.runs] == ["completed", "stopped", "stopped"]
    assert stopped.can_go_on
    busy = queue.submit([config("slow")])
    rest = queue.resume(stopped.job_id, "bob")
    assert (rest.state, rest.place, rest.kind, rest.label, rest.visitor) == ("queued", 1, "layouts", "three", "bob")
    assert rest.experiment_id not in (None, stopped.experiment_id)
    assert queue.resume(stopped.job_id, "eve") == rest  # a second call queues nothing
    queue.cancel(busy.job_id)
    done = queue.wait(rest.job_id)
    assert (done.outcome, done.can_go_on) == ("completed", False)
    assert [run.kept for run in done.runs] == [True, False, False]
    assert done.runs[0] == replace(stopped.runs[0], kept=True)
    new, old = {run.run_id for run in done.runs}, {run.run_id for run in stopped.runs}
    assert new & old == {stopped.runs[0].run_id}
    assert all(run.folder == queue.runs_folder / run.run_id and run.has_log for run in done.runs)
    assert queue.resume(stopped.job_id).job_id == rest.job_id
    with pytest.raises(ValueError, match="this job has no runs left"):
        queue.resume(rest.job_id)


def test_runs_that_never_started_keep_their_ids(queue: RunQueue) -> None:
    busy = queue.submit([config("slow")])
    first = queue.submit([config("fast"), config("fast")], kind="pair", visitor="ada")
    queue.cancel(first.job_id)
    stopped = queue.wait(first.job_id)
    assert [(run.status, run.has_log) for run in stopped.runs] == [("stopped", False)] * 2
    rest = queue.resume(first.job_id, "bob")
    assert (rest.state, rest.visitor, rest.experiment_id) == ("queued", "bob", first.experiment_id)
    assert [run.run_id for run in rest.runs] == [run.run_id for run in first.runs]
    queue.cancel(busy.job_id)
    assert queue.wait(rest.job_id).outcome == "completed"
    assert queue.resume(first.job_id).job_id == rest.job_id


def test_without_a_worker_every_run_is_missing(tmp_path: Path) -> None:
    queue = RunQueue(tmp_path, command=("/nowhere/python",))
    try:
        ended = queue.wait(queue.submit([config("fast"), config("fast")], kind="pair").job_id)
        assert [run.status for run in ended.runs] == ["failed", "skipped"]
        assert ended.missing == ended.runs
        rest = queue.resume(ended.job_id)
        assert [(run.run_id, run.kept) for run in rest.runs] == [(run.run_id, False) for run in ended.runs]
    finally:
        queue.close()


def test_a_deleted_run_is_missing_too(queue: RunQueue) -> None:
    stopped = stopped_in_its_second_run(queue)
    shutil.rmtree(stopped.runs[0].folder)
    done = queue.wait(queue.resume(stopped.job_id).job_id)
    assert [(run.kept, run.status) for run in done.runs] == [(False, "completed")] * 3


def test_one_missing_run_has_no_experiment(queue: RunQueue) -> None:
    job = queue.submit([config("fast"), config("dies")], kind="pair")
    stopped = queue.wait(job.job_id)
    assert [run.status for run in stopped.runs] == ["completed", "crashed"]
    rest = queue.resume(job.job_id)
    assert (rest.experiment_id, rest.experiment) == (None, None)
    again = queue.wait(rest.job_id)
    assert [run.status for run in again.runs] == ["completed", "crashed"]
    assert again.can_go_on
    assert queue.resume(again.job_id).job_id not in (job.job_id, rest.job_id)


def test_nothing_is_missing_of_a_single_run_or_of_a_settled_one(queue: RunQueue) -> None:
    alone = queue.submit([config("dies")])
    assert not queue.wait(alone.job_id).can_go_on
    pair = queue.submit([config("big"), config("fast")], kind="pair")
    assert not queue.wait(pair.job_id).can_go_on
    for job_id in (alone.job_id, pair.job_id, "unknown"):
        with pytest.raises(ValueError, match="this job has no runs left; start a new one"):
            queue.resume(job_id)
