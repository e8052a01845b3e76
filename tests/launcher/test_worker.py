"""The worker as a real process: its events, cancel, and its end when stdin closes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.runlog.reader import RunLogReader
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("own_locks")  # tests must not wait for another lab's run


class WorkerProcess:
    """A worker and its pipes."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "engine.runtime"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def send(self, **command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def until(self, event: str) -> list[dict[str, Any]]:
        """Every event up to the first with this name. Each line of stdout must be JSON."""
        assert self.process.stdout is not None
        seen = []
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            line = self.process.stdout.readline()
            assert line, f"the worker ended; its events: {seen}"
            seen.append(json.loads(line))
            if seen[-1]["event"] == event:
                return seen
        raise AssertionError(f"no {event!r} within {PATIENCE_S} s; its events: {seen}")

    def run(self, run_id: str, folder: Path, **config: Any) -> None:
        whole = RunConfig(model="tiny-random", device="cpu", **config)
        self.send(command="run", run_id=run_id, folder=str(folder), config=whole.to_dict(), experiment=None)


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    started = WorkerProcess()
    yield started
    started.process.kill()
    started.process.wait()


LONG = WorkloadConfig(prompts="p8", requests=4, budget="4000")


def test_two_runs_of_one_model_load_it_once(worker: WorkerProcess, tmp_path: Path) -> None:
    worker.until("ready")
    worker.run("one", tmp_path / "one")
    first = worker.until("finished")
    worker.run("two", tmp_path / "two")
    second = worker.until("finished")
    assert "loading" in [e["event"] for e in first]
    assert first[-1]["status"] == "completed"
    assert [e["event"] for e in second if e["event"] != "progress"] == ["started", "finished"]
    assert second[-1] == {"event": "finished", "run_id": "two", "status": "completed", "error": None}
    assert RunLogReader(tmp_path / "two").status() == "completed"


def test_a_cancel_ends_the_run_and_the_worker_stays(worker: WorkerProcess, tmp_path: Path) -> None:
    worker.run("long", tmp_path / "long", workload=LONG)
    worker.until("progress")
    worker.send(command="cancel", run_id="long")
    assert worker.until("finished")[-1]["status"] == "stopped"
    reader = RunLogReader(tmp_path / "long")
    assert reader.status() == "stopped"
    assert 0 < reader.table("tokens").num_rows < 16_000
    worker.run("after", tmp_path / "after")
    assert worker.until("finished")[-1]["status"] == "completed"


def test_bad_configurations_are_refused_in_one_line(worker: WorkerProcess, tmp_path: Path) -> None:
    bad: list[dict[str, Any]] = [
        {"engine": "warp"},
        {"color": "red"},
        {"model": "no-such-model"},
        {"workload": {"prompts": "p0"}},
        {"workload": {"budget": "many"}},
    ]
    for config in bad:
        worker.send(command="run", run_id="bad", folder=str(tmp_path / "bad"), config=config, experiment=None)
        event = worker.until("finished")[-1]
        assert event["status"] == "failed"
        assert event["error"]
        assert "\n" not in event["error"]
        assert "Traceback" not in event["error"]
    assert not (tmp_path / "bad").exists()


def test_noise_on_stdin_is_ignored(worker: WorkerProcess, tmp_path: Path) -> None:
    assert worker.process.stdin is not None
    worker.process.stdin.write("not json\n\n{}\n")
    worker.run("one", tmp_path / "one")
    assert worker.until("finished")[-1]["status"] == "completed"


def test_the_worker_ends_when_its_stdin_closes_during_a_run(worker: WorkerProcess, tmp_path: Path) -> None:
    worker.run("long", tmp_path / "long", workload=LONG)
    worker.until("progress")
    assert worker.process.stdin is not None
    worker.process.stdin.close()
    worker.process.wait(timeout=PATIENCE_S)
    assert RunLogReader(tmp_path / "long").status() == "stopped"
