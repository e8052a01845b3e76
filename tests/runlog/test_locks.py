"""Locks between processes: waited for, told of, freed however the holder ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.runlog.locks import hold, is_held
from tests.support.app_server import ROOT


def test_a_lock_is_waited_for_and_freed(tmp_path: Path) -> None:
    path = tmp_path / "locks/device"
    heard: list[str] = []
    with hold(path, purpose="run abc"):
        assert is_held(path)
        asks = iter([False] * 5)  # whether to stop: no, five times, then yes
        waiting = hold(path, purpose="me", on_wait=heard.append, should_stop=lambda: next(asks, True))
        with pytest.raises(InterruptedError), waiting:
            pytest.fail("two hold the lock")
    assert heard == [f"process {os.getpid()}, run abc"]
    assert not is_held(path)
    with hold(path, purpose="me", on_wait=heard.append):
        pass
    assert len(heard) == 1


def test_a_lock_is_freed_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "device"
    code = (
        "import sys, time; from pathlib import Path; from engine.runlog.locks import hold\n"
        "with hold(Path(sys.argv[1]), purpose='measure'): print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert is_held(path)
        process.kill()
    assert not is_held(path)
