"""The KV caches: one pair of tensors for all layers, shaped by the layout of `engine.core.kv_layout`.

Shapes: L layers, B rows or slots, H KV heads, W columns, D head width. Keys and values are (L, B, H, W, D).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.core.out_of_memory import EngineOutOfMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class KVShape:
    """What a model needs a cached position to hold."""

    layers: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device

    @property
    def position_bytes(self) -> int:
        """Bytes of one token position: keys and values, every layer, KV heads only (GQA)."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.dtype.itemsize


class KVCache:
    """Keys and values of `rows` rows x `width` columns.

    Zeroed once, never cleared: columns beyond a row's length get weight 0, and 0 x a leftover number is still 0 (which
    0 x NaN would not be). Raises EngineOutOfMemory when the buffer would exceed `pool_bytes`; the device's own
    refusal passes through.
    """

    def __init__(self, shape: KVShape, rows: int, width: int, pool_bytes: int | None = None) -> None:
        asked_bytes = rows * width * shape.position_bytes
        if pool_bytes is not None and asked_bytes > pool_bytes:
            raise EngineOutOfMemory(
                asked_bytes=asked_bytes, free_bytes=pool_bytes, shape=f"{rows} rows x {width} columns", where="KV pool"
            )
        size = (shape.layers, rows, shape.kv_heads, width, shape.head_dim)
        self.keys = torch.zeros(size, dtype=shape.dtype, device=shape.device)
        self.values = torch.zeros(size, dtype=shape.dtype, device=shape.device)
        self.rows = rows
        self.width = width

    @property
    def num_bytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` columns of row `source` over row `target`, in every layer."""
        for buffer in (self.keys, self.values):
            buffer[:, target, :, :length] = buffer[:, source, :, :length]
