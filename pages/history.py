"""History: all runs, to search, open, compare, repeat, annotate, export and delete. Filters are in the address."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from engine.core.errors import shortened
from engine.core.format import plural, size
from pages.figures.frames import records
from pages.parts.history.filters import NAMES, clear_filters, draw_filters
from pages.parts.history.table import NAME_IN_ADDRESS, history_table
from pages.parts.history.toolbar import draw_toolbar
from pages.parts.history.trash import draw_trash, draw_undo
from pages.parts.history.upload import draw_upload
from pages.parts.runs.run_actions import NOTICE
from pages.parts.runs.status import draw_no_runs
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import linked, page_key, place
from pages.parts.shared.tables import TABLE_FORMAT
from pages.parts.shared.widgets import draw_complaints
from store.queries.history import Found, RunFilter

PAGE_RUNS = 50
PROBLEMS = 50
PAGE = "page"
WATCH_S = 2.0


def render() -> None:
    """The filters, the table page by page, the buttons for selected rows, the import, and the trash."""
    st.title("History", anchor=False)
    draw_complaints({}, also=(*NAMES, PAGE))
    if NOTICE in st.session_state:
        st.toast(plain(st.session_state.pop(NOTICE)), icon=":material/info:")
    draw_undo()
    drawn = lab().store.history.pulse()  # read first: a change from now on redraws the page
    known = lab().store.runs.count()
    if known:
        _draw_history(known, drawn)
    else:
        draw_no_runs("This page lists every run, also those of the command line.")
    _draw_problems()
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
        draw_toolbar(chosen)
    st.caption(_totals(found, known))
    _watch(drawn)


def _draw_problems() -> None:
    """One line for each folder that could not be read, and for each other failure of reading."""
    problems = list(lab().recorder.problems.values())
    if not problems:
        return
    title = f"{plural(len(problems), 'folder')} not read"
    with st.expander(title, icon=":material/broken_image:"):
        st.markdown("\n".join(f"- {plain(shortened(line))}" for line in problems[:PROBLEMS]))
        if len(problems) > PROBLEMS:
            st.caption(f"{len(problems) - PROBLEMS:,} more; `python -m store list` shows all.")


def _page_of(wanted: RunFilter) -> Found:
    """The rows of the chosen page. Draws the page numbers where there are several."""
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


def _totals(found: Found, known: int) -> str:
    """How many runs there are, and their size on disk."""
    store = lab().store
    shown = plural(known, "run") if found.total == known else f"{found.total:,} of {plural(known, 'run')}"
    return (
        f"{shown} in {lab().home}. Run logs: {size(found.log_bytes)} on disk; database: {size(store.size_bytes())}. "
        "Runs from the command line appear automatically."
    )


def _draw_nothing_fits(known: int) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(f"None of the {plural(known, 'run')} matches.", icon=":material/search_off:")
        st.button("Clear search and filters", icon=":material/filter_list_off:", on_click=clear_filters)


@st.fragment(run_every=WATCH_S)
def _watch(drawn: tuple[int, ...]) -> None:
    """Draw the page again when the history changes."""
    if lab().store.history.pulse() != drawn:
        st.rerun()


def _draw_table(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Draw the table and return the selected rows."""
    event = st.dataframe(
        history_table(rows),
        hide_index=True,
        height="content",
        column_config=_column_config(),
        on_select="rerun",
        selection_mode="multi-row",
        key=page_key(
            f"{len(rows)}_" + "_".join(rows["run_id"].iloc[[0, -1]] if len(rows) else [])
        ),  # a selection is by row number
        alt="All runs",
    )
    places = [place for place in event["selection"]["rows"] if place < len(rows)]
    return records(rows.iloc[places])


def _column_config() -> dict[str, Any]:
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    return {
        "open": st.column_config.LinkColumn("open", display_text="open", width="small"),
        "pinned": st.column_config.CheckboxColumn("pinned", width="small"),
        "status": text(width="medium"),
        "model": text(width=150),
        "experiment": st.column_config.LinkColumn(
            width=340, display_text=NAME_IN_ADDRESS, alignment="left", help="Its experiment, and the end of the id"
        ),
        "note and tags": text(width="medium"),
        "badges": text(width="small", help="Badges of validity earned, of those that apply"),
        "caveats": text(width="medium", help="Why badges were lost; the run's page has the findings"),
        "tokens/s": number(format=TABLE_FORMAT),
        "TTFT p50, s": number(format=TABLE_FORMAT),
        "dead, %": number(format=TABLE_FORMAT),
        "duration, s": number(format=TABLE_FORMAT),
        "on disk, MiB": number(format=TABLE_FORMAT),
        "new tokens": number(format="localized"),
        "requests": number(format="localized"),
    }


entry_guard(render)
