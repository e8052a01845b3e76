"""What this machine has, as far as one can tell without loading torch: is there an NVIDIA GPU to ask for?

It looks for the driver's tool and its device file. Whether torch can use what it finds, only the worker knows.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.core.config import DEVICES, EXECUTIONS


def has_cuda() -> bool:
    """Whether the NVIDIA driver shows itself on this machine."""
    return shutil.which("nvidia-smi") is not None or Path("/dev/nvidiactl").exists()


def available_devices() -> tuple[str, ...]:
    """The devices that a run may ask for here."""
    return DEVICES if has_cuda() else tuple(name for name in DEVICES if name != "cuda")


def device_of(setting: str) -> str:
    """The device that `auto`, `cpu` or `cuda` means here."""
    return "cuda" if setting != "cpu" and has_cuda() else "cpu"


def available_executions(device: str) -> tuple[str, ...]:
    """The executions that a run on this device setting may ask for: CUDA graphs need CUDA."""
    return EXECUTIONS if device_of(device) == "cuda" else ("eager",)
