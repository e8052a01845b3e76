"""The devices, executions and dtypes that runs can use on this machine, found without loading torch.

An NVIDIA GPU is found by the driver's tool or device file. Whether torch can use it, only the worker knows.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.core.config import DEVICES, EXECUTIONS, RunConfig
from engine.core.units import dtype_of
from pages.parts.shared.markdown import plain


def has_cuda() -> bool:
    """Whether this machine has an NVIDIA driver."""
    return shutil.which("nvidia-smi") is not None or Path("/dev/nvidiactl").exists()


def available_devices() -> tuple[str, ...]:
    """The values of the device setting that work here."""
    return DEVICES if has_cuda() else tuple(name for name in DEVICES if name != "cuda")


def device_of(setting: str) -> str:
    """The device that `auto`, `cpu` or `cuda` means here."""
    return "cuda" if setting != "cpu" and has_cuda() else "cpu"


def available_executions(device: str) -> tuple[str, ...]:
    """The executions that work with this device setting; CUDA graphs need CUDA."""
    return EXECUTIONS if device_of(device) == "cuda" else ("eager",)


def model_on_device(config: RunConfig) -> str:
    """`smollm2-135m in fp32 on cpu`: a run's model, dtype and device on this machine."""
    device = device_of(config.device)
    return f"{config.model} in {dtype_of(config.dtype, device)} on {device}"


def execution_text(device: str) -> str:
    """What the executions are; on a CPU, why only one is available."""
    if device_of(device) == "cuda":
        return (
            "eager launches every kernel of a pass one by one. graph captures a pass as a CUDA graph and replays it "
            "with one launch."
        )
    reason = "this run is on the CPU" if has_cuda() else "no NVIDIA GPU found"
    return plain(f"graph (CUDA graphs) needs an NVIDIA GPU and is unavailable: {reason}.")
