"""The KV pool as the store tells it: who held which block when, binned or not, and where positions went."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from engine.runlog.writer import RunLogWriter
from store import Store
from tests.sample_runs import CHUNKED, PREEMPTED, write_sample_run

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
Event = tuple[int, int, int, bool, int]  # block, request, place in its table, allocated, pass


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


def log_passes(log: RunLogWriter, count: int, first: int = 0, **columns: Any) -> None:
    """Decode passes of a second each, one after another, one a step."""
    for index in range(first, first + count):
        seconds = {"start_s": float(index), "end_s": index + 1.0}
        log.append("passes", pass_index=index, step=index, kind="decode", **seconds, **columns)


def log_blocks(log: RunLogWriter, events: Sequence[Event]) -> None:
    names = ("block_id", "request_id", "table_index", "allocated", "pass_index")
    columns = dict(zip(names, zip(*events, strict=True), strict=True))
    log.extend("blocks", {**columns, "time_s": [float(i) for i in columns["pass_index"]]})


# Request 0 begins with blocks 0 and 1, request 1 with block 2. Before pass 3 request 1 is preempted, and its block goes
# to request 0; before pass 4 request 0 has given back block 1 again. Before pass 5 request 1 gets block 1 and, as there
# is no second one for it, gives it back at once.
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
    store.ingest_folder(store.runs_folder / "run")


def rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(frame.itertuples(index=False, name=None))


@pytest.mark.parametrize("result", [True, False])
def test_a_block_is_held_from_the_pass_it_was_got_for_to_that_before_it_was_given_back(
    store: Store, result: bool
) -> None:
    hand_made(store, result=result)  # what a crashed run holds, it holds to its last pass
    columns = ["block_id", "request_id", "table_index", "start_pass", "end_pass", "start_s", "end_s"]
    assert store.blocks("run").columns.tolist() == columns
    assert rows(store.blocks("run")) == [
        (0, 0, 0, 0, 6, 0.0, 6.0),
        (1, 0, 1, 0, 4, 0.0, 4.0),
        (2, 1, 0, 1, 3, 1.0, 3.0),
        (2, 0, 2, 3, 6, 3.0, 6.0),
    ]
    assert rows(store.blocks("run", limit=1)) == [(0, 0, 0, 0, 6, 0.0, 6.0)]


def held_at(store: Store, pass_index: int) -> list[tuple[Any, ...]]:
    return rows(store.blocks_at("run", pass_index)[["block_id", "request_id", "table_index"]])


def test_the_blocks_of_one_pass(store: Store) -> None:
    hand_made(store)
    assert held_at(store, 0) == [(0, 0, 0), (1, 0, 1)]
    assert held_at(store, 2) == [(0, 0, 0), (1, 0, 1), (2, 1, 0)]
    assert held_at(store, 3) == [(0, 0, 0), (1, 0, 1), (2, 0, 2)]
    assert held_at(store, 5) == [(0, 0, 0), (2, 0, 2)]
    assert store.blocks_at("run", 6).empty


def test_how_far_the_blocks_of_one_pass_are_filled(store: Store) -> None:
    """Request 0, a prompt of 5: whole in pass 0. Request 1, of 6: a chunk of 4 in pass 1, one of 2 in pass 2; it is
    preempted after its second token and has computed 8 positions anew in pass 5, which yields its third."""
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
    store.ingest_folder(log.folder)
    filled = [
        {block: positions for block, _, _, positions in rows(store.blocks_at("run", index))} for index in range(6)
    ]
    assert filled == [
        {0: 4, 1: 1},
        {0: 4, 1: 2, 2: 4},
        {0: 4, 1: 3, 2: 4, 3: 2},
        {0: 4, 1: 4, 2: 4, 3: 3},
        {0: 4, 1: 4, 4: 1},
        {0: 4, 1: 4, 4: 2, 2: 4, 3: 4},
    ]


def test_blocks_of_a_run_that_is_going_are_held_so_far(store: Store) -> None:
    with RunLogWriter(store.runs_folder / "run", INFO) as log:
        log_blocks(log, [(0, 0, 0, True, 0), (1, 0, 1, True, 2)])  # of a pass that is not over nothing is known
        log_passes(log, 2)
        log.flush()
        store.ingest_folder(log.folder)
        assert rows(store.blocks("run")) == [(0, 0, 0, 0, 2, 0.0, 2.0)]
        log_passes(log, 1, first=2)
        log.flush()
        store.ingest_folder(log.folder)
        assert store.blocks("run")["end_pass"].tolist() == [3, 3]


def test_events_lie_on_the_axis_of_steps(store: Store) -> None:
    with RunLogWriter(store.runs_folder / "run", INFO) as log:
        for index, (step, kind) in enumerate([(0, "prefill"), (0, "decode"), (1, "decode")]):
            log.append("passes", pass_index=index, step=step, kind=kind, start_s=index * 1.0, end_s=index + 0.5)
        for request_id, pass_index in ((7, 1), (3, 1), (5, 3)):
            log.append("events", event="preempt", request_id=request_id, lane=1, blocks=2, tokens=9,
                       pass_index=pass_index, time_s=pass_index * 1.0)  # fmt: skip
        log.finish(RESULT)
    store.ingest_folder(log.folder)
    events = store.events("run")
    assert events.columns.tolist() == [
        "event", "request_id", "lane", "blocks", "tokens", "pass_index", "time_s", "step"
    ]  # fmt: skip
    assert events["request_id"].tolist() == [7, 3, 5]
    assert events["step"].tolist() == [0.5, 0.5, 2.0]
    assert rows(events)[0] == ("preempt", 7, 1, 2, 9, 1, 1.0, 0.5)


@pytest.mark.parametrize("unit", ["step", "second"])
def test_a_map_with_room_for_all_shows_all(store: Store, unit: Any) -> None:
    hand_made(store)
    pool = store.block_map("run", unit=unit)
    shape = (pool.num_blocks, pool.used_blocks, pool.blocks_a_row, pool.rows, pool.columns, pool.end)
    assert shape == (10, 3, 1, 10, 6, 6.0)
    owners = {(row, column): request for row, column, request, *_ in rows(pool.cells)}
    assert owners == {
        **{(0, column): 0 for column in range(6)},
        **{(1, column): 0 for column in range(4)},
        **{(2, column): 1 if column < 3 else 0 for column in range(1, 6)},
    }
    assert set(pool.cells["held"]) == set(pool.cells["owned"]) == {1.0}
    assert set(pool.cells["requests"]) == {1}


def test_a_cell_of_several_names_who_held_most_and_says_what_it_leaves_out(store: Store) -> None:
    hand_made(store)
    # Rows of 3 blocks, columns of 2 passes: 6 block-passes a cell. In the middle request 0 has 4 + 1, request 1 one.
    pool = store.block_map("run", max_blocks=4, max_bins=3)
    assert (pool.blocks_a_row, pool.rows, pool.columns) == (3, 4, 3)
    assert pool.cells.columns.tolist() == ["row", "column", "request_id", "held", "owned", "requests"]
    sixth = 1 / 6
    assert rows(pool.cells) == [
        (0, 0, 0, pytest.approx(5 * sixth), pytest.approx(4 * sixth), 2),
        (0, 1, 0, pytest.approx(1.0), pytest.approx(5 * sixth), 2),
        (0, 2, 0, pytest.approx(4 * sixth), pytest.approx(4 * sixth), 1),
    ]
    top = store.block_map("run", num_blocks=2, max_blocks=1, max_bins=3)
    assert rows(top.cells)[-1] == (0, 2, 0, pytest.approx(0.5), pytest.approx(0.5), 1)


def test_a_maps_columns_say_how_much_was_unfilled(store: Store) -> None:
    with RunLogWriter(store.runs_folder / "run", INFO) as log:
        for index, fragment in enumerate([0, 4, 6, 0]):
            held = {"kv_reserved_positions": 8 * (index + 1), "kv_used_positions": 8 * (index + 1) - fragment}
            log_passes(log, 1, first=index, kv_fragment_positions=fragment, **held)
        log_blocks(log, [(0, 0, 0, True, 0)])
        for pass_index in (1, 1, 3):
            log.append("events", event="preempt", request_id=0, pass_index=pass_index)
        log.finish(RESULT)
    store.ingest_folder(log.folder)
    columns = store.block_map("run", max_bins=2).by_column
    expected = {
        "column": [0, 1],
        "passes": [2, 2],
        "reserved_positions": [12.0, 28.0],
        "reserved_max_positions": [16, 32],
        "used_positions": [10.0, 25.0],
        "fragment_positions": [2.0, 3.0],
        "fragment_max_positions": [4, 6],
        "fragment_fraction": [4 / 24, 6 / 56],
        "preemptions": [2, 1],
    }
    assert {name: columns[name].tolist() for name in columns} == expected


def test_seconds_in_which_the_engine_stood_idle_hold_nothing(store: Store) -> None:
    with RunLogWriter(store.runs_folder / "run", INFO) as log:
        for index, start_s in enumerate([0.0, 9.0]):
            log.append("passes", pass_index=index, step=index, kind="decode", start_s=start_s, end_s=start_s + 1)
        # Block 0 is given back by a request that ended with pass 0, which the engine says before pass 1.
        log.extend("blocks", {"block_id": [0, 0, 1], "request_id": [0, 0, 1], "table_index": [0, 0, 0],
                              "allocated": [True, False, True], "pass_index": [0, 1, 1],
                              "time_s": [0.0, 9.0, 9.0]})  # fmt: skip
        log.finish(RESULT)
    store.ingest_folder(log.folder)
    assert rows(store.blocks("run")[["block_id", "start_s", "end_s"]]) == [(0, 0.0, 1.0), (1, 9.0, 10.0)]
    cells = store.block_map("run", unit="second", max_bins=2).cells
    assert rows(cells[["row", "column", "held"]]) == [(0, 0, pytest.approx(0.2)), (1, 1, pytest.approx(0.2))]


def test_where_positions_went_run_by_run(store: Store) -> None:
    held = {
        "kv_reserved_positions": 20, "kv_used_positions": 9, "kv_padding_positions": 2, "kv_dead_positions": 3,
        "kv_fragment_positions": 1, "computed_positions": 12, "padding_positions": 4, "dead_positions": 3,
    }  # fmt: skip
    for run_id, count in (("one", 1), ("three", 3)):
        with RunLogWriter(store.runs_folder / run_id, {**INFO, "run_id": run_id}) as log:
            log_passes(log, count, **held)
            log.finish(RESULT)
        store.ingest_folder(log.folder)
    found = store.kv_positions(["three", "one"])
    expected = {
        "reserved_position_s": 20, "used_position_s": 9, "padding_position_s": 2, "dead_position_s": 3,
        "fragment_position_s": 1, "room_position_s": 5,
        "computed_positions": 12, "real_positions": 5, "padding_positions": 4, "dead_positions": 3,
    }  # fmt: skip
    assert found["run_id"].tolist() == ["three", "one"]
    assert {name: found[name].tolist() for name in expected} == {name: [3 * n, n] for name, n in expected.items()}
    assert store.kv_positions([]).empty


def test_a_run_without_blocks_has_none(store: Store) -> None:
    with RunLogWriter(store.runs_folder / "run", {**INFO, "kv_layout": "slots", "kv_blocks": None}) as log:
        log_passes(log, 3)
        log.finish(RESULT)
    store.ingest_folder(log.folder)
    for run_id in ("run", "nobody"):
        assert store.blocks(run_id).empty
        assert store.blocks_at(run_id, 0).empty
        assert store.events(run_id).empty
        pool = store.block_map(run_id)
        assert (pool.num_blocks, pool.rows) == (0, 0)
        assert pool.cells.empty


@pytest.mark.parametrize("settings", [PREEMPTED, CHUNKED])
def test_blocks_add_up_to_what_the_passes_say_they_hold(store: Store, settings: dict[str, Any]) -> None:
    run_id = write_sample_run(store.runs_folder, **settings).name
    store.ingest_folder(store.runs_folder / run_id)
    passes, events, requests = store.passes(run_id), store.events(run_id), store.requests(run_id)
    for index in passes["pass_index"]:
        blocks = store.blocks_at(run_id, index)
        assert 4 * len(blocks) == passes["kv_reserved_positions"][index]
        assert blocks["positions"].sum() == passes["kv_used_positions"][index]
    assert len(events) == requests["preemptions"].sum() > 0
    assert store.run(run_id)["kv_blocks"] == settings["num_blocks"]
    chunks = store.spans(run_id)["chunk"].dropna()
    assert (len(chunks) > 0) == (settings is CHUNKED)
    assert len(chunks) == passes["chunk_rows"].sum() + (chunks == 0).sum()  # one a prefill is the last, and yields


NUM_BLOCKS, NUM_PASSES, NUM_REQUESTS = 13, 60, 9


def random_events(dice: random.Random) -> tuple[list[Event], list[list[int | None]]]:
    """Blocks that change hands at random, several times before one pass if it so falls; and each pass's owners."""
    owners: list[int | None] = [None] * NUM_BLOCKS
    tables: list[list[int]] = [[] for _ in range(NUM_REQUESTS)]
    events: list[Event] = []
    grid = []
    for index in range(NUM_PASSES):
        for _ in range(dice.randrange(5)):
            request = dice.randrange(NUM_REQUESTS)
            if tables[request] and dice.random() < 0.4:
                for place, block in reversed(list(enumerate(tables[request]))):
                    events.append((block, request, place, False, index))
                    owners[block] = None
                tables[request].clear()
            elif free := [block for block in range(NUM_BLOCKS) if owners[block] is None]:
                block = dice.choice(free)
                events.append((block, request, len(tables[request]), True, index))
                owners[block] = request
                tables[request].append(block)
        grid.append(list(owners))
    return events, grid


