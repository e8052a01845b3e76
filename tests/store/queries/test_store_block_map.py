"""The block map: every cell of the grid against a plain replay of the block events."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.runlog.writer import RunLogWriter
from store import Store
from tests.store.queries.test_store_blocks import INFO, RESULT, Event, hand_made, held_at, log_blocks, log_passes, rows


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


@pytest.mark.parametrize("unit", ["step", "second"])
def test_a_large_enough_map_shows_every_block_and_pass(store: Store, unit: Any) -> None:
    hand_made(store)
    pool = store.kv.block_map("run", unit=unit)
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


def test_a_shared_cell_names_the_main_holder_and_counts_the_others(store: Store) -> None:
    hand_made(store)
    # Rows of 3 blocks, columns of 2 passes: 6 block-passes a cell. In the middle request 0 has 4 + 1, request 1 one.
    pool = store.kv.block_map("run", max_blocks=4, max_bins=3)
    assert (pool.blocks_a_row, pool.rows, pool.columns) == (3, 4, 3)
    assert pool.cells.columns.tolist() == ["row", "column", "request_id", "held", "owned", "requests"]
    sixth = 1 / 6
    assert rows(pool.cells) == [
        (0, 0, 0, pytest.approx(5 * sixth), pytest.approx(4 * sixth), 2),
        (0, 1, 0, pytest.approx(1.0), pytest.approx(5 * sixth), 2),
        (0, 2, 0, pytest.approx(4 * sixth), pytest.approx(4 * sixth), 1),
    ]
    top = store.kv.block_map("run", num_blocks=2, max_blocks=1, max_bins=3)
    assert rows(top.cells)[-1] == (0, 2, 0, pytest.approx(0.5), pytest.approx(0.5), 1)


def test_columns_of_a_map_have_the_unfilled_positions(store: Store) -> None:
    with RunLogWriter(store.runs_folder / "run", INFO) as log:
        for index, fragment in enumerate([0, 4, 6, 0]):
            held = {"kv_reserved_positions": 8 * (index + 1), "kv_used_positions": 8 * (index + 1) - fragment}
            log_passes(log, 1, first=index, kv_fragment_positions=fragment, **held)
        log_blocks(log, [(0, 0, 0, True, 0)])
        for pass_index in (1, 1, 3):
            log.append("events", event="preempt", request_id=0, pass_index=pass_index)
        log.finish(RESULT)
    store.ingest.run(log.folder)
    columns = store.kv.block_map("run", max_bins=2).by_column
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


def test_blocks_are_not_held_while_the_engine_is_idle(store: Store) -> None:
    with RunLogWriter(store.runs_folder / "run", INFO) as log:
        for index, start_s in enumerate([0.0, 9.0]):
            log.append("passes", pass_index=index, step=index, kind="decode", start_s=start_s, end_s=start_s + 1)
        # Block 0 is freed by a request that ended with pass 0; the engine logs it before pass 1.
        log.extend("blocks", {"block_id": [0, 0, 1], "request_id": [0, 0, 1], "table_index": [0, 0, 0],
                              "allocated": [True, False, True], "pass_index": [0, 1, 1],
                              "time_s": [0.0, 9.0, 9.0]})  # fmt: skip
        log.finish(RESULT)
    store.ingest.run(log.folder)
    assert rows(store.kv.blocks("run")[["block_id", "start_s", "end_s"]]) == [(0, 0.0, 1.0), (1, 9.0, 10.0)]
    cells = store.kv.block_map("run", unit="second", max_bins=2).cells
    assert rows(cells[["row", "column", "held"]]) == [(0, 0, pytest.approx(0.2)), (1, 1, pytest.approx(0.2))]


NUM_BLOCKS, NUM_PASSES, NUM_REQUESTS = 13, 60, 9


def random_events(dice: random.Random) -> tuple[list[Event], list[list[int | None]]]:
    """Random allocations and frees, possibly several before one pass; and the owners in each pass."""
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
def test_random_events_equal_a_plain_replay(store: Store, seed: int) -> None:
    events, grid = random_events(random.Random(seed))
    with RunLogWriter(store.runs_folder / "run", {**INFO, "kv_blocks": NUM_BLOCKS}) as log:
        log_passes(log, NUM_PASSES)
        log_blocks(log, events)
        log.finish(RESULT)
    store.ingest.run(log.folder)
    for index in range(0, NUM_PASSES, 7):
        found = {block: request for block, request, _ in held_at(store, index)}
        assert found == {block: owner for block, owner in enumerate(grid[index]) if owner is not None}
    by_pass: list[list[int | None]] = [[None] * NUM_BLOCKS for _ in range(NUM_PASSES)]
    for block, request, _, start, end, start_s, end_s in rows(store.kv.blocks("run")):
        assert (start_s, end_s) == (start, end)
        for index in range(start, end):
            assert by_pass[index][block] is None, "two own it"
            by_pass[index][block] = request
    assert by_pass == grid
    pool = store.kv.block_map("run", max_blocks=5, max_bins=20)  # cells of 3 blocks x 3 passes, the last row of 1
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
