"""Simulated runs by hand: the engines' own steps with chosen pass times."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.form_rule import FormRule
from engine.core.request import TextPrompt
from engine.metrics.metrics import run_metrics
from engine.simulator.machine import simulated_machine
from engine.simulator.simulator import Simulation, estimated_tokens
from tests.support.runs.simulated import STREAMS, TINY, FormulaCost, on_card, played, prefill_stats, requests_of


def passes_of(simulation: Simulation) -> list[tuple[int, str, int, int]]:
    """Step, kind, rows, live rows of each pass."""
    table = simulation.record().passes
    return list(zip(*(table[name].tolist() for name in ("step", "kind", "rows", "live_rows")), strict=True))


def finished_s(simulation: Simulation) -> dict[int, float]:
    rows = simulation.sink.rows("requests")
    return dict(zip(rows["request_id"], rows["finished_s"], strict=True))


def test_a_pass_takes_the_time_of_the_cost_model() -> None:
    # Prefill of 4 + 2 tokens: 6 s. Two decode passes of two rows at the longer width: 2 x 5 and 2 x 6 positions.
    cost = FormulaCost(lambda facts: float(facts.tokens if facts.segments else facts.kv_positions))
    simulation = played(RunConfig(engine="continuous", slots=2), [(4, 3, 0.0), (2, 3, 0.0)], cost)
    record = simulation.record()
    assert record.passes["start_s"].tolist() == [0, 6, 16]
    assert record.passes["end_s"].tolist() == [6, 16, 28]
    assert finished_s(simulation) == {0: 28, 1: 28}
    metrics = run_metrics(record)
    assert metrics["ttft_p50_s"] == 6
    assert metrics["output_tokens_per_s"] == pytest.approx(6 / 28)


def test_host_work_is_between_passes_in_sync_and_hidden_in_async() -> None:
    cost = FormulaCost(lambda facts: 1.0, host_s=0.25)
    rows = [(4, 3, 0.0)]
    stopped = played(RunConfig(engine="serial", timing="sync"), rows, cost).record()
    ahead = played(RunConfig(engine="serial", timing="async"), rows, cost).record()
    slow_host = played(RunConfig(engine="serial", timing="async"), rows, FormulaCost(lambda facts: 1.0, 1.5)).record()
    assert stopped.passes["start_s"].tolist() == [0, 1.25, 2.5]
    assert ahead.passes["start_s"].tolist() == [0, 1, 2]
    assert slow_host.passes["start_s"].tolist() == [0, 1.5, 3.0]


@pytest.mark.parametrize("fast_forward", [True, False])
def test_running_ahead_admits_new_arrivals_a_pass_later(fast_forward: bool) -> None:
    # The second arrives at 2.5, during the pass from 2 to 3. When running ahead, the pass from 3 was issued at 2.
    rows = [(4, 8, 0.0), (4, 2, 2.5)]
    for timing, device, first_token_s in (("sync", "cuda", 4.0), ("async", "cuda", 5.0), ("async", "cpu", 4.0)):
        config = RunConfig(engine="continuous", slots=2, timing=timing, device=device)
        record = played(config, rows, fast_forward=fast_forward).record()
        newcomers = record.tokens["delivered_s"][record.tokens["request_id"] == 1]
        assert newcomers.min() == first_token_s


def test_an_idle_engine_sleeps_until_the_next_arrival() -> None:
    simulation = played(RunConfig(engine="continuous", slots=2), [(4, 2, 1.5), (4, 1, 10.0)])
    assert simulation.record().passes["start_s"].tolist() == [1.5, 2.5, 10.0]
    assert finished_s(simulation) == {0: 3.5, 1: 11.0}


def test_a_static_batch_waits_for_its_timeout_and_runs_to_its_longest_request() -> None:
    """A request of 40 tokens keeps its slot for its neighbor's 900 while the third request waits."""
    config = RunConfig(engine="static", slots=3, form=FormRule.parse("timeout:5"))
    simulation = played(config, [(8, 40, 0.0), (8, 900, 2.0), (8, 10, 20.0)])
    assert simulation.record().passes["start_s"][0] == 5.0  # 5 s after the first arrival; the batch did not fill
    assert finished_s(simulation) == {0: 5 + 40, 1: 5 + 900, 2: 905 + 10}
    metrics = run_metrics(simulation.record())
    # 901 + 9 passes; in the first batch's 900 x 2 slot-steps, those of the short request after its end are dead
    assert metrics["slot_steps"] == 1800 + 10
    assert metrics["slot_steps"] - metrics["useful_slot_steps"] == 900 - 40


