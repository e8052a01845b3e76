"""run.json: what will run, on what, where. Written before anything is measured."""

from __future__ import annotations

from typing import Any

from engine.core.presets import PRESETS
from engine.core.timestamp import utc_now
from engine.runlog.schema import SCHEMA_VERSION
from engine.runtime.environment import describe_device, describe_environment
from engine.runtime.prepared_run import PreparedRun


def describe_run(
    prepared: PreparedRun, run_id: str, experiment: dict[str, Any] | None, kv_blocks: int | None = None
) -> dict[str, Any]:
    """Plain JSON values, for a reader who has nothing but the run's folder. What does not apply is null."""
    config, spec = prepared.config, prepared.loaded.spec
    preset = PRESETS[config.engine]
    return {
        "run_id": run_id,
        "schema_version": SCHEMA_VERSION,
        "created_at": utc_now(),
        "engine": config.engine,
        "policy": preset.policy,
        "kv_layout": preset.kv_layout,
        "kv_blocks": kv_blocks,
        "block_size": None if kv_blocks is None else config.block_size,
        "max_num_batched_tokens": config.max_num_batched_tokens if config.engine == "chunked" else None,
        "execution": config.execution,
        "timing": config.timing,
        "config": config.to_dict(),
        "workload": {
            "digest": prepared.workload.digest,
            "requests": len(prepared.workload.requests),
            "prompts": config.workload.prompts,
            "budget": config.workload.budget,
            "arrival": config.workload.arrival,
            "seed": config.workload.seed,
        },
        "model": {
            "name": spec.name,
            "source": spec.source,
            "parameters": spec.parameters,
            "layers": spec.layers,
            "hidden": spec.hidden,
            "heads": spec.heads,
            "kv_heads": spec.kv_heads,
            "head_dim": spec.head_dim,
            "intermediate": spec.intermediate,
            "vocab": spec.vocab,
            "max_positions": spec.max_positions,
            "random_weights": spec.random_weights,
            "eos_token_ids": list(spec.eos_token_ids),
            "dtype": str(prepared.dtype).removeprefix("torch."),
            "kv_position_bytes": prepared.kv_shape().position_bytes,
            "tokenizer_file": spec.tokenizer_file,
        },
        "device": describe_device(prepared.device),
        "environment": describe_environment(prepared.device),
        "experiment": experiment,
        "simulated": False,
    }
