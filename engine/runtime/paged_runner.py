"""Runs passes over paged KV: decode rows and chunks packed end to end in one forward pass, without padding.

Each slot's last token stays on the device, so a decode row does not wait for the host. Other inputs go up in one copy.
Shapes: T tokens, D decode rows, B rows that yield a token.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from engine.core.passes import PlannedPass
from engine.runtime.environment import num_multiprocessors
from engine.runtime.kv.attention import KVPass
from engine.runtime.kv.kv_cache import KVPool, KVShape
from engine.runtime.kv.paged_attention import GatherAttention, ModelInputs
from engine.runtime.kv.paged_inputs import BlockTables, PackedInputs, pack
from engine.runtime.model_runner import ModelRunner
from engine.runtime.sampler import Sampler


class PagedAttention(Protocol):
    """How a device reads through block tables: by gathering (CPU) or by kernels (CUDA)."""

    def prepare(self, inputs: PackedInputs) -> tuple[KVPass, ModelInputs]: ...


class PagedRunner(ModelRunner):
    """Prefill, decode and mixed passes over one `pool`. A request keeps its slot while it runs.

    `max_row_tokens` is the longest row, prompt and output. Raises EngineOutOfMemory as `KVPool` does.
    """

    name = "paged"

    def __init__(
        self,
        model: Any,
        kv_shape: KVShape,
        sampler: Sampler,
        slots: int,
        max_row_tokens: int,
        *,
        num_blocks: int,
        block_size: int,
    ) -> None:
        super().__init__(model, kv_shape, sampler)
        self.num_blocks = num_blocks
        self.pool = KVPool(kv_shape, num_blocks, block_size)
        self.tables = BlockTables(slots, -(-max_row_tokens // block_size), block_size)
        self.last_ids = torch.zeros(slots, dtype=torch.long, device=self.device)
        self._attention = _attention(self.pool, self.tables)

    @property
    def kv_bytes(self) -> int:
        return self.pool.num_bytes

    @torch.inference_mode()
    def run(self, planned: PlannedPass) -> Tensor:
        inputs = pack(planned, self.tables)
        kv_pass, given = self._attention.prepare(inputs)
        decoding = inputs.num_decode_rows
        given.token_ids[:decoding] = self.last_ids[given.row_slots[:decoding]]
        logits = self._logits(given.token_ids[None], given.positions[None], kv_pass, given.logits_indices)
        sampled = self.sampler.sample(logits[0], planned.rows)
        self.last_ids[given.row_slots] = sampled
        return sampled

    def release_all(self) -> None:
        """The pool lives for the whole run."""

    def _prefill(self, planned: PlannedPass) -> Tensor:
        return self.run(planned)

    def _decode(self, planned: PlannedPass) -> Tensor:
        return self.run(planned)


def _attention(pool: KVPool, tables: BlockTables) -> PagedAttention:
    if pool.keys.device.type != "cuda":
        return GatherAttention(pool, tables)
    from engine.runtime.kv.kernel_attention import KernelAttention  # its kernels need Triton, which CPU builds lack

    return KernelAttention(pool, tables, num_multiprocessors(pool.keys.device))
