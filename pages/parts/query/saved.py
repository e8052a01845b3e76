"""Queries to start from: prepared, saved and recent ones."""

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
DELETED = "query.deleted"
NAME = "query.name"
NOTICE = "query.notice"
MAX_RECENT = 15
PREVIEW_CHARACTERS = 70


def draw_shelf() -> None:
    """The lists of prepared, saved and recent queries side by side; below, what was just saved or deleted."""
    titles = {query.name: query.title for query in prepared_queries()}
    with st.container(horizontal=True, vertical_alignment="center"):
        st.selectbox(
            "Prepared queries",
            list(titles),
            index=None,
            format_func=lambda name: titles.get(name, name),
            key=PREPARED,
            placeholder="Prepared queries",
            label_visibility="collapsed",
            on_change=_put_prepared,
        )
        _draw_saved(lab().store.saved_queries.list())
        _draw_recent(lab().store.saved_queries.recent(MAX_RECENT))
    _draw_undo()
    if notice := st.session_state.pop(NOTICE, None):
        st.toast(notice, icon=":material/bookmark:")


def draw_prepared() -> None:
    """All prepared queries with what they show, for a visitor who has run none yet."""
    st.subheader("Prepared queries", anchor=False)
    columns = st.columns(2, gap="medium")
    for place, query in enumerate(prepared_queries()):
        with columns[place % 2]:
            st.button(query.title, key=page_key(f"begin_{query.name}"), on_click=put, args=(query.sql,))
            st.caption(plain(query.shows))


def draw_save(sql: str) -> None:
    """Save a query under a name."""
    with st.popover("Save …", icon=":material/bookmark_add:"):
        st.text_input("Name", key=NAME, placeholder="Slow runs of November", max_chars=MAX_NAME_CHARACTERS)
        st.button("Save query", type="primary", on_click=_save, args=(sql,))


def _put_prepared() -> None:
    query = named(str(st.session_state[PREPARED]))
    st.session_state[PREPARED] = None
    if query is not None:
        put(query.sql)


def _draw_saved(saved: Sequence[SavedQuery]) -> None:
    with st.popover("Saved", icon=":material/bookmark:", disabled=not saved):
        for place, query in enumerate(saved):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.button(plain(query.name), key=page_key(f"saved_{place}"), on_click=put, args=(query.sql,))
                st.button(
                    "Delete",
                    key=page_key(f"forget_{place}"),
                    type="tertiary",
                    icon=":material/delete:",
                    on_click=_delete,
                    args=(query.name,),
                )


def _draw_recent(last: Sequence[RecentQuery]) -> None:
    with st.popover("Recent", icon=":material/history:", disabled=not last):
        for place, query in enumerate(last):
            st.button(plain(preview(query.sql)), key=page_key(f"last_{place}"), on_click=put, args=(query.sql,))
            st.caption(f"{when(query.asked_at)}, {plain(query.outcome)}")


def preview(sql: str) -> str:
    """A query on one line; a prepared one by its title."""
    prepared = prepared_as(sql)
    line = prepared.title if prepared is not None else " ".join(sql.split())
    return line if len(line) <= PREVIEW_CHARACTERS else f"{line[: PREVIEW_CHARACTERS - 1]}…"


def _draw_undo() -> None:
    """The query that was deleted last, with Undo."""
    query: SavedQuery | None = st.session_state.get(DELETED)
    if query is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"Deleted “{plain(query.name)}”.")
        st.button("Undo", icon=":material/undo:", type="tertiary", on_click=_undo_delete)


def _save(sql: str) -> None:
    try:
        saved = lab().store.saved_queries.save(str(st.session_state.get(NAME, "")), sql)
    except ValueError as error:
        st.session_state[NOTICE] = plain(str(error))
        return
    st.session_state[NOTICE] = f"Saved as “{plain(saved.name)}”."
    st.session_state[NAME] = ""
    st.session_state[DELETED] = None


def _delete(name: str) -> None:
    try:
        st.session_state[DELETED] = lab().store.saved_queries.delete(name)
    except KeyError:  # another visitor has deleted it
        st.session_state[DELETED] = None


def _undo_delete() -> None:
    query: SavedQuery = st.session_state.pop(DELETED)
    try:
        lab().store.saved_queries.save(query.name, query.sql)
    except ValueError as error:
        st.session_state[NOTICE] = plain(str(error))
