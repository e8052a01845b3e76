"""Stores a pass's keys and values in the KV pool, each token at its own position.

A slot here is a position of the pool, not of a block table. -1 stores nothing: used for padding tokens of a captured
graph.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit(do_not_specialize_on_alignment=["slot_mapping"])
def _store_kernel(
    key, value, slot_mapping, key_pool, value_pool, key_token, key_head, value_token, value_head,
    KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping + token).to(tl.int64)
    place = tl.arange(0, BLOCK)
    head, d = place // HEAD_DIM, place % HEAD_DIM
    kept = (place < KV_HEADS * HEAD_DIM) & (slot >= 0)
    home = slot * (KV_HEADS * HEAD_DIM) + place
    tl.store(key_pool + home, tl.load(key + token * key_token + head * key_head + d, mask=kept), mask=kept)
    tl.store(value_pool + home, tl.load(value + token * value_token + head * value_head + d, mask=kept), mask=kept)


def store_kv(key: Tensor, value: Tensor, slot_mapping: Tensor, key_pool: Tensor, value_pool: Tensor) -> None:
    """Write `key` and `value` (T, K, D) to the positions `slot_mapping` (T,) int64 of the pools (P, K, D); -1: nowhere.

    Keys and values may be views with any stride between tokens and between heads.
    """
    tokens, kv_heads, head_dim = key.shape
    assert value.shape == key.shape
    assert slot_mapping.shape == (tokens,)
    assert slot_mapping.dtype == torch.int64
    assert key_pool.shape[1:] == value_pool.shape[1:] == (kv_heads, head_dim)
    assert key_pool.is_contiguous()
    assert value_pool.is_contiguous()
    assert key.stride(2) == value.stride(2) == 1
    assert key.dtype == value.dtype == key_pool.dtype == value_pool.dtype
    if tokens == 0:
        return
    _store_kernel[(tokens,)](
        key, value, slot_mapping, key_pool, value_pool, key.stride(0), key.stride(1), value.stride(0), value.stride(1),
        KV_HEADS=kv_heads, HEAD_DIM=head_dim, BLOCK=triton.next_power_of_2(kv_heads * head_dim), num_warps=2,
    )  # fmt: skip
