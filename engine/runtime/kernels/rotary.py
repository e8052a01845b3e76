"""Rotary positions and the KV write in one kernel: packed QKV in, rotated queries out, keys and values in the pool.

The half-split rotation of transformers' Llama (Su et al., 2021): element d rotates with element d + D/2. It is computed
in fp32 from fp32 cosines; transformers rounds both to the model's dtype first. Optionally each query and key head is
normalized before its rotation, as in Qwen3. Interleaved and partial rotation are not supported.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

HEADS_A_PROGRAM = 16
WARPS = 4


@triton.jit
def _weighted(part, q_norm, k_norm, is_query, d, inside):
    """`part` (heads, d) rounded to the weights' dtype, times the weight for query or key heads, rounded again."""
    for_query = tl.load(q_norm + d, mask=inside, other=0.0)
    for_key = tl.load(k_norm + d, mask=inside, other=0.0)
    weight = tl.where(is_query[:, None], for_query[None, :].to(tl.float32), for_key[None, :].to(tl.float32))
    return (part.to(for_query.dtype).to(tl.float32) * weight).to(for_query.dtype).to(tl.float32)


@triton.jit(do_not_specialize_on_alignment=["positions", "slot_mapping"])
def _rotate_kernel(
    qkv, cos, sin, positions, slot_mapping, query, key_pool, value_pool, q_norm, k_norm, eps,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
    HEADS_BLOCK: tl.constexpr, HALF_BLOCK: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    """One token, HEADS_BLOCK of its heads: H of queries, K of keys, K of values."""
    half: tl.constexpr = HEAD_DIM // 2
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS_BLOCK + tl.arange(0, HEADS_BLOCK)
    d = tl.arange(0, HALF_BLOCK)
    inside = (head < HEADS + 2 * KV_HEADS)[:, None] & (d < half)[None, :]
    source = (token * (HEADS + 2 * KV_HEADS) + head)[:, None] * HEAD_DIM + d[None, :]
    low = tl.load(qkv + source, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(qkv + source + half, mask=inside, other=0.0).to(tl.float32)
    slot = tl.load(slot_mapping + token).to(tl.int64)
    turn = tl.load(positions + token).to(tl.int64) * half + d
    c = tl.load(cos + turn, mask=d < half, other=0.0)[None, :]
    s = tl.load(sin + turn, mask=d < half, other=0.0)[None, :]
    is_query = head < HEADS
    is_value = head >= HEADS + KV_HEADS
    turned_low, turned_high = low, high
    if NORM:
        inverse = tl.rsqrt((tl.sum(low * low, 1) + tl.sum(high * high, 1)) / HEAD_DIM + eps)[:, None]
        turned_low = _weighted(low * inverse, q_norm, k_norm, is_query, d, d < half)
        turned_high = _weighted(high * inverse, q_norm + half, k_norm + half, is_query, d, d < half)
    first = tl.where(is_value[:, None], low, turned_low * c - turned_high * s).to(qkv.dtype.element_ty)
    second = tl.where(is_value[:, None], high, turned_high * c + turned_low * s).to(qkv.dtype.element_ty)
    own = (token * HEADS + head)[:, None] * HEAD_DIM + d[None, :]
    tl.store(query + own, first, mask=inside & is_query[:, None])
    tl.store(query + own + half, second, mask=inside & is_query[:, None])
    kept = inside & (slot >= 0)
    home = (slot * KV_HEADS + (head - HEADS) % KV_HEADS)[:, None] * HEAD_DIM + d[None, :]
    is_key = (~is_query & ~is_value)[:, None]
    tl.store(key_pool + home, first, mask=kept & is_key)
    tl.store(key_pool + home + half, second, mask=kept & is_key)
    tl.store(value_pool + home, first, mask=kept & is_value[:, None])
    tl.store(value_pool + home + half, second, mask=kept & is_value[:, None])


def rotate_and_store(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor,
    slot_mapping: Tensor,
    key_pool: Tensor,
    value_pool: Tensor,
    num_heads: int,
    q_norm: Tensor | None = None,
    k_norm: Tensor | None = None,
    eps: float = 1e-6,
) -> Tensor:
    """(T, H, D) rotated queries of `qkv` (T, (H + 2K) * D); writes rotated keys and values to the pools.

    `cos` and `sin` (M, D/2) fp32 hold positions 0 … M - 1; `positions` (T,) int32; `slot_mapping` (T,), int32 or
    int64: positions of the pools (P, K, D), -1 to write nowhere. `q_norm` and `k_norm` (D,): both or neither.
    """
    kv_heads, head_dim = key_pool.shape[1:]
    tokens = qkv.shape[0]
    _check(qkv, cos, sin, positions, slot_mapping, key_pool, value_pool)
    assert qkv.shape[1] == (num_heads + 2 * kv_heads) * head_dim
    assert (q_norm is None) == (k_norm is None)
    assert all(norm is None or (norm.shape == (head_dim,) and norm.is_contiguous()) for norm in (q_norm, k_norm))
    query = qkv.new_empty(tokens, num_heads, head_dim)
    if tokens:
        heads = num_heads + 2 * kv_heads
        heads_block = min(HEADS_A_PROGRAM, triton.next_power_of_2(heads))
        _rotate_kernel[(tokens, triton.cdiv(heads, heads_block))](
            qkv, cos, sin, positions, slot_mapping, query, key_pool, value_pool, q_norm, k_norm, eps,
            HEADS=num_heads, KV_HEADS=kv_heads, HEAD_DIM=head_dim, HEADS_BLOCK=heads_block,
            HALF_BLOCK=triton.next_power_of_2(head_dim // 2), NORM=q_norm is not None, num_warps=WARPS,
        )  # fmt: skip
    return query


def _check(
    qkv: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, slot_mapping: Tensor, key_pool: Tensor, value_pool: Tensor
) -> None:
    head_dim = key_pool.shape[2]
    assert key_pool.shape == value_pool.shape
    assert qkv.dtype == key_pool.dtype == value_pool.dtype
    assert all(t.is_contiguous() for t in (qkv, cos, sin, key_pool, value_pool))
    assert cos.shape == sin.shape
    assert cos.shape[1:] == (head_dim // 2,)
    assert cos.dtype == sin.dtype == torch.float32
    assert head_dim % 2 == 0
    assert positions.shape == slot_mapping.shape == qkv.shape[:1]
    assert positions.dtype == torch.int32
    assert slot_mapping.dtype in (torch.int32, torch.int64)
