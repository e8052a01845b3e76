"""The passes and slot-steps of a run before it starts, counted by running the real scheduler without the model.

The scheduler needs only lengths and budgets, so the counts are exact (`basis`) if all requests arrive at the start and
none ends early. With EOS the budgets are upper limits. With arrivals over time, the number of passes depends on the
machine's speed and is unknown. Paged engines are counted with a pool that never runs out: preemption adds passes. The
number of chunks depends on prompt lengths, which for text only a tokenizer knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from engine.core.config import RunConfig
from engine.core.passes import PassKind
from engine.core.presets import PRESETS, make_scheduler
from engine.core.request import ExactPrompt, Request, RequestSpec
from engine.workload.workload import Workload
from pages.parts.shared.workloads import workload_of

MAX_TOKENS = 400_000  # counted in about a second; more takes too long for a form
MAX_PAGED_TOKENS = 400_000  # prompts included: their blocks are assigned one by one

Basis = Literal["exact", "at most", "unknown"]
Unknown = Literal["arrivals", "size", "prompt lengths"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`dead_slot_steps` are those of finished requests. `unknown` says why the passes cannot be counted in advance."""

    basis: Basis
    requests: int
    output_tokens: int
    prompt_tokens: int | None  # None where only a tokenizer can count them
    steps: int | None
    prefill_passes: int | None
    decode_passes: int | None
    mixed_passes: int | None
    slot_steps: int | None
    unknown: Unknown | None = None

    @property
    def passes(self) -> int | None:
        if self.prefill_passes is None or self.decode_passes is None or self.mixed_passes is None:
            return None
        return self.prefill_passes + self.decode_passes + self.mixed_passes

    @property
    def dead_slot_steps(self) -> int | None:
        return None if self.slot_steps is None else self.slot_steps - self.output_tokens


@lru_cache(maxsize=64)
def forecast_of(config: RunConfig) -> Forecast:
    """The forecast of a configuration, computed once. ValueError as build_workload."""
    return forecast(config, workload_of(config.workload))


def forecast(config: RunConfig, workload: Workload) -> Forecast:
    """Run the scheduler of `config` over the workload; every pass completes at once."""
    specs = workload.requests
    output_tokens = sum(spec.budget_tokens for spec in specs)
    exact = all(isinstance(spec.prompt, ExactPrompt) for spec in specs)
    prompt_tokens = sum(_prompt_tokens(spec) for spec in specs) if exact else None
    unknown = _unknown(config, specs, output_tokens + (prompt_tokens or 0), exact)
    basis: Basis = "exact" if all(spec.ignore_eos for spec in specs) else "at most"
    walked = (None, None, None, None, None) if unknown else _walk(config, specs)
    steps, prefill_passes, decode_passes, mixed_passes, slot_steps = walked
    return Forecast(
        basis="unknown" if unknown else basis,
        requests=len(specs),
        output_tokens=output_tokens,
        prompt_tokens=prompt_tokens,
        steps=steps,
        prefill_passes=prefill_passes,
        decode_passes=decode_passes,
        mixed_passes=mixed_passes,
        slot_steps=slot_steps,
        unknown=unknown,
    )


def _unknown(config: RunConfig, specs: tuple[RequestSpec, ...], tokens: int, exact: bool) -> Unknown | None:
    """Why the passes cannot be counted in advance; None where they can."""
    if any(spec.arrival_s > 0 for spec in specs):
        return "arrivals"
    if sum(spec.budget_tokens for spec in specs) > MAX_TOKENS or (is_paged(config) and tokens > MAX_PAGED_TOKENS):
        return "size"
    return "prompt lengths" if PRESETS[config.engine].is_chunked and not exact else None


def is_paged(config: RunConfig) -> bool:
    """Whether the engine keeps its KV memory in blocks."""
    return PRESETS[config.engine].has_blocks


def _walk(config: RunConfig, specs: tuple[RequestSpec, ...]) -> tuple[int, int, int, int, int]:
    """Steps; prefill, decode and mixed passes; slot-steps of the whole run. All requests arrive at 0 s."""
    requests = [Request(spec=spec, prompt_ids=[0] * _prompt_tokens(spec)) for spec in specs]
    scheduler = make_scheduler(config, requests)
    passes = dict.fromkeys(PassKind, 0)
    slot_steps = 0
    while not scheduler.is_done:
        scheduler.submit_arrived(0.0)
        scheduler.admit(0.0)
        for kind in scheduler.kinds:
            planned = scheduler.plan(kind)
            if planned is not None:
                passes[planned.kind] += 1
                slot_steps += len(planned.rows)
                scheduler.complete(planned)
    prefill, decode, mixed = (passes[kind] for kind in (PassKind.PREFILL, PassKind.DECODE, PassKind.MIXED))
    return scheduler.step + 1, prefill, decode, mixed, slot_steps


def _prompt_tokens(spec: RequestSpec) -> int:
    """The prompt's length; 1 where only a tokenizer knows it. Without chunks no pass or slot-step depends on it."""
    return spec.prompt.tokens if isinstance(spec.prompt, ExactPrompt) else 1
