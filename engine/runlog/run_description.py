"""run.json: the configuration, workload, model and device of a run. Simulated runs write the same keys as measured
ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engine.core.config import RunConfig
from engine.core.presets import PRESETS
from engine.core.run_id import utc_now
from engine.hardware.roofline import EXPERT_NUMBERS
from engine.runlog.schema import SCHEMA_VERSION
from engine.workload.workload import Workload


class ModelSize(Protocol):
    """The dimensions of a model in run.json, of a loaded model or of a model shape."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def hidden(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def intermediate(self) -> int: ...
    @property
    def vocab(self) -> int: ...
    @property
    def max_positions(self) -> int | None: ...
    @property
    def tied_embeddings(self) -> bool: ...
    @property
    def experts(self) -> int: ...
    @property
    def experts_per_token(self) -> int: ...
    @property
    def expert_parameters(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """run.json's `model`. `dtype` is torch's name; `random_weights` is None without weights.

    `weight_bits` is for a model shape, whose weights may be narrower than its dtype; None leaves the key out.
    """

    size: ModelSize
    source: str
    dtype: str
    kv_position_bytes: int
    random_weights: bool | None = None
    eos_token_ids: Sequence[int] = ()
    tokenizer_file: str | None = None
    weight_bits: int | None = None

    def to_dict(self) -> dict[str, Any]:
        size = self.size
        return {
            "name": size.name,
            "source": self.source,
            "parameters": size.parameters,
            "layers": size.layers,
            "hidden": size.hidden,
            "heads": size.heads,
            "kv_heads": size.kv_heads,
            "head_dim": size.head_dim,
            "intermediate": size.intermediate,
            "vocab": size.vocab,
            "max_positions": size.max_positions,
            "tied_embeddings": size.tied_embeddings,
            **_experts(size),
            "random_weights": self.random_weights,
            "eos_token_ids": list(self.eos_token_ids),
            "dtype": self.dtype,
            **({} if self.weight_bits is None else {"weight_bits": self.weight_bits}),
            "kv_position_bytes": self.kv_position_bytes,
            "tokenizer_file": self.tokenizer_file,
        }


def _experts(size: ModelSize) -> dict[str, int]:
    """The numbers of a mixture's experts; empty for a dense model."""
    if not size.experts:
        return {}
    return {name: getattr(size, name) for name in EXPERT_NUMBERS}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDescription:
    """The content of run.json, written before the run starts. `kv_blocks` is None if KV memory is not paged."""

    run_id: str
    config: RunConfig
    workload: Workload
    model: ModelDescription
    device: Mapping[str, Any]
    environment: Mapping[str, Any]
    experiment: Mapping[str, Any] | None
    kv_blocks: int | None
    simulated: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, with the current time as `created_at`. Values that do not apply are null."""
        config, preset = self.config, PRESETS[self.config.engine]
        return {
            "run_id": self.run_id,
            "schema_version": SCHEMA_VERSION,
            "created_at": utc_now(),
            "engine": config.engine,
            "policy": preset.policy,
            "kv_layout": preset.kv_layout,
            "kv_blocks": self.kv_blocks,
            "block_size": None if self.kv_blocks is None else config.block_size,
            "max_num_batched_tokens": config.max_num_batched_tokens if PRESETS[config.engine].is_chunked else None,
            "execution": config.execution,
            "timing": config.timing,
            "config": config.to_dict(),
            "workload": {
                "digest": self.workload.digest,
                "requests": len(self.workload.requests),
                "prompts": config.workload.prompts,
                "budget": config.workload.budget,
                "arrival": config.workload.arrival,
                "seed": config.workload.seed,
            },
            "model": self.model.to_dict(),
            "device": dict(self.device),
            "environment": dict(self.environment),
            "experiment": self.experiment,
            "simulated": self.simulated,
        }
