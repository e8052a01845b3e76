"""Prefill attention over block tables: whole prompts, chunks with context before them, and left-padded prompts.

FlashAttention-2's loop (Dao, 2023): one program per tile of queries and head, keys in steps of columns, online softmax
in base 2 and fp32. Steps that every query of the tile sees in full need no mask; steps beyond the tile's last query are
not read. Keys and values, including the pass's own, come from the pool by block table, so a chunk's context is not
gathered (PagedAttention; Kwon et al., SOSP 2023).

Sliding windows and soft-capping are not supported. A segment of one query costs a whole tile: use `paged_decode` for
decode rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.runtime.kernels.dot import dot
from engine.runtime.kernels.paged_decode import LOG2_E
from engine.runtime.kernels.tiles import SEGMENT_COLUMNS, SEGMENT_FIELDS, TILE_TOKENS

COLUMNS_OF_SEGMENT = tl.constexpr(SEGMENT_COLUMNS)
SLOT, FIRST_TOKEN, TOKENS, FIRST_COLUMN, FIRST_VISIBLE = map(tl.constexpr, range(SEGMENT_COLUMNS))
assert SEGMENT_FIELDS == ("slot", "first_token", "tokens", "first_column", "first_visible")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillTuning:
    """Queries per program (at most a tile), columns per step of its loop, warps, and pipelined steps."""

    queries: int
    columns: int
    warps: int
    stages: int


PREFILL_16_BIT = PrefillTuning(queries=64, columns=64, warps=4, stages=3)
PREFILL_FP32 = PrefillTuning(queries=32, columns=32, warps=8, stages=1)


@triton.jit
def _attend(
    acc, top, total, queries, query_columns, keys, values, table, begin, end, limit, first_visible, scale_log2,
    MASKED: tl.constexpr, POSITION: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_BITS: tl.constexpr, QUERIES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add columns begin … end to the running sums. MASKED: some queries do not see some of them."""
    d = tl.arange(0, BLOCK_D)
    offsets = tl.arange(0, COLUMNS)
    last = limit - 1
    blocks = tl.load(table + (tl.minimum(begin + offsets, last) >> BLOCK_BITS))
    for step in range(begin, end, COLUMNS):
        columns = step + offsets
        home = (blocks << BLOCK_BITS) + (columns & ((1 << BLOCK_BITS) - 1))
        places = home.to(tl.int64)[:, None] * POSITION + d[None, :]
        blocks = tl.load(table + (tl.minimum(columns + COLUMNS, last) >> BLOCK_BITS))
        inside = (columns < limit)[:, None] & (d < HEAD_DIM)[None, :]
        if MASKED or HEAD_DIM != BLOCK_D:
            key = tl.load(keys + places, mask=inside, other=0.0)
        else:
            key = tl.load(keys + places)
        scores = dot(queries, tl.trans(key), tl.zeros([QUERIES, COLUMNS], dtype=tl.float32))
        if MASKED:
            past = columns[None, :] <= query_columns[:, None]
            shown = columns[None, :] >= tl.minimum(query_columns, first_visible)[:, None]
            scores = tl.where(past & shown, scores * scale_log2, float("-inf"))
            new_top = tl.maximum(top, tl.max(scores, 1))
            base = tl.where(new_top == float("-inf"), 0.0, new_top)  # nothing visible yet
            weights = tl.exp2(scores - base[:, None])
        else:
            new_top = tl.maximum(top, tl.max(scores, 1) * scale_log2)
            base = new_top
            weights = tl.exp2(scores * scale_log2 - base[:, None])
        fade = tl.exp2(top - base)
        total = total * fade + tl.sum(weights, 1)
        if MASKED or HEAD_DIM != BLOCK_D:
            value = tl.load(values + places, mask=inside, other=0.0)
        else:
            value = tl.load(values + places)
        acc = dot(weights.to(value.dtype), value, acc * fade[:, None])
        top = new_top
    return acc, top, total