def test_a_full_batch_starts_before_its_timeout() -> None:
    config = RunConfig(engine="static", slots=2, form=FormRule.parse("timeout:5"))
    assert played(config, [(8, 2, 0.0), (8, 2, 1.0), (8, 2, 90.0)]).record().passes["start_s"][0] == 1.0


def test_a_request_that_ends_after_step_411_is_replaced_in_step_412() -> None:
    """413 output tokens: step 0 yields two tokens, each following step one."""
    rows = [(8, 413, 0.0), (8, 2000, 0.0), (8, 50, 0.0)]
    simulation = played(RunConfig(engine="continuous", slots=2), rows, streams=STREAMS)
    prefills = [step for step, kind, *_ in passes_of(simulation) if kind == "prefill"]
    assert prefills == [0, 412]
    ends = {step for step, kind, rows, _ in passes_of(simulation) if kind == "decode" and step in (411, 412)}
    assert ends == {411, 412}
    assert finished_s(simulation)[0] == 413.0  # passes 0 to 412: one prefill and 412 decode passes


def test_a_request_that_arrives_in_step_412_is_prefilled_in_step_413() -> None:
    """One row runs alone; step n begins at second n + 1, since step 0 has two passes."""
    simulation = played(RunConfig(engine="continuous", slots=2), [(8, 2000, 0.0), (8, 50, 413.5)])
    prefills = [step for step, kind, *_ in passes_of(simulation) if kind == "prefill"]
    assert prefills == [0, 413]


def disturbed(engine: str, **more: int) -> tuple[float, float]:
    """The largest and the median gap of the last of 63 requests, about 2,200 tokens long, joined by a prompt of 2,000.

    All 63 are read by second 6; the newcomer arrives at 8, while this reader has its 350 tokens to come.
    """
    workload = requests_of([(2000, 350, 0.0)] * 63 + [(2000, 20, 8.0)])
    config = RunConfig(engine=engine, model="llama-3.1-8b", slots=64, execution="graph", **more)
    tokens = on_card(config, "h100", workload).tokens
    gaps_s = np.diff(tokens["produced_s"][tokens["request_id"] == 62])
    return float(gaps_s.max()), float(np.median(gaps_s))


def test_a_long_prefill_stalls_all_rows_unless_it_is_chunked() -> None:
    """Published: 80 ms for a step of 14 ms; with chunks of 512 the largest stall is about 25 ms."""
    whole_s, usual_s = disturbed("paged")
    chunked_s, _ = disturbed("chunked", max_num_batched_tokens=512 + 64)
    assert usual_s == pytest.approx(14.1e-3, rel=0.08)
    assert whole_s - usual_s == pytest.approx(80e-3, rel=0.02)
    assert chunked_s == pytest.approx(25e-3, rel=0.08)


def test_a_pool_too_small_for_all_preempts_the_youngest() -> None:
    # Blocks of 4; a pool of 6 holds 24 positions, and the two requests need 16 each.
    gib = 6 * 4 * TINY.kv_position_bytes / 2**30
    config = RunConfig(engine="paged", slots=2, block_size=4, pool_gib=gib)
    simulation = played(config, [(8, 9, 0.0), (8, 9, 0.0)], streams=STREAMS)
    assert simulation.num_blocks == 6
    metrics = run_metrics(simulation.record())
    assert metrics["preemptions"] == 1
    assert metrics["recomputed_tokens"] > 0
    assert metrics["output_tokens"] == 18
    assert simulation.sink.rows("events")["event"] == ["preempt"]


