"""Linear layers for few rows, and the norm that adds up what their splits leave."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.support.triton_here import DEVICE, DTYPES, importing_kernels

with importing_kernels():
    from engine.runtime.kernels.norm import add_rms_norm
    from engine.runtime.kernels.skinny_linear import MAX_ROWS, SkinnyTuning, skinny_linear, sum_add_rms_norm

TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def numbers(*shape: int, seed: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(DEVICE, dtype)


def tuning(splits: int = 1) -> SkinnyTuning:
    return SkinnyTuning(outputs=16, columns=32, splits=splits, warps=4, stages=2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "outputs", "width"), [(1, 40, 96), (3, 33, 70), (17, 16, 64)])
def test_one_split_is_a_linear_layer(rows: int, outputs: int, width: int, dtype: torch.dtype) -> None:
    x, weight = numbers(rows, width, seed=0, dtype=dtype), numbers(outputs, width, seed=1, dtype=dtype) / width**0.5
    bias = numbers(outputs, seed=2, dtype=dtype)
    expected = F.linear(x.double(), weight.double(), bias.double())
    got = skinny_linear(x, weight, bias, tuning())
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("rows", [1, 5, MAX_ROWS])
@pytest.mark.parametrize("splits", [2, 3, 8])
def test_the_splits_of_the_inner_width_add_up(rows: int, splits: int) -> None:
    x, weight = numbers(rows, 100, seed=0, dtype=torch.float32), numbers(24, 100, seed=1, dtype=torch.float32)
    partials = skinny_linear(x, weight, None, tuning(splits))
    assert partials.shape == (splits, rows, 24)
    torch.testing.assert_close(partials.sum(0), F.linear(x, weight), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 4])
def test_a_gate_is_taken_on_the_way_in(rows: int) -> None:
    gate_up, weight = numbers(rows, 120, seed=0, dtype=torch.float32), numbers(24, 60, seed=1, dtype=torch.float32)
    expected = F.linear(F.silu(gate_up[:, :60]) * gate_up[:, 60:], weight)
    got = skinny_linear(gate_up, weight, None, tuning(2), gated=True).sum(0)
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_norm_adds_up_what_the_splits_left(dtype: torch.dtype) -> None:
    partials = numbers(4, 3, 50, seed=0, dtype=torch.float32)
    weight = numbers(50, seed=1, dtype=dtype)
    residual = numbers(3, 50, seed=2, dtype=dtype)
    expected_residual = residual.clone()
    expected = add_rms_norm(partials.sum(0).to(dtype), expected_residual, weight, 1e-6)
    got = sum_add_rms_norm(partials, residual, weight, 1e-6)
    torch.testing.assert_close(got, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    torch.testing.assert_close(residual, expected_residual, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
