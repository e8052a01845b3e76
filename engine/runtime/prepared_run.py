"""Prepares a run: loads the model, tokenizes the workload and checks every limit before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from engine.core.config import RunConfig
from engine.core.presets import PRESETS
from engine.core.request import Request, RequestSpec, TextPrompt
from engine.memory.memory_model import ModelDimensions
from engine.runtime.device_memory import DeviceMemory, as_out_of_memory
from engine.runtime.kv.attention_fit import install, require_length
from engine.runtime.kv.kv_cache import KVShape
from engine.runtime.models.loading import LoadedModel, load_model, resolve_device, resolve_dtype
from engine.runtime.models.model_cache import ProgressCallback
from engine.workload.workload import Workload, build_workload


@dataclass(slots=True)
class WarmModel:
    """The model that a process keeps loaded between runs, and the prompt lengths that are warmed up."""

    loaded: LoadedModel | None = None
    key: tuple[str, torch.device, torch.dtype] | None = None
    warmed: set[tuple[str, int]] = field(default_factory=set)

    def get(self, config: RunConfig, on_progress: ProgressCallback) -> tuple[LoadedModel, torch.device, torch.dtype]:
        """The model of `config`, loaded now if another one is loaded. ValueError as in `load_model`."""
        device = resolve_device(config.device)
        if config.execution == "graph" and device.type != "cuda":
            raise ValueError("execution graph: CUDA graphs need a CUDA GPU, and this run is on a CPU; use eager")
        dtype = resolve_dtype(config.dtype, device)
        key = (config.model, device, dtype)
        if self.key != key or self.loaded is None:
            self.drop()
            loaded = _load(config.model, device, dtype, on_progress)
            install(loaded.model)
            self.loaded, self.key = loaded, key
        return self.loaded, device, dtype

    def drop(self) -> None:
        self.loaded, self.key = None, None
        self.warmed.clear()


def _load(name: str, device: torch.device, dtype: torch.dtype, on_progress: ProgressCallback) -> LoadedModel:
    """`load_model`, but a model that does not fit raises EngineOutOfMemory and frees its memory."""
    memory = DeviceMemory(device)
    try:
        return load_model(name, device, dtype, on_progress)
    except (RuntimeError, MemoryError) as error:
        free_bytes = memory.sample().free_bytes
        shortage = as_out_of_memory(error, device, free_bytes, f"the weights in {dtype}", f"loading {name}")
        if shortage is None:
            raise
    memory.give_back()
    raise shortage


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """Everything a run needs before it is measured. `prompt_ids` and `prompt_texts` are keyed by request id."""

    config: RunConfig
    device: torch.device
    dtype: torch.dtype
    loaded: LoadedModel
    workload: Workload
    prompt_ids: dict[int, list[int]]
    prompt_texts: dict[int, str]

    def requests(self) -> list[Request]:
        """New requests, none of which has arrived."""
        return [Request(spec=spec, prompt_ids=self.prompt_ids[spec.request_id]) for spec in self.workload.requests]

    def kv_shape(self) -> KVShape:
        spec = self.loaded.spec
        return KVShape(
            layers=spec.layers, kv_heads=spec.kv_heads, head_dim=spec.head_dim, dtype=self.dtype, device=self.device
        )

    def dimensions(self) -> ModelDimensions:
        spec = self.loaded.spec
        return ModelDimensions(
            parameters=spec.parameters,
            layers=spec.layers,
            kv_heads=spec.kv_heads,
            head_dim=spec.head_dim,
            intermediate=spec.intermediate,
            vocab=spec.vocab,
            value_bytes=self.dtype.itemsize,
        )


def prepare_run(
    config: RunConfig, warm: WarmModel, on_progress: ProgressCallback, workload: Workload | None = None
) -> PreparedRun:
    """Build the workload (unless given), load the model, tokenize. ValueError with one clear line if it cannot run."""
    workload = workload or build_workload(config.workload)
    loaded, device, dtype = warm.get(config, on_progress)
    prompt_ids = {spec.request_id: loaded.encoder.encode(spec.prompt) for spec in workload.requests}
    _check_context(workload.requests, prompt_ids, loaded)
    _check_length(config, workload.requests, prompt_ids, loaded)
    return PreparedRun(
        config=config,
        device=device,
        dtype=dtype,
        loaded=loaded,
        workload=workload,
        prompt_ids=prompt_ids,
        prompt_texts={spec.request_id: _text(spec, prompt_ids[spec.request_id], loaded) for spec in workload.requests},
    )


def _check_context(specs: Sequence[RequestSpec], prompt_ids: dict[int, list[int]], loaded: LoadedModel) -> None:
    limit = loaded.spec.max_positions
    for spec in specs:
        length = len(prompt_ids[spec.request_id])
        if length == 0:
            raise ValueError(f"prompt {spec.request_id} has no tokens; write at least one word")
        if length + spec.budget_tokens > limit:
            raise ValueError(
                f"request {spec.request_id}: a prompt of {length:,} tokens and a budget of {spec.budget_tokens:,} "
                f"exceed the {limit:,} positions of {loaded.spec.name}; use a shorter prompt or a smaller budget"
            )


def _check_length(
    config: RunConfig, specs: Sequence[RequestSpec], prompt_ids: dict[int, list[int]], loaded: LoadedModel
) -> None:
    """A row that ended stays in its static batch: it reaches as far as the longest prompt with the largest budget."""
    lengths = [(len(prompt_ids[spec.request_id]), spec.budget_tokens) for spec in specs]
    longest = max((prompt + budget for prompt, budget in lengths), default=0)
    reached = longest
    if PRESETS[config.engine].forms_batches and lengths:
        reached = max(prompt for prompt, _ in lengths) + max(budget for _, budget in lengths)
    require_length(loaded.model.config, longest, reached)


def _text(spec: RequestSpec, ids: list[int], loaded: LoadedModel) -> str:
    return spec.prompt.text if isinstance(spec.prompt, TextPrompt) else loaded.encoder.decode(ids)
