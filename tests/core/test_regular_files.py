"""Only plain files are opened, and no more bytes are read than allowed: devices, FIFOs, sockets, links are one line."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from engine.core.regular_files import is_regular, is_there, open_regular, read_regular, read_text


def make(path: Path, kind: str) -> Path:
    """A file that is no plain file."""
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    else:
        path.symlink_to({"a link": "/dev/zero", "a link to a file": __file__, "a link to nothing": "/nowhere"}[kind])
    return path


@pytest.mark.parametrize("kind", ["a FIFO", "a socket", "a link", "a link to a file", "a link to nothing"])
def test_a_file_that_is_no_plain_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = make(tmp_path / "f", kind)
    named = kind.partition(" to ")[0]
    for read in (open_regular, read_regular, read_text):
        with pytest.raises(OSError, match=f"{named}, not a plain file") as error:
            read(path)
        assert error.value.filename == str(path)
    assert is_there(path)
    assert not is_regular(path)


def test_a_device_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="a device, not a plain file"):
        open_regular(Path("/dev/zero"))
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "none")


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    assert read_regular(path, 10) == b"0123456789"
    with pytest.raises(ValueError, match="larger than 9.B, the most that such a file may have"):
        read_regular(path, 9)
    with path.open("r+b") as file:
        file.truncate(1 << 40)  # a terabyte that takes no room on the disk
    with pytest.raises(ValueError, match="larger than"):
        read_regular(path)
