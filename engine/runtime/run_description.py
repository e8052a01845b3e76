"""run.json of a run on this machine, with its device and environment, and the notes in result.json."""

from __future__ import annotations

from typing import Any

from engine.core.record import RunRecord
from engine.runlog.run_description import ModelDescription, RunDescription
from engine.runtime.environment import describe_device, describe_environment
from engine.runtime.graph.ladder import MAX_CAPTURED_TOKENS
from engine.runtime.prepared_run import PreparedRun


def describe_run(
    prepared: PreparedRun, run_id: str, experiment: dict[str, Any] | None, kv_blocks: int | None = None
) -> dict[str, Any]:
    """The content of run.json as plain JSON values. It must be complete without any other file."""
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


def execution_notes(prepared: PreparedRun, record: RunRecord) -> list[str]:
    """Which passes of a graph run were not replayed as CUDA graphs, and why; empty if all were."""
    if prepared.config.execution != "graph":
        return []
    # Triton is not installed everywhere; only a graph run needs it.
    from engine.runtime.graph.fused_decoder import why_not_fused

    passes = len(record.passes["bucket_tokens"])
    eager = int((record.passes["bucket_tokens"] < 0).sum())
    if eager == 0:
        return []
    reason = why_not_fused(prepared.loaded.model)
    if reason is not None:
        return [f"Every pass ran eager instead of as a CUDA graph: {reason}."]
    return [
        f"{eager:,} of {passes:,} passes ran eager: they have more than {MAX_CAPTURED_TOKENS:,} tokens, the largest "
        "captured size. Passes of that size hide their launches."
    ]
