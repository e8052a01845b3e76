"""The device's memory: allocated, peak and free bytes, the caps of a run, and failed allocations.

On CUDA the numbers come from torch's allocator; on a CPU from the process's resident set, which includes weights and
libraries. The CPU peak is Linux's high-water mark, reset when a run starts. If the system cannot reset it, the peak is
the highest sample, which misses memory that a pass allocates and frees between two samples.
"""

from __future__ import annotations

import gc
import os
import re
import resource
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from engine.core.errors import EngineOutOfMemory
from engine.core.units import GIB
from engine.hardware.machine_memory import usable_bytes

PROC = Path("/proc/self")
RESET_HIGH_WATER = b"5"  # written to clear_refs: resets the high-water mark to the current resident size
_UNITS = {"B": 1, "bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySample:
    allocated_bytes: int
    peak_bytes: int
    free_bytes: int | None


class DeviceMemory:
    """The memory of one device during one run. `cap_bytes` is None without a cap (always on a CPU)."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.cap_bytes: int | None = None
        self.peak_bytes = 0  # as of the last sample
        self.kept_bytes = 0  # idle memory that captured graphs keep
        self.has_high_water = False  # on a CPU: whether the peak is the system's high-water mark

    def begin_run(self, utilization: float, capacity_gib: float | None) -> None:
        """Reset the peak. On CUDA also cap the process's memory: a share of the GPU, or fewer GiB."""
        self.peak_bytes = self.kept_bytes = 0
        if self.device.type != "cuda":
            self.has_high_water = _reset_high_water()
            return
        self.cap_bytes = cap_bytes(self.device, utilization, capacity_gib)
        total = torch.cuda.get_device_properties(self.device).total_memory
        torch.cuda.set_per_process_memory_fraction(self.cap_bytes / total)
        torch.cuda.reset_peak_memory_stats()

    def note_captured(self) -> None:
        """Call after graphs are captured: the memory they keep no longer counts as free."""
        if self.device.type == "cuda":
            self.kept_bytes = kept_by_graphs(torch.cuda.memory_snapshot())

    def sample(self) -> MemorySample:
        free: int | None
        if self.device.type == "cuda":
            allocated, free = torch.cuda.memory_allocated(), self._cuda_free_bytes()
            self.peak_bytes = torch.cuda.max_memory_allocated()
        else:
            allocated, free = _resident_bytes(), _available_bytes()
            high_water = _high_water_bytes() if self.has_high_water else None
            self.peak_bytes = max(self.peak_bytes, allocated, high_water or 0)
        return MemorySample(allocated_bytes=allocated, peak_bytes=self.peak_bytes, free_bytes=free)

    def give_back(self) -> None:
        """Return unused memory to the device and remove the run's cap."""
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.set_per_process_memory_fraction(1.0)
            self.cap_bytes, self.kept_bytes = None, 0

    def _cuda_free_bytes(self) -> int:
        """Bytes that an allocation can still get, under the cap and on the GPU."""
        free = cuda_free_bytes()
        if self.cap_bytes is not None:
            free = min(free, self.cap_bytes - torch.cuda.memory_allocated())
        return max(0, free - self.kept_bytes)


def kept_by_graphs(segments: Iterable[Mapping[str, Any]]) -> int:
    """Idle bytes in the private pools of captured graphs, from the allocator's `segments`."""
    common = (0, 0)
    own = [s for s in segments if tuple(s.get("segment_pool_id", common)) != common]
    return sum(int(s["total_size"]) - int(s["allocated_size"]) for s in own)


def cap_bytes(device: torch.device, utilization: float, capacity_gib: float | None) -> int:
    """Most bytes that a run may use on a CUDA `device`: a share of the GPU, or fewer GiB."""
    usable = usable_bytes(torch.cuda.get_device_properties(device).total_memory, utilization)
    return usable if capacity_gib is None else min(usable, int(capacity_gib * GIB))


def cuda_free_bytes() -> int:
    """Free bytes on the GPU for this process, including the allocator's idle blocks."""
    on_card, _ = torch.cuda.mem_get_info()
    return int(on_card + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())


def as_out_of_memory(
    error: BaseException, device: torch.device, free_bytes: int | None, shape: str, where: str
) -> EngineOutOfMemory | None:
    """The failed allocation behind `error`: bytes requested and free. None if `error` is something else.

    `free_bytes` is what an allocation could still get under every cap; the device's own message ignores caps.
    `asked_bytes` is None if the message does not state it.
    """
    if isinstance(error, EngineOutOfMemory):
        if error.free_bytes is None and error.__cause__ is not None:  # raised from the device's own error
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


def _size_after(phrase: str, message: str) -> int | None:
    match = re.search(re.escape(phrase) + r" ([\d.]+) (\w+)", message)
    return None if match is None else _bytes(match.group(1), match.group(2))


def _bytes(number: str, unit: str) -> int | None:
    factor = _UNITS.get(unit)
    return None if factor is None else round(float(number) * factor)


def still_works(device: torch.device) -> bool:
    """Whether the device can compute. A CUDA context that failed once stays broken in this process."""
    if device.type != "cuda":
        return True
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def _resident_bytes() -> int:
    try:
        pages = int((PROC / "statm").read_text().split()[1])
    except OSError:  # no /proc, as on macOS: only the peak is available
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize()


def _reset_high_water() -> bool:
    """Reset the process's high-water mark. False if it cannot be reset or read."""
    try:
        clear_refs = os.open(PROC / "clear_refs", os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(clear_refs, RESET_HIGH_WATER)
    except OSError:
        return False
    finally:
        os.close(clear_refs)
    return _high_water_bytes() is not None


def _high_water_bytes() -> int | None:
    """Most resident bytes since the last reset."""
    return _kibibytes(PROC / "status", "VmHWM:")


def _available_bytes() -> int | None:
    return _kibibytes(Path("/proc/meminfo"), "MemAvailable:")


def _kibibytes(path: Path, name: str) -> int | None:
    """The value of a line such as `VmHWM:  1024 kB`, in bytes; None if the line is missing."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)
