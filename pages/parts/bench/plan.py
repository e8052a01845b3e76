"""The plan of a run before it starts: the real scheduler and recorder on a virtual clock, without the model.

If all requests arrive at the start, the schedule does not depend on the machine, and the clock counts forward passes.
The plan is exact (`basis`) when no request can end early; with EOS the budgets are upper limits. With arrivals over
time the schedule needs pass times: it is simulated with those of the device's calibration, in seconds.
Of more requests than the page can plan at once, only the first are planned, and `requests` says how many.

Of text prompts only a tokenizer knows the lengths: chunks, padding and blocks are then estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pandas as pd

from engine.core.config import RunConfig
from engine.core.presets import PRESETS
from engine.core.record import Table
from engine.core.request import ExactPrompt
from engine.core.units import dtype_of
from engine.hardware.model_presets import model_shape
from engine.hardware.step_cost import CostModel
from engine.memory.memory_model import ModelDimensions
from engine.metrics.metric import Value
from engine.metrics.metrics import run_metrics
from engine.simulator.machine import SimulatedMachine
from engine.simulator.pass_clock import PassClock
from engine.simulator.simulator import Simulation, estimated_tokens, simulate
from engine.workload.workload import Workload
from pages.figures.timeline.queue import queue_from_passes, start_steps
from pages.figures.timeline.spans import Unit
from pages.parts.shared.devices import device_of
from pages.parts.shared.workloads import workload_of

PLANNING_S = 0.2  # the most time for one engine's plan, on a laptop's core
TOKEN_S, SERIAL_TOKEN_S, REQUEST_S, CHUNK_S, BLOCK_S = 2.5e-6, 9e-6, 4e-4, 6e-5, 2e-6  # measured, rounded up
STREAMS = ("passes", "spans", "events")
# Dimensions where the model's are unknown; only limits of memory depend on them, and such a plan has none.
ANY_MODEL = ModelDimensions(parameters=1, layers=1, kv_heads=1, head_dim=1, intermediate=1, vocab=1, value_bytes=1)

# Columns of the passes that a plan keeps: a plan of many short passes has tens of thousands.
PASS_COLUMNS = (
    *("pass_index", "step", "kind", "start_s", "end_s", "rows", "live_rows", "prompt_tokens", "queue_depth"),
    *("computed_positions", "padding_positions", "kv_reserved_positions"),
)

Basis = Literal["exact", "at most", "estimated", "simulated", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """One engine's planned run.

    `spans`, `passes` and `preemptions` are frames for `slot_timeline` in `unit`. `dead_slot_steps` are those of ended
    requests; `padding` is the share of computed positions without a token; `peak_kv_bytes` is the most KV memory
    reserved at once, None for an unknown model. `metrics` are those of a simulation in seconds, empty without pass
    times, and `source` says whose. `problem` says why there is no plan. `basis` is `estimated` where the schedule
    depends on estimated lengths of text prompts, `simulated` where it depends on pass times.
    """

    basis: Basis
    unit: Unit
    requests: int
    of_requests: int
    output_tokens: int
    prompt_tokens: int | None  # None where only a tokenizer can count them
    spans: pd.DataFrame
    passes: pd.DataFrame
    preemptions: pd.DataFrame
    peak_kv_bytes: int | None = None
    metrics: dict[str, Value]
    source: str = ""
    problem: str = ""

    @property
    def is_known(self) -> bool:
        return not self.passes.empty

    @property
    def is_sampled(self) -> bool:
        return self.requests < self.of_requests

    def kind(self, name: str) -> int:
        """The number of passes of a kind."""
        return int((self.passes["kind"] == name).sum()) if self.is_known else 0

    @property
    def num_passes(self) -> int | None:
        return len(self.passes) if self.is_known else None

    @property
    def num_steps(self) -> int | None:
        return int(self.passes["step"].max()) + 1 if self.is_known else None

    @property
    def slot_steps(self) -> int | None:
        return int(self.passes["rows"].sum()) if self.is_known else None

    @property
    def dead_slot_steps(self) -> int | None:
        return int((self.passes["rows"] - self.passes["live_rows"]).sum()) if self.is_known else None

    @property
    def padding(self) -> float | None:
        if not self.is_known:
            return None
        return float(self.passes["padding_positions"].sum() / max(1, self.passes["computed_positions"].sum()))

    @property
    def queue(self) -> pd.DataFrame:
        """The waiting requests, a frame for the strip above a timeline."""
        by_pass = {"step": self.passes["start_step"]} if self.unit == "pass" and self.is_known else {}
        return queue_from_passes(self.passes.assign(**by_pass))


@lru_cache(maxsize=16)
def plan_of(config: RunConfig, machine: SimulatedMachine | None = None, most: int | None = None) -> Plan:
    """The plan of a configuration, made once; of `most` requests at most. ValueError as build_workload."""
    return make_plan(config, workload_of(config.workload), machine, most)


def make_plan(
    config: RunConfig, workload: Workload, machine: SimulatedMachine | None = None, most: int | None = None
) -> Plan:
    """Simulate `workload`: by the pass clock where the schedule does not depend on time, else on `machine`.

    With a machine, `metrics` hold its estimate.
    """
    num_requests = num_plannable(config, workload) if most is None else min(most, len(workload.requests))
    planned = replace(workload, requests=workload.requests[:num_requests])
    specs = planned.requests
    arrives = any(spec.arrival_s > 0 for spec in specs)
    is_exact_text = all(isinstance(spec.prompt, ExactPrompt) for spec in specs)
    given: dict[str, Any] = {
        "requests": len(specs),
        "of_requests": len(workload.requests),
        "output_tokens": sum(spec.budget_tokens for spec in specs),
        "prompt_tokens": sum(estimated_tokens(spec.prompt) for spec in specs) if is_exact_text else None,
    }
    if arrives and machine is None:
        return _without_schedule("", given)
    dimensions = machine.shard if machine is not None else dimensions_of(config)
    bounded = config if dimensions is not None else replace(config, pool_gib=None, capacity_gib=None)
    metrics: dict[str, Value] = {}
    try:
        timed = None if machine is None else _simulated(config, planned, machine.cost, machine.shard)
        simulated = timed if arrives else _simulated(bounded, planned, PassClock(), dimensions or ANY_MODEL)
    except ValueError as error:
        return _without_schedule(str(error), given)
    assert simulated is not None
    for each in (simulated, timed):
        if each is not None and each.shortage is not None:
            return _without_schedule(f"it runs out of memory ({each.shortage})", given)
    if timed is not None:
        metrics = run_metrics(timed.record())
    ends_early = not all(spec.ignore_eos for spec in specs)
    logged = simulated.sink.passes()
    passes = pd.DataFrame({name: logged[name] for name in PASS_COLUMNS})
    peak = 0 if passes.empty else int(passes["kv_reserved_positions"].max())
    return Plan(
        basis="simulated" if arrives else "at most" if ends_early else _basis(config, is_exact_text),
        unit="second" if arrives else "pass",
        spans=_spans(simulated, passes, by_pass=not arrives),
        passes=_counted(passes, by_pass=not arrives),
        preemptions=_preemptions(simulated, by_pass=not arrives),
        peak_kv_bytes=None if dimensions is None else peak * dimensions.kv_position_bytes,
        metrics=metrics,
        source="" if machine is None else _source(machine),
        **given,
    )


def _source(machine: SimulatedMachine) -> str:
    """Where pass times come from, as a sentence."""
    return machine.source if machine.ceilings is None else f"by the rates of {machine.label}."


def _basis(config: RunConfig, is_exact_text: bool) -> Basis:
    """Chunks and a limited pool depend on the lengths of prompts, which of text are estimated."""
    depends = PRESETS[config.engine].is_chunked or (PRESETS[config.engine].has_blocks and config.pool_gib is not None)
    return "estimated" if depends and not is_exact_text else "exact"


def _simulated(config: RunConfig, workload: Workload, cost: CostModel, model: ModelDimensions) -> Simulation:
    return simulate(config, workload, cost, model, streams=STREAMS)


def _without_schedule(problem: str, given: dict[str, Any]) -> Plan:
    empty = pd.DataFrame()
    return Plan(
        basis="unknown", unit="pass", spans=empty, passes=empty, preemptions=empty, metrics={}, problem=problem, **given
    )


def planned_steps(config: RunConfig) -> int | None:
    """The steps of a run in advance; None where they depend on time, or where only a part of the run was planned."""
    plan = plan_of(config)
    return None if plan.is_sampled else plan.num_steps


def planned_tokens(config: RunConfig) -> int:
    """Output tokens of all requests, at most."""
    return sum(spec.budget_tokens for spec in workload_of(config.workload).requests)


def num_plannable(config: RunConfig, workload: Workload) -> int:
    """How many of the first requests can be planned in PLANNING_S: all of them, or a half, a quarter …"""
    count = len(workload.requests)
    while count > 1 and planning_s(config, workload.requests[:count]) > PLANNING_S:
        count //= 2
    return count


def planning_s(config: RunConfig, specs: Sequence[Any]) -> float:
    """Estimate how long the simulator takes for these requests."""
    tokens = sum(spec.budget_tokens for spec in specs)
    prompts = sum(estimated_tokens(spec.prompt) for spec in specs)
    total_s: float = len(specs) * REQUEST_S
    total_s += tokens * (SERIAL_TOKEN_S if config.num_slots == 1 else TOKEN_S)
    if PRESETS[config.engine].has_blocks:
        total_s += (prompts + tokens) / config.block_size * BLOCK_S
    if PRESETS[config.engine].is_chunked:
        total_s += prompts / config.max_num_batched_tokens * CHUNK_S
    return total_s


def dimensions_of(config: RunConfig) -> ModelDimensions | None:
    """The model's dimensions in the run's dtype, from its published configuration; None where unknown."""
    dtype = dtype_of(config.dtype, device_of(config.device))
    try:
        return model_shape(config.model, dtype=dtype)
    except ValueError:
        return None


def _counted(passes: pd.DataFrame, *, by_pass: bool) -> pd.DataFrame:
    """The passes with their place on the axis: pass n begins at n."""
    if passes.empty or not by_pass:
        return passes
    return passes.assign(start_step=np.arange(len(passes), dtype=float))


def _spans(simulated: Simulation, passes: pd.DataFrame, *, by_pass: bool) -> pd.DataFrame:
    """Spans for the timeline; steps are passes, or positions within steps for a schedule in seconds."""
    rows = pd.DataFrame(simulated.sink.rows("spans"))
    if rows.empty:
        return rows
    lengths: Table = simulated.sink.requests()
    prompts = dict(zip(lengths["request_id"].tolist(), lengths["prompt_tokens"].tolist(), strict=True))
    last = len(passes)
    at = np.arange(last + 1, dtype=float)
    if not by_pass:
        at = np.append(start_steps(passes).to_numpy(dtype=float), float(passes["step"].iloc[-1]) + 1.0)
    return rows.assign(
        start_step=at[rows["start_pass"].clip(upper=last).astype(int)],
        end_step=at[rows["end_pass"].fillna(last).clip(upper=last).astype(int)],
        prompt_tokens=rows["request_id"].map(prompts),
        tokens_so_far=np.nan,
    )


def _preemptions(simulated: Simulation, *, by_pass: bool) -> pd.DataFrame:
    """The preemptions for the timeline; empty without any."""
    events = pd.DataFrame(simulated.sink.rows("events"))
    if events.empty:
        return events
    found = events[events["event"] == "preempt"]
    return found.assign(step=found["pass_index"].astype(float)) if by_pass else found