def test_slots_that_exceed_the_pool_are_out_of_memory() -> None:
    config = RunConfig(engine="continuous", slots=2, pool_gib=30 * TINY.kv_position_bytes / 2**30)
    simulation = played(config, [(8, 8, 0.0)])
    assert simulation.status == "oom"
    assert simulation.shortage is not None
    assert simulation.shortage.asked_bytes == 32 * TINY.kv_position_bytes
    assert len(simulation.tokens["request_id"]) == 0
    run_metrics(simulation.record())


def test_a_padded_batch_above_the_pool_ends_the_run_when_it_forms() -> None:
    config = RunConfig(engine="static", slots=2, pool_gib=30 * TINY.kv_position_bytes / 2**30)
    simulation = played(config, [(8, 2, 0.0), (8, 2, 0.5), (20, 2, 0.5)])
    assert simulation.status == "oom"
    assert simulation.shortage is not None
    assert simulation.shortage.asked_bytes == 2 * 22 * TINY.kv_position_bytes
    assert finished_s(simulation)[0] == 2.0  # the first batch, of one request, fits


def test_a_capacity_ends_a_run_by_estimate() -> None:
    config = RunConfig(engine="continuous", slots=2, capacity_gib=(TINY.weight_bytes + 1000) / 2**30)
    simulation = played(config, [(8, 8, 0.0)])
    assert simulation.shortage is not None
    assert simulation.shortage.where == "KV cache (by estimate)"


def test_response_mode_full_delivers_nothing_before_the_batch_ends() -> None:
    config = RunConfig(engine="static", slots=2, returns="whole")
    record = played(config, [(8, 2, 0.0), (8, 5, 0.0)]).record()
    assert np.isnan(record.tokens["delivered_s"]).all()
    assert record.requests["returned_s"].tolist() == [5.0, 5.0]
    assert run_metrics(record)["ttft_p50_s"] == 5.0


def test_no_requests_no_passes() -> None:
    for engine in ("serial", "static", "continuous", "paged", "chunked"):
        simulation = played(RunConfig(engine=engine, max_num_batched_tokens=64), [])
        assert simulation.status == "completed"
        assert run_metrics(simulation.record())["passes"] == 0


def test_the_tokens_of_a_text_are_estimated() -> None:
    assert estimated_tokens(TextPrompt(text="What is the capital of France?")) == 8 + 30
    assert estimated_tokens(TextPrompt(text="x" * 40, chat=False)) == 10


def test_every_answer_runs_to_its_maximum_length() -> None:
    config = RunConfig(engine="continuous", slots=2, model="tiny-random", workload=WorkloadConfig(budget="eos:5"))
    simulation = on_card(config, "h100")
    assert run_metrics(simulation.record())["output_tokens"] == 8 * 5


def test_twelve_long_prefills_take_one_second() -> None:
    machine = simulated_machine(RunConfig(model="llama-3.1-8b", execution="graph"), "h100")
    assert 12 * machine.cost.pass_s(prefill_stats(1, 2000)) == pytest.approx(0.96, rel=0.01)


@pytest.mark.parametrize(("engine", "published_per_s"), [("static", 0.66), ("continuous", 1.25)])
def test_the_published_capacities_of_mixed_arrivals(engine: str, published_per_s: float) -> None:
    """An A10 with 32 slots, saturated; static is limited by the longest request of each batch."""
    workload = WorkloadConfig(prompts="p16,p64,p256,p1024,p4096", requests=400, budget="64-256", arrival="poisson:7")
    config = RunConfig(engine=engine, model="qwen2.5-1.5b", slots=32, workload=workload)
    assert run_metrics(on_card(config, "a10").record())["requests_per_s"] == pytest.approx(published_per_s, rel=0.15)
