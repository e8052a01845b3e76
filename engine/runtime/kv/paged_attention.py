"""Attention over paged KV on a CPU: gather by block table, then attend, each row over its own length.

A CPU has no kernel that reads through a block table, so every layer first copies the blocks of all its rows into one
buffer: the cost of paging on a CPU. Rows of equal length then attend in one call. (Measured at 32 rows of 50 to 300
tokens: gathering padded rows for one masked call takes twice as long, one product per block four times.)

Shapes: T tokens, D decode rows, H query heads, K KV heads, G = H / K, W columns, E head width, N gathered columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.runtime.kv.attention import causal_attention, grouped_attention
from engine.runtime.kv.kv_cache import KVPool
from engine.runtime.kv.paged_inputs import BlockTables, Ints, PackedInputs


@dataclass(frozen=True, slots=True, eq=False)
class ModelInputs:
    """The model's inputs, int64 on its device: see `PackedInputs`."""

    token_ids: Tensor  # (T,)
    positions: Tensor  # (T,)
    row_slots: Tensor  # (B,)
    logits_indices: Tensor  # (B,)


class GatherBuffer:
    """The buffer for gathered keys and values, reused in every layer: new memory costs one page fault per page."""

    def __init__(self, pool: KVPool) -> None:
        self.pool = pool
        self._keys = pool.keys.new_empty(0, *pool.keys.shape[2:])
        self._values = torch.empty_like(self._keys)

    def gather(self, layer: int, index: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values, (N, K, E), of the pool positions `index` (N,). Valid until the next call."""
        count = len(index)
        if count > len(self._keys):
            self._keys = self.pool.keys.new_empty(count + count // 4, *self.pool.keys.shape[2:])
            self._values = torch.empty_like(self._keys)
        keys, values = self._keys[:count], self._values[:count]
        torch.index_select(self.pool.keys[layer], 0, index, out=keys)
        torch.index_select(self.pool.values[layer], 0, index, out=values)
        return keys, values


@dataclass(frozen=True, slots=True, eq=False)
class RowGroup:
    """`rows` decode rows of the same length, gathered at [start, start + rows * length)."""

    rows: int
    length: int
    start: int


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSpan:
    """A chunk: tokens [begin, end) of the pass, and gathered columns [start, start + width) if it has a context.

    `mask` is (tokens, W), or None if no column is hidden or plain causality is enough.
    """

    begin: int
    end: int
    start: int
    width: int
    mask: Tensor | None

    @property
    def has_context(self) -> bool:
        return self.width > self.end - self.begin


@dataclass(frozen=True, slots=True, eq=False)
class GatherPass:
    """Decode rows and chunks of one pass, (1, T). `order` (D,) sorts decode rows by length; `back` is its inverse."""

    buffer: GatherBuffer
    slot_mapping: Tensor  # (T,) positions in the pool
    index: Tensor  # (N,) pool positions to gather
    order: Tensor
    back: Tensor
    groups: list[RowGroup]
    chunks: list[ChunkSpan]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        pool = self.buffer.pool
        pool.keys[layer].index_copy_(0, self.slot_mapping, key[0].transpose(0, 1))
        pool.values[layer].index_copy_(0, self.slot_mapping, value[0].transpose(0, 1))
        gathered = self.buffer.gather(layer, self.index)
        outputs = [self._decode(query, *gathered, scale)] if self.groups else []
        for span in self.chunks:
            here = slice(span.begin, span.end)
            keys, values = key[:, :, here], value[:, :, here]
            if span.has_context:
                columns = slice(span.start, span.start + span.width)
                keys, values = (g[columns].transpose(0, 1)[None] for g in gathered)
            outputs.append(_chunk(query[:, :, here], keys, values, span.mask, scale))
        return torch.cat(outputs, dim=1)

    def _decode(self, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        """The first D of the (1, H, T, E) queries against the gathered (N, K, E). Returns (1, D, H, E)."""
        num_rows = len(self.order)
        queries = query[0, :, :num_rows].transpose(0, 1).index_select(0, self.order)[:, :, None]
        outputs, row = [], 0
        for group in self.groups:
            shape = (group.rows, group.length, *keys.shape[1:])
            columns = slice(group.start, group.start + group.rows * group.length)
            grouped_keys, grouped_values = (g[columns].view(shape).transpose(1, 2) for g in (keys, values))
            here = queries[row : row + group.rows]
            outputs.append(grouped_attention(here, grouped_keys, grouped_values, None, scale))
            row += group.rows
        return torch.cat(outputs).index_select(0, self.back).transpose(0, 1)


def _chunk(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """(1, H, tokens, E) over (1, K, W, E). Returns (1, tokens, H, E)."""
    if query.shape[2] == 1:
        return grouped_attention(query, keys, values, None, scale)
    return causal_attention(query, keys, values, mask, scale).transpose(1, 2)


class GatherAttention:
    """Prepares the passes of a run over `pool` and `tables`."""

    def __init__(self, pool: KVPool, tables: BlockTables) -> None:
        self.tables = tables
        self.buffer = GatherBuffer(pool)

    def prepare(self, inputs: PackedInputs) -> tuple[GatherPass, ModelInputs]:
        """The pass, with its gather index computed once for all layers, and the model's inputs."""
        order = np.argsort(inputs.context_lens, kind="stable")
        groups, start = _groups(inputs.context_lens[order])
        chunks = _spans(self.buffer, inputs.segments, start)
        with_context = inputs.segments[np.array([span.has_context for span in chunks], dtype=bool)]
        slots = np.concatenate([inputs.row_slots[order], with_context["slot"]])
        widths = np.concatenate([inputs.context_lens[order], with_context["first_column"] + with_context["tokens"]])
        kv_pass = GatherPass(
            buffer=self.buffer,
            slot_mapping=torch.from_numpy(inputs.slot_mapping).long(),
            index=torch.from_numpy(_all_columns(slots, widths, self.tables)),
            order=torch.from_numpy(order),
            back=torch.from_numpy(np.argsort(order)),
            groups=groups,
            chunks=chunks,
        )
        return kv_pass, ModelInputs(*(torch.from_numpy(a).long() for a in inputs.of_the_model))


def _groups(lengths: Ints) -> tuple[list[RowGroup], int]:
    """Groups of equal lengths, and how many columns they gather."""
    groups, start = [], 0
    for length, rows in zip(*(a.tolist() for a in np.unique(lengths, return_counts=True)), strict=True):
        groups.append(RowGroup(rows, length, start))
        start += rows * length
    return groups, start


def _spans(buffer: GatherBuffer, segments: NDArray[np.void], start: int) -> list[ChunkSpan]:
    """The chunks. Those with a context are gathered one after the other, starting at `start`."""
    spans = []
    for begin, tokens, first_column in segments[["first_token", "tokens", "first_column"]].tolist():
        width = first_column + tokens
        spans.append(ChunkSpan(begin, begin + tokens, start, width, _mask(buffer, tokens, width)))
        start += width if first_column else 0
    return spans


def _all_columns(slots: Ints, lengths: Ints, tables: BlockTables) -> Ints:
    """Pool positions of columns 0 .. length-1 of each slot, one slot after the other."""
    ends = np.cumsum(lengths)
    columns = np.arange(lengths.sum(), dtype=np.int32) - np.repeat(ends - lengths, lengths).astype(np.int32)
    return tables.slot_mapping(np.repeat(slots, lengths), columns)


def _mask(buffer: GatherBuffer, tokens: int, width: int) -> Tensor | None:
    """(tokens, W): token i sees the columns up to its own, W - tokens + i."""
    if tokens in (1, width):
        return None
    mask = buffer.pool.keys.new_full((tokens, width), -torch.inf)
    return mask.triu_(diagonal=width - tokens + 1)
