"""Greedy sampling: the largest logit of each row, the first of equals, like PyTorch's argmax on a CPU.

Two stages, so that one row of a large vocabulary keeps many SMs busy: the best of each piece of a row, then the best of
the pieces. NaN is never the largest.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PIECE = 4096  # logits a program
WARPS = 4


@triton.jit
def _first_best(values, places, allowed, NONE: tl.constexpr):
    """The largest of `values` where `allowed`, and its lowest place."""
    best = tl.max(tl.where(allowed, values, float("-inf")), 0)
    return best, tl.min(tl.where(allowed & (values == best), places, NONE), 0)


@triton.jit(do_not_specialize=["pieces"])
def _pieces_kernel(logits, values, places, vocabulary, pieces, logits_row, BLOCK: tl.constexpr):
    piece, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    column = piece * BLOCK + tl.arange(0, BLOCK)
    inside = column < vocabulary
    logit = tl.load(logits + row * logits_row + column, mask=inside, other=float("-inf")).to(tl.float32)
    best, place = _first_best(logit, column, inside, 2147483647)
    tl.store(values + row * pieces + piece, best)
    tl.store(places + row * pieces + piece, place)


@triton.jit(do_not_specialize=["pieces"])
def _rows_kernel(values, places, output, pieces, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    piece = tl.arange(0, BLOCK)
    inside = piece < pieces
    value = tl.load(values + row * pieces + piece, mask=inside, other=float("-inf"))
    place = tl.load(places + row * pieces + piece, mask=inside, other=0)
    _, first = _first_best(value, place, inside, 2147483647)
    tl.store(output + row, first.to(tl.int64))


def argmax(logits: Tensor) -> Tensor:
    """(B,) int64: the first place of the largest logit in each row of `logits` (B, V), of any float dtype."""
    rows, vocabulary = logits.shape
    assert vocabulary > 0
    assert logits.stride(1) == 1
    output = torch.empty(rows, dtype=torch.int64, device=logits.device)
    if rows == 0:
        return output
    pieces = triton.cdiv(vocabulary, PIECE)
    values = torch.empty(rows, pieces, dtype=torch.float32, device=logits.device)
    places = torch.empty(rows, pieces, dtype=torch.int32, device=logits.device)
    _pieces_kernel[(pieces, rows)](
        logits, values, places, vocabulary, pieces, logits.stride(0), BLOCK=PIECE, num_warps=WARPS
    )
    _rows_kernel[(rows,)](values, places, output, pieces, BLOCK=triton.next_power_of_2(pieces), num_warps=1)
    return output
