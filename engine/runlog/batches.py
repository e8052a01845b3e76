"""Reads an Arrow stream that is still being written, or that broke off: whole batches count, a torn tail is dropped.

Follows the Arrow IPC streaming format: messages one after another, each a length, a flatbuffer that tells how long the
body is, and the body. A tail shorter than it says is torn, which is usual, and so is one of zeros, which a file system
leaves when the power goes; other bytes that are no message are damage, which is an error. Zeros inside a body are not
told from values: the format has no checksum.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

CONTINUATION = b"\xff\xff\xff\xff"
CHUNK_BYTES = 16 << 20
SCHEMA_BYTES = 8 << 10
MAX_METADATA_BYTES = 1 << 20
DAMAGE = (pa.ArrowException, OSError, struct.error, LookupError, ValueError)


def read_batches(
    path: Path, schema: pa.Schema, offset: int, chunk_bytes: int = CHUNK_BYTES
) -> tuple[list[pa.RecordBatch], int]:
    """The whole batches from byte `offset` on (0: from the start), in `schema`, and the offset behind the last.

    Some `chunk_bytes` at a time: call again with the new offset until it stays where it is. A file that is not there is
    empty. ValueError in one line when the file is damaged right behind `offset`: what is whole before is read first.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return [], offset
    with file:
        start = 0
        try:
            head = _read_message(_read(file, SCHEMA_BYTES), 0, "schema")
            if head is None:
                return [], offset
            written = pa.ipc.read_schema(head[0])
            start = file.seek(max(offset, head[1]))
            batches, length = _split(_read(file, chunk_bytes), written, schema)
            return batches, start + length if batches else offset
        except DAMAGE as error:
            if _is_cut_by_zeros(file, start):
                return [], offset
            reason = str(error).splitlines()[0]
            raise ValueError(f"{path}: damaged behind byte {offset}: {reason}") from error


def _read(file: BinaryIO, size: int) -> bytes:
    """`size` bytes, or more where the first message is longer and all there."""
    data = file.read(size)
    missing = 0
    with contextlib.suppress(*DAMAGE):  # whoever takes the message apart is told
        missing = (_length(data, 0) or 0) - len(data)
    if 0 < missing <= os.fstat(file.fileno()).st_size - file.tell():
        data += file.read(missing)
    return data


def _split(data: bytes, written: pa.Schema, schema: pa.Schema) -> tuple[list[pa.RecordBatch], int]:
    """The whole batches at the start of `data`, and their length. Damage is raised where nothing good is before it."""
    batches: list[pa.RecordBatch] = []
    at = 0
    try:
        while (message := _read_message(data, at, "record batch")) is not None:
            content, length = message
            batch = pa.ipc.read_record_batch(content, written)
            batch.validate(full=True)  # what is damaged must not reach code that trusts it
            batches.append(_conform(batch, schema))
            at += length
    except DAMAGE:
        if not batches:
            raise
    return batches, at


def _is_cut_by_zeros(file: BinaryIO, at: int) -> bool:
    """Whether the message at `at` has only zeros from within its head to the end of the file."""
    file.seek(at)
    head = file.read(8 + MAX_METADATA_BYTES)
    kept = head[:8].rstrip(b"\0")
    if not CONTINUATION.startswith(kept[:4]):
        return False
    metadata_bytes = int.from_bytes(head[4:8], "little", signed=True)
    head_bytes = 8 + metadata_bytes if 0 <= metadata_bytes <= MAX_METADATA_BYTES else 8
    if len(head[:head_bytes].rstrip(b"\0")) == min(head_bytes, len(head)):
        return False
    rest = head[head_bytes:]
    while rest:
        if rest.count(0) != len(rest):
            return False
        rest = file.read(CHUNK_BYTES)
    return True


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
