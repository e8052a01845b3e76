"""Which run folders the store has whole: so that a store of thousands of runs need not read them all to begin with."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from engine.runlog.schema import STREAMS
from engine.runlog.writer import END_OF_STREAM

WHOLE = """
    SELECT r.folder, map(list(p.stream), list(p.offset_bytes)) AS offsets
    FROM runs r JOIN ingest_progress p ON p.run_id = r.run_id
    WHERE r.status NOT IN ('running', 'crashed') AND r.damage IS NULL
    GROUP BY r.run_id, r.folder
"""


def read_so_far(cursor: duckdb.DuckDBPyConnection) -> dict[str, dict[str, int]]:
    """By folder, of every run that has ended with a result: how many bytes of each stream have been taken in."""
    return {folder: dict(offsets) for folder, offsets in cursor.execute(WHOLE).fetchall()}


def is_whole(offsets: Mapping[str, int], sizes: Mapping[str, int | None]) -> bool:
    """Whether files of these sizes (None: not there) hold nothing more; behind the last batch stands a stream's end."""
    return all(
        sizes[stream] is None if stream not in offsets else sizes[stream] in _ends(offsets[stream])
        for stream in STREAMS
    )


def _ends(offset: int) -> tuple[int, int]:
    return offset, offset + len(END_OF_STREAM)
