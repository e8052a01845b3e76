"""Names and bytes of dtypes, and the meaning of `auto`."""

from __future__ import annotations

import pytest
import torch

from engine.core.units import DTYPE_BYTES, TORCH_NAMES, dtype_of, short_dtype
from engine.runtime.models.loading import TORCH_DTYPES


def test_bytes_and_names_are_torchs() -> None:
    assert list(DTYPE_BYTES) == list(TORCH_NAMES) == list(TORCH_DTYPES)
    for name, dtype in TORCH_DTYPES.items():
        assert DTYPE_BYTES[name] == dtype.itemsize
        assert f"torch.{TORCH_NAMES[name]}" == str(dtype)
        assert short_dtype(TORCH_NAMES[name]) == name
    assert TORCH_DTYPES["bf16"] is torch.bfloat16


def test_an_unknown_name_is_itself() -> None:
    assert short_dtype("float64") == "float64"


@pytest.mark.parametrize(
    ("setting", "device", "dtype"),
    [("auto", "cuda", "bf16"), ("auto", "cpu", "fp32"), ("fp16", "cpu", "fp16")],
)
def test_auto_is_what_the_device_computes_best(setting: str, device: str, dtype: str) -> None:
    assert dtype_of(setting, device) == dtype
