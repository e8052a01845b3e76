"""Glossary: every metric with its unit and formula, and every word of the lab. `?term=` opens one entry."""

from __future__ import annotations

import streamlit as st

from engine.core.format import plural
from pages.parts.glossary.entries import Entry, EntryGroup, all_groups, search
from pages.parts.shared.front_door import front_door
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import last_text, linked
from pages.parts.shared.tables import draw_table

TERM = "term"


def render() -> None:
    """The search, then what it finds, in groups."""
    st.title("Glossary", anchor=False)
    st.markdown("Every metric is defined once, here; the tables, the figures and the command line all use these names.")
    with linked(TERM, "", last_text) as key:
        text = st.text_input(
            "Search",
            key=key,
            persist_state="page",
            live=True,
            placeholder="dead, ttft_p50_s, how long a reader waits …",
            icon=":material/search:",
            type="search",
        )
    groups = all_groups()
    found = search(groups, text or "")
    shown, known = (sum(len(group.entries) for group in some) for some in (found, groups))
    if not found:
        st.info(f"Nothing here holds “{plain(text or '')}”. Try a shorter word, or a part of one.")
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
    """The entry as one paragraph: name, what it is counted in, meaning, formula."""
    if not entry.formula:
        return f"**{plain(entry.title)}**  \n{entry.meaning}"
    facts = " · ".join(part for part in (f"`{entry.name}`", entry.unit, entry.better) if part)
    return f"**{plain(entry.title)}** · {facts}  \n{plain(entry.meaning)}  \n`= {entry.formula}`"


front_door(render)
