"""Looks at a zip from elsewhere before anything of it is unpacked: is it a bundle of runs, and no more than that?

Refused are: what is no zip; names outside the bundle's own (absolute, with `..`, with a backslash, unknown); names
twice; links, folders and other things that are no plain files; encrypted entries and unusual compression; entries that
share their bytes; and more data than a run log of that size can hold, since few bytes can unpack to very many.
"""

from __future__ import annotations

import shutil
import stat
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO

from engine.core.format import size
from store.bundle import MANIFEST, is_place

MAX_DIRECTORY_BYTES = 16 << 20  # some hundred thousand files
MAX_MANIFEST_BYTES = 32 << 20
MAX_JSON_BYTES = 64 << 20
MAX_RATIO = 100  # run logs shrink to a tenth or so
FREE_RATIO = 64 << 20  # so much may come of any file, however small
SPARE_BYTES = 256 << 20

DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, UnicodeError)

_END, _END64_PLACE, _END64 = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06"


def open_bundle(path: Path) -> zipfile.ZipFile:
    """The zip, every entry of it looked at. ValueError in one line, without the file's name, for what is refused."""
    if _directory_bytes(path) > MAX_DIRECTORY_BYTES:
        raise ValueError("it lists more files than a bundle of runs can hold")
    try:
        archive = zipfile.ZipFile(path)
    except (*DAMAGE, ValueError) as error:
        raise ValueError("it is damaged: its list of files cannot be read") from error
    try:
        _check_entries(archive, path.stat().st_size)
    except BaseException:
        archive.close()
        raise
    return archive


def check_room(archive: zipfile.ZipFile, folder: Path) -> None:
    """Whether a disk has room for the run logs and for as much again in the store."""
    needed = 2 * sum(entry.file_size for entry in archive.infolist()) + SPARE_BYTES
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(f"it needs {size(needed)} of disk space, and {size(free)} are free")


def _check_entries(archive: zipfile.ZipFile, archive_bytes: int) -> None:
    seen: set[str] = set()
    for entry in archive.infolist():
        shown = repr(entry.orig_filename[:80])
        if entry.filename != entry.orig_filename or not (entry.filename == MANIFEST or is_place(entry.filename)):
            raise ValueError(f"{shown} is no file of a run log")
        if entry.filename.casefold() in seen:
            raise ValueError(f"{shown} is in it twice")
        seen.add(entry.filename.casefold())
        mode = entry.external_attr >> 16
        if (stat.S_IFMT(mode) and not stat.S_ISREG(mode)) or entry.is_dir():
            raise ValueError(f"{shown} is no plain file but a link, a folder or a device")
        if entry.flag_bits & 0x1:
            raise ValueError(f"{shown} is encrypted")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{shown} is compressed in a way that the lab does not use")
        limit = MAX_MANIFEST_BYTES if entry.filename == MANIFEST else MAX_JSON_BYTES
        if entry.filename.endswith((".json", ".jsonl")) and entry.file_size > limit:
            raise ValueError(f"{shown} would be {size(entry.file_size)} large")
    if MANIFEST not in seen:
        raise ValueError(f"it has no {MANIFEST}: it is no export of the lab")
    unpacked, packed = (sum(getattr(e, name) for e in archive.infolist()) for name in ("file_size", "compress_size"))
    if packed > archive_bytes or unpacked > FREE_RATIO + MAX_RATIO * archive_bytes:
        raise ValueError(f"{archive_bytes:,} bytes would unpack to {unpacked:,}: no run log shrinks so far")


def _directory_bytes(path: Path) -> int:
    """How long the zip's list of files says it is, before anybody reads it. ValueError where there is none."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        begin = file.seek(max(0, size - (1 << 16) - 22 - 20))
        tail = file.read()
        at = tail.rfind(_END)
        if at < 0 or len(tail) - at < 22:
            raise ValueError("it is no zip file, or its end is missing")
        (length,) = struct.unpack_from("<I", tail, at + 12)
        if at < 20 or tail[at - 20 : at - 16] != _END64_PLACE:
            return int(length)
        (said,) = struct.unpack_from("<Q", tail, at - 12)
        # Some readers go where the locator says, some to the place right before it.
        lengths = [_length64(file, place) for place in (said, begin + at - 20 - 56)]
        if lengths == [None, None]:
            raise ValueError("it is damaged: its list of files cannot be read")
        return max(length for length in lengths if length is not None)


def _length64(file: IO[bytes], place: int) -> int | None:
    """The same from a large zip's own record of it; None where there is no such record."""
    if not 0 <= place < 1 << 62:
        return None
    file.seek(place)
    record = file.read(56)
    return int(struct.unpack_from("<Q", record, 40)[0]) if len(record) == 56 and record[:4] == _END64 else None
