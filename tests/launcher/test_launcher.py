"""The launcher with real processes: order of jobs, cancel, crashed workers, and no worker outlives the app."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.config import RunConfig
from engine.launcher.job import Job
from engine.launcher.messages import Finished, Progress, parse_event
from engine.launcher.run_queue import Patience, RunQueue
from tests.support.processes import FAKE_WORKER, await_end, process_lives, wait_for


def config(model: str) -> RunConfig:
    return RunConfig(model=model)


def is_running(job: Job) -> bool:
    return job.current is not None and job.current.output_tokens > 0


def test_a_run_completes_in_the_worker(queue: RunQueue) -> None:
    job = queue.submit([config("fast")], label="first", visitor="ada")
    assert (job.kind, job.label, job.visitor, job.experiment_id) == ("single", "first", "ada", None)
    done = queue.wait(job.job_id)
    run = done.runs[0]
    assert (done.state, done.outcome, done.place) == ("done", "completed", None)
    assert (run.status, run.error) == ("completed", None)
    assert (run.requests, run.output_tokens, run.has_log) == (8, 1, True)
    assert (run.folder / "run.json").exists()


def test_the_queue_knows_who_started_a_run_or_an_experiment(queue: RunQueue) -> None:
    """Also after its job was dropped; nothing of a run that was started elsewhere."""
    pair = queue.submit([config("fast"), config("fast")], kind="pair", visitor="ada")
    other = queue.submit([config("fast")], visitor="bob")
    assert [queue.owner(run.run_id) for run in pair.runs] == ["ada", "ada"]
    assert queue.owner(str(pair.experiment_id)) == "ada"
    assert queue.owner(other.runs[0].run_id) == "bob"
    assert queue.owner("elsewhere") is None


def test_the_worker_stays_warm_between_runs(queue: RunQueue) -> None:
    queue.wait(queue.submit([config("fast")]).job_id)
    first = queue.worker_pid
    queue.wait(queue.submit([config("fast")]).job_id)
    assert first is not None
    assert queue.worker_pid == first


def test_a_pair_is_one_experiment_and_runs_in_order(queue: RunQueue) -> None:
    job = queue.submit([config("fast"), config("chatty")], kind="pair")
    done = queue.wait(job.job_id)
    assert [run.status for run in done.runs] == ["completed", "completed"]
    assert [run.config.model for run in done.runs] == ["fast", "chatty"]
    assert job.experiment_id is not None
    assert len({job.job_id, job.experiment_id, *(run.run_id for run in job.runs)}) == 4


def test_layouts_side_by_side_are_one_experiment_of_four_runs(queue: RunQueue) -> None:
    job = queue.submit([config("fast")] * 4, kind="layouts", label="static, continuous, paged and chunked")
    done = queue.wait(job.job_id)
    assert [run.status for run in done.runs] == ["completed"] * 4
    assert (done.kind, done.experiment_id) == ("layouts", job.experiment_id)
    assert len({run.run_id for run in done.runs}) == 4


def test_jobs_run_in_order_of_submission(queue: RunQueue) -> None:
    jobs = [queue.submit([config(model)]) for model in ("slow", "fast", "fast")]
    queue.wait(jobs[0].job_id, is_running)
    assert [(job.place, job.state) for job in queue.jobs()] == [(0, "running"), (1, "queued"), (2, "queued")]
    queue.cancel(jobs[1].job_id)
    assert [job.place for job in queue.jobs()] == [0, None, 1]
    queue.cancel(jobs[0].job_id)
    assert queue.wait(jobs[2].job_id).outcome == "completed"
    first, second, _ = queue.jobs()
    assert (first.runs[0].status, first.runs[0].has_log) == ("stopped", True)
    assert (second.runs[0].status, second.runs[0].has_log) == ("stopped", False)
    assert second.runs[0].error == "canceled before it began"


def test_canceling_a_pair_in_its_first_run_never_starts_the_second(queue: RunQueue) -> None:
    job = queue.submit([config("slow"), config("fast")], kind="pair")
    queue.wait(job.job_id, is_running)
    queue.cancel(job.job_id)
    done = queue.wait(job.job_id)
    assert [run.status for run in done.runs] == ["stopped", "stopped"]
    assert not done.runs[1].folder.exists()


def test_a_cancel_sent_before_its_run_still_stops_it(queue: RunQueue) -> None:
    job = queue.submit([config("slow")])
    queue.cancel(job.job_id)
    assert queue.wait(job.job_id).outcome == "stopped"


def test_a_worker_that_ignores_its_cancel_is_killed_and_the_next_run_works(tmp_path: Path) -> None:
    queue = RunQueue(tmp_path, command=FAKE_WORKER, patience=Patience(after_pass_s=0.3))
    try:
        job = queue.submit([config("deaf")])
        queue.wait(job.job_id, is_running)
        deaf = queue.worker_pid
        queue.cancel(job.job_id)
        run = queue.wait(job.job_id).runs[0]
        assert run.status == "crashed"
        assert run.error == "canceled; the worker was killed by SIGKILL before the run stopped"
        assert queue.wait(queue.submit([config("fast")]).job_id).outcome == "completed"
        assert queue.worker_pid != deaf
    finally:
        queue.close()


def test_a_dead_workers_stderr_is_kept_and_the_next_run_works(queue: RunQueue) -> None:
    job = queue.submit([config("dies")])
    run = queue.wait(job.job_id).runs[0]
    assert (run.status, run.error) == ("crashed", "the worker ended with exit status 7")
    assert run.stderr.endswith("\nthe last words\n")
    assert len(run.stderr) == 64 * 1024
    assert (run.output_tokens, run.has_log) == (3, True)
    assert queue.wait(queue.submit([config("fast")]).job_id).outcome == "completed"


def test_kill_9_is_noticed_at_once(queue: RunQueue) -> None:
    job = queue.submit([config("slow")])
    queue.wait(job.job_id, is_running)
    assert queue.worker_pid is not None
    os.kill(queue.worker_pid, signal.SIGKILL)
    run = queue.wait(job.job_id).runs[0]
    assert (run.status, run.error) == ("crashed", "the worker was killed by SIGKILL")


def test_a_worker_that_dies_before_the_run_leaves_no_log(queue: RunQueue) -> None:
    run = queue.wait(queue.submit([config("stillborn")]).job_id).runs[0]
    assert (run.status, run.has_log, run.stderr) == ("crashed", False, "no such model\n")


def test_after_a_crash_the_rest_of_a_pair_is_not_run(queue: RunQueue) -> None:
    done = queue.wait(queue.submit([config("dies"), config("fast")], kind="pair").job_id)
    assert [run.status for run in done.runs] == ["crashed", "skipped"]
    assert done.outcome == "crashed"
    assert done.runs[1].error == "not run: the run before it crashed"


def test_after_an_out_of_memory_the_rest_of_a_pair_still_runs(queue: RunQueue) -> None:
    done = queue.wait(queue.submit([config("big"), config("fast")], kind="pair").job_id)
    assert [run.status for run in done.runs] == ["oom", "completed"]
    assert done.outcome == "oom"


def test_a_worker_that_cannot_be_started_fails_the_run(tmp_path: Path) -> None:
    queue = RunQueue(tmp_path, command=(str(tmp_path / "nothing-here"),))
    run = queue.wait(queue.submit([config("fast")]).job_id).runs[0]
    assert run.status == "failed"
    assert run.error is not None
    assert run.error.startswith("the worker could not be started: ")
    queue.close()


def test_warming_starts_a_worker_without_a_run(queue: RunQueue) -> None:
    assert queue.worker_pid is None
    queue.warm("fast", "cpu", "fp32")
    wait_for(lambda: queue.worker_pid is not None, 60)
    warm = queue.worker_pid
    assert warm is not None
    assert queue.jobs() == []
    queue.wait(queue.submit([config("fast")]).job_id)
    assert queue.worker_pid == warm


def test_closing_the_queue_ends_the_worker_during_a_run(tmp_path: Path) -> None:
    queue = RunQueue(tmp_path, command=FAKE_WORKER)
    queue.wait(queue.submit([config("slow")]).job_id, is_running)
    pid = queue.worker_pid
    assert pid is not None
    queue.close()
    queue.close()
    assert not process_lives(pid)


@pytest.mark.parametrize(
    ("own", "expected"),
    [({}, "2000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)],
)
def test_the_worker_spins_briefly_unless_the_environment_sets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str], expected: str | None
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    queue = RunQueue(tmp_path, command=FAKE_WORKER)
    queue.wait(queue.submit([config("fast")]).job_id)
    environment = Path(f"/proc/{queue.worker_pid}/environ").read_text().split("\0")
    queue.close()
    assert [entry for entry in environment if entry.startswith("GOMP_SPINCOUNT=")] == (
        [] if expected is None else [f"GOMP_SPINCOUNT={expected}"]
    )
    assert f"LAB_HOME={tmp_path}" in environment


APP = """
import signal, sys, time
from pathlib import Path
# As in a terminal: a process started in the background ignores these two signals.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from engine.core.config import RunConfig
from engine.launcher.run_queue import RunQueue
queue = RunQueue(Path(sys.argv[1]), command=sys.argv[2:])
job = queue.submit([RunConfig(model="slow")])
queue.wait(job.job_id, lambda job: job.current.output_tokens > 0)
print(queue.worker_pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGHUP])
def test_no_worker_outlives_the_app(tmp_path: Path, how: signal.Signals) -> None:
    root = Path(__file__).parents[2]
    app = subprocess.Popen(
        [sys.executable, "-c", APP, str(tmp_path), *FAKE_WORKER], cwd=root, stdout=subprocess.PIPE, text=True
    )
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        assert app.stdout is not None
        worker = int(app.stdout.readline())
        assert process_lives(worker)
        app.send_signal(how)
        app.wait(timeout=60)
        assert await_end(worker, within_s=30)
    finally:
        for process in (app, bystander):
            process.kill()
            process.wait()


def test_events_are_parsed_and_unknown_fields_ignored() -> None:
    line = '{"event":"progress","run_id":"a","finished_requests":1,"requests":8,"output_tokens":9,"elapsed_s":5,"x":1}'
    assert parse_event(line) == Progress(run_id="a", finished_requests=1, requests=8, output_tokens=9, elapsed_s=5)
    ended = '{"event":"finished","run_id":"a","status":"oom"}'
    assert parse_event(ended) == Finished(run_id="a", status="oom", error=None)


@pytest.mark.parametrize("line", ["", "hello", "[]", "{}", '{"event":"dance"}', '{"event":"started"}', '{"event":[]}'])
def test_lines_that_are_no_events_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match="event"):
        parse_event(line)
