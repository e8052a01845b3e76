"""Paged KV for tests of attention: rows of known keys and values scattered over a pool, and the answers by hand.

The reference takes every query by itself: fp64 softmax over the columns that it may see, no table, no tile, no split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tests.support.triton_here import DEVICE

TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PagedRows:
    """Rows of keys and values, row by row, and the same in a pool. `order` is where row r's table stands."""

    keys: list[Tensor]  # of each row (columns, K, D), on the CPU
    values: list[Tensor]
    key_pool: Tensor  # (P, K, D)
    value_pool: Tensor
    tables: Tensor  # (R, N) int32
    order: list[int]
    block_size: int


def numbers(generator: torch.Generator, *shape: int, dtype: torch.dtype) -> Tensor:
    """Normal numbers, rounded to `dtype`, on the CPU."""
    return torch.randn(*shape, generator=generator).to(dtype)


def page(
    columns: Sequence[int], *, kv_heads: int, head_dim: int, block_size: int, dtype: torch.dtype, seed: int = 0
) -> PagedRows:
    """Rows of so many columns over a pool twice as large as they need, its other positions large numbers.

    Blocks are dealt at random, tables stand in reverse order, and places behind a row's last block are out of the pool,
    so that reading them shows.
    """
    generator = torch.Generator().manual_seed(seed)
    keys = [numbers(generator, n, kv_heads, head_dim, dtype=dtype) for n in columns]
    values = [numbers(generator, n, kv_heads, head_dim, dtype=dtype) for n in columns]
    blocks = [-(-n // block_size) for n in columns]
    num_blocks = 2 * sum(blocks) + 1
    dealt = np.random.default_rng(seed).permutation(num_blocks)
    key_pool = torch.full((num_blocks * block_size, kv_heads, head_dim), 100.0, dtype=dtype)
    value_pool = key_pool.clone()
    tables = torch.full((len(columns), max(blocks, default=0) + 1), 2**30, dtype=torch.int32)
    order = list(range(len(columns)))[::-1]
    taken = 0
    for row, count in enumerate(blocks):
        own = torch.from_numpy(dealt[taken : taken + count].copy())
        taken += count
        tables[order[row], :count] = own.to(torch.int32)
        places = (own[:, None] * block_size + torch.arange(block_size)).reshape(-1)[: columns[row]]
        key_pool[places], value_pool[places] = keys[row], values[row]
    return PagedRows(
        keys=keys,
        values=values,
        key_pool=key_pool.to(DEVICE),
        value_pool=value_pool.to(DEVICE),
        tables=tables.to(DEVICE),
        order=order,
        block_size=block_size,
    )


def attend(query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """One query (H, D) over all of `keys` and `values` (columns, K, D): (H, D) in fp64."""
    groups = query.shape[0] // keys.shape[1]
    wide_keys, wide_values = (t.double().repeat_interleave(groups, dim=1) for t in (keys, values))
    weights = torch.softmax(torch.einsum("hd,chd->hc", query.double(), wide_keys) * scale, dim=1)
    return torch.einsum("hc,chd->hd", weights, wide_values)


def ints(values: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def assert_close(got: Tensor, expected: Tensor) -> None:
    """Within what `got`'s dtype rounds, of an answer in fp64."""
    bound = TOLERANCE[got.dtype]
    torch.testing.assert_close(got.cpu().double(), expected, rtol=bound, atol=bound)
