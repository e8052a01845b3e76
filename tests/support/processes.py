"""What tests ask of other processes and threads: do they still run, which is an app's worker, are they done?"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

FAKE_WORKER = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))


def process_lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent to notice does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def await_end(pid: int, within_s: float) -> bool:
    """Wait for a process to end; False when it still runs after that time."""
    deadline_s = time.monotonic() + within_s
    while process_lives(pid) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return not process_lives(pid)


def worker_of(parent: int) -> int:
    """The process id of the one worker that a process has started. AssertionError when it has none, or several."""
    children = {
        int(pid) for task in Path(f"/proc/{parent}/task").iterdir() for pid in (task / "children").read_text().split()
    }
    workers = [pid for pid in children if b"engine.runtime.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(workers) == 1, f"workers of {parent}: {workers}"
    return workers[0]


def wait_for(what: Callable[[], bool], seconds: float) -> float:
    """Wait until it is so, and return how long that took."""
    started = time.monotonic()
    while not what():
        assert time.monotonic() - started < seconds, "it did not come about in time"
        time.sleep(0.02)
    return time.monotonic() - started
