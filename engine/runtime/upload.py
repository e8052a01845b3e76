"""Copies small arrays from the host to the device without stopping either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def upload(values: Sequence[Any], dtype: torch.dtype, device: torch.device) -> Tensor:
    """`values` on `device`, from pinned memory: an ordinary copy waits for every kernel issued before it."""
    if device.type != "cuda":
        return torch.tensor(values, dtype=dtype, device=device)
    return torch.tensor(values, dtype=dtype, pin_memory=True).to(device, non_blocking=True)


def upload_together(arrays: Sequence[np.ndarray], dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """All of `arrays` on `device`, in one copy, each in its own shape."""
    host = torch.from_numpy(np.concatenate([a.reshape(-1) for a in arrays])).to(dtype)
    whole = host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host
    parts = whole.split([a.size for a in arrays])
    return [part.view(a.shape) for part, a in zip(parts, arrays, strict=True)]
