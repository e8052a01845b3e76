"""The Query page without drawing it: links, the search, texts, tables and charts."""

from __future__ import annotations

from urllib.parse import quote

import pandas as pd
import pytest

from pages.parts.query.link import MAX_LINK_CHARACTERS, link_to, linked_query, params_of
from pages.parts.query.result import ago, as_shown, cut_text, default_drawing
from pages.parts.query.schema import matching
from store.queries.prepared_queries import prepared_queries
from store.snapshot.catalog import tables


def test_a_search_takes_whole_tables_by_name_and_columns_by_meaning() -> None:
    assert [table.name for table in matching("token_gaps")] == ["token_gaps"]
    assert {table.name for table in matching("lane fixed")} == {"requests"}
    assert matching(" ") == tables()


def test_links_carry_prepared_questions_by_name_and_others_by_text() -> None:
    prepared = prepared_queries()[0]
    assert params_of(f"\n{prepared.sql}\n") == {"question": prepared.name}
    params = params_of("SELECT 'ä&b'\n")
    assert params == {"sql": "SELECT 'ä&b'"}
    assert link_to("http://host/query?sql=old", params) == f"http://host/query?sql={quote(params['sql'], safe='')}"
    assert linked_query(params).sql == "SELECT 'ä&b'"
    assert linked_query({}) is linked_query({"sql": " "}) is None
    assert params_of("x" * (MAX_LINK_CHARACTERS + 1)) is None


@pytest.mark.parametrize(
    ("age_s", "text"),
    [(0.5, "just now"), (12.9, "12 seconds ago"), (61, "1 minute ago"), (7200, "2 hours ago"), (200_000, "2 days ago")],
)
def test_ages(age_s: float, text: str) -> None:
    assert ago(age_s) == text


def test_runs_are_links_and_other_columns_keep_their_order() -> None:
    frame = pd.DataFrame({"run_id": ["r1", None], "static_run_id": ["r2", "r3"], "gap_s": [0.5, 0.25]})
    shown, config = as_shown(frame)
    assert shown["run_id"].iloc[0] == "/run?run_id=r1"
    assert pd.isna(shown["run_id"].iloc[1])
    assert shown["static_run_id"].tolist() == ["/run?run_id=r2", "/run?run_id=r3"]
    assert set(config) == {"run_id", "static_run_id", "gap_s"}
    assert shown["gap_s"].tolist() == [0.5, 0.25]


def test_cut_answers() -> None:
    assert cut_text("rows", 1000).startswith("The first 1,000 rows: there are more.")
    assert "32\u00a0MiB" in cut_text("bytes", 3)


def test_a_changed_query_is_drawn_by_its_columns() -> None:
    frame = pd.DataFrame({"engine": ["a", "b"], "dead_fraction": [0.1, 0.2]})
    drawing = default_drawing(prepared_queries()[0].sql, frame)
    assert drawing is not None
    assert (drawing.kind, drawing.x, drawing.y) == ("bar", "engine", "dead_fraction")
    assert default_drawing("SELECT 1", frame.head(1)) is None
