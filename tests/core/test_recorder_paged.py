"""The recorder over a block pool, calculated by hand: preemptions, blocks, chunks. Pass k runs from k to k + 1.

Blocks hold 4 positions. The step tables are those of the schedulers' own tests.
"""

from dataclasses import replace
from typing import Any

import pytest

from engine.core.block_manager import BlockManager
from engine.core.config import RunConfig
from engine.core.passes import PassKind
from engine.core.recorder import Recorder
from engine.core.schedulers.paged_scheduler import PagedScheduler
from tests.support.runs.recorded import Rows, record, second
from tests.support.schedule import requests


def evicted(lag: int = 0) -> Rows:
    """Passes: prefill of 0 and 1; both decode; 1 preempts itself; 0 alone, twice; prefill of 1 again; 1 decodes."""
    config = RunConfig(engine="paged", slots=2, block_size=4)
    return record(config, [4, 4], prompts=[4, 3], num_blocks=3, lag=lag)


def test_a_preempted_request_leaves_its_lane_and_comes_back_in_another() -> None:
    rows = evicted()
    assert rows.lane(0) == [
        ("prefill", 0, 0, 1), ("decode", 0, 1, 4),
        ("prefill", 1, 4, 5), ("decode", 1, 5, 6),
    ]  # fmt: skip
    assert rows.lane(1) == [("prefill", 1, 0, 1), ("decode", 1, 1, 2), ("empty", None, 2, 6)]
    assert rows.chunks(1) == [None, None]


def test_a_preemption_is_an_event_and_a_change_of_state() -> None:
    rows = evicted()
    assert rows.rows["events"] == [
        {
            "event": "preempt", "request_id": 1, "lane": 1, "blocks": 1, "tokens": 4, "pass_index": 2, "time_s": 2.0,
        }
    ]  # fmt: skip
    states = [(r["state"], r.get("preemptions"), r.get("lane")) for r in rows.rows["requests"] if r["request_id"] == 1]
    assert states == [
        ("waiting", 0, None),
        ("running", None, 1),
        ("waiting", 1, None),
        ("running", None, 0),
        ("finished", None, None),
    ]
    request = rows.merged("requests", "request_id")[1]
    assert (request["admitted_s"], request["finished_s"], request["output_tokens"]) == (0.0, 6.0, 4)


def test_no_token_is_lost_or_doubled_over_a_preemption() -> None:
    rows = evicted()
    tokens = [(t["token_index"], t["pass_index"]) for t in rows.rows["tokens"] if t["request_id"] == 1]
    assert tokens == [(0, 0), (1, 1), (2, 4), (3, 5)]
    assert rows.column("passes", "tokens") == [7, 2, 1, 1, 5, 1]
    assert rows.column("passes", "recomputed_tokens") == [0, 0, 0, 0, 4, 0]
    assert rows.column("passes", "prompt_tokens") == [7, 0, 0, 0, 3, 0]


def test_blocks_are_logged_before_the_pass_that_needs_them() -> None:
    rows = evicted()
    changes = [
        (b["pass_index"], b["block_id"], b["request_id"], b["table_index"], b["allocated"]) for b in rows.rows["blocks"]
    ]
    assert changes == [
        (0, 0, 0, 0, True), (0, 1, 1, 0, True),
        (1, 2, 0, 1, True),
        (2, 1, 1, 0, False),
        (4, 0, 0, 0, False), (4, 2, 0, 1, False), (4, 0, 1, 0, True), (4, 2, 1, 1, True),
    ]  # fmt: skip
    assert rows.column("blocks", "time_s") == [float(pass_index) for pass_index, *_ in changes]
    # 4 + 3 positions in two blocks; 5 + 4 in three; 0 alone with two: 6, 7; 1 with two: 5, 6.
    assert rows.column("passes", "kv_reserved_positions") == [8, 12, 8, 8, 8, 8]
    assert rows.column("passes", "kv_used_positions") == [7, 9, 6, 7, 5, 6]
    assert rows.column("passes", "kv_fragment_positions") == [1, 3, 2, 1, 3, 2]


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_passes_that_are_recorded_late_leave_the_same_log(lag: int) -> None:
    at_once, late = evicted(), evicted(lag)
    for stream in ("passes", "tokens", "blocks", "events"):
        assert late.rows[stream] == at_once.rows[stream]
    for stream, key in (("requests", "request_id"), ("spans", "span_id")):
        assert late.merged(stream, key) == at_once.merged(stream, key)


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_a_request_preempted_in_its_first_step_is_drawn_in_its_old_lane(lag: int) -> None:
    # Passes: prefill of all three; 2 is preempted, 0 and 1 decode and end; 2 again, in the lowest lane.
    rows = record(RunConfig(engine="paged", slots=3, block_size=4), [2, 2, 2], prompts=[4, 4, 4], num_blocks=5, lag=lag)
    assert rows.lane(2) == [("prefill", 2, 0, 1), ("decode", 2, 1, 1), ("empty", None, 1, 3)]
    assert rows.lane(0) == [("prefill", 0, 0, 1), ("decode", 0, 1, 2), ("prefill", 2, 2, 3)]
    states = [r["state"] for r in rows.rows["requests"] if r["request_id"] == 2]
    assert states == ["waiting", "running", "waiting", "running", "finished"]


def test_a_preempted_request_whose_last_token_was_eos_does_not_wait() -> None:
    # Pass 1 generates the EOS of request 1, which is preempted before that is known; pass 2 runs 0 alone.
    made = requests([4, 4], prompts=[4, 3], ignore_eos=False)
    scheduler = PagedScheduler(made, 2, BlockManager(3, 4))
    rows = Rows()
    recorder = Recorder(rows, 2)
    recorder.submitted(scheduler.submit_arrived(0.0), {})
    recorder.admitted(scheduler.admit(0.0))
    first = scheduler.plan(PassKind.PREFILL)
    assert first is not None
    recorder.passed(first, scheduler.complete(first), second(0.0), [7, 7], [0, 1])
    decode = scheduler.plan(PassKind.DECODE)
    assert decode is not None
    before = scheduler.complete(decode)
    following = scheduler.plan(PassKind.DECODE)
    assert following is not None
    after = scheduler.complete(following)
    late = scheduler.end_late([made[1]], issued=[])
    recorder.passed(decode, replace(before, ended=late.ended), second(1.0), [7, 2], [])
    recorder.passed(following, after, second(2.0), [7], [])
    assert [p.request for p in following.preemptions] == [made[1]]
    request = rows.merged("requests", "request_id")[1]
    assert (request["state"], request["finish_reason"], request["preemptions"]) == ("finished", "eos", 1)
    assert rows.column("events", "request_id") == [1]


def in_chunks(lag: int = 0) -> Rows:
    """Passes: 0+4. 1+2 | 0, 1+5 | 0, 1+5 | 0, 1+1. | 0 and 1 | 0."""
    config = RunConfig(engine="chunked", slots=2, block_size=4, max_num_batched_tokens=6)
    return record(config, [6, 2], prompts=[4, 13], lag=lag)


def test_a_chunk_is_a_span_and_a_prompt_in_one_piece_has_no_number() -> None:
    rows = in_chunks()
    assert rows.lane(0) == [("prefill", 0, 0, 1), ("decode", 0, 1, 6)]
    assert rows.lane(1) == [
        ("prefill", 1, 0, 1), ("prefill", 1, 1, 2), ("prefill", 1, 2, 3), ("prefill", 1, 3, 4),
        ("decode", 1, 4, 5), ("empty", None, 5, 6),
    ]  # fmt: skip
    assert (rows.chunks(0), rows.chunks(1)) == ([None], [0, 1, 2, 3])


def test_a_mixed_pass_counts_rows_and_chunks_separately() -> None:
    rows = in_chunks()
    assert rows.column("passes", "kind") == ["prefill", "mixed", "mixed", "mixed", "decode", "decode"]
    assert rows.column("passes", "rows") == rows.column("passes", "live_rows") == [1, 1, 1, 2, 2, 1]
    assert rows.column("passes", "chunk_rows") == [1, 1, 1, 0, 0, 0]
    assert rows.column("passes", "tokens") == [6, 6, 6, 2, 2, 1]
    assert rows.column("passes", "prompt_tokens") == [6, 5, 5, 1, 0, 0]
    tokens = [(t["request_id"], t["pass_index"]) for t in rows.rows["tokens"]]
    assert sorted(tokens) == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 3), (1, 4)]


def test_a_pass_with_only_partial_chunks_logs_no_token() -> None:
    rows = record(RunConfig(engine="chunked", slots=1, block_size=4, max_num_batched_tokens=8), [1], prompts=[20])
    assert rows.column("passes", "rows") == [0, 0, 1]
    assert rows.column("tokens", "pass_index") == [2]
    assert rows.lane(0) == [("prefill", 0, 0, 1), ("prefill", 0, 1, 2), ("prefill", 0, 2, 3)]


def test_a_prompt_that_waits_for_blocks_keeps_its_chunk_open_until_preempted() -> None:
    # 2's fourth chunk is in pass 6, and there is no block for its fifth. Pass 10 is planned without it; from pass 11 on
    # it is prefilled again, in the lane that 0 has left.
    config = RunConfig(engine="chunked", slots=3, block_size=4, max_num_batched_tokens=3)
    rows = record(config, [10, 10, 1], prompts=[4, 4, 8], num_blocks=7)
    assert rows.lane(2) == [
        ("empty", None, 0, 3),
        ("prefill", 2, 3, 4), ("prefill", 2, 4, 5), ("prefill", 2, 5, 6), ("prefill", 2, 6, 10),
        ("empty", None, 10, 14),
    ]  # fmt: skip
    assert rows.lane(0)[-3:] == [("prefill", 2, 11, 12), ("prefill", 2, 12, 13), ("prefill", 2, 13, 14)]
    assert rows.chunks(2) == [0, 1, 2, 3, 0, 1, 2]
    assert rows.column("passes", "recomputed_tokens") == [0] * 11 + [2, 2, 0]


def test_chunks_that_are_recorded_late_leave_the_same_log() -> None:
    spans: list[list[dict[str, Any]]] = [in_chunks(lag).merged("spans", "span_id") for lag in (0, 2)]
    assert spans[0] == spans[1]
