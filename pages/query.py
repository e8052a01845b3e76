"""Query: ask all runs in SQL. `?question=` asks a prepared question, `?sql=` any other.

Whatever is asked runs in the sandbox, on a snapshot: it can read the runs and nothing else, and change nothing.
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
    Asked,
    asked,
    begin_pending,
    put,
    running_s,
    settle,
)
from pages.parts.query.link import linked
from pages.parts.query.result import draw_answer, draw_refusal
from pages.parts.query.saved import draw_prepared, draw_shelf
from pages.parts.query.schema import draw_schema
from pages.parts.runs.run_choice import draw_no_runs
from pages.parts.shared.front_door import front_door
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain

AT_ONCE_S = 0.7  # an answer that comes so soon is drawn without a word in between
WATCH_S = 0.3
EDITOR_PX = 250
CLASS = f"st-key-{EDITOR}".replace(".", "-")
MONOSPACE = f"<style>.{CLASS} textarea {{font-family: monospace; font-size: .9rem; line-height: 1.45}}</style>"


def render() -> None:
    """The editor with the schema beside it, then the answer."""
    st.title("Query", anchor=False)
    if not lab().store.runs.count():
        draw_no_runs("Here all runs can be asked in SQL: a dozen questions are prepared.")
        return
    st.markdown(
        "Ask all runs in SQL: one SELECT at a time, over a snapshot of the store. "
        "Nothing that is asked here can change a run."
    )
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
    question = asked()
    if question is None:
        draw_prepared()
    else:
        _draw_outcome(question)


def _take_link() -> str:
    """Ask what the address asks, once; the reason where that is not to be had."""
    params = st.query_params.to_dict()
    if params == st.session_state.get(HANDLED, {}):
        return ""
    st.session_state[HANDLED] = params
    found = linked(params)
    if found is not None and found.sql:
        put(found.sql)
    return found.problem if found is not None else ""


def _draw_editor() -> None:
    question = asked()
    if EDITOR not in st.session_state and question is not None:  # the visitor was on another page meanwhile
        st.session_state[EDITOR] = question.sql
    st.html(MONOSPACE)
    with st.form("query.form", border=False):
        st.text_area(
            "SQL",
            key=EDITOR,
            height=EDITOR_PX,
            placeholder="SELECT engine, count(*) AS runs\nFROM runs\nGROUP BY engine",
            label_visibility="collapsed",
        )
        with st.container(horizontal=True, vertical_alignment="bottom"):
            is_asked = st.form_submit_button("Ask", type="primary", icon=":material/play_arrow:", help="Ctrl+Enter")
            st.selectbox("Rows at most", ROW_CHOICES, 1, format_func=lambda n: f"{n:,}", key=ROWS, width=130)
            st.selectbox("Seconds at most", SECOND_CHOICES, 0, key=SECONDS, width=130)
    if is_asked:
        st.session_state[PENDING] = st.session_state[EDITOR] or ""


def _draw_outcome(question: Asked) -> None:
    if not question.is_settled:
        assert question.asking is not None
        if not question.asking.wait(AT_ONCE_S):
            _draw_running(question)
            return
        settle(question)
        st.rerun()  # so that it stands among the last ones asked, too
    if question.refusal is not None:
        draw_refusal(question.refusal)
    else:
        draw_answer(question)


@st.fragment(run_every=WATCH_S)
def _draw_running(question: Asked) -> None:
    """How long it has been going, and the way to end it. The whole page is drawn anew when it has ended."""
    assert question.asking is not None
    if question.asking.is_done:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        most_s = question.asking.limits.timeout_s
        running = f"{duration(running_s(question))} of at most {exact(most_s, 's')}"
        st.markdown(f":material/hourglass_top: Running: {running}")
        st.button("Cancel", icon=":material/cancel:", on_click=question.asking.cancel)


front_door(render)
