"""What published texts predicted: their grades, and the lab's own, where an experiment asked the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.experiments.sweep_plan import parse_batch_sizes, parse_prompt_grid
from engine.predictions.prediction import grade
from engine.predictions.published_conditions import LENGTHS
from engine.predictions.published_grades import GRADES, Answer, ask
from engine.predictions.published_predictions import PUBLISHED, SPIKE, SWEEP
from tests.support.no_break import nb

MIX = "p16,p64,p256,p1024,p4096"
LOAD = WorkloadConfig(prompts=MIX, requests=400, budget="64-256")
RATES = {"run-static": 1.0, "run-continuous": 2.0}


def test_published_predictions_are_graded_by_their_own_ranges() -> None:
    assert len({published.name for published in PUBLISHED}) == len(PUBLISHED) == 9
    for published in PUBLISHED:
        if published.ratio is None:
            continue
        assert published.ratio.measure in GRADES
        if published.ratio.measured is not None:
            low, high = published.ratio.low, published.ratio.high
            held = {grade(low, high, value).held for value in published.ratio.measured}
            assert held == {published.grade == "held"}, published.name
        else:
            assert published.grade == "not graded"


def point(key: str, config: RunConfig, **values: Any) -> dict[str, Any]:
    basis = {
        "key": key, "engine": config.engine, "role": "rate", "status": "completed", "run_id": f"run-{key}",
        "error": None, "prompts": config.workload.prompts, "rate_per_s": None, "asked_bytes": None, "free_bytes": None,
        "oom_where": None, "prompt_tokens": None, "batch_size": None, "config": json.dumps(config.to_dict()),
    }  # fmt: skip
    return basis | values


def batch(tokens: int, size: int, status: str = "completed", *, share: float = 1.0, budget: str = "256") -> Any:
    """A batch that decodes at `share` of the straight line: 10 ms a token at 1."""
    workload = WorkloadConfig(prompts=f"p{tokens}", requests=size, budget=budget)
    config = RunConfig(engine="static", slots=size, workload=workload)
    values = {"role": "point", "prompt_tokens": tokens, "batch_size": size, "tpot_p50_s": 0.010 / share}
    return point(f"p{tokens}/b{size}", config, status=status, duration_s=1.0, **values)


def sweep(*sizes: int, lengths: Sequence[int] = LENGTHS, **more: Any) -> list[dict[str, Any]]:
    return [batch(tokens, size, **more) for tokens in lengths for size in sizes]


def no_rate(run_id: str) -> float | None:
    raise AssertionError("no rate was needed")


def test_growth_is_graded_where_every_length_came_to_the_texts_batch_or_to_its_memorys_end() -> None:
    rows = [*sweep(1, 2, lengths=LENGTHS[:-1]), *(batch(n, 256, share=0.9) for n in LENGTHS[:-1])]
    rows += [batch(4096, 1), batch(4096, 2, share=0.88), batch(4096, 4, "oom"), batch(16, 512, share=0.2)]
    assert ask("lowest_linear_share", rows, no_rate).value == pytest.approx(0.88)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "no static batches of one prompt length"),
        (sweep(1, 2, lengths=(16, 64)), "no prompts of 256, 1,024 and 4,096 tokens"),
        (sweep(1, 2), "at 16 tokens it ends at a batch of 2, before {largest} and before out of memory"),
        ([*sweep(1, 2), batch(16, 256, "failed")], "at 16 tokens it ends at a batch of 2, before {largest}"),
        ([*sweep(1, 2), batch(16, 256, "pending")], "1 of its 11 static batches have not ended yet"),
        (sweep(256), "no batch of one at 16 tokens"),
    ],
)
@pytest.mark.parametrize(("measure", "largest"), [("lowest_linear_share", "256"), ("share_out_of_memory", "1,024")])
def test_a_sweep_that_asked_less_has_no_grade(
    measure: str, largest: str, rows: list[dict[str, Any]], reason: str
) -> None:
    found = ask(measure, rows, no_rate)
    assert found.value is None
    assert found.reason.startswith(reason.format(largest=largest))


def test_growth_that_memory_ended_everywhere_has_no_grade() -> None:
    rows = [*sweep(1), *(batch(n, 2, "oom") for n in LENGTHS)]
    assert "memory ran out before a batch of 256" in ask("lowest_linear_share", rows, no_rate).reason


def test_memory_is_graded_where_each_length_came_to_its_end_or_to_the_texts_largest_batch() -> None:
    rows = [*sweep(1), *(batch(n, 1024) for n in LENGTHS[:2]), *(batch(n, 512, "oom") for n in LENGTHS[2:])]
    assert ask("share_out_of_memory", rows, no_rate) == Answer(value=0.6)
    short = [row | {"config": batch(16, 1, budget="32")["config"]} for row in rows]
    assert ask("share_out_of_memory", short, no_rate).reason == "a budget of 32, not 256"


def load(workload: WorkloadConfig = LOAD, slots: int = 32, law: str = "poisson") -> list[dict[str, Any]]:
    """Static carries 1 a second, continuous 2; at 1.5 the one waits 50 s, the other half a second."""
    rows = []
    for engine in ("static", "continuous"):
        config = RunConfig(engine=engine, slots=slots, workload=workload)
        rows.append(point(engine, config, role="saturation"))
        for rate, static_s, continuous_s in ((0.5, 9.0, 9.0), (1.5, 50.0, 0.5), (3.0, 70.0, 60.0)):
            wait_s = static_s if engine == "static" else continuous_s
            at = replace(config, workload=replace(workload, arrival=f"{law}:{rate}"))
            values = {"rate_per_s": rate, "queue_wait_p50_s": wait_s, "ttft_p95_s": 2 * wait_s}
            rows.append(point(f"{engine}/{rate}", at, **values))
    return rows


def test_a_load_test_is_graded_at_a_rate_between_two_capacities() -> None:
    assert ask("continuous_capacity", load(), RATES.get).value == 2.0
    assert ask("queue_ratio", load(), RATES.get).value == pytest.approx(0.01)
    assert ask("ttft_ratio", load(), RATES.get).value == pytest.approx(0.01)
    assert ask("paged_capacity", load(), RATES.get).reason == "no points of paged"
    alike = {"run-static": 1.0, "run-continuous": 1.2}
    found = ask("queue_ratio", load(), alike.get)
    assert found.reason == (
        nb("no figure at a rate that only continuous sustains; static sustains 1 and continuous 1.2 requests/s")
    )


@pytest.mark.parametrize("measure", ["continuous_capacity", "queue_ratio", "ttft_ratio"])
@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (load(replace(LOAD, prompts="chat")), f"prompts chat, not {MIX}"),
        (load(replace(LOAD, prompts="p16:2,p64,p256,p1024,p4096")), "prompts p16:2"),
        (load(replace(LOAD, budget="32")), "a budget of 32, not 64-256"),
        (load(replace(LOAD, requests=64)), "64 requests a run, not 400"),
        (load(slots=8), "8 slots, not 32"),
        (load(law="constant"), "arrivals constant:0.5, not poisson"),
        ([row | {"config": None} for row in load()], "settings that cannot be read: not kept"),
    ],
)
def test_another_load_has_no_grade(measure: str, rows: list[dict[str, Any]], reason: str) -> None:
    found = ask(measure, rows, RATES.get)
    assert found.value is None
    assert found.reason.startswith(reason)


def pair(workload: WorkloadConfig, slots: int = 8) -> list[dict[str, Any]]:
    gaps = {"continuous": 10.0, "paged": 11.0}
    configs = [RunConfig(engine=engine, slots=slots, workload=workload) for engine in gaps]
    return [point(c.engine, c, itl_max_over_p50=gaps[c.engine]) for c in configs]


MIXED = WorkloadConfig(prompts=SPIKE["mix"], requests=int(SPIKE["requests"]), budget=SPIKE["budget"])


def test_a_spike_is_graded_where_a_long_prompt_came_among_rows_that_decode() -> None:
    assert ask("spike_ratio", pair(MIXED), no_rate).value == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (pair(replace(MIXED, prompts="chat")), "prompts chat, the longest not of 4,096 tokens"),
        (pair(replace(MIXED, prompts="p16,p64")), "prompts p16,p64, the longest not of 4,096 tokens"),
        (pair(replace(MIXED, prompts="p4096,p8192")), "prompts p4096,p8192, the longest not of 4,096 tokens"),
        (pair(MIXED, slots=64), "no prompt of 4,096 tokens arrives while others decode"),
        (pair(replace(MIXED, budget="64")), "no rows decode while another is admitted"),
        (pair(replace(MIXED, prompts="p4096")), "no rows decode while another is admitted"),
        (pair(MIXED, slots=1), "no rows decode while another is admitted"),
        (pair(MIXED)[:1], "no run of paged"),
        ([*pair(MIXED)[:1], *pair(MIXED, slots=4)[1:]], "not the same requests and slots for each engine"),
    ],
)
def test_a_pair_without_such_a_prompt_has_no_grade(rows: list[dict[str, Any]], reason: str) -> None:
    found = ask("spike_ratio", rows, no_rate)
    assert found.value is None
    assert found.reason.startswith(reason)


def test_the_links_ask_what_is_graded() -> None:
    assert parse_prompt_grid(SWEEP["prompts"]) == LENGTHS
    for published in PUBLISHED:
        if published.ratio is None or published.page != "pages/sweep.py":
            continue
        sizes = parse_batch_sizes(published.query["batch_size"])
        rows = sweep(*sizes, budget=published.query["budget"])
        assert ask(published.ratio.measure, rows, no_rate).value is not None
    for published in PUBLISHED:
        if published.page == "pages/load.py":
            query = published.query
            asked = WorkloadConfig(prompts=query["prompts"], requests=int(query["requests"]), budget=query["budget"])
            assert (asked, query["slots"]) == (LOAD, "32")
