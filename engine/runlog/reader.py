"""Reads a run folder: what was run, how it ended, and its rows, both while it is written and afterwards.

Nothing depends on the folder's location or on the machine that wrote it. A run's status is derived, never stored: the
status in result.json; without that file, running while the run's lock is held, else crashed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.core.errors import first_line
from engine.core.record import Column, RunRecord, Table
from engine.core.regular_files import is_there, read_text
from engine.runlog.batches import read_batches
from engine.runlog.locks import is_held
from engine.runlog.schema import KEYED, LOCK_FILE, RESULT_FILE, RUN_FILE, SCHEMA_VERSION, STREAMS, stream_file

STATUSES = ("completed", "stopped", "oom", "failed")
RUN_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")  # also the id of an experiment or a prediction
RUN_ID_RULE = "use 1 to 64 letters, digits, _ or -"


class RunLogReader:
    """One run folder. Every method reads the files again, and raises ValueError in one line if the folder is no run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run_info(self) -> dict[str, Any]:
        """run.json."""
        path = self.folder / RUN_FILE
        if not is_there(path):
            raise ValueError(f"{self.folder} is not a run folder: it has no {RUN_FILE}")
        info = _read_json(path)
        run_id, version = info.get("run_id"), info.get("schema_version")
        if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id):
            raise ValueError(f"{path}: run_id is {run_id!r}; {RUN_ID_RULE}")
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"{path}: schema_version is {version!r}, not a number from 1")
        if version > SCHEMA_VERSION:
            raise ValueError(
                f"{path}: written in schema {version} by a newer version of the lab; this one reads up to "
                f"{SCHEMA_VERSION}"
            )
        return info

    def result(self) -> dict[str, Any] | None:
        """result.json, or None if it does not exist yet."""
        path = self.folder / RESULT_FILE
        if not is_there(path):
            return None
        result = _read_json(path)
        if result.get("status") not in STATUSES:
            raise ValueError(f"{path}: status is {result.get('status')!r}, not one of {', '.join(STATUSES)}")
        return result

    def status(self) -> str:
        """running, completed, stopped, oom, failed or crashed."""
        # Check the lock first: a writer releases it only after it has written the result.
        held = is_held(self.folder / LOCK_FILE)
        result = self.result()
        if result is not None:
            return str(result["status"])
        return "running" if held else "crashed"

    def tail(self, stream: str, offset: int) -> tuple[list[pa.RecordBatch], int]:
        """Complete batches from byte `offset`, a few megabytes at most, and the offset after the last one.

        Call it again with the new offset; the offset does not change if there is no more yet.
        """
        return read_batches(self.folder / stream_file(stream), STREAMS[stream], offset)

    def batches(self, stream: str) -> Iterator[pa.RecordBatch]:
        """Every complete batch of a stream, as logged."""
        offset = 0
        while True:
            batches, following = self.tail(stream, offset)
            yield from batches
            if following == offset:
                return
            offset = following

    def table(self, stream: str) -> pa.Table:
        """All rows of a stream; in `requests` and `spans` one row per key, with its newest values."""
        table = pa.Table.from_batches(list(self.batches(stream)), schema=STREAMS[stream])
        return newest(table, KEYED[stream]) if stream in KEYED else table

    def spans(self) -> pa.Table:
        """The spans; in an ended run, open spans end at the last logged pass."""
        spans = self.table("spans")
        if self.status() == "running":
            return spans
        passes = self.table("passes")
        end_pass = 0 if not passes.num_rows else pc.max(passes["pass_index"]).as_py() + 1
        end_s = 0.0 if not passes.num_rows else pc.max(passes["end_s"]).as_py()
        spans = _fill(spans, "end_pass", pc.max_element_wise(spans["start_pass"], pa.scalar(end_pass, pa.int32())))
        return _fill(spans, "end_s", pc.max_element_wise(spans["start_s"], end_s))

    def record(self) -> RunRecord:
        """The rows that metrics are computed from."""
        return record_of(self.table("requests"), self.table("passes"), self.table("tokens"))


def record_of(requests: pa.Table, passes: pa.Table, tokens: pa.Table) -> RunRecord:
    """The rows that metrics are computed from, given whole tables in the streams' schemas; requests as from
    `newest`."""
    return RunRecord(requests=_columns(requests), passes=_columns(passes), tokens=_columns(tokens))


def newest(table: pa.Table, key: str) -> pa.Table:
    """One row per key, in order of the key's first row, with the last non-null value of each column."""
    others = [name for name in table.column_names if name != key]
    merged = table.group_by(key, use_threads=False).aggregate([(name, "last") for name in others])
    renamed = merged.rename_columns([name.removesuffix("_last") for name in merged.column_names])
    return renamed.select(table.column_names).cast(table.schema)


def _fill(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, table.schema.field(name), pc.coalesce(table[name], values))


def _columns(table: pa.Table) -> Table:
    return {name: _column(table[name]) for name in table.column_names}


def _column(values: pa.ChunkedArray) -> Column:
    """The column with NaN, -1 or None for a missing value; a missing boolean is False."""
    if pa.types.is_string(values.type):
        return np.array(values.to_pylist(), dtype=object)
    missing = {pa.float64(): np.nan, pa.bool_(): False}.get(values.type, -1)
    filled = values.fill_null(missing) if values.null_count else values
    return np.asarray(filled.combine_chunks().to_numpy(zero_copy_only=False))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(path))
    except (ValueError, OSError, RecursionError) as error:
        raise ValueError(f"{path}: cannot be read as JSON: {first_line(error)}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: not a JSON object")
    return content
