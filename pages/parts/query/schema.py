"""The schema browser: every table and column that a query can read, with unit and meaning."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.core.format import plural
from pages.parts.query.asking import put
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key
from pages.parts.shared.tables import draw_table
from store.snapshot.catalog import Table, tables

HEIGHT_PX = 430
LOOK_ROWS = 100


def draw_schema() -> None:
    """A search, then the tables; a search expands the tables that match."""
    text = st.text_input(
        "Find a table or a column",
        key=page_key("find"),
        placeholder="Find a column: ttft, blocks, arrival …",
        label_visibility="collapsed",
        icon=":material/search:",
        type="search",
        live=True,
    )
    found = matching(text or "")
    with st.container(height=HEIGHT_PX, border=True):
        if not found:
            st.caption(f"No table or column matches “{plain(text or '')}”.")
        for table in found:
            _draw(table, is_open=bool(text and text.strip()))


def matching(text: str) -> Sequence[Table]:
    """Tables whose name contains every word, whole; of other tables the columns whose name or meaning does."""
    words = text.lower().split()
    if not words:
        return tables()
    found = []
    for table in tables():
        if all(word in table.name for word in words):
            found.append(table)
            continue
        columns = tuple(c for c in table.columns if all(word in f"{c.name} {c.meaning}".lower() for word in words))
        if columns:
            found.append(Table(name=table.name, meaning=table.meaning, columns=columns, is_computed=table.is_computed))
    return found


def _draw(table: Table, is_open: bool) -> None:
    with st.expander(f"**{table.name}** · {plural(len(table.columns), 'column')}", expanded=is_open):
        st.caption(plain(table.meaning))
        st.button(
            f"Show {LOOK_ROWS} rows",
            key=page_key(f"look_{table.name}"),
            type="tertiary",
            icon=":material/table_rows:",
            on_click=put,
            args=(f"SELECT *\nFROM {table.name}\nLIMIT {LOOK_ROWS}",),
        )
        draw_table(["column", "unit", "meaning"], [[c.name, c.unit, c.meaning] for c in table.columns])
