"""The KV caches: one pair of tensors for all layers, shaped by the layout of `engine.core.kv_layout`.

`KVCache` gives each row or slot its own range of columns; `KVPool` is divided into blocks, found by block tables.
Shapes: L layers, B rows or slots, H KV heads, W columns, D head width, P positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.core.errors import EngineOutOfMemory
from engine.runtime.device_memory import as_out_of_memory

KV_POOL = "KV pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class KVShape:
    """The shape of a model's keys and values."""

    layers: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device

    @property
    def position_bytes(self) -> int:
        """Bytes of one token position: keys and values, every layer, KV heads only (GQA)."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.dtype.itemsize


def kv_buffers(size: tuple[int, ...], shape: KVShape, pool_bytes: int | None, text: str) -> tuple[Tensor, Tensor]:
    """Zeroed keys and values, each of `size`. EngineOutOfMemory names `text` as the shape of both together.

    If the device refuses the allocation, both buffers are freed and `free_bytes` is None: the caller, which knows the
    caps, fills it in.
    """
    asked_bytes = 2 * math.prod(size) * shape.dtype.itemsize
    if pool_bytes is not None and asked_bytes > pool_bytes:
        raise EngineOutOfMemory(asked_bytes=asked_bytes, free_bytes=pool_bytes, shape=text, where=KV_POOL)
    buffers: list[Tensor] = []
    try:
        for _ in ("keys", "values"):
            buffers.append(torch.zeros(size, dtype=shape.dtype, device=shape.device))
    except (RuntimeError, MemoryError) as error:
        buffers.clear()
        if as_out_of_memory(error, shape.device, None, text, KV_POOL) is None:
            raise
        raise EngineOutOfMemory(asked_bytes=asked_bytes, free_bytes=None, shape=text, where=KV_POOL) from error
    return buffers[0], buffers[1]


class KVCache:
    """Keys and values, (L, B, H, W, D), of `rows` rows x `width` columns.

    Zeroed once, never cleared: columns past a row's length get weight 0, and 0 x any old finite number is 0 (0 x NaN
    is not). Raises EngineOutOfMemory if the buffer exceeds `pool_bytes` or the device refuses it.
    """

    def __init__(self, shape: KVShape, rows: int, width: int, pool_bytes: int | None = None) -> None:
        size = (shape.layers, rows, shape.kv_heads, width, shape.head_dim)
        self.keys, self.values = kv_buffers(size, shape, pool_bytes, f"{rows} rows x {width} columns")
        self.rows = rows
        self.width = width

    @property
    def num_bytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` columns of row `source` over row `target`, in every layer."""
        for buffer in (self.keys, self.values):
            buffer[:, target, :, :length] = buffer[:, source, :, :length]


class KVPool:
    """`keys` and `values`, (L, P, H, D), of `num_blocks` blocks of `block_size` positions: P in total.

        position in the pool = block id * block_size + offset in the block

    A request's column c is at offset c % block_size of its block c // block_size, anywhere in the pool (Kwon et al.,
    SOSP 2023). Zeroed once, never cleared: no kernel reads past a row's length. Raises EngineOutOfMemory if the pool
    exceeds `pool_bytes` or the device refuses it, with `text` (default: the blocks) as the pool's shape.
    """

    def __init__(
        self, shape: KVShape, num_blocks: int, block_size: int, pool_bytes: int | None = None, *, text: str = ""
    ) -> None:
        size = (shape.layers, num_blocks * block_size, shape.kv_heads, shape.head_dim)
        text = text or f"{num_blocks} blocks x {block_size} positions"
        self.keys, self.values = kv_buffers(size, shape, pool_bytes, text)
        self.num_blocks = num_blocks
        self.block_size = block_size

    @property
    def num_bytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes
