"""The KV pool in the store: which request held which block and when, and what the positions were used for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from engine.runlog.writer import RunLogWriter
from store import Store
from tests.support.runs.sample_runs import CHUNKED, PREEMPTED, write_sample_run

INFO = {
    "run_id": "run",
    "schema_version": 2,
    "engine": "paged",
    "kv_layout": "paged",
    "kv_blocks": 10,
    "block_size": 4,
    "config": {"slots": 2},
}
RESULT = {"status": "completed", "error": None, "oom": None, "totals": {}, "ended_at": None}
Event = tuple[int, int, int, bool, int]  # block, request, index in its table, allocated, pass


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


def log_passes(log: RunLogWriter, count: int, first: int = 0, **columns: Any) -> None:
    """Decode passes of one second each, one per step."""
    for index in range(first, first + count):
        seconds = {"start_s": float(index), "end_s": index + 1.0}
        log.append("passes", pass_index=index, step=index, kind="decode", **seconds, **columns)


def log_blocks(log: RunLogWriter, events: Sequence[Event]) -> None:
    names = ("block_id", "request_id", "table_index", "allocated", "pass_index")
    columns = dict(zip(names, zip(*events, strict=True), strict=True))
    log.extend("blocks", {**columns, "time_s": [float(i) for i in columns["pass_index"]]})


# Request 0 starts with blocks 0 and 1, request 1 with block 2. Before pass 3 request 1 is preempted, and its block goes
# to request 0; before pass 4 request 0 frees block 1. Before pass 5 request 1 gets block 1 and, because there
# is no second one for it, frees it at once.
EVENTS: list[Event] = [
    (0, 0, 0, True, 0),
    (1, 0, 1, True, 0),
    (2, 1, 0, True, 1),
    (2, 1, 0, False, 3),
    (2, 0, 2, True, 3),
    (1, 0, 1, False, 4),
    (1, 1, 0, True, 5),
    (1, 1, 0, False, 5),
]


def hand_made(store: Store, *, result: bool = True) -> None:
    with RunLogWriter(store.runs_folder / "run", INFO) as log:
        log_passes(log, 6)
        log_blocks(log, EVENTS)
        log.append("events", event="preempt", request_id=1, lane=1, blocks=1, tokens=3, pass_index=3, time_s=3.0)
        if result:
            log.finish(RESULT)
    store.ingest.run(store.runs_folder / "run")


def rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(frame.itertuples(index=False, name=None))


@pytest.mark.parametrize("result", [True, False])
def test_a_block_is_held_from_its_allocation_to_the_pass_before_its_free(store: Store, result: bool) -> None:
    hand_made(store, result=result)  # a crashed run holds its blocks to its last pass
    columns = ["block_id", "request_id", "table_index", "start_pass", "end_pass", "start_s", "end_s"]
    assert store.kv.blocks("run").columns.tolist() == columns
    assert rows(store.kv.blocks("run")) == [
        (0, 0, 0, 0, 6, 0.0, 6.0),
        (1, 0, 1, 0, 4, 0.0, 4.0),
        (2, 1, 0, 1, 3, 1.0, 3.0),
        (2, 0, 2, 3, 6, 3.0, 6.0),
    ]
    assert rows(store.kv.blocks("run", limit=1)) == [(0, 0, 0, 0, 6, 0.0, 6.0)]


def held_at(store: Store, pass_index: int) -> list[tuple[Any, ...]]:
    return rows(store.kv.blocks_at("run", pass_index)[["block_id", "request_id", "table_index"]])


def test_the_blocks_of_one_pass(store: Store) -> None:
    hand_made(store)
    assert held_at(store, 0) == [(0, 0, 0), (1, 0, 1)]
    assert held_at(store, 2) == [(0, 0, 0), (1, 0, 1), (2, 1, 0)]
    assert held_at(store, 3) == [(0, 0, 0), (1, 0, 1), (2, 0, 2)]
    assert held_at(store, 5) == [(0, 0, 0), (2, 0, 2)]
    assert store.kv.blocks_at("run", 6).empty


def test_filled_positions_of_the_blocks_of_one_pass(store: Store) -> None:
    """Request 0, a prompt of 5: whole in pass 0. Request 1, of 6: a chunk of 4 in pass 1, one of 2 in pass 2; it is
    preempted after its second token and computes 8 positions again in pass 5, which yields its third."""
    with RunLogWriter(store.runs_folder / "run", INFO) as log:
        log_passes(log, 6)
        for request_id, prompt_tokens, passes in ((0, 5, [0, 1, 2, 3, 4, 5]), (1, 6, [2, 3, 5])):
            log.append("requests", request_id=request_id, prompt_tokens=prompt_tokens)
            for index, at in enumerate(passes):
                log.append("tokens", request_id=request_id, token_index=index, pass_index=at)
        again: list[Event] = [(2, 1, 0, False, 4), (3, 1, 1, False, 4), (2, 1, 0, True, 5), (3, 1, 1, True, 5)]
        got: list[Event] = [(0, 0, 0, True, 0), (1, 0, 1, True, 0), (2, 1, 0, True, 1), (3, 1, 1, True, 2)]
        log_blocks(log, [*got, *again, (4, 0, 2, True, 4)])
        log.finish(RESULT)
    store.ingest.run(log.folder)
    filled = [
        {block: positions for block, _, _, positions in rows(store.kv.blocks_at("run", index))} for index in range(6)
    ]
    assert filled == [
        {0: 4, 1: 1},
        {0: 4, 1: 2, 2: 4},
        {0: 4, 1: 3, 2: 4, 3: 2},
        {0: 4, 1: 4, 2: 4, 3: 3},
        {0: 4, 1: 4, 4: 1},
        {0: 4, 1: 4, 4: 2, 2: 4, 3: 4},
    ]


def test_blocks_of_a_live_run_are_held_so_far(store: Store) -> None:
    with RunLogWriter(store.runs_folder / "run", INFO) as log:
        log_blocks(log, [(0, 0, 0, True, 0), (1, 0, 1, True, 2)])  # a pass that has not ended is unknown
        log_passes(log, 2)
        log.flush()
        store.ingest.run(log.folder)
        assert rows(store.kv.blocks("run")) == [(0, 0, 0, 0, 2, 0.0, 2.0)]
        log_passes(log, 1, first=2)
        log.flush()
        store.ingest.run(log.folder)
        assert store.kv.blocks("run")["end_pass"].tolist() == [3, 3]


def test_a_torn_log_of_blocks_leaves_them_held_and_a_damaged_one_is_reported(store: Store) -> None:
    with RunLogWriter(store.runs_folder / "run", INFO) as log:
        log_passes(log, 6)
        log_blocks(log, EVENTS[:3])
        log.flush()
        file = log.folder / "blocks.arrows"
        first_bytes = file.stat().st_size
        log_blocks(log, EVENTS[3:])
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])  # within the second batch
    store.ingest.run(log.folder)
    assert store.runs.get("run")["damage"] is None
    assert store.kv.blocks("run")["end_pass"].tolist() == [6, 6, 6]
    file.write_bytes(whole[:first_bytes] + b"rubbish!" + whole[first_bytes + 8 :])
    with pytest.raises(ValueError, match=rf"blocks\.arrows: damaged after byte {first_bytes}"):
        store.ingest.run(log.folder)
    assert store.runs.get("run")["damage"].startswith("blocks.arrows: damaged after byte")
    assert len(store.kv.blocks("run")) == 3


def test_events_are_placed_on_the_step_axis(store: Store) -> None:
    with RunLogWriter(store.runs_folder / "run", INFO) as log:
        for index, (step, kind) in enumerate([(0, "prefill"), (0, "decode"), (1, "decode")]):
            log.append("passes", pass_index=index, step=step, kind=kind, start_s=index * 1.0, end_s=index + 0.5)
        for request_id, pass_index in ((7, 1), (3, 1), (5, 3)):
            log.append("events", event="preempt", request_id=request_id, lane=1, blocks=2, tokens=9,
                       pass_index=pass_index, time_s=pass_index * 1.0)  # fmt: skip
        log.finish(RESULT)
    store.ingest.run(log.folder)
    events = store.runs.events("run")
    assert events.columns.tolist() == [
        "event", "request_id", "lane", "blocks", "tokens", "pass_index", "time_s", "step"
    ]  # fmt: skip
    assert events["request_id"].tolist() == [7, 3, 5]
    assert events["step"].tolist() == [0.5, 0.5, 2.0]
    assert rows(events)[0] == ("preempt", 7, 1, 2, 9, 1, 1.0, 0.5)


def test_positions_are_summed_by_run(store: Store) -> None:
    held = {
        "kv_reserved_positions": 20, "kv_used_positions": 9, "kv_padding_positions": 2, "kv_dead_positions": 3,
        "kv_fragment_positions": 1, "computed_positions": 12, "padding_positions": 4, "dead_positions": 3,
    }  # fmt: skip
    for run_id, count in (("one", 1), ("three", 3)):
        with RunLogWriter(store.runs_folder / run_id, {**INFO, "run_id": run_id}) as log:
            log_passes(log, count, **held)
            log.finish(RESULT)
        store.ingest.run(log.folder)
    found = store.kv.positions(["three", "one"])
    expected = {
        "reserved_position_s": 20, "used_position_s": 9, "padding_position_s": 2, "dead_position_s": 3,
        "fragment_position_s": 1, "room_position_s": 5,
        "computed_positions": 12, "real_positions": 5, "padding_positions": 4, "dead_positions": 3,
    }  # fmt: skip
    assert found["run_id"].tolist() == ["three", "one"]
    assert {name: found[name].tolist() for name in expected} == {name: [3 * n, n] for name, n in expected.items()}
    assert store.kv.positions([]).empty


def test_a_run_without_blocks_has_none(store: Store) -> None:
    with RunLogWriter(store.runs_folder / "run", {**INFO, "kv_layout": "slots", "kv_blocks": None}) as log:
        log_passes(log, 3)
        log.finish(RESULT)
    store.ingest.run(log.folder)
    for run_id in ("run", "unknown"):
        assert store.kv.blocks(run_id).empty
        assert store.kv.blocks_at(run_id, 0).empty
        assert store.runs.events(run_id).empty
        pool = store.kv.block_map(run_id)
        assert (pool.num_blocks, pool.rows) == (0, 0)
        assert pool.cells.empty


@pytest.mark.parametrize("settings", [PREEMPTED, CHUNKED])
def test_blocks_add_up_to_the_positions_of_the_passes(store: Store, settings: dict[str, Any]) -> None:
    run_id = write_sample_run(store.runs_folder, **settings).name
    store.ingest.run(store.runs_folder / run_id)
    passes, events, requests = store.runs.passes(run_id), store.runs.events(run_id), store.runs.requests(run_id)
    for index in passes["pass_index"]:
        blocks = store.kv.blocks_at(run_id, index)
        assert 4 * len(blocks) == passes["kv_reserved_positions"][index]
        assert blocks["positions"].sum() == passes["kv_used_positions"][index]
    assert len(events) == requests["preemptions"].sum() > 0
    assert store.runs.get(run_id)["kv_blocks"] == settings["num_blocks"]
    chunks = store.runs.spans(run_id)["chunk"].dropna()
    assert (len(chunks) > 0) == (settings is CHUNKED)
    assert len(chunks) == passes["chunk_rows"].sum() + (chunks == 0).sum()  # a prefill's last chunk yields a token
