"""Ends the worker with the process that started it, even while no Python thread of the worker can run.

Importing torch holds Python's lock for seconds, longer on a busy machine, so a thread that watches stdin is too slow
then. On Linux the kernel does it: prctl(2), PR_SET_PDEATHSIG. "Parent" there means the thread that started the worker,
which for the launcher is the queue's. Elsewhere the closed stdin is found after the import.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """From now on the kernel kills this process when its parent ends. A parent that has already ended ends it now."""
    _set_parent_death_signal(signal.SIGKILL)
    if is_stdin_closed():
        os._exit(0)


def outlive_parent() -> None:
    """Undo `die_with_parent`: there is a run log to close."""
    _set_parent_death_signal(0)


def is_stdin_closed() -> bool:
    """Whether stdin is a pipe whose other end is closed. Reads nothing."""
    poll = select.poll()
    poll.register(sys.stdin.fileno(), select.POLLHUP)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def _set_parent_death_signal(number: int) -> None:
    with contextlib.suppress(AttributeError):  # not Linux
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
