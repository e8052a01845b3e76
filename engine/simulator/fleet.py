"""How many GPUs serve a rate within latency limits: replicas of a model, each on one or more GPUs, by simulation.

For each tensor parallel size the highest rate of one replica is searched by halving: the rate at which SHARE of all
requests still meet every limit. A rate needs as many replicas as that rate fits into it, rounded up, behind an even
router. Memory counts: the KV pool is what a GPU has left, and a replica that does not fit serves nothing.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from engine.core.config import RunConfig
from engine.core.errors import FieldError
from engine.core.units import GIB
from engine.hardware.machine_memory import usable_bytes
from engine.hardware.tensor_parallel import possible_sizes
from engine.load.goodput import Limits, goodput
from engine.load.occupancy import Occupancy
from engine.simulator.machine import SimulatedMachine, SimulationTarget
from engine.simulator.simulator import Simulation, require_context, simulate
from engine.workload.arrivals import ConstantArrival, GammaArrival, PoissonArrival, parse_arrival
from engine.workload.workload import build_workload

SHARE = 0.95  # of all requests that must meet the limits
HALVINGS = 7  # the highest rate is found within a hundredth of the capacity
LEAST_REQUESTS, BATCHES = 200, 8  # of one simulation: enough for a queue to show
MOST_REQUESTS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """One tensor parallel size. `rate_per_replica` is the highest rate within the limits; None if no rate is, or if the
    replica does not fit, for which `shortage` gives the reason. `tokens_per_s_per_gpu` is at that rate."""

    tensor_parallel_size: int
    fits: bool
    shortage: str
    rate_per_replica: float | None
    replicas: int | None
    gpus: int | None
    tokens_per_s_per_gpu: float | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The answer for one GPU and model: a row per tensor parallel size. `requests` are simulated for each rate."""

    hardware: str
    hardware_label: str
    rate: float
    requests: int
    rows: tuple[FleetRow, ...]

    @property
    def best(self) -> FleetRow | None:
        """The row with the fewest GPUs, of equal ones the smallest size; None if no row serves the rate."""
        served = [row for row in self.rows if row.gpus is not None]
        return min(served, key=lambda row: (row.gpus or 0, row.tensor_parallel_size), default=None)


def find_fleet(config: RunConfig, target: SimulationTarget, limits: Limits) -> Fleet:
    """Search every size that divides the model's KV heads. ValueError without a rate or a limit, or for a bad setting.

    The rate is that of `config`'s arrivals, whose law stays.
    """
    rate = arrival_rate(config.workload.arrival)
    if rate is None:
        raise FieldError("arrival", f"arrival {config.workload.arrival}: use a rate, such as poisson:8")
    if not limits:
        raise FieldError("ttft_limit_s", "ttft-limit-s: set a limit of TTFT or TPOT, in seconds")
    alone = replace(target, tensor_parallel_size=1).machine(config)
    sizes = possible_sizes(alone.shape.kv_heads)
    requests = num_requests(config)
    longer = replace(config, workload=replace(config.workload, requests=requests))
    rows = [_row(longer, replace(target, tensor_parallel_size=size).machine(config), limits, rate) for size in sizes]
    return Fleet(hardware=target.hardware, hardware_label=alone.label, rate=rate, requests=requests, rows=tuple(rows))


def arrival_rate(arrival: str) -> float | None:
    """Requests per second of a law of arrivals; None if all arrive at once."""
    found = parse_arrival(arrival)
    return found.rate if isinstance(found, PoissonArrival | ConstantArrival | GammaArrival) else None


def num_requests(config: RunConfig) -> int:
    """The requests of one simulation: enough to fill all slots several times."""
    wanted = max(LEAST_REQUESTS, BATCHES * config.num_slots, config.workload.requests)
    return min(MOST_REQUESTS, wanted)


def _row(config: RunConfig, machine: SimulatedMachine, limits: Limits, rate: float) -> FleetRow:
    limited = replace(config, capacity_gib=_capacity_gib(config, machine))
    at_once = _simulated(limited, machine, "closed")
    row = FleetRow(
        tensor_parallel_size=machine.gpus,
        fits=at_once.shortage is None,
        shortage="" if at_once.shortage is None else str(at_once.shortage),
        rate_per_replica=None,
        replicas=None,
        gpus=None,
        tokens_per_s_per_gpu=None,
    )
    if not row.fits or not at_once.duration_s:
        return row
    highest = _highest_rate(limited, machine, limits, limited.workload.requests / at_once.duration_s)
    if highest is None:
        return row
    tokens = np.mean([spec.budget_tokens for spec in build_workload(limited.workload).requests])
    replicas = math.ceil(rate / highest)
    return replace(
        row,
        rate_per_replica=highest,
        replicas=replicas,
        gpus=replicas * machine.gpus,
        tokens_per_s_per_gpu=float(highest * tokens / machine.gpus),
    )


def _capacity_gib(config: RunConfig, machine: SimulatedMachine) -> float | None:
    """What a run may use of one GPU's memory: its share, or the configuration's own limit if that is less."""
    own = () if config.capacity_gib is None else (config.capacity_gib,)
    of_gpu = (
        ()
        if machine.memory_bytes is None
        else (usable_bytes(machine.memory_bytes, config.gpu_memory_utilization) / GIB,)
    )
    return min((*own, *of_gpu), default=None)


def _highest_rate(config: RunConfig, machine: SimulatedMachine, limits: Limits, capacity: float) -> float | None:
    """By halving between 0 and the rate at which all requests are served when they arrive at once."""
    low, high = 0.0, capacity
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _share_within(config, machine, limits, middle) >= SHARE else (low, middle)
    return low or None


def _share_within(config: RunConfig, machine: SimulatedMachine, limits: Limits, rate: float) -> float:
    """The share of requests that meet the limits at a rate; 0 if memory ends."""
    simulation = _simulated(config, machine, _with_rate(config.workload.arrival, rate))
    record = simulation.record()
    found = goodput(record, limits, Occupancy.of(record), None)
    return 0.0 if simulation.shortage is not None or found is None else found.share


def _with_rate(arrival: str, rate: float) -> str:
    """The same law of arrivals at another rate."""
    found = parse_arrival(arrival)
    spread = f":{found.cv!r}" if isinstance(found, GammaArrival) else ""
    return f"{arrival.strip().partition(':')[0]}:{rate!r}{spread}"


def _simulated(config: RunConfig, machine: SimulatedMachine, arrival: str) -> Simulation:
    workload = build_workload(replace(config.workload, arrival=arrival))
    require_context(workload, machine.shape)
    return simulate(config, workload, machine.cost, machine.shard)
