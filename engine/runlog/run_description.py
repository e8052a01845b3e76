"""run.json: what runs, on what, where. Measured and simulated runs write the same keys in the same order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engine.core.config import RunConfig
from engine.core.presets import PRESETS
from engine.core.run_id import utc_now
from engine.runlog.schema import SCHEMA_VERSION
from engine.workload.workload import Workload


class ModelSize(Protocol):
    """The numbers of a model that run.json states, of a loaded model or of a shape alone."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """run.json's `model`. `dtype` is torch's name; `random_weights` is None where there are no weights.

    `weight_bits` is stated for a shape whose weights may be narrower than its dtype; None leaves the key out.
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
            "random_weights": self.random_weights,
            "eos_token_ids": list(self.eos_token_ids),
            "dtype": self.dtype,
            **({} if self.weight_bits is None else {"weight_bits": self.weight_bits}),
            "kv_position_bytes": self.kv_position_bytes,
            "tokenizer_file": self.tokenizer_file,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDescription:
    """What run.json says of a run before anything is measured. `kv_blocks` is None where KV memory is not in blocks."""

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
        """Plain JSON values, created now. What does not apply is null."""
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
            "max_num_batched_tokens": config.max_num_batched_tokens if config.engine == "chunked" else None,
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