@triton.jit(do_not_specialize_on_alignment=["segments", "tiles"])
def _prefill_kernel(
    query, key_pool, value_pool, block_tables, segments, tiles, output, query_token, query_head, table_row, scale_log2,
    KV_HEADS: tl.constexpr, GROUPS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_BITS: tl.constexpr, TILE: tl.constexpr, QUERIES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One head, QUERIES of a tile's queries. Late tiles, which see the most columns, start first."""
    head = tl.program_id(0)
    part = tl.num_programs(1) - 1 - tl.program_id(1)
    tile = part // (TILE // QUERIES)
    segment = tl.load(tiles + tile * 2)
    if segment < 0:
        return
    own = segments + segment * COLUMNS_OF_SEGMENT
    first_query = tl.load(tiles + tile * 2 + 1) * TILE + part % (TILE // QUERIES) * QUERIES
    num_queries = tl.load(own + TOKENS)
    if first_query >= num_queries:
        return
    query_index = first_query + tl.arange(0, QUERIES)
    d = tl.arange(0, BLOCK_D)
    token = (tl.load(own + FIRST_TOKEN) + query_index).to(tl.int64)
    ours = (query_index < num_queries)[:, None] & (d < HEAD_DIM)[None, :]
    queries = tl.load(query + token[:, None] * query_token + head * query_head + d[None, :], mask=ours, other=0.0)
    first_column, first_visible = tl.load(own + FIRST_COLUMN), tl.load(own + FIRST_VISIBLE)
    lowest = first_column + first_query
    limit = first_column + tl.minimum(first_query + QUERIES, num_queries)
    begin = tl.minimum(lowest, first_visible)
    full = tl.where(lowest >= first_visible, (lowest + 1 - begin) // COLUMNS * COLUMNS, 0)
    kv_head = head // GROUPS * HEAD_DIM
    keys, values = key_pool + kv_head, value_pool + kv_head
    table = block_tables + tl.load(own + SLOT).to(tl.int64) * table_row
    acc = tl.zeros([QUERIES, BLOCK_D], dtype=tl.float32)
    top = tl.full([QUERIES], float("-inf"), dtype=tl.float32)
    total = tl.zeros([QUERIES], dtype=tl.float32)
    acc, top, total = _attend(
        acc, top, total, queries, first_column + query_index, keys, values, table, begin, begin + full, limit,
        first_visible, scale_log2, False, KV_HEADS * HEAD_DIM, HEAD_DIM, BLOCK_D, BLOCK_BITS, QUERIES, COLUMNS,
    )  # fmt: skip
    acc, top, total = _attend(
        acc, top, total, queries, first_column + query_index, keys, values, table, begin + full, limit, limit,
        first_visible, scale_log2, True, KV_HEADS * HEAD_DIM, HEAD_DIM, BLOCK_D, BLOCK_BITS, QUERIES, COLUMNS,
    )  # fmt: skip
    places = (token * (KV_HEADS * GROUPS) + head)[:, None] * HEAD_DIM + d[None, :]
    tl.store(output + places, (acc / total[:, None]).to(output.dtype.element_ty), mask=ours)


def paged_prefill(
    query: Tensor,
    key_pool: Tensor,
    value_pool: Tensor,
    block_tables: Tensor,
    segments: Tensor,
    tiles: Tensor,
    block_size: int,
    scale: float,
    *,
    tile_tokens: int = TILE_TOKENS,
    output: Tensor | None = None,
    tuning: PrefillTuning | None = None,
) -> Tensor:
    """(T, H, D): causal attention of `query` (T, H, D), segment by segment, over the pools (P, K, D).

    `block_tables` (R, N) int32. `segments` (C, 5) int32: the fields of SEGMENT, where `slot` is a row of block_tables.
    Query i is at column first_column + i and sees the visible columns up to its own; a query before the first visible
    column (left padding) sees only itself. The pass's own keys and values must be in the pool already. `tiles` (N, 2)
    int32 from `make_tiles` with `tile_tokens`, with [-1, 0] for empty tiles. Tokens outside all segments: zeros, or the
    old content of `output` (T, H, D) if given. All inputs are read on the device, so a captured graph uses the tensors'
    content at replay.
    """
    tokens, num_heads, head_dim = query.shape
    kv_heads = key_pool.shape[1]
    _check(query, key_pool, value_pool, block_tables, segments, tiles, block_size)
    assert scale > 0
    chosen = tuning or (PREFILL_FP32 if query.dtype is torch.float32 else PREFILL_16_BIT)
    queries = min(chosen.queries, tile_tokens)
    assert tile_tokens % queries == 0
    if output is None:
        output = torch.zeros(tokens, num_heads, head_dim, dtype=query.dtype, device=query.device)
    assert output.shape == query.shape
    assert output.is_contiguous()
    if tokens == 0 or len(tiles) == 0:
        return output
    _prefill_kernel[(num_heads, len(tiles) * (tile_tokens // queries))](
        query, key_pool, value_pool, block_tables, segments, tiles, output,
        query.stride(0), query.stride(1), block_tables.stride(0), scale * LOG2_E,
        KV_HEADS=kv_heads, GROUPS=num_heads // kv_heads, HEAD_DIM=head_dim, BLOCK_D=triton.next_power_of_2(head_dim),
        BLOCK_BITS=block_size.bit_length() - 1, TILE=tile_tokens, QUERIES=queries, COLUMNS=chosen.columns,
        num_warps=chosen.warps, num_stages=chosen.stages,
    )  # fmt: skip
    return output


def _check(
    query: Tensor,
    key_pool: Tensor,
    value_pool: Tensor,
    tables: Tensor,
    segments: Tensor,
    tiles: Tensor,
    block_size: int,
) -> None:
    assert key_pool.shape == value_pool.shape
    assert key_pool.shape[0] < 2**31, "a position of the pool fits 32 bits"
    assert key_pool.shape[2] == query.shape[2]
    assert query.shape[1] % key_pool.shape[1] == 0
    assert query.dtype == key_pool.dtype == value_pool.dtype
    assert query.stride(2) == 1
    assert key_pool.is_contiguous()
    assert value_pool.is_contiguous()
    assert tables.dtype == segments.dtype == tiles.dtype == torch.int32
    assert tables.stride(1) == 1
    assert segments.shape[1:] == (SEGMENT_COLUMNS,)
    assert segments.is_contiguous()
    assert tiles.shape[1:] == (2,)
    assert tiles.is_contiguous()
    assert block_size > 0
    assert block_size & (block_size - 1) == 0, "a power of two"