@pytest.mark.parametrize("seed", range(4))
def test_random_events_are_what_a_plain_replay_makes_of_them(store: Store, seed: int) -> None:
    events, grid = random_events(random.Random(seed))
    with RunLogWriter(store.runs_folder / "run", {**INFO, "kv_blocks": NUM_BLOCKS}) as log:
        log_passes(log, NUM_PASSES)
        log_blocks(log, events)
        log.finish(RESULT)
    store.ingest_folder(log.folder)
    for index in range(0, NUM_PASSES, 7):
        found = {block: request for block, request, _ in held_at(store, index)}
        assert found == {block: owner for block, owner in enumerate(grid[index]) if owner is not None}
    by_pass: list[list[int | None]] = [[None] * NUM_BLOCKS for _ in range(NUM_PASSES)]
    for block, request, _, start, end, start_s, end_s in rows(store.blocks("run")):
        assert (start_s, end_s) == (start, end)
        for index in range(start, end):
            assert by_pass[index][block] is None, "two own it"
            by_pass[index][block] = request
    assert by_pass == grid
    pool = store.block_map("run", max_blocks=5, max_bins=20)  # cells of 3 blocks x 3 passes, the last row of 1
    cells = {(row, column): cell for row, column, *cell in rows(pool.cells)}
    for row in range(5):
        for column in range(20):
            part = [grid[p][b] for p in range(3 * column, 3 * column + 3) for b in range(3 * row, min(3 * row + 3, 13))]
            held = Counter(owner for owner in part if owner is not None)
            if not held:
                assert (row, column) not in cells
                continue
            request = min(held, key=lambda owner: (-held[owner], owner))
            shares = [pytest.approx(held.total() / len(part)), pytest.approx(held[request] / len(part))]
            assert cells[row, column] == [request, *shares, len(held)]
