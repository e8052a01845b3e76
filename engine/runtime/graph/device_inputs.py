"""A pass's integers on the device: one buffer, one copy a pass, views of it at addresses that a CUDA graph can keep.

The host writes into pinned memory, a few buffers in turn, since the copy of the pass before may still be due.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

RING = 4  # more than the passes that can be in flight


class Sections:
    """Names and lengths of the parts of one pass's integers, one behind the other."""

    def __init__(self, lengths: Mapping[str, int]) -> None:
        self.places: dict[str, slice] = {}
        at = 0
        for name, length in lengths.items():
            self.places[name] = slice(at, at + length)
            at += length
        self.total = at


class DeviceInputs:
    """Room for `size` int32 on `device`, written by the host and read by kernels."""

    def __init__(self, size: int, device: torch.device) -> None:
        pinned = device.type == "cuda"
        self.on_device = torch.zeros(size, dtype=torch.int32, device=device)
        self._hosts = [torch.zeros(size, dtype=torch.int32, pin_memory=pinned) for _ in range(RING)]
        self._arrays: list[NDArray[np.int32]] = [host.numpy() for host in self._hosts]
        self._turn = 0

    def views(self, sections: Sections) -> dict[str, Tensor]:
        """The parts on the device, by name."""
        return {name: self.on_device[place] for name, place in sections.places.items()}

    def fill(self, sections: Sections) -> dict[str, NDArray[np.int32]]:
        """The parts in the next host buffer, to be written and then sent with `send`."""
        self._turn = (self._turn + 1) % RING
        return {name: self._arrays[self._turn][place] for name, place in sections.places.items()}

    def send(self, sections: Sections) -> None:
        """Copy what `fill` gave out, in stream order, without waiting."""
        self.on_device[: sections.total].copy_(self._hosts[self._turn][: sections.total], non_blocking=True)
