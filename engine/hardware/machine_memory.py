"""This machine's memory, found without torch: of the first GPU, or of the host.

GPU memory comes from nvidia-smi. Memory that other processes use is not subtracted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

from engine.core.units import MIB


def usable_bytes(total_bytes: int, share: float) -> int:
    """The bytes of a GPU that a run may use: a share (gpu-memory-utilization) of its memory."""
    return int(total_bytes * share)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMemory:
    """Total memory of the default device of a run. `kind` is `cuda` or `cpu`."""

    kind: str
    name: str
    total_bytes: int


@cache
def machine_memory() -> MachineMemory | None:
    """Memory of the first GPU, else of the host; None if both are unknown."""
    return gpu_memory() or host_memory()


def gpu_memory() -> MachineMemory | None:
    """Memory of the first GPU by NVIDIA's driver; None without a driver or a GPU."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_gpu(output)


def parse_gpu(output: str) -> MachineMemory | None:
    """Parses the first line of the driver's table: `NVIDIA H200, 143771`, in MiB."""
    name, _, mebibytes = output.strip().split("\n")[0].rpartition(",")
    if not mebibytes.strip().isdigit():
        return None
    return MachineMemory(kind="cuda", name=name.strip(), total_bytes=int(mebibytes) * MIB)


def host_memory() -> MachineMemory | None:
    """Memory of the host; None if the system does not report it."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None
    return MachineMemory(kind="cpu", name="this machine", total_bytes=total)
