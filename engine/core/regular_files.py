"""Opens files that others may have made: regular files only, and no more bytes than a caller allows.

A link to a device never ends, a FIFO waits for a writer, and a socket cannot be read. A file that is a link is refused
too: a run folder may be a link, the files inside it may not.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from engine.core.format import size as size_text

MAX_JSON_BYTES = 64 << 20  # run.json, result.json, an experiment's files; the lab's own are a few MB at most


class NotRegularFile(OSError):
    """The path is a link, a device, a FIFO or a socket."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(errno.EINVAL, f"{kind}, not a plain file", str(path))


def is_there(path: Path) -> bool:
    """Whether anything is at the path, also a link to nothing."""
    return os.path.lexists(path)


def is_regular(path: Path) -> bool:
    """Whether a plain file, and no link to one, is at the path."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def open_regular(path: Path) -> BufferedReader:
    """Open a plain file for reading. FileNotFoundError if there is none, another OSError if it is anything else."""
    _check(path, path.lstat().st_mode)  # before opening: opening a FIFO waits, opening a device may act
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check(path, os.fstat(descriptor).st_mode)  # again: it may have been replaced in between
        return open(descriptor, "rb")  # noqa: SIM115 - the caller closes it
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, max_bytes: int = MAX_JSON_BYTES) -> bytes:
    """All bytes of a plain file. ValueError if it has more than `max_bytes`; OSError as from `open_regular`."""
    with open_regular(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ValueError(f"{path}: larger than {size_text(max_bytes)}, the most that such a file may have")
    return data


def read_text(path: Path, max_bytes: int = MAX_JSON_BYTES) -> str:
    """The UTF-8 text of a plain file, as `read_regular` reads it."""
    return read_regular(path, max_bytes).decode("utf-8")


def _check(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    kinds = ((stat.S_ISLNK, "a link"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"))
    raise NotRegularFile(path, next((name for test, name in kinds if test(mode)), "a device"))
