"""Checks an imported run log before it is read: refuses anything that the lab does not write.

Arrow's own checks handle damaged bytes, but a valid stream can still claim a billion rows in a few bytes: compressed
buffers, columns of types that expand when they are converted, rows without columns. The lab writes none of these. The
head of each message is checked before its body is read.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from engine.core.errors import first_line
from engine.core.regular_files import open_regular
from engine.runlog.batches import CONTINUATION, DAMAGE, MAX_METADATA_BYTES
from engine.runlog.reader import RunLogReader
from engine.runlog.schema import STREAMS, stream_file

MAX_BATCH_BYTES = 256 << 20  # the lab writes a batch at least every quarter of a second
HEADER_FIELD, BODY_FIELD = 2, 3  # of the flatbuffer table Message
LENGTH_FIELD, COMPRESSION_FIELD = 0, 3  # of the table RecordBatch


def check_run_log(folder: Path) -> None:
    """Read all of a run folder. ValueError in one line if it is damaged, or not written by the lab.

    A torn tail is allowed: the log of a crashed run ends with one.
    """
    reader = RunLogReader(folder)
    reader.run_info()
    reader.result()
    for stream, schema in STREAMS.items():
        path = folder / stream_file(stream)
        if path.exists():
            try:
                _check_bounds(path, schema)
            except DAMAGE as error:
                raise ValueError(f"{path}: {first_line(error)}") from error
        for _ in reader.batches(stream):
            pass


def _check_bounds(path: Path, schema: pa.Schema) -> None:
    """Check the heads of a stream's messages, up to a torn tail or to damage, which the reader reports."""
    with open_regular(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        is_first = True
        while (head := _next_metadata(file)) is not None:
            body_bytes = _field(head, _root(head), BODY_FIELD, "<q") or 0
            if body_bytes < 0 or body_bytes > MAX_BATCH_BYTES:
                raise ValueError(f"a batch of {body_bytes:,} bytes is larger than any the lab writes")
            if file.tell() + body_bytes > size:
                return
            if is_first:
                _check_schema(head, schema)
            else:
                _check_batch(head, body_bytes)
            is_first = False
            file.seek(body_bytes, 1)


def _next_metadata(file: BinaryIO) -> bytes | None:
    """The flatbuffer at the head of the next message; None if there is no complete one."""
    prefix = file.read(8)
    if len(prefix) < 8 or prefix[:4] != CONTINUATION:
        return None
    (length,) = struct.unpack_from("<i", prefix, 4)
    if not 0 < length <= MAX_METADATA_BYTES:
        return None
    head = file.read(length)
    return head if len(head) == length else None


def _check_schema(head: bytes, schema: pa.Schema) -> None:
    """Allow only columns of the run log, each with its type. An older log may lack some."""
    message = struct.pack("<4si", CONTINUATION, len(head)) + head
    written = pa.ipc.read_schema(pa.py_buffer(message))
    known = {field.name: field.type for field in schema}
    for field in written:
        if known.get(field.name) != field.type:
            raise ValueError(f"a run log has no column {field.name[:80]!r} of type {field.type}")
    if len(set(written.names)) < len(written.names):
        raise ValueError("a column occurs twice")


def _check_batch(head: bytes, body_bytes: int) -> None:
    batch = _table(head, _root(head), HEADER_FIELD)
    if batch is None:
        return
    rows = _field(head, batch, LENGTH_FIELD, "<q") or 0
    if not 0 <= rows <= 8 * body_bytes:
        raise ValueError(f"a batch of {rows:,} rows in {body_bytes:,} bytes")
    if _table(head, batch, COMPRESSION_FIELD) is not None:
        raise ValueError("a batch is compressed; the lab writes none")


def _root(head: bytes) -> int:
    return int(struct.unpack_from("<I", head, 0)[0])


def _place(head: bytes, table: int, field: int) -> int | None:
    """The position of a field of a flatbuffer table; None if it is left out."""
    vtable = table - int(struct.unpack_from("<i", head, table)[0])
    (vtable_bytes,) = struct.unpack_from("<H", head, vtable)
    at = 4 + 2 * field
    if vtable_bytes <= at:
        return None
    (offset,) = struct.unpack_from("<H", head, vtable + at)
    return table + int(offset) if offset else None


def _field(head: bytes, table: int, field: int, kind: str) -> int | None:
    place = _place(head, table, field)
    return None if place is None else int(struct.unpack_from(kind, head, place)[0])


def _table(head: bytes, table: int, field: int) -> int | None:
    """The position of a table inside a table; None if it is left out."""
    place = _place(head, table, field)
    return None if place is None else place + int(struct.unpack_from("<I", head, place)[0])
