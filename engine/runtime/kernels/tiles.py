"""How attention's work is cut up: queries of a prefill into tiles, columns of a decode into splits. Plain numpy.

A segment is a run of one request's tokens in a pass; a tile is a run of queries of one segment that one program works
through; a split is a run of one row's columns. It does not know the device: its multiprocessors are an argument.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

TILE_TOKENS = 128  # queries of a prefill tile, unless the caller says otherwise
SPLIT_COLUMNS = 64  # a split shorter than this is not worth a program
MAX_SPLITS = 32
PROGRAMS_PER_PROCESSOR = 2  # what keeps a multiprocessor busy
LONG_ROW = 2048  # columns: where rows may be as long, four times as many, so that the longest does not finish alone

# A segment as the kernels read it, five int32: row of the block tables, first token in the pass, tokens, column of the
# first token, first column that shows (what is before it is padding).
SEGMENT_FIELDS = ("slot", "first_token", "tokens", "first_column", "first_visible")
SEGMENT_COLUMNS = len(SEGMENT_FIELDS)
SEGMENT = np.dtype([(name, np.int32) for name in SEGMENT_FIELDS])


def segment_table(segments: NDArray[np.void]) -> NDArray[np.int32]:
    """(C, 5) int32 of `segments` (C,) SEGMENT, the same memory."""
    return segments.view(np.int32).reshape(-1, SEGMENT_COLUMNS)


def make_tiles(query_tokens: Sequence[int], tile_tokens: int = TILE_TOKENS) -> NDArray[np.int32]:
    """(N, 2) int32: [segment, tile within the segment] for segments of `query_tokens` queries, in order."""
    assert tile_tokens > 0
    counts = np.array([-(-tokens // tile_tokens) for tokens in query_tokens], dtype=np.int64)
    segments = np.repeat(np.arange(len(counts)), counts)
    first_tile = np.cumsum(counts) - counts
    return np.stack([segments, np.arange(len(segments)) - first_tile[segments]], axis=1).astype(np.int32)


def max_tiles(tokens: int, segments: int, tile_tokens: int = TILE_TOKENS) -> int:
    """The most tiles that `tokens` queries can make in at most `segments` segments: the rows a captured graph needs.

    A segment's first query opens a tile, and each `tile_tokens` queries beyond those open one more.
    """
    opened = min(tokens, segments)
    return opened + (tokens - opened) // tile_tokens


def decode_splits(rows: int, kv_heads: int, longest_tokens: int, processors: int) -> int:
    """Into how many splits a decode cuts each row so that `rows` x `kv_heads` of them keep `processors` SMs at work.

    A power of two from 1 to MAX_SPLITS: few different values mean few compiled merges. One split where the rows alone
    give each SM two programs; never so many that a split of the longest row falls below SPLIT_COLUMNS.
    """
    most = _splits(rows * kv_heads, longest_tokens, PROGRAMS_PER_PROCESSOR * processors)
    return 1 << (most.bit_length() - 1)


def captured_splits(rows: int, kv_heads: int, row_columns: int, processors: int) -> int:
    """The same for a pass that is captured before its rows are known: each may be as long as `row_columns`.

    Where that is long, at least four splits. Any number: a bucket has one, so that few merges are compiled anyway.
    """
    programs = PROGRAMS_PER_PROCESSOR * processors
    if row_columns < LONG_ROW:
        return _splits(rows * kv_heads, row_columns, programs)
    return max(4, _splits(rows * kv_heads, row_columns, 4 * programs))


def _splits(row_heads: int, columns: int, programs: int) -> int:
    """Enough splits of each for `programs` in all, but no more than MAX_SPLITS, nor shorter than SPLIT_COLUMNS."""
    return max(1, min(programs // max(1, row_heads), MAX_SPLITS, columns // SPLIT_COLUMNS))
