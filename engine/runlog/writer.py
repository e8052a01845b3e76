"""Writes a run's log during the run: run.json first, then the rows, result.json last.

A logged row goes into a buffer. Every FLUSH_S, a background thread turns the buffers into Arrow batches and writes each
with one system call. A killed process loses at most that interval, and the file stays readable: every batch is
complete, or is the torn tail that a reader drops. The room for result.json is taken at the start, so that a run that
fills the disk can still say how it ended.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import pyarrow as pa

from engine.runlog.checksums import StreamSum, sealed
from engine.runlog.locks import hold, holder
from engine.runlog.schema import LOCK_FILE, RESULT_FILE, RUN_FILE, STREAMS, stream_file

FLUSH_S = 0.15
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"

NAMES = {stream: frozenset(schema.names) for stream, schema in STREAMS.items()}

RESULT_BYTES = 32 << 10  # reserved for result.json; its own size is a few KB

Columns = Mapping[str, Sequence[Any]]


class UnwritableLog(OSError):
    """Rows of the run log could not be written."""


class _StreamFile:
    """The file of one stream, and the checksum of all that was written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.rows = 0
        self._bytes = 0
        self._hash = hashlib.sha256()

    def write(self, content: Any) -> None:
        """Write all of it. What was written before an error counts, because it is in the file."""
        left = memoryview(content)
        while left:
            written = self.file.write(left)
            self._hash.update(left[:written])
            self._bytes += written
            left = left[written:]

    def sum(self) -> StreamSum:
        return StreamSum(rows=self.rows, bytes=self._bytes, sha256=self._hash.hexdigest())


class RunLogWriter:
    """The only writer of a run folder; holds the run's lock from the first file to the last. Thread-safe.

    Raises FileExistsError if the folder already has a run or another writer. If rows cannot be written, the next call
    raises UnwritableLog.
    """

    def __init__(self, folder: Path, run_info: Mapping[str, Any]) -> None:
        self.folder = folder
        self._resources = ExitStack()
        self._files: dict[str, _StreamFile] = {}
        self._pending: dict[str, list[Columns]] = {name: [] for name in STREAMS}
        self._buffer_lock = threading.Lock()
        self._file_lock = threading.Lock()
        self._failure: Exception | None = None
        self._is_closed = False
        self._closing = threading.Event()
        # pyarrow imports pandas at its first conversion, which takes a second: do it before the run, not in a flush.
        _batch(STREAMS["requests"], [{"request_id": (0,)}])
        folder.mkdir(parents=True, exist_ok=True)
        self._hold(f"run {run_info.get('run_id', folder.name)}")
        try:
            if (folder / RUN_FILE).exists():
                raise FileExistsError(f"{folder} already holds a run")
            self._partial_result.write_bytes(bytes(RESULT_BYTES))
            write_json(folder / RUN_FILE, run_info)
            self._run_json = (folder / RUN_FILE).read_bytes()
        except BaseException:
            self._resources.close()
            raise
        self._flusher = threading.Thread(target=self._flush_on_time, name="run-log", daemon=True)
        self._flusher.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, stream: str, **row: Any) -> None:
        """Log one row; other columns are null."""
        self.extend(stream, {name: (value,) for name, value in row.items()})

    def extend(self, stream: str, columns: Columns) -> None:
        """Log many rows, given as columns of equal length; other columns are null."""
        assert NAMES[stream].issuperset(columns), f"{stream}: {sorted(columns)}"
        assert len(set(map(len, columns.values()))) == 1, f"{stream}: columns of different lengths"
        # A copy, because the caller may change its lists before they are written.
        rows = {name: tuple(values) for name, values in columns.items()}
        with self._buffer_lock:
            self._raise_failure()
            assert not self._is_closed, "the run's log is closed"
            self._pending[stream].append(rows)

    def flush(self) -> None:
        """Write everything logged so far to the file, where readers see it."""
        with self._file_lock:
            self._raise_failure()
            with self._buffer_lock:
                pending = {name: chunks for name, chunks in self._pending.items() if chunks}
                self._pending = {name: [] for name in STREAMS}
            for name, chunks in pending.items():
                try:
                    batch, file = _batch(STREAMS[name], chunks), self._file(name)
                    file.write(batch.serialize())
                    file.rows += batch.num_rows
                except Exception as error:
                    # Part of a batch may be on disk. Nothing may follow it, or a reader could not find the next batch.
                    # The rows of other streams are still written.
                    self._failure = self._failure or error
            self._raise_failure()

    def finish(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Close the log and write the result, with checksums. Returns the result without them.

        The run's status is `result["status"]` from now on, or `failed` if its rows could not be written.
        """
        ended = dict(result)
        try:
            self._end_streams()
        except UnwritableLog as error:
            if ended["status"] != "failed":
                ended |= {"status": "failed", "error": str(error)}
        sums = {name: file.sum() for name, file in self._files.items()}
        _write_reserved(self._partial_result, sealed(ended, sums, self._run_json))
        self._partial_result.replace(self.folder / RESULT_FILE)
        self.close()
        return ended

    def close(self) -> None:
        """Write the buffers and release the lock. Without `finish`, the run counts as crashed."""
        try:
            self._end_streams()
        finally:
            with contextlib.suppress(OSError):
                self._partial_result.unlink(missing_ok=True)
            self._resources.close()

    @property
    def _partial_result(self) -> Path:
        return self.folder / f".{RESULT_FILE}.partial"

    def _hold(self, purpose: str) -> None:
        """Take the run's lock. FileExistsError at once if another process has it: a run has one writer."""
        path = self.folder / LOCK_FILE
        try:
            self._resources.enter_context(hold(path, purpose=purpose, should_stop=lambda: True))
        except InterruptedError:
            raise FileExistsError(f"{self.folder} is being written by {holder(path) or 'another process'}") from None

    def _end_streams(self) -> None:
        if self._is_closed:
            return
        self._closing.set()
        self._flusher.join()
        try:
            self.flush()
            try:
                for each in self._files.values():
                    each.write(END_OF_STREAM)
            except OSError as error:
                self._failure = error
            self._raise_failure()
        finally:
            self._is_closed = True
            for each in self._files.values():
                each.file.close()

    def _flush_on_time(self) -> None:
        while not self._closing.wait(FLUSH_S):
            try:
                self.flush()
            except OSError:
                return  # kept in _failure; the next logged row raises it

    def _file(self, name: str) -> _StreamFile:
        if name not in self._files:
            file = self._files[name] = _StreamFile((self.folder / stream_file(name)).open("ab", buffering=0))
            file.write(STREAMS[name].serialize())
        return self._files[name]

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise UnwritableLog(f"the run log could not be written: {_reason(self._failure)}") from self._failure


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file atomically."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _batch(schema: pa.Schema, chunks: Sequence[Columns]) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for chunk in chunks:
        missing = [None] * len(next(iter(chunk.values())))
        for name, values in columns.items():
            values.extend(chunk.get(name, missing))
    return pa.RecordBatch.from_pydict(columns, schema=schema)


def _write_reserved(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON over the bytes that a file has already, so that a full disk does not matter, and cut off the rest."""
    with path.open("r+b") as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False).encode())
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _reason(error: Exception) -> str:
    """The error in one line; a full disk with what to do."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "No space left on the disk; free some space and run again"
    return str(error)
