"""History: all runs, searched and filtered, to open, compare, repeat, note, take along and delete.

Filters are in the address: a link to this page carries them.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from engine.core.format import plural, size
from pages.parts.history.actions import draw_actions
from pages.parts.history.filters import clear_filters, draw_filters
from pages.parts.history.table import NAME_BEHIND, history_table
from pages.parts.history.trash import draw_trash, draw_undo
from pages.parts.runs.run_choice import draw_no_runs
from pages.parts.runs.trash import NOTICE
from pages.parts.shared.front_door import front_door
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import linked, page_key, place
from pages.parts.shared.transfer import draw_upload
from store.queries.history import Found, RunFilter

PAGE_RUNS = 50
PAGE = "page"
WATCH_S = 2.0


def render() -> None:
    """The filters, the table a page at a time, what can be done with the selected rows, and the trash."""
    st.title("History", anchor=False)
    if NOTICE in st.session_state:
        st.toast(plain(st.session_state.pop(NOTICE)), icon=":material/info:")
    draw_undo()
    drawn = lab().store.history.pulse()  # before anything is read: what comes meanwhile is drawn a moment later
    known = lab().store.runs.count()
    if known:
        _draw_history(known, drawn)
    else:
        draw_no_runs("Every run is listed here, those of the command line too.")
    with st.expander("Import runs", icon=":material/upload:"):
        draw_upload()
    draw_trash()


def _draw_history(known: int, drawn: tuple[int, ...]) -> None:
    wanted = draw_filters()
    actions = st.container(horizontal=True, vertical_alignment="center")
    table = st.container()
    found = _page_of(wanted)
    with table:
        chosen = _draw_table(found.rows) if found.total else []
    if not found.total:
        _draw_nothing_fits(known)
    with actions:
        draw_actions(chosen)
    st.caption(_counted(found, known))
    _watch(drawn)


def _page_of(wanted: RunFilter) -> Found:
    """The page that is open; its switch is drawn where there are several."""
    find = lab().store.history.find
    with linked(PAGE, 1, place) as key:
        found = find(wanted, limit=PAGE_RUNS, offset=(st.session_state[key] - 1) * PAGE_RUNS)
        pages = max(1, -(-found.total // PAGE_RUNS))
        if st.session_state[key] > pages:
            st.session_state[key] = 1
            found = find(wanted, limit=PAGE_RUNS)
        if pages > 1:
            st.pagination(pages, key=key, persist_state="page")
    return found


def _counted(found: Found, known: int) -> str:
    """How many there are, and what they take on disk."""
    store = lab().store
    shown = plural(known, "run") if found.total == known else f"{found.total:,} of {plural(known, 'run')}"
    return (
        f"{shown} in {lab().home}. Run logs: {size(found.log_bytes)} on disk; the store's own file: "
        f"{size(store.size_bytes())}. Runs made on the command line appear by themselves."
    )


def _draw_nothing_fits(known: int) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(f"None of the {plural(known, 'run')} fits.", icon=":material/search_off:")
        st.button("Clear search and filters", icon=":material/filter_list_off:", on_click=clear_filters)


@st.fragment(run_every=WATCH_S)
def _watch(drawn: tuple[int, ...]) -> None:
    """The page is drawn anew when the history has changed since, by whomever."""
    if lab().store.history.pulse() != drawn:
        st.rerun()


def _draw_table(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The selected rows."""
    event = st.dataframe(
        history_table(rows),
        hide_index=True,
        height="content",
        column_config=_column_config(),
        on_select="rerun",
        selection_mode="multi-row",
        key=page_key(f"{len(rows)}_" + "_".join(rows["run_id"].iloc[[0, -1]] if len(rows) else [])),  # goes by place
        alt="All runs",
    )
    places = [place for place in event["selection"]["rows"] if place < len(rows)]
    return rows.iloc[places].to_dict("records")


def _column_config() -> dict[str, Any]:
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    return {
        "open": st.column_config.LinkColumn("open", display_text="open", width="small"),
        "pinned": st.column_config.CheckboxColumn("pinned", width="small"),
        "status": text(width="medium"),
        "model": text(width=150),
        "experiment": st.column_config.LinkColumn(
            width="medium", display_text=NAME_BEHIND, alignment="left", help="What it was a part of, and its id's end"
        ),
        "note and tags": text(width="medium"),
        "badges": text(width="small", help="Badges of validity: earned, of those that apply"),
        "caveats": text(width="medium", help="Why it did not earn the others; the run's page says what was found"),
        "tokens/s": number(format="%.3g"),
        "first token p50, s": number(format="%.3g"),
        "dead, %": number(format="%.3g"),
        "duration, s": number(format="%.3g"),
        "on disk, MiB": number(format="%.3g"),
        "new tokens": number(format="localized"),
        "requests": number(format="localized"),
    }


front_door(render)
