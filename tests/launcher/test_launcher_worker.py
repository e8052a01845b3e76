"""The launcher with the real worker: a pair, refusals in one line, cancel within a pass, kill -9."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.launcher.job import Job
from engine.launcher.run_queue import RunQueue
from engine.runlog.reader import RunLogReader
from engine.simulator.machine import SimulationTarget
from tests.support.patience import PATIENCE_S
from tests.support.processes import await_end

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_locks")]

SHORT = WorkloadConfig(prompts="p16", requests=6, budget="2-9")
LONG = WorkloadConfig(prompts="p16", requests=64, budget="2000")  # far longer than any test runs


@pytest.fixture(scope="module")
def queue(own_locks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunQueue]:
    opened = RunQueue(tmp_path_factory.mktemp("home"))
    yield opened
    opened.close()


def tiny(engine: str = "continuous", workload: WorkloadConfig = SHORT, **settings: Any) -> RunConfig:
    return RunConfig(engine=engine, model="tiny-random", device="cpu", workload=workload, **settings)


def has_tokens(job: Job) -> bool:
    """Whether some tokens are on disk."""
    return job.current is not None and len(RunLogReader(job.current.folder).table("tokens")) > 0


def test_a_pair_completes_as_one_experiment(queue: RunQueue) -> None:
    job = queue.submit([tiny("static"), tiny("continuous")], kind="pair", label="static and continuous")
    done = queue.wait(job.job_id, timeout_s=PATIENCE_S)
    assert [run.status for run in done.runs] == ["completed", "completed"]
    infos = [RunLogReader(run.folder).run_info() for run in done.runs]
    assert [info["run_id"] for info in infos] == [run.run_id for run in job.runs]
    assert [info["experiment"]["id"] for info in infos] == [job.experiment_id] * 2
    assert infos[0]["workload"]["digest"] == infos[1]["workload"]["digest"]
    assert RunLogReader(done.runs[0].folder).result()["totals"]["finished_requests"] == 6  # type: ignore[index]


def test_simulated_runs_complete_side_by_side_without_the_model(queue: RunQueue) -> None:
    configs = [RunConfig(engine=engine, model="llama-3.1-8b", workload=SHORT) for engine in ("static", "continuous")]
    target = SimulationTarget(hardware="h100", tensor_parallel_size=2)
    job = queue.submit(configs, kind="pair", label="static and continuous", target=target)
    done = queue.wait(job.job_id, timeout_s=PATIENCE_S)
    assert [(run.status, run.has_log) for run in done.runs] == [("completed", True)] * 2
    infos = [RunLogReader(run.folder).run_info() for run in done.runs]
    assert [info["simulated"] for info in infos] == [True, True]
    assert [SimulationTarget.of_run(info) for info in infos] == [target, target]
    assert [info["experiment"]["id"] for info in infos] == [job.experiment_id] * 2


def test_a_simulation_that_cannot_be_is_refused_in_one_line(queue: RunQueue) -> None:
    config = RunConfig(model="llama-3.1-8b", workload=SHORT)
    target = SimulationTarget(hardware="h100", tensor_parallel_size=3)
    run = queue.wait(queue.submit([config], target=target).job_id, timeout_s=PATIENCE_S).runs[0]
    assert (run.status, run.has_log) == ("failed", False)
    assert (run.error or "").startswith("tensor-parallel-size 3: 3 GPUs cannot share the 8 KV heads of llama-3.1-8b")


def test_a_bad_configuration_is_refused_in_one_line_and_the_worker_stays(queue: RunQueue) -> None:
    unknown = RunConfig(model="no-such-model", workload=SHORT)
    run = queue.wait(queue.submit([unknown]).job_id, timeout_s=PATIENCE_S).runs[0]
    assert (run.status, run.has_log) == ("failed", False)
    assert run.error is not None
    assert run.error.startswith("model 'no-such-model': no such name or folder")
    assert "\n" not in run.error
    before = queue.worker_pid
    assert queue.wait(queue.submit([tiny()]).job_id, timeout_s=PATIENCE_S).outcome == "completed"
    assert queue.worker_pid == before


def test_a_pool_that_is_too_small_ends_as_oom_and_the_worker_stays(queue: RunQueue) -> None:
    done = queue.wait(queue.submit([tiny(pool_gib=1e-6), tiny()], kind="pair").job_id, timeout_s=PATIENCE_S)
    assert [run.status for run in done.runs] == ["oom", "completed"]
    assert done.runs[0].error


def test_a_cancel_stops_the_run_and_keeps_its_tokens(queue: RunQueue) -> None:
    job = queue.submit([tiny(workload=LONG)])
    queue.wait(job.job_id, has_tokens, timeout_s=PATIENCE_S)
    queue.cancel(job.job_id)
    run = queue.wait(job.job_id, timeout_s=PATIENCE_S).runs[0]
    assert (run.status, run.error) == ("stopped", None)
    result = json.loads((run.folder / "result.json").read_text())
    assert result["status"] == "stopped"
    assert 0 < len(RunLogReader(run.folder).table("tokens")) < 64 * 2000


def test_kill_9_keeps_every_logged_token_and_the_next_run_works(queue: RunQueue) -> None:
    job = queue.submit([tiny(workload=LONG)])
    queue.wait(job.job_id, has_tokens, timeout_s=PATIENCE_S)
    assert queue.worker_pid is not None
    os.kill(queue.worker_pid, signal.SIGKILL)
    run = queue.wait(job.job_id, timeout_s=PATIENCE_S).runs[0]
    assert (run.status, run.error) == ("crashed", "the worker was killed by SIGKILL")
    reader = RunLogReader(run.folder)
    assert reader.status() == "crashed"
    assert len(reader.table("tokens")) > 0
    assert queue.wait(queue.submit([tiny()]).job_id, timeout_s=PATIENCE_S).outcome == "completed"


def test_closing_ends_a_worker_during_a_run(tmp_path: Path) -> None:
    queue = RunQueue(tmp_path)
    job = queue.submit([tiny(workload=LONG)])
    queue.wait(job.job_id, has_tokens, timeout_s=PATIENCE_S)
    worker = queue.worker_pid
    assert worker is not None
    queue.close()
    assert await_end(worker, within_s=30)
