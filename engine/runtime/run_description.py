"""run.json of a run on this machine: the prepared run, its device and the environment."""

from __future__ import annotations

from typing import Any

from engine.runlog.run_description import ModelDescription, RunDescription
from engine.runtime.environment import describe_device, describe_environment
from engine.runtime.prepared_run import PreparedRun


def describe_run(
    prepared: PreparedRun, run_id: str, experiment: dict[str, Any] | None, kv_blocks: int | None = None
) -> dict[str, Any]:
    """Plain JSON values, for a reader who has nothing but the run's folder."""
    spec = prepared.loaded.spec
    return RunDescription(
        run_id=run_id,
        config=prepared.config,
        workload=prepared.workload,
        model=ModelDescription(
            size=spec,
            source=spec.source,
            dtype=str(prepared.dtype).removeprefix("torch."),
            kv_position_bytes=prepared.kv_shape().position_bytes,
            random_weights=spec.random_weights,
            eos_token_ids=spec.eos_token_ids,
            tokenizer_file=spec.tokenizer_file,
        ),
        device=describe_device(prepared.device),
        environment=describe_environment(prepared.device),
        experiment=experiment,
        kv_blocks=kv_blocks,
        simulated=False,
    ).to_dict()
