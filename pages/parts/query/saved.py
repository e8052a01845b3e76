"""Questions to begin with: the prepared ones, those that were saved by a name, the last ones asked."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from pages.parts.query.asking import put
from pages.parts.query.link import named, prepared_as
from pages.parts.runs.run_text import when
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key
from store.queries.prepared_queries import prepared_queries
from store.saved_queries import MAX_NAME_CHARACTERS, RecentQuery, SavedQuery

PREPARED = "query.prepared"
FORGOTTEN = "query.forgotten"
NAME = "query.name"
NOTICE = "query.notice"
LAST_ASKED = 15
PREVIEW_CHARACTERS = 70


def draw_shelf() -> None:
    """Three ways to a question, side by side; what was just saved or deleted, below."""
    titles = {question.name: question.title for question in prepared_queries()}
    with st.container(horizontal=True, vertical_alignment="center"):
        st.selectbox(
            "Prepared questions",
            list(titles),
            index=None,
            format_func=lambda name: titles.get(name, name),
            key=PREPARED,
            placeholder="Prepared questions",
            label_visibility="collapsed",
            on_change=_put_prepared,
        )
        _draw_saved(lab().store.saved_queries.list())
        _draw_last_asked(lab().store.saved_queries.recent(LAST_ASKED))
    _draw_forgotten()
    if notice := st.session_state.pop(NOTICE, None):
        st.toast(notice, icon=":material/bookmark:")


def draw_prepared() -> None:
    """All prepared questions with what they show: for a visitor who has asked nothing yet."""
    st.subheader("Questions to begin with", anchor=False)
    columns = st.columns(2, gap="medium")
    for place, question in enumerate(prepared_queries()):
        with columns[place % 2]:
            st.button(question.title, key=page_key(f"begin_{question.name}"), on_click=put, args=(question.sql,))
            st.caption(plain(question.shows))


def draw_save(sql: str) -> None:
    """Save a question by a name."""
    with st.popover("Save …", icon=":material/bookmark_add:"):
        st.text_input("Name", key=NAME, placeholder="Slow runs of November", max_chars=MAX_NAME_CHARACTERS)
        st.button("Save the question", type="primary", on_click=_save, args=(sql,))


def _put_prepared() -> None:
    question = named(str(st.session_state[PREPARED]))
    st.session_state[PREPARED] = None
    if question is not None:
        put(question.sql)


def _draw_saved(saved: Sequence[SavedQuery]) -> None:
    with st.popover("Saved", icon=":material/bookmark:", disabled=not saved):
        for place, question in enumerate(saved):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.button(question.name, key=page_key(f"saved_{place}"), on_click=put, args=(question.sql,))
                st.button(
                    "Delete",
                    key=page_key(f"forget_{place}"),
                    type="tertiary",
                    icon=":material/delete:",
                    on_click=_forget,
                    args=(question.name,),
                )


def _draw_last_asked(last: Sequence[RecentQuery]) -> None:
    with st.popover("Last asked", icon=":material/history:", disabled=not last):
        for place, question in enumerate(last):
            st.button(plain(preview(question.sql)), key=page_key(f"last_{place}"), on_click=put, args=(question.sql,))
            st.caption(f"{when(question.asked_at)}, {question.outcome}")


def preview(sql: str) -> str:
    """A question on one line: a prepared one by its title."""
    prepared = prepared_as(sql)
    line = prepared.title if prepared is not None else " ".join(sql.split())
    return line if len(line) <= PREVIEW_CHARACTERS else f"{line[: PREVIEW_CHARACTERS - 1]}…"


def _draw_forgotten() -> None:
    """What was deleted last, and the way back."""
    question: SavedQuery | None = st.session_state.get(FORGOTTEN)
    if question is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"Deleted “{plain(question.name)}”.")
        st.button("Undo", icon=":material/undo:", type="tertiary", on_click=_bring_back)


def _save(sql: str) -> None:
    try:
        saved = lab().store.saved_queries.save(str(st.session_state.get(NAME, "")), sql)
    except ValueError as error:
        st.session_state[NOTICE] = plain(str(error))
        return
    st.session_state[NOTICE] = f"Saved as “{plain(saved.name)}”."
    st.session_state[NAME] = ""
    st.session_state[FORGOTTEN] = None


def _forget(name: str) -> None:
    try:
        st.session_state[FORGOTTEN] = lab().store.saved_queries.delete(name)
    except KeyError:  # another visitor was faster
        st.session_state[FORGOTTEN] = None


def _bring_back() -> None:
    question: SavedQuery = st.session_state.pop(FORGOTTEN)
    try:
        lab().store.saved_queries.save(question.name, question.sql)
    except ValueError as error:
        st.session_state[NOTICE] = plain(str(error))
