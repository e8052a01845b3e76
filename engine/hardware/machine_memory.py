"""How much memory this machine has for a run, as far as one can tell without torch: the GPU's, or the machine's own.

The driver's tool is asked for the card. It does not know what other processes hold of either.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

from engine.core.units import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMemory:
    """All the memory of the device that a run would take by default. `kind` is `cuda` or `cpu`."""

    kind: str
    name: str
    total_bytes: int


@cache
def machine_memory() -> MachineMemory | None:
    """The first GPU of this machine, else the machine itself; None where neither tells."""
    return gpu_memory() or host_memory()


def gpu_memory() -> MachineMemory | None:
    """The first GPU, as NVIDIA's driver tells; None where there is no driver or no card."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_gpu(answer)


def parse_gpu(answer: str) -> MachineMemory | None:
    """The first line of the driver's table: `NVIDIA H200, 143771`, in MiB."""
    name, _, mebibytes = answer.strip().split("\n")[0].rpartition(",")
    if not mebibytes.strip().isdigit():
        return None
    return MachineMemory(kind="cuda", name=name.strip(), total_bytes=int(mebibytes) * MIB)


def host_memory() -> MachineMemory | None:
    """The machine's own memory; None where the system does not tell."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None
    return MachineMemory(kind="cpu", name="this machine", total_bytes=total)
