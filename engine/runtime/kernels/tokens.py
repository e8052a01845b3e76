"""Small kernels at the start and end of a pass: tokens to embeddings, blocks to tables, sampled tokens to slots.

Each is one launch; torch's indexing takes three or four. Shapes: T tokens, R rows, S slots, N blocks per table,
C hidden width, V vocabulary. Slot S of `last_ids` and `tables` is for padding rows.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS_BLOCK = 128


@triton.jit(do_not_specialize_on_alignment=["ids", "slots"])
def _embed_kernel(ids, slots, last_ids, weight, out, width, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    token_id = tl.load(ids + token).to(tl.int64)
    newest = tl.load(last_ids + tl.load(slots + token), mask=token_id < 0, other=0).to(tl.int64)
    token_id = tl.where(token_id < 0, newest, token_id)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < width
        tl.store(out + token * width + column, tl.load(weight + token_id * width + column, mask=inside), mask=inside)


def embed_tokens(ids: Tensor, slots: Tensor, last_ids: Tensor, weight: Tensor) -> Tensor:
    """(T, C) embeddings of `ids` (T,) int32; -1 stands for its slot's newest token in `last_ids` (S + 1,)."""
    out = torch.empty(ids.shape[0], weight.shape[1], dtype=weight.dtype, device=weight.device)
    _embed_kernel[(ids.shape[0],)](ids, slots, last_ids, weight, out, weight.shape[1], BLOCK=1024)
    return out


@triton.jit(do_not_specialize=["rows"], do_not_specialize_on_alignment=["slots", "places", "blocks"])
def _tables_kernel(tables, slots, places, blocks, rows, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(places + row, mask=row < rows, other=-1)
    known = place >= 0
    slot = tl.load(slots + row, mask=known, other=0).to(tl.int64)
    tl.store(tables + slot * stride + place, tl.load(blocks + row, mask=known), mask=known)


def write_tables(tables: Tensor, slots: Tensor, places: Tensor, blocks: Tensor) -> None:
    """tables[slots[i], places[i]] = blocks[i], all (R,) int32; places of -1 are skipped. `tables` is (S + 1, N)."""
    rows = slots.shape[0]
    grid = (triton.cdiv(rows, ROWS_BLOCK),)
    _tables_kernel[grid](tables, slots, places, blocks, rows, tables.stride(0), BLOCK=ROWS_BLOCK)


@triton.jit(do_not_specialize=["rows"], do_not_specialize_on_alignment=["slots"])
def _keep_kernel(sampled, slots, last_ids, kept, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    token_id = tl.load(sampled + row, mask=inside, other=0)
    tl.store(last_ids + tl.load(slots + row, mask=inside, other=0), token_id, mask=inside)
    tl.store(kept + row, token_id, mask=inside)


def keep_tokens(sampled: Tensor, slots: Tensor, last_ids: Tensor, kept: Tensor) -> None:
    """Store `sampled` (R,) as the slots' newest tokens, and copy it to `kept` (at least R) for the host."""
    rows = sampled.shape[0]
    grid = (triton.cdiv(rows, ROWS_BLOCK),)
    _keep_kernel[grid](sampled, slots, last_ids, kept, rows, BLOCK=ROWS_BLOCK)
