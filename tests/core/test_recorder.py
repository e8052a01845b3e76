"""The recorder's rows, calculated by hand. A pass takes exactly one second: pass k runs from k to k + 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.core.config import RunConfig
from tests.support.runs.recorded import Rows, record


def play(
    engine: str, slots: int, budgets: Sequence[int], arrivals_s: Sequence[float] | None = None, **more: Any
) -> Rows:
    return record(RunConfig(engine=engine, slots=slots), budgets, arrivals_s=arrivals_s, **more)


def test_static_lanes_hold_dead_spans_until_the_slowest_ends() -> None:
    # Batch 0+1: prefill in pass 0, request 0 ends there; request 1 needs passes 1 and 2. Batch 2: passes 3 and 4.
    rows = play("static", 2, [1, 3, 2])
    assert rows.lane(0) == [
        ("prefill", 0, 0, 1),
        ("dead", 0, 1, 3),
        ("prefill", 2, 3, 4),
        ("decode", 2, 4, 5),
    ]
    assert rows.lane(1) == [("prefill", 1, 0, 1), ("decode", 1, 1, 3), ("empty", None, 3, 5)]


def test_continuous_lanes_refill_at_once_and_a_moved_row_keeps_its_lane() -> None:
    # Pass 0: prefill of 0 and 1. Pass 1: decode; request 0 ends, request 1 moves from slot 1 to slot 0.
    # Pass 2: prefill of request 2 in slot 1, lane 0; its budget of 1 ends it there. Pass 3: decode of 1, which ends.
    rows = play("continuous", 2, [2, 3, 1])
    assert rows.lane(0) == [
        ("prefill", 0, 0, 1),
        ("decode", 0, 1, 2),
        ("prefill", 2, 2, 3),
        ("empty", None, 3, 4),
    ]
    assert rows.lane(1) == [("prefill", 1, 0, 1), ("decode", 1, 1, 2), ("decode", 1, 2, 4)]
    slots = [s["slot"] for s in rows.merged("spans", "span_id") if s["lane"] == 1]
    assert slots == [1, 1, 0]


def test_an_idle_engine_shows_as_empty_seconds_that_take_no_pass() -> None:
    rows = play("continuous", 1, [1, 1], [0.0, 10.0])
    whole = [
        (s["phase"], s["start_pass"], s["end_pass"], s["start_s"], s["end_s"]) for s in rows.merged("spans", "span_id")
    ]
    assert whole == [("prefill", 0, 1, 0.0, 1.0), ("empty", 1, 1, 1.0, 10.0), ("prefill", 1, 2, 10.0, 11.0)]


def test_requests_are_logged_at_each_change_of_state() -> None:
    rows = play("continuous", 1, [2, 1])
    states = [(r["request_id"], r["state"]) for r in rows.rows["requests"] if "state" in r]
    assert states == [
        (0, "waiting"),
        (1, "waiting"),
        (0, "running"),
        (0, "finished"),
        (1, "running"),
        (1, "finished"),
    ]
    second = rows.merged("requests", "request_id")[1]
    assert (second["arrival_s"], second["admitted_s"], second["finished_s"]) == (0.0, 2.0, 3.0)
    assert (second["output_tokens"], second["finish_reason"], second["prompt_tokens"]) == (1, "budget", 3)


def test_full_response_mode_delivers_when_the_batch_ends() -> None:
    rows = play("static", 2, [1, 3], returns_whole=True)
    assert all(t["delivered_s"] is None for t in rows.rows["tokens"])
    assert [t["produced_s"] for t in rows.rows["tokens"] if t["request_id"] == 1] == [1.0, 2.0, 3.0]
    assert [r["returned_s"] for r in rows.merged("requests", "request_id")] == [3.0, 3.0]


def test_a_pass_counts_its_rows_its_waste_and_its_memory() -> None:
    passes = play("static", 2, [1, 3]).rows["passes"]
    # Prompts of 3, longest budget 3: a buffer of 2 x 6. Pass 1 is 4 columns wide, with one dead row.
    assert [(p["rows"], p["live_rows"], p["width"], p["dead_positions"]) for p in passes] == [
        (2, 2, 3, 0),
        (2, 1, 4, 4),
        (2, 1, 5, 5),
    ]
    assert [p["kv_reserved_positions"] for p in passes] == [12, 12, 12]
    assert [p["kv_used_positions"] for p in passes] == [6, 4, 5]


def test_used_kv_excludes_the_newest_token_until_its_pass() -> None:
    # Pass 1: request 0 decodes (3 + 1 columns). Pass 2 prefills request 1 (3); 0's newest token is not cached.
    passes = play("continuous", 2, [4, 1], [0.0, 1.5]).rows["passes"]
    assert [(p["kind"], p["kv_used_positions"]) for p in passes[:4]] == [
        ("prefill", 3),
        ("decode", 4),
        ("prefill", 4 + 3),
        ("decode", 5),
    ]
