"""Locks between processes: a process holds one to write a run, and one to measure on a device.

They are the operating system's (flock), so the system releases them when a process dies. The lock file names the
holder; that text is only for display. Locks do not work between two machines that share a folder.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.core.regular_files import open_regular, read_regular

POLL_S = 0.05
MAX_TEXT_BYTES = 1 << 10


@contextmanager
def hold(
    path: Path,
    *,
    purpose: str,
    on_wait: Callable[[str], object] = lambda holder: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Hold the lock at `path`; wait until it is free. Creates the file and its folder if missing.

    While it waits, `on_wait` gets the holder (`process 412, run 01hz…`), and again whenever the holder changes.
    InterruptedError if `should_stop` turns true before the lock is free.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _acquire(descriptor, path, on_wait, should_stop)
        _write(descriptor, f"process {os.getpid()}, {purpose}")
        try:
            yield
        finally:
            _write(descriptor, "")
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether a process, possibly this one, holds the lock. A missing lock file is free; OSError if it is no file."""
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return False
    with file:
        # A shared lock: two processes that check at once do not see each other as the holder.
        return not _try(file.fileno(), fcntl.LOCK_SH)


def holder(path: Path) -> str:
    """The lock file's text about the holder; empty if there is none."""
    try:
        return read_regular(path, MAX_TEXT_BYTES).decode("utf-8", errors="replace").strip()
    except (OSError, ValueError):
        return ""


def _acquire(descriptor: int, path: Path, on_wait: Callable[[str], object], should_stop: Callable[[], bool]) -> None:
    reported, attempts = "", 0
    while not _try(descriptor, fcntl.LOCK_EX):
        if should_stop():
            raise InterruptedError(f"gave up waiting for {path.name}")
        attempts += 1
        # A process that only checks the lock (is_held) has it for a moment: report from the second attempt on. A holder
        # empties the file just before it releases the lock: that is no other holder.
        if attempts > 1 and (current := holder(path) or reported or "another process") != reported:
            reported = current
            on_wait(current)
        time.sleep(POLL_S)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(descriptor: int, text: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)
