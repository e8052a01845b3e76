"""Decode attention over block tables: one new query per row, each row at its own length.

The columns of a row are divided into splits that run in parallel, and a second kernel merges them by their log-sum-exp
(Flash-Decoding; Dao et al., 2023). A row's column c is in the pool at block c // block_size of its table, offset
c % block_size (PagedAttention; Kwon et al., SOSP 2023). The G query heads of a KV head share a program, so each key is
read once (GQA). Softmax runs online in base 2 and in fp32 (FlashAttention; Dao et al., 2022).

Not supported: causality beyond a row's length, sliding windows, soft-capping. Tables are not checked: columns before a
row's `read_ends` must have blocks, and the pool must hold finite numbers (a hidden column has weight 0, and 0 x any
finite number is 0). Splits have equal columns, not equal work: a row's short tail is its own program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.runtime.kernels.dot import dot

LOG2_E = math.log2(math.e)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeTuning:
    """Columns per step of the loop, warps per program, and pipelined steps."""

    columns: int
    warps: int
    stages: int


DECODE_16_BIT = DecodeTuning(columns=64, warps=4, stages=3)
DECODE_16_BIT_CROWDED = DecodeTuning(columns=32, warps=2, stages=3)  # unsplit rows, three or more programs per SM
CROWDED_PROGRAMS = 384
DECODE_FP32 = DecodeTuning(columns=32, warps=4, stages=2)


@triton.jit
def _attend(
    queries, keys, values, table, first, end, start, length, scale_log2,
    POSITION: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, QUERIES: tl.constexpr,
    BLOCK_BITS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The unnormalized sum, the largest score and the weight of columns first … end; start … length are visible.

    Table entries are read one step ahead: a load that depends on another is pipelined less deeply. Weights are summed
    across threads once, after the loop.
    """
    d = tl.arange(0, BLOCK_D)
    offsets = tl.arange(0, COLUMNS)
    last = end - 1
    acc = tl.zeros([QUERIES, BLOCK_D], dtype=tl.float32)
    top = tl.full([QUERIES], float("-inf"), dtype=tl.float32)
    sums = tl.zeros([QUERIES, COLUMNS], dtype=tl.float32)
    blocks = tl.load(table + (tl.minimum(first + offsets, last) >> BLOCK_BITS))
    for begin in range(first, end, COLUMNS):
        columns = begin + offsets
        home = (blocks << BLOCK_BITS) + (columns & ((1 << BLOCK_BITS) - 1))
        places = home.to(tl.int64)[:, None] * POSITION + d[None, :]
        blocks = tl.load(table + (tl.minimum(columns + COLUMNS, last) >> BLOCK_BITS))
        inside = (columns < end)[:, None] & (d < HEAD_DIM)[None, :]
        key = tl.load(keys + places, mask=inside, other=0.0)
        scores = dot(queries, tl.trans(key), tl.zeros([QUERIES, COLUMNS], dtype=tl.float32)) * scale_log2
        scores = tl.where(((columns >= start) & (columns < length))[None, :], scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        base = tl.where(new_top == float("-inf"), 0.0, new_top)  # nothing visible yet: avoids -inf - -inf
        weights = tl.exp2(scores - base[:, None])
        fade = tl.exp2(top - base)
        sums = sums * fade[:, None] + weights
        value = tl.load(values + places, mask=inside, other=0.0)
        acc = dot(weights.to(value.dtype), value, acc * fade[:, None])
        top = new_top
    return acc, top, tl.sum(sums, 1)


@triton.jit(do_not_specialize_on_alignment=["rows", "starts", "context_lens", "read_ends"])
def _decode_kernel(
    query, key_pool, value_pool, block_tables, rows, starts, context_lens, read_ends, output, log_sums,
    query_row, query_head, table_row, scale_log2,
    KV_HEADS: tl.constexpr, GROUPS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    QUERIES: tl.constexpr, BLOCK_BITS: tl.constexpr, COLUMNS: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """One row, one KV head, one split. SPLIT: partial sums (B, H, S, D) and log-sums (B, H, S); else the output."""
    kv_head, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    split, splits = tl.program_id(2), tl.num_programs(2)
    length = tl.load(context_lens + row)
    read_end = tl.where(length > 0, tl.load(read_ends + row), 0)
    share = tl.cdiv(tl.cdiv(read_end, splits), COLUMNS) * COLUMNS
    first = split * share
    end = tl.minimum(first + share, read_end)
    group = tl.arange(0, QUERIES)
    d = tl.arange(0, BLOCK_D)
    head = kv_head * GROUPS + group
    ours = (group < GROUPS)[:, None] & (d < HEAD_DIM)[None, :]
    answer_row = row * (KV_HEADS * GROUPS) + head
    if first >= end:
        if SPLIT:
            tl.store(log_sums + answer_row * splits + split, float("-inf"), mask=group < GROUPS)
        else:
            nothing = tl.zeros([QUERIES, BLOCK_D], dtype=output.dtype.element_ty)
            tl.store(output + answer_row[:, None] * HEAD_DIM + d[None, :], nothing, mask=ours)
        return
    queries = tl.load(query + row * query_row + head[:, None] * query_head + d[None, :], mask=ours, other=0.0)
    acc, top, total = _attend(
        queries, key_pool + kv_head * HEAD_DIM, value_pool + kv_head * HEAD_DIM,
        block_tables + tl.load(rows + row).to(tl.int64) * table_row, first, end, tl.load(starts + row), length,
        scale_log2, KV_HEADS * HEAD_DIM, HEAD_DIM, BLOCK_D, QUERIES, BLOCK_BITS, COLUMNS,
    )  # fmt: skip
    seen = total > 0
    total = tl.where(seen, total, 1.0)
    acc = acc / total[:, None]
    if SPLIT:
        answer_row = answer_row * splits + split
        tl.store(log_sums + answer_row, tl.where(seen, top + tl.log2(total), float("-inf")), mask=group < GROUPS)
        ours = ours & seen[:, None]
    places = answer_row[:, None] * HEAD_DIM + d[None, :]
    tl.store(output + places, acc.to(output.dtype.element_ty), mask=ours)


@triton.jit(do_not_specialize=["splits"])
def _merge_kernel(
    partials, log_sums, output, splits,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """One row, one head: the splits' outputs, weighted by their share of the total. Empty splits weigh nothing."""
    answer_row = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, SPLITS)
    d = tl.arange(0, BLOCK_D)
    place = answer_row * splits + split
    log_sum = tl.load(log_sums + place, mask=split < splits, other=float("-inf"))
    top = tl.max(log_sum, 0)
    weights = tl.exp2(log_sum - tl.where(top == float("-inf"), 0.0, top))
    total = tl.sum(weights, 0)
    read = (log_sum > float("-inf"))[:, None] & (d < HEAD_DIM)[None, :]
    partial = tl.load(partials + place[:, None] * HEAD_DIM + d[None, :], mask=read, other=0.0)
    answer = tl.sum(partial * weights[:, None], 0) / tl.where(total > 0, total, 1.0)
    tl.store(output + answer_row * HEAD_DIM + d, answer.to(output.dtype.element_ty), mask=d < HEAD_DIM)


def paged_decode(
    query: Tensor,
    key_pool: Tensor,
    value_pool: Tensor,
    block_tables: Tensor,
    rows: Tensor,
    starts: Tensor,
    context_lens: Tensor,
    read_ends: Tensor,
    block_size: int,
    scale: float,
    num_splits: int,
    *,
    output: Tensor | None = None,
    tuning: DecodeTuning | None = None,
) -> Tensor:
    """(B, H, D): attention of `query` (B, H, D) over columns starts … context_lens - 1 of each row.

    The pools are (P, K, D); `block_tables` (R, N) int32; the rest (B,) int32: `rows` of block_tables, `starts` the
    first visible column, `context_lens` one past the last visible column (0: a padding row, which reads nothing and
    returns zeros), `read_ends` one past the last column to read, visible or not, at least `context_lens`. Reads start
    at column 0. All inputs are read on the device, so a captured graph uses the tensors' content at replay. The result
    is written to `output` (B, H, D) if given.
    """
    num_rows, num_heads, head_dim = query.shape
    kv_heads = key_pool.shape[1]
    _check(query, key_pool, value_pool, block_tables, (rows, starts, context_lens, read_ends), block_size)
    assert num_splits > 0
    assert scale > 0
    chosen = tuning or _tuning(query.dtype, num_rows * kv_heads, num_splits)
    if output is None:
        output = torch.empty(num_rows, num_heads, head_dim, dtype=query.dtype, device=query.device)
    assert output.shape == query.shape
    assert output.is_contiguous()
    if num_rows == 0:
        return output
    split = num_splits > 1
    log_sums = torch.empty(num_rows, num_heads, num_splits, dtype=torch.float32, device=query.device) if split else None
    partials = output.new_empty(num_rows, num_heads, num_splits, head_dim, dtype=torch.float32) if split else output
    groups = num_heads // kv_heads
    _decode_kernel[(kv_heads, num_rows, num_splits)](
        query, key_pool, value_pool, block_tables, rows, starts, context_lens, read_ends, partials, log_sums,
        query.stride(0), query.stride(1), block_tables.stride(0), scale * LOG2_E,
        KV_HEADS=kv_heads, GROUPS=groups, HEAD_DIM=head_dim, BLOCK_D=triton.next_power_of_2(head_dim),
        QUERIES=max(16, triton.next_power_of_2(groups)), BLOCK_BITS=block_size.bit_length() - 1,
        COLUMNS=chosen.columns, SPLIT=split, num_warps=chosen.warps, num_stages=chosen.stages,
    )  # fmt: skip
    if log_sums is not None:
        _merge(partials, log_sums, output)
    return output


def _merge(partials: Tensor, log_sums: Tensor, output: Tensor) -> None:
    """Merge S splits into `output` (B, H, D): `partials` (B, H, S, D) and `log_sums` (B, H, S), both fp32."""
    num_rows, num_heads, num_splits = log_sums.shape
    head_dim = output.shape[2]
    _merge_kernel[(num_rows * num_heads,)](
        partials, log_sums, output, num_splits, HEAD_DIM=head_dim, BLOCK_D=triton.next_power_of_2(head_dim),
        SPLITS=triton.next_power_of_2(num_splits), num_warps=1,
    )  # fmt: skip


def _tuning(dtype: torch.dtype, programs: int, num_splits: int) -> DecodeTuning:
    if dtype is torch.float32:
        return DECODE_FP32
    return DECODE_16_BIT_CROWDED if num_splits == 1 and programs >= CROWDED_PROGRAMS else DECODE_16_BIT


def _check(
    query: Tensor, key_pool: Tensor, value_pool: Tensor, tables: Tensor, per_row: tuple[Tensor, ...], block_size: int
) -> None:
    num_rows, num_heads, head_dim = query.shape
    assert key_pool.shape == value_pool.shape
    assert key_pool.shape[0] < 2**31, "a position of the pool fits 32 bits"
    assert key_pool.shape[2] == head_dim
    assert num_heads % key_pool.shape[1] == 0
    assert query.dtype == key_pool.dtype == value_pool.dtype
    assert query.stride(2) == 1
    assert key_pool.is_contiguous()
    assert value_pool.is_contiguous()
    assert tables.dtype == torch.int32
    assert tables.stride(1) == 1
    assert block_size > 0
    assert block_size & (block_size - 1) == 0, "a power of two"
    assert all(values.shape == (num_rows,) and values.dtype == torch.int32 for values in per_row)
