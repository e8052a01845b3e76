"""Attention over paged KV on a GPU: the lab's kernels read through block tables on the device.

A pass uploads its integers and its tables' new blocks in one copy. Decode rows are split by columns until there are
enough programs to keep every multiprocessor busy.

Shapes: T tokens, D decode rows, C chunks, H query heads, K KV heads, E head width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.runtime.kernels.paged_decode import paged_decode
from engine.runtime.kernels.paged_prefill import paged_prefill
from engine.runtime.kernels.store_kv import store_kv
from engine.runtime.kernels.tiles import decode_splits, make_tiles, segment_table
from engine.runtime.kv.kv_cache import KVPool
from engine.runtime.kv.paged_attention import ModelInputs
from engine.runtime.kv.paged_inputs import BlockTables, Ints, PackedInputs
from engine.runtime.upload import upload_together


@dataclass(frozen=True, slots=True, eq=False)
class KernelPass:
    """Decode rows and chunks of one pass, (1, T). All integers are int32 on the device, `slot_mapping` int64."""

    pool: KVPool
    tables: Tensor  # (S, N)
    slot_mapping: Tensor  # (T,) positions in the pool
    decode_slots: Tensor  # (D,)
    starts: Tensor  # (D,) zeros: no row has padding before it
    context_lens: Tensor  # (D,)
    segments: Tensor  # (C, 5): the columns of SEGMENT
    tiles: Tensor  # (N, 2)
    num_splits: int

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        keys, values = self.pool.keys[layer], self.pool.values[layer]
        store_kv(_packed(key), _packed(value), self.slot_mapping, keys, values)
        queries, num_decoding = _packed(query), len(self.context_lens)
        block_size = self.pool.block_size
        output = torch.empty_like(queries)
        if len(self.segments):
            output = paged_prefill(queries, keys, values, self.tables, self.segments, self.tiles, block_size, scale)
        if num_decoding:
            output[:num_decoding] = paged_decode(
                queries[:num_decoding], keys, values, self.tables, self.decode_slots, self.starts, self.context_lens,
                self.context_lens, block_size, scale, self.num_splits,
            )  # fmt: skip
        return output[None]


def _packed(heads: Tensor) -> Tensor:
    """(1, H, T, E) to contiguous (T, H, E), the projection's own order."""
    return heads[0].transpose(0, 1).contiguous()


class KernelAttention:
    """Prepares a run's passes over `pool` on a GPU with `processors` SMs; keeps a copy of `tables` on the device."""

    def __init__(self, pool: KVPool, tables: BlockTables, processors: int) -> None:
        self.pool = pool
        self.device = pool.keys.device
        self.tables = torch.zeros(tables.ids.shape, dtype=torch.int32, device=self.device)
        self._processors = processors

    def prepare(self, inputs: PackedInputs) -> tuple[KernelPass, ModelInputs]:
        """Upload the pass's inputs and update the tables on the device."""
        tiles = make_tiles(inputs.segments["tokens"].tolist())
        segments = segment_table(inputs.segments)
        integers = (inputs.row_slots, inputs.context_lens, segments, tiles, inputs.table_places, inputs.table_blocks)
        wide = (*inputs.of_the_model, inputs.slot_mapping)
        parts = upload_together([*integers, *wide], torch.int32, self.device)
        row_slots, context_lens, device_segments, device_tiles, places, blocks = parts[: len(integers)]
        self.tables.view(-1)[places.long()] = blocks
        *given, slot_mapping = (part.long() for part in parts[len(integers) :])
        kv_pass = KernelPass(
            pool=self.pool,
            tables=self.tables,
            slot_mapping=slot_mapping,
            decode_slots=row_slots[: len(context_lens)],
            starts=torch.zeros_like(context_lens),
            context_lens=context_lens,
            segments=device_segments,
            tiles=device_tiles,
            num_splits=self._num_splits(inputs.context_lens),
        )
        return kv_pass, ModelInputs(*given)

    def _num_splits(self, context_lens: Ints) -> int:
        kv_heads = self.pool.keys.shape[2]
        return decode_splits(len(context_lens), kv_heads, int(context_lens.max(initial=0)), self._processors)
