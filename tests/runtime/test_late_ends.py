"""Ends of sequence (EOS) found one pass late: tokens do not change, and wasted positions are counted.

A GPU runs ahead of its host; here a timing that holds each pass until the next is issued does the same on a CPU.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.passes import PassTiming
from engine.core.presets import make_scheduler
from engine.core.recorder import Recorder
from engine.core.request import Request
from engine.runtime.build_engine import make_runner
from engine.runtime.engine import Engine
from engine.runtime.passes_in_flight import InFlight, Landed, RunClock
from engine.runtime.prepared_run import PreparedRun, WarmModel, prepare_run

BUDGET = 12


class Rows:
    """A sink that keeps all rows."""

    def __init__(self) -> None:
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def append(self, stream: str, **row: Any) -> None:
        self._rows.setdefault(stream, []).append(row)

    def extend(self, stream: str, columns: Mapping[str, Sequence[Any]]) -> None:
        for values in zip(*columns.values(), strict=True):
            self.append(stream, **dict(zip(columns, values, strict=True)))

    def of(self, stream: str) -> list[dict[str, Any]]:
        return self._rows.get(stream, [])


ENGINES = ("static", "continuous", "paged", "chunked")


class RunsAhead:
    """One pass stays in flight while the next is planned, as with CUDA's own events."""

    runs_ahead = True

    def __init__(self, clock: RunClock) -> None:
        self.clock = clock
        self._queue: deque[InFlight] = deque()

    def begin(self) -> None:
        """Nothing to mark."""

    def launched(self, flight: InFlight) -> None:
        self._queue.append(flight)

    @property
    def in_flight(self) -> Sequence[InFlight]:
        return tuple(self._queue)

    def landed(self, *, wait: bool) -> Iterator[Landed]:
        while self._queue and (wait or len(self._queue) > 1):
            flight = self._queue.popleft()
            values = flight.tokens.tolist()
            times = dict.fromkeys(("start_s", "end_s", "produced_s", "delivered_s"), self.clock.now_s())
            yield Landed(
                flight, [values[i] for i in flight.planned.live], PassTiming(issue_s=None, device_s=0.0, **times)
            )


@pytest.fixture(scope="module")
def warm() -> WarmModel:
    return WarmModel()


def prepared(warm: WarmModel, engine: str, **more: Any) -> PreparedRun:
    work = WorkloadConfig(prompts="p5,p9,p17", requests=6, budget=f"eos:{BUDGET}")
    config = RunConfig(engine=engine, model="tiny-random", device="cpu", dtype="fp32", slots=3, workload=work)
    config = replace(config, block_size=4, max_num_batched_tokens=6, **more)
    return prepare_run(config, warm, lambda message, fraction: None)


def run_ahead(run: PreparedRun, eos_ids: frozenset[int]) -> tuple[list[Request], Rows]:
    requests, rows, clock = run.requests(), Rows(), RunClock()
    runner = make_runner(run, requests)
    scheduler = make_scheduler(run.config, requests, runner.num_blocks)
    recorder = Recorder(rows, run.config.num_slots)
    Engine(scheduler, runner, recorder, clock, RunsAhead(clock), eos_ids=eos_ids).run(lambda: False)
    recorder.close(clock.now_s())
    return requests, rows


def an_end(outputs: dict[int, list[int]]) -> int:
    """A token that occurs in the middle of some outputs."""
    seen = Counter(token for ids in outputs.values() for token in set(ids[1 : BUDGET - 2]))
    return seen.most_common(1)[0][0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_late_eos_changes_no_token(warm: WarmModel, engine: str) -> None:
    run = prepared(warm, engine)
    whole = {r.request_id: r.output_ids for r in run_ahead(run, frozenset())[0]}
    end = an_end(whole)
    expected = {i: ids[: ids.index(end) + 1] if end in ids else ids for i, ids in whole.items()}
    requests, rows = run_ahead(run, frozenset([end]))
    assert {r.request_id: r.output_ids for r in requests} == expected
    logged = Counter(row["request_id"] for row in rows.of("tokens"))
    assert logged == {i: len(ids) for i, ids in expected.items()}

    cut_short = [ids for i, ids in expected.items() if len(ids) < BUDGET]
    assert cut_short
    passes = rows.of("passes")
    dead = sum(p["rows"] - p["live_rows"] for p in passes)
    if engine != "static":  # whose ended rows are dead to the end of the batch anyhow
        assert 1 <= dead <= len(cut_short)
    assert all(p["dead_positions"] >= 0 and p["padding_positions"] >= 0 for p in passes)
    assert all((p["dead_positions"] > 0) == (p["rows"] > p["live_rows"]) for p in passes)
    assert sum(p["live_rows"] for p in passes) == sum(logged.values())


@pytest.mark.parametrize("engine", ["paged", "chunked"])
def test_a_crowded_pool_and_late_ends(warm: WarmModel, engine: str) -> None:
    """Requests preempted before their EOS has landed, or recomputed from tokens that have not landed yet."""
    roomy = prepared(warm, engine)
    whole = {r.request_id: r.output_ids for r in run_ahead(roomy, frozenset())[0]}
    end = an_end(whole)
    expected = {i: ids[: ids.index(end) + 1] if end in ids else ids for i, ids in whole.items()}
    crowded = prepared(warm, engine, pool_gib=9 * 4 * roomy.kv_shape().position_bytes / 2**30)
    for eos_ids, outputs in ((frozenset(), whole), (frozenset([end]), expected)):
        requests, rows = run_ahead(crowded, eos_ids)
        assert rows.of("events"), "nine blocks of 4 are too few for three rows"
        assert {r.request_id: r.output_ids for r in requests} == outputs
        held = Counter(e["allocated"] for e in rows.of("blocks"))
        assert held[False] <= held[True]
        assert all(not r.block_table for r in requests)
