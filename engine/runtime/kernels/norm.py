"""RMSNorm over the hidden width, with or without the residual addition before it (Zhang and Sennrich, 2019).

One program per token. Sums are fp32. As in transformers' Llama layers, the normalized row is rounded to its dtype
before it is multiplied by the weight, and the residual sum is rounded before it is normalized. LayerNorm's mean and
bias and Gemma's 1 + weight are not supported.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

WARPS = 4


@triton.jit
def normalized(row, weight, eps, WIDTH: tl.constexpr):
    """`row`: fp32 values of the weight's dtype, zeros beyond WIDTH."""
    inverse = tl.rsqrt(tl.sum(row * row, 0) / WIDTH + eps)
    rounded = (row * inverse).to(weight.dtype).to(tl.float32)
    return (rounded * weight.to(tl.float32)).to(weight.dtype)


@triton.jit
def _norm_kernel(x, weight, output, eps, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    place = tl.program_id(0).to(tl.int64) * WIDTH + column
    inside = column < WIDTH
    row = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(weight + column, mask=inside, other=0.0)
    tl.store(output + place, normalized(row, scale, eps, WIDTH), mask=inside)


@triton.jit
def _add_norm_kernel(x, residual, weight, output, eps, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    place = tl.program_id(0).to(tl.int64) * WIDTH + column
    inside = column < WIDTH
    row = tl.load(residual + place, mask=inside, other=0.0).to(tl.float32)
    row += tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(weight + column, mask=inside, other=0.0)
    summed = row.to(scale.dtype)
    tl.store(residual + place, summed, mask=inside)
    tl.store(output + place, normalized(summed.to(tl.float32), scale, eps, WIDTH), mask=inside)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """(T, C): each row of `x` (T, C) over its root mean square, times `weight` (C,)."""
    output = _like(x, weight)
    if tokens := x.shape[0]:
        width = x.shape[1]
        block = triton.next_power_of_2(width)
        _norm_kernel[(tokens,)](x, weight, output, eps, WIDTH=width, BLOCK=block, num_warps=WARPS)
    return output


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
    """(T, C): `residual` += `x`, both (T, C), IN PLACE; the norm of that sum times `weight` (C,)."""
    output = _like(x, weight)
    assert residual.shape == x.shape
    assert residual.dtype == x.dtype
    assert residual.is_contiguous()
    if tokens := x.shape[0]:
        width = x.shape[1]
        block = triton.next_power_of_2(width)
        _add_norm_kernel[(tokens,)](x, residual, weight, output, eps, WIDTH=width, BLOCK=block, num_warps=WARPS)
    return output


def _like(x: Tensor, weight: Tensor) -> Tensor:
    assert x.dim() == 2
    assert x.is_contiguous()
    assert weight.shape == x.shape[1:]
    assert weight.dtype == x.dtype
    assert weight.is_contiguous()
    return x.new_empty(x.shape)
