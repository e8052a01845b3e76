"""How attention's work is cut up: tiles, the bound that captured graphs rely on, splits that keep a GPU at work."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.runtime.kernels.tiles import (
    LONG_ROW,
    MAX_SPLITS,
    SPLIT_COLUMNS,
    captured_splits,
    decode_splits,
    make_tiles,
    max_tiles,
)


def test_tiles_by_hand() -> None:
    tiles = make_tiles([1, 0, 64, 65, 130], 64)
    assert tiles.tolist() == [[0, 0], [2, 0], [3, 0], [3, 1], [4, 0], [4, 1], [4, 2]]
    assert tiles.dtype == "int32"


def test_no_segment_no_tile() -> None:
    assert make_tiles([], 64).shape == (0, 2)
    assert make_tiles([0, 0], 64).shape == (0, 2)


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 16))
def test_tiles_cover_every_query_once(query_tokens: list[int], tile_tokens: int) -> None:
    covered = [
        (segment, query)
        for segment, tile in make_tiles(query_tokens, tile_tokens).tolist()
        for query in range(tile * tile_tokens, min((tile + 1) * tile_tokens, query_tokens[segment]))
    ]
    assert covered == [(segment, query) for segment, count in enumerate(query_tokens) for query in range(count)]


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 16))
def test_a_bucket_holds_the_tiles_of_whatever_fits_it(query_tokens: list[int], tile_tokens: int) -> None:
    assert len(make_tiles(query_tokens, tile_tokens)) <= max_tiles(sum(query_tokens), len(query_tokens), tile_tokens)


def test_the_bound_is_reached() -> None:
    """Ten tokens in three segments, tiles of four: 1 + 1 + 8 and 1 + 5 + 4 both fill four tiles."""
    assert max_tiles(10, 3, 4) == 4 == len(make_tiles([1, 1, 8], 4)) == len(make_tiles([1, 5, 4], 4))
    assert max_tiles(2, 5, 64) == 2
    assert max_tiles(0, 5, 64) == 0
    assert max_tiles(4096, 1, 128) == 32


def test_splits_by_hand() -> None:
    """132 SMs, 2 KV heads: 264 programs wanted, each with at least 64 columns to read."""
    assert decode_splits(1, 2, 4096, 132) == MAX_SPLITS == 32
    assert decode_splits(1, 2, 324, 132) == 4
    assert decode_splits(8, 2, 4096, 132) == 16
    assert decode_splits(128, 2, 4096, 132) == 1
    assert decode_splits(512, 2, 4096, 132) == 1
    assert decode_splits(1, 2, SPLIT_COLUMNS - 1, 132) == 1
    assert decode_splits(0, 2, 0, 132) == 1


def test_captured_decodes_split_for_the_rows_that_may_come() -> None:
    """132 processors are 264 programs; rows that may be long ask for four times as many, and four splits at least."""
    assert captured_splits(8, 2, LONG_ROW - 1, 132) == 16
    assert captured_splits(9, 2, LONG_ROW - 1, 132) == 14
    assert captured_splits(128, 2, LONG_ROW - 1, 132) == 1
    assert captured_splits(1, 2, 128, 132) == 2
    assert captured_splits(1, 2, SPLIT_COLUMNS - 1, 132) == 1
    assert captured_splits(1, 2, LONG_ROW, 132) == MAX_SPLITS
    assert captured_splits(64, 2, LONG_ROW, 132) == 8
    assert captured_splits(512, 2, LONG_ROW, 132) == 4
    assert captured_splits(64, 2, LONG_ROW, 108) == 6
