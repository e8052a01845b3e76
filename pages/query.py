"""Query: SQL over all runs. `?question=` runs a prepared query, `?sql=` fills the editor with any other.

A query runs in the sandbox on a snapshot of the store: it can read the runs, read nothing else, and change nothing.
"""

from __future__ import annotations

import streamlit as st

from engine.core.format import duration, exact
from pages.parts.query.asking import (
    EDITOR,
    HANDLED,
    PENDING,
    ROW_CHOICES,
    ROWS,
    SECOND_CHOICES,
    SECONDS,
    UNREAD,
    AskedQuery,
    asked,
    begin_pending,
    fill,
    is_own,
    put,
    running_s,
    settle,
)
from pages.parts.query.link import QUESTION, SQL, linked_query
from pages.parts.query.result import draw_answer, draw_refusal
from pages.parts.query.saved import draw_prepared, draw_shelf
from pages.parts.query.schema import draw_schema
from pages.parts.runs.status import draw_no_runs
from pages.parts.shared.components.sql_editor import sql_editor
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.lab import QUERIES_AT_ONCE, lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.widgets import draw_complaints
from store.snapshot.catalog import tables

AT_ONCE_S = 0.7  # an answer within this time is drawn without a progress line
WATCH_S = 0.3
EDITOR_PX = 250
CLASS = f"st-key-{EDITOR}".replace(".", "-")
MONOSPACE = f"<style>.{CLASS} textarea {{font-family: monospace; font-size: .9rem; line-height: 1.45}}</style>"


def render() -> None:
    """The editor with the schema beside it, then the answer."""
    st.title("Query", anchor=False)
    draw_complaints({}, also=(SQL, QUESTION))
    if not lab().store.runs.count():
        draw_no_runs("This page runs SQL over all runs; a dozen queries are prepared.")
        return
    st.markdown("Query all runs in SQL: one SELECT at a time, read-only, over a snapshot of the store.")
    problem = _take_link()
    left, right = st.columns([3, 2], gap="medium")
    with right:
        draw_schema()
    with left:
        draw_shelf()
        _draw_editor()
    if problem:
        st.warning(plain(problem), icon=":material/link_off:")
    begin_pending()
    if st.session_state.get(UNREAD):
        st.info("This query comes from a link. Read it, then press Run.", icon=":material/link:")
    query = asked()
    if query is None:
        draw_prepared()
    else:
        _draw_outcome(query)


def _take_link() -> str:
    """Take the query in the address, once: run a prepared one, or one that the visitor has run; fill in any other.

    Returns why there is nothing to take, or nothing.
    """
    params = st.query_params.to_dict()
    if params == st.session_state.get(HANDLED, {}):
        return ""
    st.session_state[HANDLED] = params
    found = linked_query(params)
    if found is not None and found.sql:
        take = put if found.is_prepared or is_own(found.sql) else fill
        take(found.sql)
    return found.problem if found is not None else ""


def _draw_editor() -> None:
    query = asked()
    if EDITOR not in st.session_state and query is not None:  # the visitor returns from another page
        st.session_state[EDITOR] = query.sql
    st.html(MONOSPACE)
    with st.form("query.form", border=False):
        st.text_area(
            "SQL",
            key=EDITOR,
            height=EDITOR_PX,
            placeholder="SELECT engine, count(*) AS runs\nFROM runs\nGROUP BY engine",
            label_visibility="collapsed",
        )
        sql_editor(EDITOR, tables())
        with st.container(horizontal=True, vertical_alignment="bottom"):
            is_asked = st.form_submit_button("Run", type="primary", icon=":material/play_arrow:", help="Ctrl+Enter")
            st.selectbox("Max rows", ROW_CHOICES, 1, format_func=lambda n: f"{n:,}", key=ROWS, width=130)
            st.selectbox("Max seconds", SECOND_CHOICES, 0, key=SECONDS, width=130)
    if is_asked:
        st.session_state[PENDING] = st.session_state[EDITOR] or ""


def _draw_outcome(query: AskedQuery) -> None:
    if not query.is_settled:
        assert query.asking is not None
        if not query.asking.wait(AT_ONCE_S):
            _draw_running(query)
            return
        settle(query)
        st.rerun()  # lists it under Recent
    if query.refusal is not None:
        draw_refusal(query.refusal)
    else:
        draw_answer(query)


@st.fragment(run_every=WATCH_S)
def _draw_running(query: AskedQuery) -> None:
    """The elapsed time, or what the query waits for, and Cancel. Draws the whole page again when it has ended."""
    assert query.asking is not None
    if query.asking.is_done:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        ran_s, most_s = running_s(query), query.asking.limits.timeout_s
        if ran_s is None:
            st.markdown(f":material/hourglass_empty: Waiting for another query; {QUERIES_AT_ONCE} run at once.")
        else:
            st.markdown(f":material/hourglass_top: Running: {duration(ran_s)} of at most {exact(most_s, 's')}")
        st.button("Cancel", icon=":material/cancel:", on_click=query.asking.cancel)


entry_guard(render)
