"""Turns of queries: a bounded number at once, first come first served; a canceled query leaves the line."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from store import Store
from store.sandbox import Asking, Limits, Refusal, Turns
from tests.support.patience import PATIENCE_S
from tests.support.processes import process_lives, wait_for
from tests.support.runs.page_runs import write_run

SLOW = "SELECT sleep_ms(60000)"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("home")
    write_run(home / "runs", "r1", "static")
    with Store(home) as store:
        store.ingest.all_in(home / "runs")
        yield store.snapshots.publish().path


def ask(snapshot: Path, sql: str, turns: Turns) -> Asking:
    return Asking(snapshot, sql, Limits(timeout_s=60), turns)


def test_a_query_waits_until_another_has_ended(snapshot: Path) -> None:
    turns = Turns(2)
    running = [ask(snapshot, SLOW, turns) for _ in range(2)]
    wait_for(lambda: all(query.pid is not None for query in running), PATIENCE_S)
    waiting = ask(snapshot, "SELECT 42 AS n", turns)
    assert not waiting.wait(0.5)
    assert (waiting.pid, waiting.began) == (None, None)
    running[0].cancel()
    assert waiting.result().table.to_pylist() == [{"n": 42}]
    assert waiting.began is not None
    assert not running[1].is_done
    running[1].cancel()


def test_a_canceled_query_leaves_the_line_and_starts_no_process(snapshot: Path) -> None:
    turns = Turns(1)
    running = ask(snapshot, SLOW, turns)
    wait_for(lambda: running.pid is not None, PATIENCE_S)
    gone, next_one = ask(snapshot, SLOW, turns), ask(snapshot, "SELECT 1 AS n", turns)
    gone.cancel()
    with pytest.raises(Refusal) as refused:
        gone.result()
    assert (refused.value.reason, gone.pid) == ("canceled", None)
    running.cancel()
    assert next_one.result().table.num_rows == 1


def test_a_query_that_fails_gives_its_turn_back(snapshot: Path) -> None:
    turns = Turns(1)
    for sql in ("SELECT nothing FROM nowhere", "SELECT repeat('x', 2000000000)"):
        with pytest.raises(Refusal):
            ask(snapshot, sql, turns).result()
    assert ask(snapshot, "SELECT 1", turns).result().table.num_rows == 1


def test_no_more_processes_than_turns(snapshot: Path) -> None:
    """Ten visitors ask at once: never more than two processes."""
    turns, most = Turns(2), 0
    queries = [ask(snapshot, "SELECT sleep_ms(50)", turns) for _ in range(10)]
    while not all(query.is_done for query in queries):
        most = max(most, sum(query.pid is not None and process_lives(query.pid) for query in queries))
        queries[-1].wait(0.01)
    assert most <= 2
    assert all(query.result().table.num_rows == 1 for query in queries)


def test_turns_are_taken_in_order() -> None:
    turns, order, lock = Turns(1), list[int](), threading.Lock()
    arrived = [threading.Event() for _ in range(5)]

    def take(place: int) -> None:
        def gave_up() -> bool:
            arrived[place].set()  # it is in the line when it is asked whether it gave up
            return False

        with turns.take(gave_up) as has_turn, lock:
            assert has_turn
            order.append(place)

    with turns.take(lambda: False):
        threads = []
        for place in range(5):
            threads.append(threading.Thread(target=take, args=(place,)))
            threads[-1].start()
            assert arrived[place].wait(PATIENCE_S)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert order == [0, 1, 2, 3, 4]
