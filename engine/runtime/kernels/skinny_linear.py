"""A linear layer for few rows: read the weights once, as fast as memory gives them.

At one to 32 rows a product is bound by the bytes of its weights; cuBLAS, made for square ones, leaves up to half of the
read rate unused on the narrow layers of a small model. Here each program streams some outputs' weight rows. Where the
outputs are too few to keep the card busy, the inner dimension is cut as well (split-K) and the partial sums are left
for the next kernel, the residual addition and norm, to add up: no pass over them of their own.

Shapes: M rows, C inner width, N outputs, S splits. It does not know rows above MAX_ROWS.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.runtime.kernels.dot import dot

MAX_ROWS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SkinnyTuning:
    """Outputs a program, inner columns a step, splits of the inner width, warps, steps on their way at once."""

    outputs: int
    columns: int
    splits: int
    warps: int
    stages: int


@triton.jit(do_not_specialize=["rows"])
def _one_row_kernel(
    x, weight, bias, out, rows, num_outputs, width, share,
    HAS_BIAS: tl.constexpr, OUTPUTS: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
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
        acc += w.to(tl.float32) * tl.load(x + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    total = tl.sum(acc, 1)
    if HAS_BIAS:
        total += tl.load(bias + output, mask=output < num_outputs, other=0.0).to(tl.float32)
    place = split.to(tl.int64) * num_outputs + output
    tl.store(out + place, total.to(out.dtype.element_ty), mask=output < num_outputs)


@triton.jit(do_not_specialize=["rows"])
def _rows_kernel(
    x, weight, bias, out, rows, num_outputs, width, share,
    HAS_BIAS: tl.constexpr, OUTPUTS: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Up to ROWS rows: tiles of weights times all rows at once."""
    output = tl.program_id(0).to(tl.int64) * OUTPUTS + tl.arange(0, OUTPUTS)
    split = tl.program_id(1)
    first = split * share
    end = tl.minimum(first + share, width)
    row = tl.arange(0, ROWS)
    known = (output < num_outputs)[:, None]
    acc = tl.zeros([OUTPUTS, ROWS], dtype=tl.float32)
    for start in range(first, end, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = column < end
        w = tl.load(weight + output[:, None] * width + column[None, :], mask=known & inside[None, :], other=0.0)
        wanted = inside[:, None] & (row < rows)[None, :]
        xs = tl.load(x + row[None, :] * width + column[:, None], mask=wanted, other=0.0)
        acc = dot(w, xs, acc)
    if HAS_BIAS:
        acc += tl.load(bias + output, mask=output < num_outputs, other=0.0).to(tl.float32)[:, None]
    place = (split.to(tl.int64) * rows + row[None, :]) * num_outputs + output[:, None]
    tl.store(out + place, acc.to(out.dtype.element_ty), mask=known & (row < rows)[None, :])


def skinny_linear(x: Tensor, weight: Tensor, bias: Tensor | None, tuning: SkinnyTuning) -> Tensor:
    """(M, C) times `weight` (N, C) transposed, plus `bias` (N,): (M, N) in x's dtype for one split.

    With more splits, (S, M, N) partial sums in fp32 for whoever adds them up; a bias then has to be added there.
    """
    rows, width = x.shape
    num_outputs = weight.shape[0]
    assert rows <= MAX_ROWS
    assert weight.shape[1] == width
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
        HAS_BIAS=bias is not None, OUTPUTS=tuning.outputs, COLUMNS=tuning.columns,
        ROWS=max(16, triton.next_power_of_2(rows)), num_warps=tuning.warps, num_stages=tuning.stages,
    )  # fmt: skip
    return out
