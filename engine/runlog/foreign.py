"""Looks at a run log from elsewhere before anything reads it whole: could the lab have written it?

Arrow's own checks keep damaged bytes from doing harm, but a stream can be whole and still claim a billion rows in a few
bytes: compressed buffers, columns of other kinds that unfold when they are converted, rows of no columns at all. The
lab writes none of these. Each message is looked at by its head before its body is read.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from engine.runlog.batches import CONTINUATION, DAMAGE, MAX_METADATA_BYTES
from engine.runlog.reader import RunLogReader
from engine.runlog.schema import STREAMS, stream_file

MAX_BATCH_BYTES = 256 << 20  # the lab writes one at least every quarter of a second
HEADER_FIELD, BODY_FIELD = 2, 3  # of the flatbuffer table Message
LENGTH_FIELD, COMPRESSION_FIELD = 0, 3  # of the table RecordBatch


def check_run_log(folder: Path) -> None:
    """Read all of a run folder. ValueError in one line where it is damaged, or nothing that the lab writes.

    A torn tail is none of that: it is how the log of a crashed run ends.
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
                raise ValueError(f"{path}: {str(error).splitlines()[0]}") from error
        for _ in reader.batches(stream):
            pass


def _check_bounds(path: Path, schema: pa.Schema) -> None:
    """Go through the heads of a stream's messages, up to a torn tail or to damage, which the reader tells of."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        is_first = True
        while (head := _next_head(file)) is not None:
            body_bytes = _field(head, _root(head), BODY_FIELD, "<q") or 0
            if body_bytes < 0 or body_bytes > MAX_BATCH_BYTES:
                raise ValueError(f"a batch of {body_bytes:,} bytes: the lab writes none so large")
            if file.tell() + body_bytes > size:
                return
            if is_first:
                _check_schema(head, schema)
            else:
                _check_batch(head, body_bytes)
            is_first = False
            file.seek(body_bytes, 1)


def _next_head(file: BinaryIO) -> bytes | None:
    """The flatbuffer at the head of the next message; None where there is no whole one."""
    prefix = file.read(8)
    if len(prefix) < 8 or prefix[:4] != CONTINUATION:
        return None
    (length,) = struct.unpack_from("<i", prefix, 4)
    if not 0 < length <= MAX_METADATA_BYTES:
        return None
    head = file.read(length)
    return head if len(head) == length else None


def _check_schema(head: bytes, schema: pa.Schema) -> None:
    """Only columns of the log, each of its kind. An older log may lack some."""
    message = struct.pack("<4si", CONTINUATION, len(head)) + head
    written = pa.ipc.read_schema(pa.py_buffer(message))
    known = {field.name: field.type for field in schema}
    for field in written:
        if known.get(field.name) != field.type:
            raise ValueError(f"a column {field.name[:80]!r} of type {field.type}: a run log has none")
    if len(set(written.names)) < len(written.names):
        raise ValueError("a column that is there twice")


def _check_batch(head: bytes, body_bytes: int) -> None:
    batch = _table(head, _root(head), HEADER_FIELD)
    if batch is None:
        return
    rows = _field(head, batch, LENGTH_FIELD, "<q") or 0
    if not 0 <= rows <= 8 * body_bytes:
        raise ValueError(f"a batch of {rows:,} rows in {body_bytes:,} bytes")
    if _table(head, batch, COMPRESSION_FIELD) is not None:
        raise ValueError("a compressed batch: the lab writes none")


def _root(head: bytes) -> int:
    return int(struct.unpack_from("<I", head, 0)[0])


def _place(head: bytes, table: int, field: int) -> int | None:
    """Where a field of a flatbuffer table lies; None where it is left out."""
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
    """Where a table inside a table lies."""
    place = _place(head, table, field)
    return None if place is None else place + int(struct.unpack_from("<I", head, place)[0])
