"""Replicas behind a router: twice the machines, twice the tokens/s, the same rate per request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.form_rule import FormRule
from engine.metrics.metrics import run_metrics
from engine.simulator.machine import simulated_machine
from engine.simulator.metrics import decode_figures, simulated_metrics
from engine.simulator.router import Routing, merged_record, simulate_replicas
from engine.simulator.simulator import Simulation, simulate
from engine.workload.workload import build_workload
from tests.support.runs.simulated import ONE_SECOND, TINY, requests_of


def routed(
    rows: list[tuple[int, int, float]], replicas: int, router: str, slots: int = 1, engine: str = "continuous"
) -> list[Simulation]:
    config = RunConfig(engine=engine, slots=slots)
    return simulate_replicas(config, requests_of(rows), ONE_SECOND, TINY, Routing(replicas=replicas, router=router))


def who(simulations: list[Simulation]) -> list[list[int]]:
    return [simulation.sink.requests()["request_id"].tolist() for simulation in simulations]


def test_round_robin_assigns_in_turn() -> None:
    assert who(routed([(4, 2, float(i)) for i in range(5)], 2, "round-robin")) == [[0, 2, 4], [1, 3]]


def test_least_loaded_counts_unfinished_requests() -> None:
    # 0 runs on replica 0 until second 9. 1 goes to the empty replica 1 and ends at 3. 2 and 3 find replica 1 empty
    # again: 2 ends there at second 6, just as 3 comes. 4 finds one request on each, and takes the first.
    rows = [(4, 9, 0.0), (4, 2, 1.0), (4, 2, 4.0), (4, 9, 6.0), (4, 2, 7.0)]
    assert who(routed(rows, 2, "least-loaded")) == [[0, 4], [1, 2, 3]]
    assert who(routed(rows, 2, "round-robin")) == [[0, 2, 4], [1, 3]]


def test_a_request_in_its_last_pass_still_counts() -> None:
    # At 1.5 request 0 is in its last pass, which ends at 2, so it is unfinished.
    assert who(routed([(4, 2, 0.0), (4, 2, 1.5)], 2, "least-loaded")) == [[0], [1]]
    assert who(routed([(4, 2, 0.0), (4, 2, 2.0)], 2, "least-loaded")) == [[0, 1], []]


def test_least_loaded_waits_less_with_mixed_lengths() -> None:
    rows = [(4, 60 if i % 2 == 0 else 2, 3.0 * i) for i in range(40)]
    waits = [
        run_metrics(merged_record(routed(rows, 2, router, slots=4)))["queue_wait_max_s"]
        for router in ("round-robin", "least-loaded")
    ]
    assert waits[1] < waits[0]


@pytest.mark.parametrize("engine", ["serial", "static", "continuous", "paged", "chunked"])
def test_requests_given_later_run_as_if_known_from_the_start(engine: str) -> None:
    """Each replica gives the same result whether its requests are given one by one or all at the start."""
    rows = [(4 + i, 3 + i % 17, 0.0 if i < 8 else 1.3 * i) for i in range(40)]
    config = RunConfig(engine=engine, slots=3, max_num_batched_tokens=16)
    workload = requests_of(rows)
    routing = Routing(replicas=2, router="least-loaded")
    for replica in simulate_replicas(config, workload, ONE_SECOND, TINY, routing):
        here = set(replica.sink.requests()["request_id"].tolist())
        mine = replace(workload, requests=tuple(s for s in workload.requests if s.request_id in here))
        assert 0 < len(here) < 40
        assert replica.sink.rows("requests") == simulate(config, mine, ONE_SECOND, TINY).sink.rows("requests")


def test_two_gpus_double_the_total_rate_at_the_same_rate_per_request() -> None:
    figures = []
    for replicas in (1, 2):
        workload = WorkloadConfig(prompts="p2300", requests=64 * replicas, budget="32")
        config = RunConfig(model="llama-3.1-8b", engine="continuous", execution="graph", slots=64, workload=workload)
        machine = simulated_machine(config, "h100")
        routing = Routing(replicas=replicas, router="least-loaded")
        made = simulate_replicas(config, build_workload(workload), machine.cost, machine.shape, routing)
        figures.append({**simulated_metrics(made), **decode_figures(made, machine, config.timing)})
    one, two = figures
    assert two["tokens_per_s"] == pytest.approx(2 * one["tokens_per_s"])
    assert two["tokens_per_s_per_request"] == pytest.approx(one["tokens_per_s_per_request"])
    assert two["output_tokens_per_s"] == pytest.approx(2 * one["output_tokens_per_s"])
    assert two["steps"] == 2 * one["steps"]


def test_surplus_replicas_stay_idle() -> None:
    for router in ("round-robin", "least-loaded"):
        made = routed([(4, 2, 0.0)], 3, router)
        assert [len(simulation.tokens["request_id"]) for simulation in made] == [2, 0, 0]
        assert simulated_metrics(made)["output_tokens"] == 2


@pytest.mark.parametrize(
    ("change", "words"), [({"replicas": 0}, "replicas 0"), ({"router": "random"}, "router 'random'")]
)
def test_invalid_routings_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Routing(**change)


def test_least_loaded_refuses_forms_that_wait_for_requests() -> None:
    config = RunConfig(engine="static", form=FormRule.parse("full"))
    with pytest.raises(ValueError, match="least-loaded: form full"):
        simulate_replicas(config, requests_of([]), ONE_SECOND, TINY, Routing(replicas=2, router="least-loaded"))
