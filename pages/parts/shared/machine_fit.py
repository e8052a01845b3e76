"""Whether a run fits this machine's memory, by the estimate, before it starts."""

from __future__ import annotations

from functools import lru_cache

from engine.core.config import RunConfig
from engine.core.format import size
from engine.core.request import Length
from engine.core.units import dtype_of
from engine.hardware.machine_memory import MachineMemory, gpu_memory, host_memory
from engine.hardware.model_presets import model_shape
from engine.memory.memory_plan import EngineShape, run_memory
from engine.simulator.simulator import estimated_tokens
from pages.parts.shared.devices import device_of
from pages.parts.shared.workloads import workload_of


def memory_warning(config: RunConfig) -> str:
    """`llama-3.1-8b in fp32 needs about 32.2 GB, and this machine has 16.5 GB: …`; empty for a run that fits, and where
    the model or the memory is unknown."""
    device = device_of(config.device)
    dtype = dtype_of(config.dtype, device)
    try:
        shape = model_shape(config.model, dtype=dtype)
        specs = workload_of(config.workload).requests
    except ValueError:
        return ""
    lengths = [Length(prompt_tokens=estimated_tokens(s.prompt), budget_tokens=s.budget_tokens) for s in specs]
    need_bytes = run_memory(shape, EngineShape.of(config), config.num_slots, lengths).total_bytes
    memory = _memory_of(device)
    if memory is None or need_bytes <= memory.total_bytes:
        return ""
    return (
        f"{config.model} in {dtype} needs about {size(need_bytes)}, and {memory.name} has {size(memory.total_bytes)}: "
        "the run will fail, or the machine will swap. Simulate it on a GPU, or choose a smaller model."
    )


@lru_cache(maxsize=2)
def _memory_of(device: str) -> MachineMemory | None:
    return gpu_memory() if device == "cuda" else host_memory()
