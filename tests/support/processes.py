"""What tests ask of other processes and threads: do they still run, which is an app's worker, are they done?"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

FAKE_WORKER = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))


def process_lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent to notice does not."""
    stat = _proc_text(f"{pid}/stat")
    return bool(stat) and stat.rpartition(")")[2].split()[0] != "Z"


def _proc_text(name: str) -> str:
    """A file under /proc; empty when its process or thread has ended."""
    try:
        return Path("/proc", name).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def await_end(pid: int, within_s: float) -> bool:
    """Wait for a process to end; False when it still runs after that time."""
    deadline_s = time.monotonic() + within_s
    while process_lives(pid) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return not process_lives(pid)


def worker_of(parent: int) -> int:
    """The process id of the one worker that a process has started. AssertionError when it has none, or several."""
    threads = [thread.name for thread in Path(f"/proc/{parent}/task").iterdir()]
    children = {pid for thread in threads for pid in _proc_text(f"{parent}/task/{thread}/children").split()}
    workers = [int(pid) for pid in children if "engine.runtime" in _proc_text(f"{pid}/cmdline")]
    assert len(workers) == 1, f"workers of {parent}: {workers}"
    return workers[0]


def wait_for(what: Callable[[], bool], seconds: float) -> float:
    """Wait until it is so, and return how long that took."""
    started = time.monotonic()
    while not what():
        assert time.monotonic() - started < seconds, "it did not come about in time"
        time.sleep(0.02)
    return time.monotonic() - started
