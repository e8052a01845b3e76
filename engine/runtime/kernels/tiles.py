"""Divides attention's work: queries of a prefill into tiles, columns of a decode into splits. Plain numpy.

A segment is a range of one request's tokens in a pass; a tile is a range of queries of one segment for one program; a
split is a range of one row's columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

TILE_TOKENS = 128  # default number of queries per prefill tile
SPLIT_COLUMNS = 64  # shorter splits are not worth a program
MAX_SPLITS = 32
PROGRAMS_PER_PROCESSOR = 2  # keeps a multiprocessor busy
LONG_ROW = 2048  # columns: rows that may be this long get four times the programs, so that no row finishes last alone

# A segment as the kernels read it, five int32: row of the block tables, first token in the pass, tokens, column of the
# first token, first visible column (columns before it are padding).
SEGMENT_FIELDS = ("slot", "first_token", "tokens", "first_column", "first_visible")
SEGMENT_COLUMNS = len(SEGMENT_FIELDS)
SEGMENT = np.dtype([(name, np.int32) for name in SEGMENT_FIELDS])


def segment_table(segments: NDArray[np.void]) -> NDArray[np.int32]:
    """A (C, 5) int32 view of `segments` (C,) SEGMENT."""
    return segments.view(np.int32).reshape(-1, SEGMENT_COLUMNS)


def make_tiles(query_tokens: Sequence[int], tile_tokens: int = TILE_TOKENS) -> NDArray[np.int32]:
    """(N, 2) int32: [segment, tile within the segment] for segments of `query_tokens` queries, in order."""
    assert tile_tokens > 0
    counts = np.array([-(-tokens // tile_tokens) for tokens in query_tokens], dtype=np.int64)
    segments = np.repeat(np.arange(len(counts)), counts)
    first_tile = np.cumsum(counts) - counts
    return np.stack([segments, np.arange(len(segments)) - first_tile[segments]], axis=1).astype(np.int32)


def max_tiles(tokens: int, segments: int, tile_tokens: int = TILE_TOKENS) -> int:
    """The most tiles of `tokens` queries in at most `segments` segments: the size that a captured graph needs.

    The first query of a segment opens a tile, and every further `tile_tokens` queries open one more.
    """
    opened = min(tokens, segments)
    return opened + (tokens - opened) // tile_tokens


def decode_splits(rows: int, kv_heads: int, longest_tokens: int, processors: int) -> int:
    """Splits per row of a decode, so that `rows` x `kv_heads` x splits programs keep `processors` SMs busy.

    A power of two from 1 to MAX_SPLITS: few values mean few compiled merges. One split if unsplit rows give each SM two
    programs; never so many that a split of the longest row is shorter than SPLIT_COLUMNS.
    """
    most = _splits(rows * kv_heads, longest_tokens, PROGRAMS_PER_PROCESSOR * processors)
    return 1 << (most.bit_length() - 1)


def captured_splits(rows: int, kv_heads: int, row_columns: int, processors: int) -> int:
    """The same for a pass that is captured before its rows are known: each may have `row_columns` columns.

    Long rows get at least four splits. Not limited to powers of two: each bucket has one value, so few merges are
    compiled.
    """
    programs = PROGRAMS_PER_PROCESSOR * processors
    if row_columns < LONG_ROW:
        return _splits(rows * kv_heads, row_columns, programs)
    return max(4, _splits(rows * kv_heads, row_columns, 4 * programs))


def _splits(row_heads: int, columns: int, programs: int) -> int:
    """Splits per row for `programs` in total, at most MAX_SPLITS and each at least SPLIT_COLUMNS long."""
    return max(1, min(programs // max(1, row_heads), MAX_SPLITS, columns // SPLIT_COLUMNS))
