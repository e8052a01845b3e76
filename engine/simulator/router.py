"""Several replicas of one engine behind a router, which sends each request to one replica when it arrives.

Each replica is a separate machine with a copy of the weights. Round robin assigns requests in turn; least loaded picks
the replica with the fewest unfinished requests, the first one on a tie.
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
    """The number of replicas and the router. ValueError for invalid values."""

    replicas: int = option(
        1,
        label="Replicas",
        help="number of machines, each with a copy of the model",
        flags=("--replicas",),
        takes=Bounds(low=1, high=MAX_REPLICAS),
        metavar="N",
        group="machine",
    )
    router: str = option(
        "round-robin",
        label="Router",
        help="how requests are assigned to replicas: in turn, or to the least loaded",
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
    """One simulation per replica, over the requests it got; see `simulate`."""
    requests = simulated_requests(workload, prompt_length)
    if routing.router == "least-loaded" and routing.replicas > 1:
        if config.form.rule != "arrived":
            raise FieldError(
                "router",
                f"router least-loaded: form {config.form} waits for requests that are not routed yet; use form arrived",
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
    """Give each request to the least loaded replica at its arrival."""
    for request in requests:
        arrival_s = request.spec.arrival_s
        for replica in replicas:
            replica.advance(arrival_s)
        min(replicas, key=lambda r: r.num_present(arrival_s)).give(request)


def merged_record(simulations: Sequence[Simulation]) -> RunRecord:
    """All replicas as one record, for metrics of requests and tokens and for sums over passes.

    Steps keep distinct numbers. Passes of different replicas overlap, so their times add up to more than the run's.
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
