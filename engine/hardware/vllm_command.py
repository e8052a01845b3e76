"""The settings of a run as a `vllm serve` command, with a sentence for each setting that vLLM has no counterpart of.

Flags as in vLLM 0.20 and later. vLLM pages its KV and batches continuously, always; workload and sampling belong to its
clients.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from engine.core.config import RunConfig
from engine.core.presets import PRESETS
from engine.core.units import GIB, dtype_of
from engine.hardware.model_catalog import find_entry

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
HUB_IDS = {
    "smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "qwen2.5-1.5b": "Qwen/Qwen2.5-1.5B-Instruct",
    "llama-3.1-8b": "meta-llama/Llama-3.1-8B-Instruct",
    "llama-3.1-70b": "meta-llama/Llama-3.1-70B-Instruct",
}  # by the lab's short names; another name is a folder or a hub id already
RANDOM = "-random"
GPU_BLOCK = 16  # vLLM's attention kernels take blocks of this many tokens, or multiples


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmCommand:
    """`command` is empty where vLLM cannot do the same. `notes` are sentences on what differs."""

    command: str
    notes: tuple[str, ...]


def vllm_command(config: RunConfig, *, gpus: int = 1) -> VllmCommand:
    """The `vllm serve` command nearest to these settings, for `gpus` GPUs that share the model."""
    if PRESETS[config.engine].forms_batches:
        note = "vLLM has no static batching: requests join and leave at every step. Choose another engine."
        return VllmCommand(command="", notes=(note,))
    if config.model == "tiny-random":
        return VllmCommand(command="", notes=("tiny-random is made in code; vLLM cannot load it.",))
    flags = [*_model_flags(config), *_scheduling_flags(config), *_memory_flags(config)]
    flags += ["--tensor-parallel-size", str(gpus)] if gpus > 1 else []
    flags += ["--no-enable-prefix-caching", "--seed", str(config.workload.seed)]
    return VllmCommand(command=shlex.join(["vllm", "serve", *flags]), notes=_notes(config))


def _model_flags(config: RunConfig) -> list[str]:
    """The model's hub id, its dtype (`auto` is the one that the lab takes on a GPU), and random weights."""
    name = config.model.removesuffix(RANDOM)
    entry = find_entry(name)
    model = (entry.hub_id if entry is not None else None) or HUB_IDS.get(name, config.model)
    flags = [model, "--dtype", DTYPES[dtype_of(config.dtype, "cuda")]]
    return flags + (["--load-format", "dummy"] if name != config.model else [])


def _scheduling_flags(config: RunConfig) -> list[str]:
    flags = ["--max-num-seqs", str(config.num_slots)]
    if PRESETS[config.engine].is_chunked:
        flags += ["--enable-chunked-prefill", "--max-num-batched-tokens", str(config.max_num_batched_tokens)]
    else:
        flags += ["--no-enable-chunked-prefill"]
    flags += ["--enforce-eager"] if config.execution == "eager" else []
    return flags + ["--async-scheduling" if config.timing == "async" else "--no-async-scheduling"]


def _memory_flags(config: RunConfig) -> list[str]:
    flags = ["--block-size", str(config.block_size)] if PRESETS[config.engine].has_blocks else []
    flags += ["--gpu-memory-utilization", str(config.gpu_memory_utilization)]
    if config.pool_gib is not None:
        flags += ["--kv-cache-memory-bytes", str(round(config.pool_gib * GIB))]
    return flags


def _notes(config: RunConfig) -> tuple[str, ...]:
    has_blocks = PRESETS[config.engine].has_blocks
    sampling = config.sampling
    known = (
        ("Slots of a fixed width have no counterpart: vLLM pages its KV.", not has_blocks),
        (
            f"vLLM's GPU kernels need blocks of {GPU_BLOCK} tokens or multiples of it.",
            has_blocks and config.block_size % GPU_BLOCK != 0,
        ),
        ("The limit of all memory has no counterpart.", config.capacity_gib is not None),
        (
            "Temperature, top-k and top-p are set per request in vLLM.",
            not sampling.is_greedy or bool(sampling.top_k) or sampling.top_p < 1,
        ),
    )
    return tuple(note for note, applies in known if applies)
