"""The environment of a run: versions, device, clocks, threads, load. Stored with each run: results depend on it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from engine.hardware.threads import SPIN_VARIABLES

PACKAGES = ("torch", "transformers", "numpy", "pyarrow", "tokenizers", "triton")


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Plain JSON values. Unknown values are None."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: _version(name) for name in PACKAGES},
        "git_commit": _git_commit(),
        "threads": torch.get_num_threads(),
        "thread_spinning": {name: os.environ.get(name) for name in SPIN_VARIABLES},
        "cpu_count": os.cpu_count(),
        "load_average_1min": os.getloadavg()[0],
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "clocks": read_clocks(device),
    }


def describe_device(device: torch.device) -> dict[str, Any]:
    """{"kind", "name", "memory_bytes", …} of the device that runs the model."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return {
            "kind": "cuda",
            "name": properties.name,
            "memory_bytes": properties.total_memory,
            "multiprocessors": properties.multi_processor_count,
            "capability": f"{properties.major}.{properties.minor}",
        }
    return {"kind": "cpu", "name": _cpu_name(), "memory_bytes": _memory_bytes(), "threads": torch.get_num_threads()}


def num_multiprocessors(device: torch.device) -> int:
    """Multiprocessors (SMs) of a GPU; 1 for a CPU, where kernels are only interpreted."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def use_available_threads() -> None:
    """Use one thread per available core: more would compete with each other."""
    torch.set_num_threads(available_cores())


def use_exact_matmuls() -> None:
    """Multiply fp32 in fp32, not in TF32, which rounds the factors to 10 bits."""
    torch.set_float32_matmul_precision("highest")


def available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    return _output("git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD")


def read_clocks(device: torch.device) -> dict[str, str] | None:
    """The GPU's current clocks and limits from nvidia-smi; None on a CPU."""
    if device.type != "cuda":
        return None
    names = ("clocks.sm", "clocks.mem", "clocks.max.sm", "temperature.gpu", "power.draw", "driver_version")
    line = _output("nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader", "-i", "0")
    return None if line is None else dict(zip(names, (v.strip() for v in line.split(",")), strict=False))


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _output(*command: str) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return done.stdout.strip() or None if done.returncode == 0 else None
