"""Matrix products of tiles inside the attention kernels.

bf16 and fp16 multiply on the tensor cores with fp32 sums; fp32 multiplies in IEEE fp32, never rounded to TF32. Triton's
interpreter would multiply the bit patterns of bf16, so there tiles are converted to fp32 first.
"""

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))


@triton.jit
def dot(a, b, acc):
    """acc + a @ b: (M, K) @ (K, N) on fp32 sums (M, N)."""
    if INTERPRETED:
        acc += tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    else:
        acc = tl.dot(a, b, acc, input_precision="ieee")
    return acc
