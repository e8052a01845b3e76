"""The pool of paged KV: one pair of tensors for all layers, cut into blocks that block tables point into.

    position in the pool = block id * block_size + offset in the block

A request's column c lives at offset c % block_size of its block c // block_size, wherever that block lies (Kwon et al.,
SOSP 2023). Shapes: L layers, P positions, K KV heads, D head width.
"""

from __future__ import annotations

from engine.runtime.kv_cache import KVShape, kv_buffers


class KVPool:
    """`keys` and `values`, (L, P, K, D), of `num_blocks` blocks of `block_size` positions.

    Zeroed once, never cleared: nobody reads past a row's length. Raises EngineOutOfMemory when the pool would exceed
    `pool_bytes`, or the device refuses it. `words` name the pool's shape there where blocks are not what a person set.
    """

    def __init__(
        self, shape: KVShape, num_blocks: int, block_size: int, pool_bytes: int | None = None, *, words: str = ""
    ) -> None:
        size = (shape.layers, num_blocks * block_size, shape.kv_heads, shape.head_dim)
        words = words or f"{num_blocks} blocks x {block_size} positions"
        self.keys, self.values = kv_buffers(size, shape, pool_bytes, words)
        self.num_blocks = num_blocks
        self.block_size = block_size

    @property
    def num_bytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes
