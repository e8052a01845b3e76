"""Attention over the lab's KV caches, called by any transformers model through the AttentionInterface.

The model runs with `use_cache=False`. Each layer passes its query, key and value to the current pass (the `kv_pass`
keyword of forward), which stores keys and values and attends. One class per kind of pass:

    PackedPrefill   prompts' real tokens end to end, each causal in itself              slots
    SlotDecode      one token per row, each row its own length, masked to the widest    slots
    PaddedPrefill   rows left-padded to the longest prompt                               padded
    PaddedDecode    one token per row, all rows at one column                            padded
    GatherPass      decode rows and chunks over block tables, on a CPU                   paged (paged_attention)
    KernelPass      the same by kernels that read through the tables, on a GPU           paged (kernel_attention)

Shapes: B rows, T tokens, H query heads, K KV heads, G = H / K query heads of one KV head, W columns, D head width.
Soft-capping and latent attention are not supported, sliding windows only where they do not bind; `attention_fit`
rejects models and runs that need more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.runtime.kv.kv_cache import KVCache

ATTENTION_NAME = "batching_lab"
UNKNOWN = ("softcap", "s_aux")  # options of a layer that the lab does not support


class KVPass(Protocol):
    """A layer's attention in one pass. Returns (B, T, H, D)."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor: ...


def lab_attention(
    module: torch.nn.Module,
    query: Tensor,  # (B, H, T, D)
    key: Tensor,  # (B, K, T, D)
    value: Tensor,  # (B, K, T, D)
    attention_mask: Tensor | None,
    scaling: float | None = None,
    *,
    kv_pass: KVPass,
    **more: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls in every layer. Returns ((B, T, H, D), no weights)."""
    if any(more.get(name) is not None for name in UNKNOWN):
        raise ValueError(f"a layer needs unsupported attention: {', '.join(sorted(more))}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer = module.layer_idx
    assert isinstance(layer, int)
    return kv_pass.attend(layer, query, key, value, scale), None


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """One prompt in a packed prefill: tokens [start, end) of the pass, stored in `slot`."""

    start: int
    end: int
    slot: int


@dataclass(frozen=True, slots=True, eq=False)
class PackedPrefill:
    """Prompts end to end in one row, (1, T), without padding. No prompt attends to another."""

    cache: KVCache
    segments: Sequence[Segment]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        keys, values = self.cache.keys[layer], self.cache.values[layer]
        outputs = []
        for segment in self.segments:
            here = slice(segment.start, segment.end)
            length = segment.end - segment.start
            keys[segment.slot, :, :length] = key[0, :, here]
            values[segment.slot, :, :length] = value[0, :, here]
            outputs.append(causal_attention(query[:, :, here], key[:, :, here], value[:, :, here], None, scale))
        return torch.cat(outputs, dim=2).transpose(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class SlotDecode:
    """One new token for each of the first B slots, written at the row's own length. `mask` is (B, 1, 1, W) or None."""

    cache: KVCache
    lengths: Tensor  # (B,) cached tokens before this pass
    rows: Tensor  # (B,) 0 .. B-1
    width: int
    mask: Tensor | None

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        keys, values = self.cache.keys[layer], self.cache.values[layer]
        keys[self.rows, :, self.lengths] = key[:, :, 0]
        values[self.rows, :, self.lengths] = value[:, :, 0]
        num_rows = query.shape[0]
        return grouped_attention(
            query, keys[:num_rows, :, : self.width], values[:num_rows, :, : self.width], self.mask, scale
        )


@dataclass(frozen=True, slots=True, eq=False)
class PaddedPrefill:
    """A whole batch, left-padded: (B, W). `mask` is (B, 1, W, W) or None for equal prompts."""

    cache: KVCache
    mask: Tensor | None

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        width = key.shape[2]
        self.cache.keys[layer][:, :, :width] = key
        self.cache.values[layer][:, :, :width] = value
        return causal_attention(query, key, value, self.mask, scale).transpose(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class PaddedDecode:
    """One new token for every row of the batch, dead ones too, all at `column`. `mask` is (B, 1, 1, W) or None."""

    cache: KVCache
    column: int
    mask: Tensor | None

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        keys, values = self.cache.keys[layer], self.cache.values[layer]
        keys[:, :, self.column] = key[:, :, 0]
        values[:, :, self.column] = value[:, :, 0]
        width = self.column + 1
        return grouped_attention(query, keys[:, :, :width], values[:, :, :width], self.mask, scale)


def causal_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Prefill attention, (B, H, T, D). A mask must include causality.

    On CUDA, grouped queries with a mask or in fp32 would run in a kernel that stores every score; repeating the KV
    heads keeps the memory-efficient kernel.
    """
    groups = query.shape[1] // key.shape[1]
    if groups > 1 and query.is_cuda and (mask is not None or query.dtype is torch.float32):
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    return F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=mask is None,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )


def grouped_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Decode attention, (B, H, 1, D) to (B, 1, H, D).

    The G query heads of a KV head take the place of query positions: grouped-query attention without repeating keys.
    """
    num_rows, num_heads, _, head_dim = query.shape
    grouped = query.reshape(num_rows, key.shape[1], num_heads // key.shape[1], head_dim)
    output = F.scaled_dot_product_attention(grouped, key, value, attn_mask=mask, scale=scale)
    return output.reshape(num_rows, 1, num_heads, head_dim)
