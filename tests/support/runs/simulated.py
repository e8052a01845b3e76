"""Simulated runs for tests: workloads by hand, and machines on which a pass takes what a formula in the test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.passes import PassKind
from engine.core.request import ExactPrompt, RequestSpec
from engine.hardware.model_presets import model_shape
from engine.hardware.roofline import ModelShape, PassStats, causal_pairs
from engine.simulator.machine import simulated_machine
from engine.simulator.simulator import Simulation, simulate
from engine.workload.workload import Workload, build_workload

TINY = model_shape("tiny-random")
STREAMS = ("passes", "spans", "blocks", "events")


@dataclass(frozen=True)
class FormulaCost:
    """`seconds` of a pass's facts."""

    seconds: Callable[[PassStats], float]
    host_s: float = 0.0

    def pass_s(self, facts: PassStats) -> float:
        return self.seconds(facts)


def prefill_stats(rows: int, prompt_tokens: int) -> PassStats:
    """A prefill of `rows` equal prompts, none of them padded."""
    return PassStats(
        kind=PassKind.PREFILL,
        rows=rows,
        decode_rows=0,
        segments=rows,
        tokens=rows * prompt_tokens,
        kv_positions=rows * prompt_tokens,
        attention_pairs=rows * causal_pairs(prompt_tokens),
        width=prompt_tokens,
        masked=False,
    )


ONE_SECOND = FormulaCost(lambda facts: 1.0)


def requests_of(rows: Sequence[tuple[int, int, float]]) -> Workload:
    """One request a (prompt tokens, budget, arrival in seconds)."""
    specs = tuple(
        RequestSpec(
            request_id=i,
            prompt=ExactPrompt(tokens=prompt, passage=i),
            budget_tokens=budget,
            ignore_eos=True,
            arrival_s=arrival_s,
            sampling_seed=i,
        )
        for i, (prompt, budget, arrival_s) in enumerate(rows)
    )
    return Workload(config=WorkloadConfig(requests=len(specs)), requests=specs)


def played(
    config: RunConfig,
    rows: Sequence[tuple[int, int, float]],
    cost: Any = ONE_SECOND,
    model: ModelShape = TINY,
    **more: Any,
) -> Simulation:
    return simulate(config, requests_of(rows), cost, model, **more)


def on_card(config: RunConfig, hardware: str, workload: Workload | None = None, **more: Any) -> Simulation:
    """A run of `config`'s workload on a card by its preset."""
    machine = simulated_machine(config, hardware)
    return simulate(config, workload or build_workload(config.workload), machine.cost, machine.shape, **more)
