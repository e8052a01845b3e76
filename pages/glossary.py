"""Glossary: every metric with its unit and formula, and every term of the lab. `?term=` opens one entry."""

from __future__ import annotations

import streamlit as st

from engine.core.format import plural
from pages.parts.glossary.entries import Entry, EntryGroup, all_groups, search
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import last_text, linked
from pages.parts.shared.tables import draw_table
from pages.parts.shared.widgets import draw_complaints

TERM = "term"


def render() -> None:
    """The search, then the entries that match, in groups."""
    st.title("Glossary", anchor=False)
    draw_complaints({}, also=(TERM,))
    st.markdown("Tables, figures and the command line use these names.")
    with linked(TERM, "", last_text) as key:
        text = st.text_input(
            "Search",
            key=key,
            persist_state="page",
            live=True,
            placeholder="dead, ttft_p50_s, preemption …",
            icon=":material/search:",
            type="search",
        )
    groups = all_groups()
    found = search(groups, text or "")
    shown, known = (sum(len(group.entries) for group in some) for some in (found, groups))
    if not found:
        st.info(f"No entries match “{plain(text or '')}”. Try a shorter search term.")
        return
    if shown < known:
        st.caption(f"{plural(shown, 'entry', 'entries')} of {known}. Clear the search to see all.")
    else:
        st.markdown(" · ".join(f"[{group.title}](#{group.anchor})" for group in found))
    for group in found:
        _draw_group(group)


def _draw_group(group: EntryGroup) -> None:
    st.subheader(group.title, anchor=group.anchor)
    if group.is_table:
        rows = [[entry.name, entry.title, entry.unit, entry.formula] for entry in group.entries]
        draw_table(["name", "what", "unit", "formula"], rows)
        return
    for entry in group.entries:
        st.markdown(_entry(entry))


def _entry(entry: Entry) -> str:
    """The entry as one paragraph: name, unit, meaning, formula."""
    if not entry.formula:
        return f"**{plain(entry.title)}**  \n{entry.meaning}"
    details = " · ".join(part for part in (f"`{entry.name}`", entry.unit, entry.better) if part)
    return f"**{plain(entry.title)}** · {details}  \n{plain(entry.meaning)}  \n`= {entry.formula}`"


entry_guard(render)
