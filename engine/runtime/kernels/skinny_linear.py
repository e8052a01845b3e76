"""A linear layer for few rows, which reads its weights once at full memory bandwidth.

At 1 to 32 rows a product is bound by reading its weights; cuBLAS, made for square products, leaves up to half of the
bandwidth unused on the narrow layers of a small model. Here each program streams the weight rows of some outputs. If
the outputs are too few to keep the GPU busy, the inner dimension is split too (split-K), and the next kernel (residual
addition and norm) adds up the partial sums, which saves a kernel. The MLP's last layer can compute its gated input
SiLU(gate) x up itself instead of in a kernel before it.

Shapes: M rows (at most MAX_ROWS), C inner width, N outputs, S splits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.runtime.kernels.dot import dot
from engine.runtime.kernels.norm import normalized

MAX_ROWS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SkinnyTuning:
    """Outputs per program, inner columns per step, splits of the inner width, warps, pipelined steps."""

    outputs: int
    columns: int
    splits: int
    warps: int
    stages: int


@triton.jit
def _inputs(x, place, width, wanted, GATED: tl.constexpr):
    """x at `place`. GATED: SiLU of x at `place` (the gate) times x at `place` + `width` (up)."""
    value = tl.load(x + place, mask=wanted, other=0.0)
    if GATED:
        gate = value.to(tl.float32)
        silu = (gate / (1.0 + tl.exp(-gate))).to(value.dtype)
        value = silu * tl.load(x + place + width, mask=wanted, other=0.0)
    return value


@triton.jit(do_not_specialize=["rows"])
def _one_row_kernel(
    x, weight, bias, out, rows, num_outputs, width, share,
    HAS_BIAS: tl.constexpr, GATED: tl.constexpr, OUTPUTS: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """One row: multiply and add in fp32, sum across threads once at the end."""
    output = tl.program_id(0).to(tl.int64) * OUTPUTS + tl.arange(0, OUTPUTS)
    split = tl.program_id(1)
    first = split * share
    end = tl.minimum(first + share, width)
    known = (output < num_outputs)[:, None]
    acc = tl.zeros([OUTPUTS, COLUMNS], dtype=tl.float32)
    for start in range(first, end, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = column < end
        w = tl.load(weight + output[:, None] * width + column[None, :], mask=known & inside[None, :], other=0.0)
        acc += w.to(tl.float32) * _inputs(x, column, width, inside, GATED).to(tl.float32)[None, :]
    total = tl.sum(acc, 1)
    if HAS_BIAS:
        total += tl.load(bias + output, mask=output < num_outputs, other=0.0).to(tl.float32)
    place = split.to(tl.int64) * num_outputs + output
    tl.store(out + place, total.to(out.dtype.element_ty), mask=output < num_outputs)


@triton.jit(do_not_specialize=["rows"])
def _rows_kernel(
    x, weight, bias, out, rows, num_outputs, width, share,
    HAS_BIAS: tl.constexpr, GATED: tl.constexpr, OUTPUTS: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Up to ROWS rows: tiles of weights times all rows at once."""
    output = tl.program_id(0).to(tl.int64) * OUTPUTS + tl.arange(0, OUTPUTS)
    split = tl.program_id(1)
    first = split * share
    end = tl.minimum(first + share, width)
    row = tl.arange(0, ROWS)
    row_width = width * 2 if GATED else width
    known = (output < num_outputs)[:, None]
    acc = tl.zeros([OUTPUTS, ROWS], dtype=tl.float32)
    for start in range(first, end, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = column < end
        w = tl.load(weight + output[:, None] * width + column[None, :], mask=known & inside[None, :], other=0.0)
        wanted = inside[:, None] & (row < rows)[None, :]
        xs = _inputs(x, row[None, :] * row_width + column[:, None], width, wanted, GATED)
        acc = dot(w, xs, acc)
    if HAS_BIAS:
        acc += tl.load(bias + output, mask=output < num_outputs, other=0.0).to(tl.float32)[:, None]
    place = (split.to(tl.int64) * rows + row[None, :]) * num_outputs + output[:, None]
    tl.store(out + place, acc.to(out.dtype.element_ty), mask=known & (row < rows)[None, :])


def skinny_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, tuning: SkinnyTuning, *, gated: bool = False
) -> Tensor:
    """(M, C) times `weight` (N, C) transposed, plus `bias` (N,): (M, N) in x's dtype for one split.

    With more splits: (S, M, N) partial sums in fp32, which the caller adds up together with any bias.
    `gated`: x is (M, 2C), gate first, and the product's input is SiLU(gate) x up, rounded as in silu_mul.
    """
    rows = x.shape[0]
    num_outputs, width = weight.shape
    assert rows <= MAX_ROWS
    assert x.shape[1] == (2 * width if gated else width)
    assert x.is_contiguous()
    assert weight.is_contiguous()
    assert x.dtype == weight.dtype
    splits = tuning.splits
    assert bias is None or splits == 1
    shape = (rows, num_outputs) if splits == 1 else (splits, rows, num_outputs)
    out = torch.empty(shape, dtype=x.dtype if splits == 1 else torch.float32, device=x.device)
    share = triton.cdiv(triton.cdiv(width, splits), tuning.columns) * tuning.columns
    kernel = _one_row_kernel if rows == 1 else _rows_kernel
    kernel[(triton.cdiv(num_outputs, tuning.outputs), splits)](
        x, weight, bias, out, rows, num_outputs, width, share,
        HAS_BIAS=bias is not None, GATED=gated, OUTPUTS=tuning.outputs, COLUMNS=tuning.columns,
        ROWS=max(16, triton.next_power_of_2(rows)), num_warps=tuning.warps, num_stages=tuning.stages,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["rows"])
def _sum_norm_kernel(
    partials, residual, weight, output, rows, eps, SPLITS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for split in tl.static_range(SPLITS):
        total += tl.load(partials + (split * rows + row) * WIDTH + column, mask=inside, other=0.0)
    scale = tl.load(weight + column, mask=inside, other=0.0)
    place = row * WIDTH + column
    summed = tl.load(residual + place, mask=inside, other=0.0).to(tl.float32) + total.to(scale.dtype).to(tl.float32)
    summed = summed.to(scale.dtype)
    tl.store(residual + place, summed, mask=inside)
    tl.store(output + place, normalized(summed.to(tl.float32), scale, eps, WIDTH), mask=inside)


def sum_add_rms_norm(partials: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`add_rms_norm` of the sum of `partials` (S, M, C) fp32: `residual` (M, C) += it IN PLACE; returns the norm."""
    splits, rows, width = partials.shape
    assert residual.shape == (rows, width)
    assert weight.dtype == residual.dtype
    assert partials.is_contiguous()
    assert residual.is_contiguous()
    output = torch.empty_like(residual)
    _sum_norm_kernel[(rows,)](
        partials, residual, weight, output, rows, eps,
        SPLITS=splits, WIDTH=width, BLOCK=triton.next_power_of_2(width), num_warps=4,
    )  # fmt: skip
    return output
