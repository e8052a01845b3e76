"""The kernels around attention against plain torch: on a GPU for real, elsewhere through Triton's interpreter.

Offsets beyond 2^31 elements need more memory than tests have; the kernels compute every row's offset in 64 bits.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.support.paged_kv import TOLERANCE, assert_close, ints, numbers
from tests.support.triton_here import DEVICE, DTYPES, importing_kernels

with importing_kernels():
    from engine.runtime.kernels.argmax import PIECE, argmax
    from engine.runtime.kernels.norm import add_rms_norm, rms_norm
    from engine.runtime.kernels.rotary import rotate_and_store
    from engine.runtime.kernels.silu_mul import silu_mul
    from engine.runtime.kernels.store_kv import store_kv

EMPTY = 100.0  # what pools hold before anything is stored


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def llama_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm in the order in which transformers' Llama rounds."""
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("tokens", "width"), [(1, 64), (3, 80), (2, 1536), (5, 1)])
def test_rms_norm(tokens: int, width: int, dtype: torch.dtype) -> None:
    x, weight = numbers(seeded(), tokens, width, dtype=dtype) * 3, numbers(seeded(1), width, dtype=dtype)
    got = rms_norm(x.to(DEVICE), weight.to(DEVICE), 1e-6)
    assert_close(got, llama_norm(x, weight, 1e-6).double())


def test_rms_norm_of_a_known_row() -> None:
    """The mean square of 3 and 5 is 17; of zeros, eps alone is left."""
    x = torch.tensor([[3.0, 5.0], [0.0, 0.0]], device=DEVICE)
    weight = torch.tensor([2.0, -1.0], device=DEVICE)
    expected = torch.tensor([[6 / 17**0.5, -5 / 17**0.5], [0.0, 0.0]], dtype=torch.float64)
    assert_close(rms_norm(x, weight, 1e-12), expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_add_rms_norm_adds_in_place_and_rounds_the_sum_first(dtype: torch.dtype) -> None:
    x, residual = numbers(seeded(), 3, 96, dtype=dtype), numbers(seeded(1), 3, 96, dtype=dtype) * 50
    weight, here = numbers(seeded(2), 96, dtype=dtype), residual.to(DEVICE, copy=True)
    got = add_rms_norm(x.to(DEVICE), here, weight.to(DEVICE), 1e-6)
    cut_off = dtype is torch.bfloat16 and DEVICE.type == "cpu"  # the interpreter does not round bf16 to nearest
    torch.testing.assert_close(here.cpu(), residual + x, rtol=2**-7 if cut_off else 0, atol=0)
    assert_close(got, llama_norm(here.cpu(), weight, 1e-6).double())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("tokens", "width"), [(1, 8), (3, 1536), (2, 1025)])
def test_silu_mul(tokens: int, width: int, dtype: torch.dtype) -> None:
    gate_up = numbers(seeded(), tokens, 2 * width, dtype=dtype) * 4
    gate, up = gate_up.chunk(2, dim=1)
    assert_close(silu_mul(gate_up.to(DEVICE)), (torch.nn.functional.silu(gate) * up).double())


def test_silu_mul_far_out() -> None:
    """Large gates pass the up projection through or close it; none overflows."""
    gate_up = torch.tensor([[200.0, -200.0, 0.0, 3.0, 3.0, 3.0]], device=DEVICE)
    assert silu_mul(gate_up).tolist() == [[600.0, 0.0, 0.0]]


