"""How attention's work is cut up: queries of a prefill into tiles, columns of a decode into splits. Plain numpy.

A tile is a run of queries of one segment that one program works through; a split is a run of one row's columns. It does
not know the device: what suits a GPU is the caller's to say.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

TILE_TOKENS = 128  # queries of a prefill tile, unless the caller says otherwise
SPLIT_COLUMNS = 64  # a split shorter than this is not worth a program
MAX_SPLITS = 32


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
    wanted = 2 * processors // max(1, rows * kv_heads)
    most = min(wanted, MAX_SPLITS, max(1, longest_tokens // SPLIT_COLUMNS))
    return 1 << max(0, most.bit_length() - 1)
