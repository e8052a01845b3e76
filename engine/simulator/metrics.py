"""What a simulation says beside the metrics of every run: a decode step's time and rates, and what the machine holds.

A decode step is one that only decodes: a pass and the host's pause after it. `decode_step_s` is the median one,
`tokens_per_s` all replicas' tokens by such steps' seconds, `tokens_per_s_per_request` one reader's at the median step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.core.config import RunConfig
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
    """Every metric over all replicas; `each` are theirs, where they are known. The peak is of one machine.

    Seconds between passes are the sum of each replica's: the passes of two overlap.
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
    """`decode_step_s`, `decode_rows` (of the median decode-only step), `tokens_per_s`, `tokens_per_s_per_request`; None
    where nothing decodes. `tokens_per_s` is of all replicas, the others are of one."""
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
    """What the pass needs that needs most, on one machine; None where no pass was made."""
    needs = (simulation.peak for simulation in simulations if simulation.peak is not None)
    return max(needs, key=lambda need: need.total_bytes, default=None)


def memory_figures(machine: SimulatedMachine, config: RunConfig, need: PassMemory | None) -> Mapping[str, Any]:
    """`fits_memory` holds the estimated peak against the share of the card that may be used; where it is too much, the
    term of the largest pass that no longer fits, and how much it asks for in one piece. None where the memory is not
    known."""
    shortage = None
    if machine.memory_bytes is not None and need is not None:
        shortage = need.shortage(int(machine.memory_bytes * config.gpu_memory_utilization))
    return {
        "memory_bytes": machine.memory_bytes,
        "fits_memory": None if machine.memory_bytes is None else shortage is None,
        "failing_term": None if shortage is None else shortage.term,
        "asked_bytes": None if shortage is None else shortage.asked_bytes,
        "free_bytes": None if shortage is None else shortage.free_bytes,
    }


def machine_figures(machine: SimulatedMachine) -> Mapping[str, Any]:
    """The machine and the model in numbers."""
    ceilings, shape = machine.ceilings, machine.shape
    return {
        "hardware": machine.name,
        "hardware_label": machine.label,
        "hardware_source": machine.source,
        "dtype": machine.dtype,
        "weight_bits": shape.weight_bits,
        "weight_bytes": shape.weight_bytes,
        "kv_position_bytes": shape.kv_position_bytes,
        "read_bytes_per_s": None if ceilings is None else ceilings.read_bytes_per_s,
        "flop_per_s": None if ceilings is None else ceilings.flop_per_s,
        "launch_s": None if ceilings is None else ceilings.launch_s,
        "kernels_per_pass": None if ceilings is None else ceilings.kernels_per_pass,
    }
