"""An allocation that failed, told as facts: how much was asked for, what was free, in which shape.

Devices say so in their own words; `as_out_of_memory` reads the size from them, which is None where they do not tell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

_UNITS = {"B": 1, "bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@dataclass(eq=False)
class EngineOutOfMemory(Exception):
    """Raised where the lab itself refuses an allocation: over a cap that a person set."""

    asked_bytes: int | None
    free_bytes: int | None
    shape: str
    where: str

    def __str__(self) -> str:
        asked = "memory" if self.asked_bytes is None else f"{self.asked_bytes / 2**30:.3g} GiB"
        free = "" if self.free_bytes is None else f", {self.free_bytes / 2**30:.3g} GiB were free"
        return f"out of memory: {self.where} asked for {asked} ({self.shape}){free}"


def as_out_of_memory(
    error: BaseException, device: torch.device, free_bytes: int | None, shape: str, where: str
) -> EngineOutOfMemory | None:
    """The facts of a failed allocation, or None when `error` is something else.

    `free_bytes` is what an allocation could still have got, under every cap: the device's own message knows no caps.
    """
    if isinstance(error, EngineOutOfMemory):
        return error
    message = str(error)
    if isinstance(error, torch.OutOfMemoryError):
        return EngineOutOfMemory(
            asked_bytes=_size_after("Tried to allocate", message),
            free_bytes=free_bytes,
            shape=shape,
            where=where,
        )
    if isinstance(error, RuntimeError) and "can't allocate memory" in message and device.type == "cpu":
        return EngineOutOfMemory(
            asked_bytes=_size_after("you tried to allocate", message), free_bytes=free_bytes, shape=shape, where=where
        )
    if isinstance(error, MemoryError):
        return EngineOutOfMemory(asked_bytes=None, free_bytes=free_bytes, shape=shape, where=where)
    return None


def _size_after(words: str, message: str) -> int | None:
    match = re.search(re.escape(words) + r" ([\d.]+) (\w+)", message)
    return None if match is None else _bytes(match.group(1), match.group(2))


def _bytes(number: str, unit: str) -> int | None:
    factor = _UNITS.get(unit)
    return None if factor is None else round(float(number) * factor)
