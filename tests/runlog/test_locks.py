"""Locks between processes: waiting, messages, and release when the holder ends."""

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
        stops = iter([False] * 5)  # stop at the sixth attempt
        waiting = hold(path, purpose="me", on_wait=heard.append, should_stop=lambda: next(stops, True))
        with pytest.raises(InterruptedError), waiting:
            pytest.fail("two processes hold the lock")
    assert heard == [f"process {os.getpid()}, run abc"]
    assert not is_held(path)
    with hold(path, purpose="me", on_wait=heard.append):
        pass
    assert len(heard) == 1


def test_a_holder_that_is_about_to_release_is_not_reported_again(tmp_path: Path) -> None:
    path = tmp_path / "device"
    heard: list[str] = []

    def should_stop() -> bool:
        if heard:
            path.write_text("")  # as a holder does just before it releases the lock
        return next(stops, True)

    stops = iter([False] * 5)
    with hold(path, purpose="run abc"):
        waiting = hold(path, purpose="me", on_wait=heard.append, should_stop=should_stop)
        with pytest.raises(InterruptedError), waiting:
            pytest.fail("two processes hold the lock")
    assert heard == [f"process {os.getpid()}, run abc"]


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
