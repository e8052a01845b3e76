"""Reads an Arrow stream that is still being written or was cut off: complete batches only, without a torn tail.

Follows the Arrow IPC streaming format: a sequence of messages, each with a length, a flatbuffer that states the length
of the body, and the body. An incomplete last message is a torn tail, which is normal; so is a tail of zeros, which a
file system leaves after a power failure. Other bytes that are no message are damage, which is an error. Zeros inside a
body are not detected: the format has no checksum.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from engine.core.errors import first_line
from engine.core.regular_files import open_regular

CONTINUATION = b"\xff\xff\xff\xff"
CHUNK_BYTES = 16 << 20
SCHEMA_BYTES = 8 << 10
MAX_METADATA_BYTES = 1 << 20
MAX_MESSAGE_BYTES = 1 << 30  # a batch; the lab's own are a few MB, of a long simulation some hundred
MAX_ZEROS_BYTES = 64 << 20  # at the end of a file after a power failure: what was not on the disk yet
DAMAGE = (pa.ArrowException, OSError, struct.error, LookupError, ValueError)


def read_batches(
    path: Path, schema: pa.Schema, offset: int, chunk_bytes: int = CHUNK_BYTES
) -> tuple[list[pa.RecordBatch], int]:
    """The complete batches from byte `offset` (0: the start), in `schema`, and the offset after the last one.

    Reads about `chunk_bytes`: call it again with the new offset until the offset no longer changes. A missing file is
    empty. ValueError in one line if the bytes at `offset` are damaged; batches before the damage are returned first.
    """
    try:
        file = open_regular(path)
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
            reason = first_line(error)
            raise ValueError(f"{path}: damaged after byte {offset}: {reason}") from error


def _read(file: BinaryIO, size: int) -> bytes:
    """`size` bytes, or the whole first message if it is longer and complete."""
    data = file.read(size)
    missing = 0
    with contextlib.suppress(*DAMAGE):  # reported when the message is parsed
        missing = (_length(data, 0) or 0) - len(data)
    if 0 < missing <= os.fstat(file.fileno()).st_size - file.tell():
        data += file.read(missing)
    return data


def _split(data: bytes, written: pa.Schema, schema: pa.Schema) -> tuple[list[pa.RecordBatch], int]:
    """The complete batches at the start of `data`, and their length in bytes. Raises damage before the first batch."""
    batches: list[pa.RecordBatch] = []
    at = 0
    try:
        while (message := _read_message(data, at, "record batch")) is not None:
            content, length = message
            batch = pa.ipc.read_record_batch(content, written)
            batch.validate(full=True)  # damaged data must not reach code that trusts it
            batches.append(_conform(batch, schema))
            at += length
    except DAMAGE:
        if not batches:
            raise
    return batches, at


def _is_cut_by_zeros(file: BinaryIO, at: int) -> bool:
    """Whether the file has only zeros from some byte of the head of the message at `at` to its end."""
    if os.fstat(file.fileno()).st_size - at > MAX_ZEROS_BYTES:
        return False
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
    """The message at `at` and its length; None if it is incomplete, or if the stream ends here."""
    length = _length(data, at)
    if length is None or at + length > len(data):
        return None
    message = pa.ipc.read_message(pa.py_buffer(data).slice(at, length))
    if message.type != kind:  # Arrow does not check the type, and would read out of bounds
        raise ValueError(f"message of type {message.type!r} instead of {kind}")
    return message, length


def _length(data: bytes, at: int) -> int | None:
    """The length of the message at `at` with its body; None if its head is incomplete, or if the stream ends here."""
    if len(data) - at < 8:
        return None
    marker, metadata_bytes = data[at : at + 4], struct.unpack_from("<i", data, at + 4)[0]
    if marker != CONTINUATION or not 0 <= metadata_bytes <= MAX_METADATA_BYTES:
        raise ValueError("not an Arrow message")
    if metadata_bytes == 0 or len(data) - at - 8 < metadata_bytes:
        return None
    body_bytes = _body_bytes(data[at + 8 : at + 8 + metadata_bytes])
    if not 0 <= body_bytes <= MAX_MESSAGE_BYTES:
        raise ValueError(f"message of {body_bytes:,} bytes")
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
    """The batch with the columns of `schema`: columns that an older writer lacks are null, other columns are
    dropped."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
