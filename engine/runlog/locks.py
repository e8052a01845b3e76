"""Locks between processes: whoever writes a run, and whoever measures on a device, holds one.

They are the operating system's (flock), so a process that dies, however it dies, frees what it held. The file says who
the holder is; that text is for people and decides nothing. Locks of two machines that share a folder are not known.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

POLL_S = 0.05


@contextmanager
def hold(
    path: Path,
    *,
    purpose: str,
    on_wait: Callable[[str], object] = lambda holder: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Hold the lock at `path`, waiting for it if need be. The file and its folder are made where they are missing.

    While it waits, `on_wait` hears who holds the lock (`process 412, run 01hz…`), and again whenever that changes.
    InterruptedError when `should_stop` turns true before the lock is free.
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
    """Whether some process, this one included, holds the lock. A lock that does not exist is free."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        # A shared lock, so that two who ask at once do not take each other for the holder.
        return not _try(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def holder(path: Path) -> str:
    """Who holds the lock, in words; empty when nobody has said so."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _acquire(descriptor: int, path: Path, on_wait: Callable[[str], object], should_stop: Callable[[], bool]) -> None:
    told, attempts = "", 0
    while not _try(descriptor, fcntl.LOCK_EX):
        if should_stop():
            raise InterruptedError(f"gave up waiting for {path.name}")
        attempts += 1
        # Somebody who only asks (is_held) has the lock for a moment: no reason to tell anyone yet.
        if attempts > 1 and (who := holder(path) or "another process") != told:
            told = who
            on_wait(who)
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