def rotation(positions: list[int], head_dim: int, rows: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines (rows, D/2) of Llama's frequencies; rows that no position asks for are NaN."""
    frequencies = 10000.0 ** -(torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.full((rows, head_dim // 2), float("nan"))
    for position in positions:
        angles[position] = position * frequencies
    return angles.cos(), angles.sin()


def turned_by_hand(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x (heads, D) at one position: pairs (d, d + D/2) turned by their angle, in fp64."""
    low, high = x.double().chunk(2, dim=-1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim"), [(12, 2, 128), (3, 1, 64), (4, 4, 80), (14, 2, 96), (32, 8, 64)]
)
def test_rotate_and_store(heads: int, kv_heads: int, head_dim: int, dtype: torch.dtype, normed: bool) -> None:
    positions, slots = [7, 0, 29, 3], [5, 8, -1, 0]
    qkv = numbers(seeded(), 4, (heads + 2 * kv_heads) * head_dim, dtype=dtype)
    weights = numbers(seeded(1), 2, head_dim, dtype=dtype)
    cos, sin = rotation(positions, head_dim, 30)
    pools = torch.full((2, 9, kv_heads, head_dim), EMPTY, dtype=dtype, device=DEVICE)
    norms = weights.to(DEVICE) if normed else (None, None)
    got = rotate_and_store(
        qkv.to(DEVICE), cos.to(DEVICE), sin.to(DEVICE), ints(positions),
        torch.tensor(slots, dtype=torch.int32 if normed else torch.int64, device=DEVICE),
        pools[0], pools[1], heads, *norms, eps=1e-5,
    )  # fmt: skip
    query, key, value = qkv.unflatten(1, (-1, head_dim)).split([heads, kv_heads, kv_heads], dim=1)
    if normed:
        query, key = llama_norm(query, weights[0], 1e-5), llama_norm(key, weights[1], 1e-5)
    expected = torch.full((2, 9, kv_heads, head_dim), EMPTY, dtype=torch.float64)
    for token, (position, slot) in enumerate(zip(positions, slots, strict=True)):
        turn = cos[position].double(), sin[position].double()
        assert_close(got[token], turned_by_hand(query[token], *turn))
        if slot >= 0:
            expected[0, slot], expected[1, slot] = turned_by_hand(key[token], *turn), value[token].double()
    assert_close(pools, expected)
    assert torch.equal(pools[1].cpu(), expected[1].to(dtype)), "values are copied, not computed"


def test_rotation_by_a_quarter_turn() -> None:
    """Position 1 turns every pair by 90 degrees: (low, high) becomes (-high, low); values stay."""
    qkv = torch.arange(12.0, device=DEVICE).reshape(1, 12)
    cos, sin = torch.tensor([[9.0, 9], [0, 0]], device=DEVICE), torch.tensor([[9.0, 9], [1, 1]], device=DEVICE)
    pools = torch.zeros(2, 1, 1, 4, device=DEVICE)
    got = rotate_and_store(qkv, cos, sin, ints([1]), torch.zeros(1, dtype=torch.int64, device=DEVICE), *pools, 1)
    assert got.tolist() == [[[-2, -3, 0, 1]]]
    assert pools.flatten(1).tolist() == [[-6, -7, 4, 5], [8, 9, 10, 11]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("kv_heads", "head_dim"), [(2, 128), (3, 80), (1, 64)])
def test_store_kv_writes_each_token_once_and_padding_nowhere(kv_heads: int, head_dim: int, dtype: torch.dtype) -> None:
    slots = [3, -1, 0, 6, -1]
    key, value = numbers(seeded(), 2, kv_heads, 5, head_dim, dtype=dtype).transpose(1, 2)  # as an eager layer has them
    pools = torch.full((2, 7, kv_heads, head_dim), EMPTY, dtype=dtype, device=DEVICE)
    store_kv(key.to(DEVICE), value.to(DEVICE), torch.tensor(slots, device=DEVICE), pools[0], pools[1])
    expected = torch.full((2, 7, kv_heads, head_dim), EMPTY, dtype=dtype)
    for token, slot in enumerate(slots):
        if slot >= 0:
            expected[0, slot], expected[1, slot] = key[token], value[token]
    assert torch.equal(pools.cpu(), expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("vocabulary", [1, 63, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 17])
def test_argmax(vocabulary: int, dtype: torch.dtype) -> None:
    logits = numbers(seeded(), 3, vocabulary, dtype=dtype)  # 16-bit numbers collide of themselves
    assert argmax(logits.to(DEVICE)).tolist() == logits.argmax(dim=-1).tolist()


def test_argmax_takes_the_first_of_equals() -> None:
    logits = torch.full((5, 2 * PIECE + 9), -1.0)
    for row, places in enumerate([[PIECE - 1, PIECE], [2 * PIECE + 8], [5, 6, 2 * PIECE], [0]]):
        logits[row, places] = 4.0
    logits[4] = float("-inf")
    assert argmax(logits.to(DEVICE)).tolist() == [PIECE - 1, 2 * PIECE + 8, 5, 0, 0]


def test_argmax_of_rows_apart() -> None:
    """A view whose rows lie further apart than they are long; and no row at all."""
    logits = numbers(seeded(), 4, 100, dtype=torch.float32)[:, :70]
    assert argmax(logits.to(DEVICE)).tolist() == logits.argmax(dim=-1).tolist()
    assert argmax(logits[:0].to(DEVICE)).shape == (0,)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_no_token_at_all(dtype: torch.dtype) -> None:
    nothing = torch.empty(0, 64, dtype=dtype, device=DEVICE)
    weight = torch.ones(64, dtype=dtype, device=DEVICE)
    assert rms_norm(nothing, weight, 1e-6).shape == add_rms_norm(nothing, nothing, weight, 1e-6).shape == (0, 64)
    assert silu_mul(nothing).shape == (0, 32)


def test_tolerances_would_catch_a_wrong_answer() -> None:
    """A relative error of 5 % is outside every tolerance."""
    assert max(TOLERANCE.values()) < 0.05
    with pytest.raises(AssertionError):
        assert_close(torch.full((4,), 1.05, dtype=torch.bfloat16), torch.ones(4, dtype=torch.float64))
