"""No worker outlives its parent: while torch is being imported, while a model loads, without a run, during a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.runlog.reader import RunLogReader
from tests.support.app_server import ROOT
from tests.support.patience import PATIENCE_S
from tests.support.processes import await_end, process_lives, wait_for

pytestmark = pytest.mark.usefixtures("own_locks")

# A module that holds Python's lock for ten minutes, as importing torch does for seconds: no thread runs meanwhile.
HOLDS_THE_LOCK = """
import ctypes, os, pathlib
pathlib.Path(os.environ["LAB_HOME"], "importing").touch()
ctypes.PyDLL(None).sleep(600)
"""
# A parent that starts a worker from a thread that lasts, as the app does, tells its pid, and sends it what it is given.
PARENT = """
import sys, time
from pathlib import Path
from engine.launcher.worker_process import WORKER_COMMAND, WorkerProcess
worker = WorkerProcess(WORKER_COMMAND, Path(sys.argv[1]), lambda worker, event: print(type(event).__name__, flush=True))
print(worker.pid, flush=True)
for line in sys.stdin:
    worker.send(__import__("json").loads(line))
time.sleep(600)
"""


class Parent:
    """A parent process and the worker that it has started."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT, str(home)],
            cwd=ROOT,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.worker = int(self.process.stdout.readline())

    def send(self, **command: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def until(self, event: str) -> None:
        """Read events up to the first of this name."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == event:
                return
        raise AssertionError(f"the parent ended without {event}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def parents() -> Iterator[list[Parent]]:
    """The parents that a test has started; they and their workers are gone after it."""
    started: list[Parent] = []
    yield started
    for parent in started:
        parent.kill()
        if process_lives(parent.worker):
            os.kill(parent.worker, signal.SIGKILL)


def test_while_it_imports_torch(tmp_path: Path, parents: list[Parent]) -> None:
    (tmp_path / "torch.py").write_text(HOLDS_THE_LOCK)
    parents.append(Parent(tmp_path, PYTHONPATH=str(tmp_path)))
    wait_for((tmp_path / "importing").exists, PATIENCE_S)
    parents[0].kill()
    assert await_end(parents[0].worker, within_s=PATIENCE_S)


def test_when_its_parent_was_gone_before_it_began(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(HOLDS_THE_LOCK)
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    reading, writing = os.pipe()
    os.close(writing)
    environment = os.environ | {"PYTHONPATH": path, "LAB_HOME": str(tmp_path)}
    worker = subprocess.Popen([sys.executable, "-m", "engine.runtime"], stdin=reading, env=environment)
    os.close(reading)
    try:
        assert worker.wait(timeout=PATIENCE_S) == 0
        assert not (tmp_path / "importing").exists()
    finally:
        worker.kill()


@pytest.mark.slow
def test_without_a_run_and_during_one(tmp_path: Path, parents: list[Parent]) -> None:
    """What the run had logged stays."""
    parents += [Parent(tmp_path), Parent(tmp_path)]
    idle, busy = parents
    for parent in parents:
        parent.until("Ready")
    idle.kill()
    assert await_end(idle.worker, within_s=PATIENCE_S)
    workload = WorkloadConfig(prompts="p8", requests=4, budget="4000")
    config = RunConfig(model="tiny-random", device="cpu", workload=workload).to_dict()
    folder = tmp_path / "runs" / "r1"
    busy.send(command="run", run_id="r1", folder=str(folder), config=config, experiment=None)
    wait_for(lambda: folder.exists() and len(RunLogReader(folder).table("tokens")) > 0, PATIENCE_S)
    busy.kill()
    logged = len(RunLogReader(folder).table("tokens"))
    assert await_end(busy.worker, within_s=PATIENCE_S)
    assert len(RunLogReader(folder).table("tokens")) >= logged
    assert RunLogReader(folder).status() in ("stopped", "crashed")


@pytest.mark.slow
def test_a_canceled_run_is_not_begun(tmp_path: Path, parents: list[Parent]) -> None:
    parents.append(Parent(tmp_path))
    parent = parents[0]
    parent.send(command="cancel", run_id="r1")
    config = RunConfig(model="tiny-random", device="cpu").to_dict()
    parent.send(command="run", run_id="r1", folder=str(tmp_path / "r1"), config=config, experiment=None)
    parent.until("Finished")
    assert not (tmp_path / "r1").exists()
