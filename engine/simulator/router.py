"""Several replicas of one engine behind a router: each request is sent to one of them as it arrives, and stays there.

A replica is a machine of its own with its own copy of the weights. Round robin deals requests out in turn; least loaded
sends each to the replica with the fewest requests that have not ended, the first of equals.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from engine.core.config import RunConfig
from engine.core.errors import FieldError
from engine.core.option import Bounds, Choices, check_options, option
from engine.core.record import RunRecord, Table
from engine.core.request import Request
from engine.hardware.step_cost import CostModel
from engine.memory.memory_model import ModelDimensions
from engine.simulator.simulator import PromptLength, Replica, Simulation, estimated_tokens, simulated_requests
from engine.workload.workload import Workload

ROUTERS = ("round-robin", "least-loaded")
MAX_REPLICAS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """How many replicas, and how requests find theirs. ValueError for what is neither."""

    replicas: int = option(
        1,
        label="Replicas",
        help="machines with a copy of the model each",
        flags=("--replicas",),
        takes=Bounds(low=1, high=MAX_REPLICAS),
        metavar="N",
        group="machine",
    )
    router: str = option(
        "round-robin",
        label="Router",
        help="which replica a request goes to: each in turn, or the least loaded",
        flags=("--router",),
        takes=Choices(ROUTERS),
        group="machine",
    )

    def __post_init__(self) -> None:
        check_options(self)


def simulate_replicas(
    config: RunConfig,
    workload: Workload,
    cost: CostModel,
    model: ModelDimensions,
    routing: Routing,
    *,
    prompt_length: PromptLength = estimated_tokens,
    streams: Collection[str] = (),
) -> list[Simulation]:
    """One simulation a replica, over the requests that it got; see `simulate`."""
    requests = simulated_requests(workload, prompt_length)
    if routing.router == "least-loaded" and routing.replicas > 1:
        if config.form.rule != "arrived":
            raise FieldError(
                "router", f"router least-loaded: form {config.form} waits for requests not routed yet; use arrived"
            )
        replicas = [
            Replica(config, requests, cost, model, is_routed=True, streams=streams) for _ in range(routing.replicas)
        ]
        _route_by_load(replicas, requests)
    else:
        replicas = [
            Replica(config, requests[i :: routing.replicas], cost, model, streams=streams)
            for i in range(routing.replicas)
        ]
    for replica in replicas:
        replica.advance()
    return [replica.end() for replica in replicas]


def _route_by_load(replicas: Sequence[Replica], requests: Sequence[Request]) -> None:
    """Give each request to the least loaded replica at the moment of its arrival."""
    for request in requests:
        arrival_s = request.spec.arrival_s
        for replica in replicas:
            replica.advance(arrival_s)
        min(replicas, key=lambda r: r.num_present(arrival_s)).give(request)


def merged_record(simulations: Sequence[Simulation]) -> RunRecord:
    """All replicas as one record, for metrics of requests and tokens, and sums over passes; steps stay apart.

    Passes of different replicas overlap: their seconds add up to more than the run took.
    """
    records = [simulation.record() for simulation in simulations]
    steps = 0
    for record in records:
        record.passes["step"] = record.passes["step"] + steps
        steps += len(record.passes["step"])
    return RunRecord(
        requests=_joined([record.requests for record in records]),
        passes=_joined([record.passes for record in records]),
        tokens=_joined([record.tokens for record in records]),
    )


def _joined(tables: Sequence[Table]) -> Table:
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
