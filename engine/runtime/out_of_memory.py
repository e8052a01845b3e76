"""Reads a failed allocation out of what a device says of it, in its own words."""

from __future__ import annotations

import re

import torch

from engine.core.out_of_memory import EngineOutOfMemory

_UNITS = {"B": 1, "bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def as_out_of_memory(
    error: BaseException, device: torch.device, free_bytes: int | None, shape: str, where: str
) -> EngineOutOfMemory | None:
    """The facts of a failed allocation, or None when `error` is something else.

    `free_bytes` is what an allocation could still have got, under every cap: the device's own message knows no caps.
    The size asked for is None where the message does not tell it.
    """
    if isinstance(error, EngineOutOfMemory):
        if error.free_bytes is None and error.__cause__ is not None:  # the device's refusal, told by who had asked it
            error.free_bytes = free_bytes
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
