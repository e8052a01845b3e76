"""Metrics of a simulation: those of every run, plus the time and rates of a decode step, memory and machine.

A decode step holds only a decode pass and the host's pause after it. `decode_step_s` is the median step, `tokens_per_s`
all replicas' tokens divided by the time of these steps, `tokens_per_s_per_request` the rate at the median step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.core.config import RunConfig
from engine.hardware.machine_memory import usable_bytes
from engine.memory.memory_model import PassMemory
from engine.metrics.metric import Value
from engine.metrics.metrics import run_metrics
from engine.simulator.machine import SimulatedMachine
from engine.simulator.router import merged_record
from engine.simulator.simulator import Simulation, pause_s


def replica_metrics(simulation: Simulation) -> dict[str, Value]:
    """Every metric of one run."""
    return run_metrics(simulation.record(), peak_memory_bytes=simulation.peak_bytes)


def simulated_metrics(
    simulations: Sequence[Simulation], each: Sequence[Mapping[str, Value]] | None = None
) -> dict[str, Value]:
    """Every metric over all replicas; `each` may hold the replicas' own metrics. The peak is that of one machine.

    The time between passes is the sum over replicas, since their passes overlap.
    """
    each = [replica_metrics(simulation) for simulation in simulations] if each is None else each
    if len(each) == 1:
        return dict(each[0])
    peak_bytes = max(simulation.peak_bytes for simulation in simulations)
    metrics = run_metrics(merged_record(simulations), peak_memory_bytes=peak_bytes)
    metrics["between_passes_s"] = sum(one["between_passes_s"] or 0 for one in each)
    return metrics


def decode_figures(
    simulations: Sequence[Simulation], machine: SimulatedMachine, timing: str
) -> dict[str, float | None]:
    """`decode_step_s`, `decode_rows` (median), `tokens_per_s` and `tokens_per_s_per_request`; None without decoding.

    `tokens_per_s` covers all replicas, the others one.
    """
    steps_s, rows, rates = [], [], []
    for simulation in simulations:
        passes = simulation.record().passes
        decodes = passes["kind"] == "decode"
        pass_s = (passes["end_s"] - passes["start_s"])[decodes]
        if pass_s.size:
            step_s = pass_s + np.array([pause_s(machine.cost, timing, seconds) for seconds in pass_s.tolist()])
            steps_s.append(step_s)
            rows.append(passes["live_rows"][decodes])
            rates.append(float(passes["live_rows"][decodes].sum() / step_s.sum()))
    if not steps_s:
        return dict.fromkeys(("decode_step_s", "decode_rows", "tokens_per_s", "tokens_per_s_per_request"))
    median_s = float(np.median(np.concatenate(steps_s)))
    return {
        "decode_step_s": median_s,
        "decode_rows": float(np.median(np.concatenate(rows))),
        "tokens_per_s": sum(rates),
        "tokens_per_s_per_request": 1 / median_s,
    }


def largest_need(simulations: Sequence[Simulation]) -> PassMemory | None:
    """The memory of the largest pass on one machine; None without any pass."""
    needs = (simulation.peak for simulation in simulations if simulation.peak is not None)
    return max(needs, key=lambda need: need.total_bytes, default=None)


def memory_figures(machine: SimulatedMachine, config: RunConfig, need: PassMemory | None) -> Mapping[str, Any]:
    """`fits_memory` compares the estimated peak with the usable share of the GPU's memory; None if that is unknown.

    If it does not fit, `failing_term` and `asked_bytes` name the allocation of the largest pass that fails.
    """
    shortage = None
    if machine.memory_bytes is not None and need is not None:
        shortage = need.shortage(usable_bytes(machine.memory_bytes, config.gpu_memory_utilization))
    return {
        "memory_bytes": machine.memory_bytes,
        "fits_memory": None if machine.memory_bytes is None else shortage is None,
        "failing_term": None if shortage is None else shortage.term,
        "asked_bytes": None if shortage is None else shortage.asked_bytes,
        "free_bytes": None if shortage is None else shortage.free_bytes,
    }


def machine_figures(machine: SimulatedMachine) -> Mapping[str, Any]:
    """The machine and the whole model as numbers; rates and link are those of one GPU."""
    ceilings, shape, link = machine.ceilings, machine.shape, machine.link
    return {
        "hardware": machine.name,
        "hardware_label": machine.label,
        "hardware_source": machine.source,
        "dtype": machine.dtype,
        "tensor_parallel_size": machine.gpus,
        "link_bytes_per_s": None if link is None else link.bytes_per_s,
        "all_reduce_latency_s": None if link is None else link.latency_s,
        "weight_bits": shape.weight_bits,
        "weight_bytes": shape.weight_bytes,
        "experts": shape.experts,
        "experts_per_token": shape.experts_per_token,
        "kv_position_bytes": shape.kv_position_bytes,
        "read_bytes_per_s": None if ceilings is None else ceilings.read_bytes_per_s,
        "flop_per_s": None if ceilings is None else ceilings.flop_per_s,
        "launch_s": None if ceilings is None else ceilings.launch_s,
        "kernels_per_pass": None if ceilings is None else ceilings.kernels_per_pass,
    }
