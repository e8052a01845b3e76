"""Reads an Arrow stream that is still being written, or that broke off: whole batches count, a torn tail is dropped.

Follows the Arrow IPC streaming format: messages one after another, each a length, a flatbuffer that tells how long the
body is, and the body. A tail shorter than it says is torn, which is usual; bytes that are no message are damage, which
is an error.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

CONTINUATION = b"\xff\xff\xff\xff"
CHUNK_BYTES = 16 << 20
SCHEMA_BYTES = 8 << 10
MAX_METADATA_BYTES = 1 << 20


def read_batches(
    path: Path, schema: pa.Schema, offset: int, chunk_bytes: int = CHUNK_BYTES
) -> tuple[list[pa.RecordBatch], int]:
    """The whole batches from byte `offset` on (0: from the start), in `schema`, and the offset behind the last.

    Some `chunk_bytes` at a time: call again with the new offset until it stays where it is. A file that is not there is
    empty. ValueError in one line when the file is damaged.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return [], offset
    with file:
        try:
            head = _read_message(_read(file, SCHEMA_BYTES), 0, "schema")
            if head is None:
                return [], offset
            written = pa.ipc.read_schema(head[0])
            start = file.seek(max(offset, head[1]))
            return _split(_read(file, chunk_bytes), start, offset, written, schema)
        except (pa.ArrowException, OSError, struct.error, LookupError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"{path}: damaged behind byte {offset}: {reason}") from error


def _read(file: BinaryIO, size: int) -> bytes:
    """`size` bytes, or more where the first message is longer and all there."""
    data = file.read(size)
    missing = (_length(data, 0) or 0) - len(data)
    if 0 < missing <= os.fstat(file.fileno()).st_size - file.tell():
        data += file.read(missing)
    return data


def _split(
    data: bytes, start: int, offset: int, written: pa.Schema, schema: pa.Schema
) -> tuple[list[pa.RecordBatch], int]:
    batches, at = [], 0
    while (message := _read_message(data, at, "record batch")) is not None:
        content, length = message
        batch = pa.ipc.read_record_batch(content, written)
        batch.validate(full=True)  # what is damaged must not reach code that trusts it
        batches.append(_conform(batch, schema))
        at += length
    return batches, start + at if batches else offset


def _read_message(data: bytes, at: int, kind: str) -> tuple[pa.Message, int] | None:
    """The message at `at` and its length; None when it is not all there, or when the stream ends here."""
    length = _length(data, at)
    if length is None or at + length > len(data):
        return None
    message = pa.ipc.read_message(pa.py_buffer(data).slice(at, length))
    if message.type != kind:  # Arrow takes the caller's word for it, and reads where nothing is
        raise ValueError(f"a message of type {message.type!r} where a {kind} belongs")
    return message, length


def _length(data: bytes, at: int) -> int | None:
    """How long the message at `at` is with its body; None when too little of it is there, or when the stream ends."""
    if len(data) - at < 8:
        return None
    marker, metadata_bytes = data[at : at + 4], struct.unpack_from("<i", data, at + 4)[0]
    if marker != CONTINUATION or not 0 <= metadata_bytes <= MAX_METADATA_BYTES:
        raise ValueError("these bytes are no Arrow message")
    if metadata_bytes == 0 or len(data) - at - 8 < metadata_bytes:
        return None
    body_bytes = _body_bytes(data[at + 8 : at + 8 + metadata_bytes])
    if body_bytes < 0:
        raise ValueError("a message of negative length")
    return int(8 + metadata_bytes + body_bytes)


def _body_bytes(metadata: bytes) -> int:
    """`bodyLength`, the fourth field of the flatbuffer table Message."""
    (table,) = struct.unpack_from("<I", metadata, 0)
    (to_vtable,) = struct.unpack_from("<i", metadata, table)
    vtable = table - to_vtable
    (vtable_bytes,) = struct.unpack_from("<H", metadata, vtable)
    place = 4 + 2 * 3
    if vtable_bytes <= place:
        return 0
    (field,) = struct.unpack_from("<H", metadata, vtable + place)
    return int(struct.unpack_from("<q", metadata, table + field)[0]) if field else 0


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the columns of `schema`: what an older writer did not know is null, what it knew besides is left."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
