"""The sections of a page as tabs. Only the open one is drawn; `?tab=` in the address names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from pages.parts.shared.fields import Choice
from pages.parts.shared.page_state import Texts, linked

TAB = "tab"  # in the address: `?tab=latencies`


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """A tab's title and what it draws."""

    title: str
    draw: Callable[[], None]


def tab_name(title: str) -> str:
    """A section's name in the address: `KV blocks` is `kv-blocks`."""
    return title.lower().replace(" ", "-")


def tab_field(titles: Sequence[str]) -> dict[str, Choice]:
    """The field of the address that names a section, by all titles that the page may have."""
    names = tuple(map(tab_name, titles))
    return {TAB: Choice(options=names, default=names[0], label="Tab")}


def draw_sections(sections: Sequence[Tab]) -> None:
    """The tabs, with the content of the open one. The first is open unless the address names another."""
    titles = {tab_name(section.title): section.title for section in sections}
    first = sections[0].title

    def read(texts: Texts) -> str:
        if texts[-1] not in titles:
            raise ValueError("no such section")
        return titles[texts[-1]]

    with linked(TAB, first, read, lambda title: (tab_name(title),)) as key:
        if st.session_state[key] not in titles.values():  # another run has other sections
            st.session_state[key] = first
        tabs = st.tabs(list(titles.values()), key=key, on_change="rerun")
    for tab, section in zip(tabs, sections, strict=True):
        if tab.open:
            with tab:
                section.draw()
