"""What this machine has, as far as one can tell without loading torch: is there an NVIDIA GPU to ask for?

It looks for the driver's tool and its device file. Whether torch can use what it finds, only the worker knows.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.core.config import DEVICES, EXECUTIONS, RunConfig
from pages.parts.shared.markdown import plain


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


def dtype_of(setting: str, device: str) -> str:
    """The dtype that `auto` means on a device; another is itself."""
    return setting if setting != "auto" else "bf16" if device == "cuda" else "fp32"


def model_on_device(config: RunConfig) -> str:
    """`smollm2-135m in fp32 on cpu`: what a run's settings come to on this machine."""
    device = device_of(config.device)
    return f"{config.model} in {dtype_of(config.dtype, device)} on {device}"


def execution_text(device: str) -> str:
    """The executions of a device; on a CPU, why there is only one."""
    if device_of(device) == "cuda":
        return (
            "eager issues every operation separately; graph captures each pass as a CUDA graph once and replays it, "
            "one launch per pass."
        )
    why = "this run is on the CPU" if has_cuda() else "no NVIDIA GPU found"
    return plain(f"graph replays CUDA graphs and needs a GPU; {why}.")
