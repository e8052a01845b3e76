"""The middle of a gated MLP (SwiGLU): SiLU of the gate times the up projection, both from one product.

SiLU is computed in fp32 and rounded to the dtype before the multiplication, as in PyTorch's two kernels. Other
activations are not supported.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

COLUMNS = 1024
WARPS = 4


@triton.jit
def _silu_mul_kernel(gate_up, output, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < WIDTH
    gate = tl.load(gate_up + token * (2 * WIDTH) + column, mask=inside, other=0.0)
    up = tl.load(gate_up + token * (2 * WIDTH) + WIDTH + column, mask=inside, other=0.0)
    wide = gate.to(tl.float32)
    activated = (wide / (1.0 + tl.exp(-wide))).to(gate.dtype).to(tl.float32)
    tl.store(output + token * WIDTH + column, (activated * up.to(tl.float32)).to(gate.dtype), mask=inside)


def silu_mul(gate_up: Tensor) -> Tensor:
    """(T, I) of `gate_up` (T, 2I): silu of the first I columns times the last I."""
    assert gate_up.dim() == 2
    assert gate_up.shape[1] % 2 == 0
    assert gate_up.is_contiguous()
    tokens, width = gate_up.shape[0], gate_up.shape[1] // 2
    output = gate_up.new_empty(tokens, width)
    if tokens:
        block = min(COLUMNS, triton.next_power_of_2(width))
        grid = (tokens, triton.cdiv(width, block))
        _silu_mul_kernel[grid](gate_up, output, WIDTH=width, BLOCK=block, num_warps=WARPS)
    return output
