"""Attention kernels against attention by hand: on a GPU for real, elsewhere through Triton's interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from engine.runtime.kernels.tiles import make_tiles
from tests.support.paged_kv import PagedRows, assert_close, attend, ints, numbers, page
from tests.support.triton_here import DEVICE, DTYPES, importing_kernels

with importing_kernels():
    from engine.runtime.kernels.paged_decode import DecodeTuning, paged_decode
    from engine.runtime.kernels.paged_prefill import PrefillTuning, paged_prefill

SMALL_DECODE = DecodeTuning(columns=16, warps=2, stages=2)
SMALL_PREFILL = PrefillTuning(queries=16, columns=16, warps=4, stages=2)
SHAPES = [(6, 1, 64), (3, 1, 80), (8, 2, 96), (2, 2, 128), (7, 1, 64), (8, 1, 80)]  # H, K, D


def decode(
    paged: PagedRows,
    query: Tensor,
    lengths: Sequence[int],
    *,
    starts: Sequence[int] | None = None,
    read_ends: Sequence[int] | None = None,
    splits: int = 1,
    tuning: DecodeTuning | None = SMALL_DECODE,
) -> Tensor:
    return paged_decode(
        query.to(DEVICE),
        paged.key_pool,
        paged.value_pool,
        paged.tables,
        ints(paged.order),
        ints(starts or [0] * len(lengths)),
        ints(lengths),
        ints(read_ends or lengths),
        paged.block_size,
        0.11,
        splits,
        tuning=tuning,
    )


def decoded_by_hand(
    paged: PagedRows, query: Tensor, lengths: Sequence[int], starts: Sequence[int] | None = None
) -> Tensor:
    answers = []
    for row, (start, end) in enumerate(zip(starts or [0] * len(lengths), lengths, strict=True)):
        seen = slice(start, end)
        nothing = torch.zeros(query.shape[1:], dtype=torch.float64)
        answers.append(attend(query[row], paged.keys[row][seen], paged.values[row][seen], 0.11) if end else nothing)
    return torch.stack(answers)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), SHAPES)
def test_decode_of_every_shape(heads: int, kv_heads: int, head_dim: int, dtype: torch.dtype) -> None:
    lengths = [1, 40]
    paged = page(lengths, kv_heads=kv_heads, head_dim=head_dim, block_size=16, dtype=dtype)
    query = numbers(torch.Generator().manual_seed(1), 2, heads, head_dim, dtype=dtype)
    assert_close(decode(paged, query, lengths, splits=2), decoded_by_hand(paged, query, lengths))


@pytest.mark.parametrize("splits", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("block_size", [1, 8, 16, 64])
def test_decode_of_lengths_around_blocks_and_steps(block_size: int, splits: int) -> None:
    lengths = [1, 15, 16, 17, 31, 32, 33, 64, 65]
    paged = page(lengths, kv_heads=1, head_dim=64, block_size=block_size, dtype=torch.float32)
    query = numbers(torch.Generator().manual_seed(1), len(lengths), 3, 64, dtype=torch.float32)
    assert_close(decode(paged, query, lengths, splits=splits), decoded_by_hand(paged, query, lengths))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_decode_as_tuned(dtype: torch.dtype) -> None:
    lengths = [129, 64]
    paged = page(lengths, kv_heads=1, head_dim=128, block_size=32, dtype=dtype)
    query = numbers(torch.Generator().manual_seed(1), 2, 4, 128, dtype=dtype)
    assert_close(decode(paged, query, lengths, tuning=None), decoded_by_hand(paged, query, lengths))


@pytest.mark.parametrize("splits", [1, 4])
def test_decode_hides_what_starts_and_lengths_hide(splits: int) -> None:
    """Columns before the start (a whole step of them, too), columns read past the length, rows of nothing."""
    lengths, starts = [70, 40, 0, 50, 33], [37, 0, 0, 49, 16]
    read_ends = [70, 70, 0, 70, 34]
    paged = page([70, 70, 70, 70, 70], kv_heads=2, head_dim=64, block_size=16, dtype=torch.float32)
    query = numbers(torch.Generator().manual_seed(1), 5, 4, 64, dtype=torch.float32)
    got = decode(paged, query, lengths, starts=starts, read_ends=read_ends, splits=splits)
    assert_close(got, decoded_by_hand(paged, query, lengths, starts))
    assert not got[2].any()


def test_a_padding_row_reads_nothing() -> None:
    """Its table row, its blocks and its read_end are nonsense; zeros come out, not NaN."""
    paged = page([20], kv_heads=1, head_dim=64, block_size=16, dtype=torch.float32)
    nowhere = [0, 0]
    query = torch.full((2, 2, 64), float("nan"), device=DEVICE)
    for splits in (1, 3):
        got = paged_decode(
            query, paged.key_pool, paged.value_pool, torch.full_like(paged.tables, 2**30), ints(nowhere),
            ints(nowhere), ints(nowhere), ints([2**30, 0]), 16, 1.0, splits,
        )  # fmt: skip
        assert torch.equal(got, torch.zeros_like(got))


def test_decode_of_a_strided_query_and_of_no_row() -> None:
    lengths = [5, 21]
    paged = page(lengths, kv_heads=2, head_dim=64, block_size=16, dtype=torch.float32)
    wide = numbers(torch.Generator().manual_seed(1), 2, 3, 4, 64, dtype=torch.float32)
    query = wide[:, 1]
    assert_close(decode(paged, query, lengths), decoded_by_hand(paged, query, lengths))
    empty = decode(page([], kv_heads=2, head_dim=64, block_size=16, dtype=torch.float32), query[:0], [])
    assert empty.shape == (0, 4, 64)


def prefill(
    paged: PagedRows,
    query: Tensor,
    segments: Sequence[tuple[int, ...]],
    *,
    tile_tokens: int = 32,
    tuning: PrefillTuning | None = SMALL_PREFILL,
    output: Tensor | None = None,
) -> Tensor:
    """`segments` name rows of `paged`. One tile more than there is work for, as in a captured graph."""
    facts = [(paged.order[row], *rest) for row, *rest in segments]
    tiles = [*make_tiles([s[2] for s in segments], tile_tokens).tolist(), [-1, 0]]
    return paged_prefill(
        query.to(DEVICE), paged.key_pool, paged.value_pool, paged.tables, ints(facts), ints(tiles), paged.block_size,
        0.11, tile_tokens=tile_tokens, tuning=tuning, output=output,
    )  # fmt: skip


def prefilled_by_hand(paged: PagedRows, query: Tensor, segments: Sequence[tuple[int, ...]]) -> Tensor:
    expected = torch.zeros(query.shape, dtype=torch.float64)
    for row, begin, tokens, first_position, first_visible in segments:
        for i in range(tokens):
            column = first_position + i
            seen = slice(min(column, first_visible), column + 1)
            keys, values = paged.keys[row][seen], paged.values[row][seen]
            expected[begin + i] = attend(query[begin + i], keys, values, 0.11)
    return expected


def check_prefill(
    segments: Sequence[tuple[int, ...]],
    *,
    shape: tuple[int, int, int] = (2, 1, 64),
    block_size: int = 16,
    dtype: torch.dtype = torch.float32,
    tile_tokens: int = 32,
    tuning: PrefillTuning | None = SMALL_PREFILL,
) -> None:
    heads, kv_heads, head_dim = shape
    columns = [first + tokens for _, _, tokens, first, _ in segments]
    total = max(begin + tokens for _, begin, tokens, _, _ in segments) + 2  # two tokens of no segment
    paged = page(columns, kv_heads=kv_heads, head_dim=head_dim, block_size=block_size, dtype=dtype)
    query = numbers(torch.Generator().manual_seed(1), total, heads, head_dim, dtype=dtype)
    got = prefill(paged, query, segments, tile_tokens=tile_tokens, tuning=tuning)
    assert_close(got, prefilled_by_hand(paged, query, segments))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_prefill_of_every_shape(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    check_prefill([(0, 0, 1, 0, 0), (1, 1, 35, 5, 0)], shape=shape, dtype=dtype)


@pytest.mark.parametrize("block_size", [1, 8, 16, 32, 64])
def test_whole_prompts_of_lengths_around_tiles_and_blocks(block_size: int) -> None:
    lengths = [1, 15, 16, 17, 31, 32, 33, 65]
    begins = [sum(lengths[:i]) for i in range(len(lengths))]
    segments = [(i, b, n, 0, 0) for i, (b, n) in enumerate(zip(begins, lengths, strict=True))]
    check_prefill(segments, block_size=block_size)


@pytest.mark.parametrize("first_position", [1, 15, 16, 17, 47, 64])
def test_chunks_see_their_context(first_position: int) -> None:
    check_prefill([(0, 0, 1, first_position, 0), (1, 1, 18, first_position, 0)])


@pytest.mark.parametrize("first_visible", [1, 15, 16, 17, 33, 40])
def test_left_padding_shows_to_nobody(first_visible: int) -> None:
    """The padded tokens see themselves alone; a chunk may begin before, at or after the first that shows."""
    check_prefill([(0, 0, 41, 0, first_visible), (1, 41, 20, 21, first_visible)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_prefill_as_tuned(dtype: torch.dtype) -> None:
    check_prefill([(0, 0, 130, 0, 0), (1, 130, 3, 70, 0)], shape=(2, 1, 128), dtype=dtype, tile_tokens=128, tuning=None)


def test_segments_in_any_order_and_nothing_beside_them() -> None:
    paged = page([20, 9], kv_heads=1, head_dim=64, block_size=16, dtype=torch.float32)
    query = numbers(torch.Generator().manual_seed(1), 40, 2, 64, dtype=torch.float32)
    segments = [(1, 25, 9, 0, 0), (0, 3, 20, 0, 0)]
    before = torch.full((40, 2, 64), 7.0, device=DEVICE)
    got = prefill(paged, query, segments, output=before)
    expected = prefilled_by_hand(paged, query, segments)
    outside = [*range(3), 23, 24, *range(34, 40)]
    assert_close(got[[*range(3, 23), *range(25, 34)]], expected[[*range(3, 23), *range(25, 34)]])
    assert (got[outside] == 7.0).all()
    assert got is before


def test_prefill_agrees_with_decode() -> None:
    """The last query of a segment is what a decode of that row would ask."""
    paged = page([50], kv_heads=2, head_dim=96, block_size=8, dtype=torch.float32)
    query = numbers(torch.Generator().manual_seed(1), 1, 6, 96, dtype=torch.float32)
    assert_close(prefill(paged, query, [(0, 0, 1, 49, 3)]), decode(paged, query, [50], starts=[3]).cpu().double())
