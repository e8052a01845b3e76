"""The Query page, through app.py over a real store: queries, links, errors with their place, saving, the schema."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from pages.parts.shared.lab import lab
from store.queries.prepared_queries import prepared_queries
from store.sandbox import Asking, Limits
from store.sandbox.answer_files import to_csv
from store.snapshot.catalog import tables
from tests.support.page_app import figures, links, open_page, take_in, words
from tests.support.processes import wait_for
from tests.support.runs.page_runs import write_run

BY_ENGINE = "SELECT engine, count(*) AS tokens\nFROM runs JOIN tokens USING (run_id)\nGROUP BY engine ORDER BY engine"

LONG = f"SELECT 1 AS n -- {'as long as it takes ' * 250}"


@pytest.fixture
def home(lab_home: Path) -> Iterator[Path]:
    """A LAB_HOME with the pair of runs: static `r1` and continuous `r2`, six tokens each."""
    write_run(lab_home / "runs", "r1", "static")
    write_run(lab_home / "runs", "r2", "continuous")
    take_in(lab_home)
    yield lab_home
    lab().close()
    st.cache_resource.clear()


def ask(app: AppTest, sql: str) -> AppTest:
    app.text_area(key="query.sql").set_value(sql)
    next(button for button in app.button if button.label == "Run").click()
    return settled(app.run())


def settled(app: AppTest, within_s: float = 120) -> AppTest:
    """Run the page again until its query is answered or refused."""
    deadline = time.monotonic() + within_s
    while any(button.label == "Cancel" for button in app.button):
        assert time.monotonic() < deadline
        time.sleep(0.1)
        app.run()
    return app


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click()
    return settled(app.run())


def rows(app: AppTest) -> list[dict[str, object]]:
    return app.dataframe[0].value.to_dict("records")


def test_without_runs_the_page_leads_to_bench(lab_home: Path) -> None:
    app = open_page("query")
    assert "There is no run yet." in words(app)
    assert "Set up a first run on Bench" in dict(links(app))
    lab().close()
    st.cache_resource.clear()


def test_a_first_visit_offers_the_prepared_questions_and_asks_nothing(home: Path) -> None:
    app = open_page("query")
    said = words(app)
    for question in prepared_queries():
        assert app.button(key=f"query.begin_{question.name}").label == question.title
        assert question.shows in said
    assert not app.dataframe
    assert not (home / "snapshot.duckdb").exists()


def test_asking_answers_with_a_table_a_chart_and_a_caption(home: Path) -> None:
    app = ask(open_page("query"), BY_ENGINE)
    assert rows(app) == [{"engine": "continuous", "tokens": 6}, {"engine": "static", "tokens": 6}]
    [figure] = figures(app).values()
    assert figure["data"][0]["type"] == "bar"
    said = words(app)
    assert "2 rows in " in said
    assert "2 runs." in said
    assert "tokens is 6 in all rows." in said
    assert dict(app.query_params) == {"sql": BY_ENGINE}
    assert {button.label for button in app.get("download_button")} == {"CSV", "Parquet", "Arrow"}


def test_a_prepared_question_is_asked_by_one_click(home: Path) -> None:
    app = press(open_page("query"), "query.begin_waste_by_engine")
    assert [row["engine"] for row in rows(app)] == ["static", "continuous"]
    assert rows(app)[0]["dead_fraction"] == pytest.approx(0.25)
    assert "Waste by engine" in [header.value for header in app.subheader]
    assert dict(app.query_params) == {"question": "waste_by_engine"}
    assert "dead_fraction: lowest 0 (engine continuous), highest 0.250 (engine static)." in words(app)
    assert app.text_area(key="query.sql").value == prepared_queries()[0].sql


def test_a_prepared_question_is_chosen_from_the_list(home: Path) -> None:
    app = open_page("query")
    app.selectbox(key="query.prepared").select("speed_by_month")
    app = settled(app.run())
    assert dict(app.query_params) == {"question": "speed_by_month"}
    assert app.selectbox(key="query.prepared").value is None


@pytest.mark.parametrize("question", prepared_queries(), ids=lambda question: question.name)
def test_every_prepared_question_has_a_link(home: Path, question: object) -> None:
    app = settled(open_page("query", question=question.name))  # type: ignore[attr-defined]
    assert question.title in [header.value for header in app.subheader]  # type: ignore[attr-defined]
    assert not app.error
    assert "rows in " in words(app) or "row in " in words(app)


def test_a_link_with_a_query_fills_the_editor_and_runs_on_a_click(home: Path) -> None:
    app = open_page("query", sql="SELECT 41 + 1 AS answer")
    assert app.text_area(key="query.sql").value == "SELECT 41 + 1 AS answer"
    assert "This query comes from a link. Read it, then press Run." in words(app)
    assert not app.dataframe
    assert not (home / "snapshot.duckdb").exists()
    next(button for button in app.button if button.label == "Run").click()
    app = settled(app.run())
    assert rows(app) == [{"answer": 42}]
    assert "comes from a link" not in words(app)


def test_back_to_a_query_of_ones_own_runs_it_again(home: Path) -> None:
    app = ask(ask(open_page("query"), "SELECT 1 AS one"), "SELECT 2 AS two")
    app.query_params["sql"] = "SELECT 1 AS one"
    assert rows(settled(app.run())) == [{"one": 1}]
    app.query_params["sql"] = "SELECT 3 AS three"  # another's
    app = app.run()
    assert not app.dataframe
    assert app.text_area(key="query.sql").value == "SELECT 3 AS three"


def test_the_text_of_a_prepared_query_in_a_link_runs_at_once(home: Path) -> None:
    app = settled(open_page("query", sql=prepared_queries()[0].sql))
    assert rows(app)[0]["engine"] == "static"


def test_a_query_waits_for_those_of_other_visitors(home: Path) -> None:
    snapshot = lab().store.snapshots.publish().path
    others = [Asking(snapshot, "SELECT sleep_ms(60000)", Limits(timeout_s=60), lab().turns) for _ in range(2)]
    wait_for(lambda: all(query.pid is not None for query in others), 60)
    app = open_page("query")
    app.text_area(key="query.sql").set_value("SELECT 1 AS one")
    next(button for button in app.button if button.label == "Run").click()
    assert "Waiting for another query; 2 run at once." in words(app.run())
    others[0].cancel()
    assert rows(settled(app)) == [{"one": 1}]
    others[1].cancel()


def test_a_link_that_is_too_long_or_unknown_is_an_error(home: Path) -> None:
    app = open_page("query", sql=LONG)
    assert "longer than 4,000 characters" in words(app)
    assert not app.dataframe
    assert "no prepared query “nothing”" in words(open_page("query", question="nothing"))


def test_a_question_too_long_for_a_link_leaves_the_address_alone(home: Path) -> None:
    app = ask(open_page("query"), LONG)
    assert rows(app) == [{"n": 1}]
    assert dict(app.query_params) == {}
    assert "too long for a link" in words(app)


def test_an_error_shows_its_place(home: Path) -> None:
    app = ask(open_page("query"), "SELECT *\nFROM runs\nWHERE engin = 'static'")
    assert 'Referenced column "engin" not found' in words(app)
    assert "Line 3, column 7:" in words(app)
    assert app.code[0].value == "WHERE engin = 'static'\n      ^^^^^"
    assert not app.dataframe


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("DROP TABLE runs", "this is DROP"),
        ("SELECT 1; SELECT 2", "the text has 2 statements"),
        ("SELECT * FROM read_csv('/etc/passwd')", "read_csv() is not available here"),
        ("SELECT repeat('x', 2000000000)", "exceeded its memory limit"),
        ("  ", "Write a query into the editor first."),
        ("SELECT '" + "x" * 20_000 + "'", "use at most 20,000"),
    ],
)
def test_a_refused_query_says_why(home: Path, sql: str, reason: str) -> None:
    app = ask(open_page("query"), sql)
    assert reason in words(app)
    assert lab().store.runs.count() == 2


def test_a_cancel_ends_the_question(home: Path) -> None:
    app = open_page("query")
    app.selectbox(key="query.seconds").select(60)
    app.text_area(key="query.sql").set_value("SELECT sleep_ms(60000)")
    next(button for button in app.button if button.label == "Run").click()
    app.run()
    assert "Running: " in words(app)
    next(button for button in app.button if button.label == "Cancel").click()
    app = settled(app.run())
    assert "Canceled." in words(app)


def test_an_answer_is_limited_to_max_rows(home: Path) -> None:
    app = open_page("query")
    app.selectbox(key="query.rows").select(1_000)
    app = ask(app, "FROM range(5000)")
    assert len(app.dataframe[0].value) == 1_000
    assert "The first 1,000 rows: there are more." in words(app)


def test_an_answer_without_rows(home: Path) -> None:
    app = ask(open_page("query"), "SELECT run_id FROM runs WHERE engine = 'nothing'")
    assert "No rows." in words(app)
    assert "0 rows in" in words(app)


def test_the_chart_can_be_chosen_and_left_out(home: Path) -> None:
    app = ask(open_page("query"), "SELECT pass_index, width, rows, kind FROM passes ORDER BY ALL")
    number = next(box.key for box in app.selectbox if box.label == "Kind").rpartition("_")[2]
    app.selectbox(key=f"query.kind_{number}").select("line")
    app.selectbox(key=f"query.x_{number}").select("pass_index")
    app.selectbox(key=f"query.y_{number}").select("width")
    app.selectbox(key=f"query.color_{number}").select("kind")
    app = app.run()
    [figure] = figures(app).values()
    assert [trace["name"].strip() for trace in figure["data"]] == ["prefill", "decode"]
    assert figure["layout"]["xaxis"]["title"]["text"] == "pass_index"
    app.selectbox(key=f"query.kind_{number}").select("none")
    assert figures(app.run()) == {}


def test_a_newer_run_needs_another_query(home: Path) -> None:
    app = ask(open_page("query"), "SELECT count(*) AS n FROM runs")
    assert rows(app) == [{"n": 2}]
    write_run(home / "runs", "r3", "static")
    lab().store.ingest.all_in(home / "runs")
    assert "Runs have changed since: run the query again to see them." in words(app.run())
    app = ask(app, "SELECT count(*) AS n FROM runs")
    assert rows(app) == [{"n": 3}]
    assert "Runs have changed" not in words(app)


def test_a_query_is_saved_run_deleted_and_restored(home: Path) -> None:
    app = ask(open_page("query"), "SELECT 1 AS one")
    app.text_input(key="query.name").set_value("mine")
    next(button for button in app.button if button.label == "Save query").click()
    app = app.run()
    assert [question.name for question in lab().store.saved_queries.list()] == ["mine"]
    app = press(ask(app, "SELECT 2 AS two"), "query.saved_0")
    assert rows(app) == [{"one": 1}]
    app = press(app, "query.forget_0")
    assert lab().store.saved_queries.list() == []
    assert "Deleted “mine”." in words(app)
    next(button for button in app.button if button.label == "Undo").click()
    assert "Deleted" not in words(app.run())
    assert [question.sql for question in lab().store.saved_queries.list()] == ["SELECT 1 AS one"]


def test_saving_needs_a_name(home: Path) -> None:
    app = ask(open_page("query"), "SELECT 1 AS one")
    next(button for button in app.button if button.label == "Save query").click()
    assert app.run().toast[0].value == "Enter a name for the query."
    assert lab().store.saved_queries.list() == []


def test_recent_queries(home: Path) -> None:
    app = ask(ask(open_page("query"), "SELECT 1 AS one"), "SELECT 2 AS two")
    assert [app.button(key=f"query.last_{n}").label for n in (0, 1)] == ["SELECT 2 AS two", "SELECT 1 AS one"]
    assert rows(press(app, "query.last_1")) == [{"one": 1}]


def test_the_schema_browser_finds_columns_and_shows_rows(home: Path) -> None:
    app = open_page("query")
    assert [box.label for box in app.expander] == [f"**{t.name}** · {len(t.columns)} columns" for t in tables()]
    assert "The planned arrival time. Latencies count from here." in words(app)
    app.text_input(key="query.find").set_value("arrival_s")
    app = app.run()
    assert [box.label for box in app.expander] == ["**requests** · 1 column"]
    app = press(app, "query.look_requests")
    assert len(app.dataframe[0].value) == 4
    app.text_input(key="query.find").set_value("zzz")
    assert "No table or column matches “zzz”." in words(app.run())


def test_downloads_equal_the_answer(home: Path) -> None:
    app = ask(open_page("query"), BY_ENGINE)
    table = app.session_state["query.asked"].answer.table
    assert pd.read_csv(io.BytesIO(to_csv(table))).to_dict("records") == rows(app)
