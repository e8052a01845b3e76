"""Saved queries and the most recent ones in the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store import Store
from store.saved_queries import KEPT_RECENT


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path) as opened:
        yield opened


def test_a_saved_query_is_kept_when_the_store_is_opened_again(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.saved_queries.save("  waste   of static ", "SELECT 1")
        store.saved_queries.save("Another", "SELECT 2")
    with Store(tmp_path) as store:
        assert [(q.name, q.sql) for q in store.saved_queries.list()] == [
            ("Another", "SELECT 2"),
            ("waste of static", "SELECT 1"),
        ]


def test_a_name_belongs_to_one_query(store: Store) -> None:
    store.saved_queries.save("mine", "SELECT 1")
    store.saved_queries.save("mine", "SELECT 1")
    with pytest.raises(ValueError, match="Another query is saved as “mine”"):
        store.saved_queries.save("mine", "SELECT 2")
    assert [q.sql for q in store.saved_queries.list()] == ["SELECT 1"]


@pytest.mark.parametrize(
    ("name", "sql", "message"),
    [(" ", "SELECT 1", "name"), ("x" * 81, "SELECT 1", "81"), ("mine", " \n", "Enter a query")],
)
def test_an_invalid_query_is_refused_with_a_message(store: Store, name: str, sql: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        store.saved_queries.save(name, sql)
    assert store.saved_queries.list() == []


def test_a_deleted_query_can_be_saved_again(store: Store) -> None:
    store.saved_queries.save("mine", "SELECT 1")
    forgotten = store.saved_queries.delete("mine")
    assert store.saved_queries.list() == []
    store.saved_queries.save(forgotten.name, forgotten.sql)
    assert [q.name for q in store.saved_queries.list()] == ["mine"]
    with pytest.raises(KeyError, match="yours"):
        store.saved_queries.delete("yours")


def test_recent_queries_are_listed_once_newest_first(store: Store) -> None:
    for sql, outcome in (("SELECT 1", "1 row"), ("SELECT 2", "1 row"), ("SELECT 1", "2 rows")):
        store.saved_queries.remember(sql, outcome)
    assert [(q.sql, q.outcome) for q in store.saved_queries.recent()] == [("SELECT 1", "2 rows"), ("SELECT 2", "1 row")]
    assert [q.sql for q in store.saved_queries.recent(1)] == ["SELECT 1"]


def test_the_number_of_recent_queries_is_limited(store: Store) -> None:
    for number in range(KEPT_RECENT + 3):
        store.saved_queries.remember(f"SELECT {number}", "1 row")
    asked = store.saved_queries.recent(1000)
    assert len(asked) == KEPT_RECENT
    assert asked[-1].sql == "SELECT 3"
