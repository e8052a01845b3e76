"""The top of a page of results: its title in one row with its tools, the finding as its headline, a wait while it is
read."""

from __future__ import annotations

import html
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.parts.shared.page_state import note, noted

READ = "headline.read"


def draw_title_row(title: str) -> DeltaGenerator:
    """The page's title. Returns its row, to add the page's tools to."""
    row = st.container(horizontal=True, vertical_alignment="center", gap="small", key="title-row")
    row.title(title, anchor=False, width="content")
    st.html(STYLE)
    return row


def draw_headline(finding: str, *lines: str) -> None:
    """The finding as a heading, with smaller lines below it; empty ones are left out. Foreign text is escaped."""
    below = "".join(f"<p>{html.escape(line)}</p>" for line in lines if line)
    st.html(f'<div class="headline"><h2>{html.escape(finding)}</h2>{below}</div>')


@contextmanager
def reading(what: str, text: str = "Reading the runs …") -> Iterator[None]:
    """Show that the page reads while it does, once a visit for each `what`; a later drawing finds it in the cache."""
    place = st.empty()
    if noted(READ) != what:
        with place.container():
            st.caption(text)
            st.skeleton(height=320)
    try:
        yield
    finally:
        place.empty()
        note(READ, what)


STYLE = """<style>
.st-key-title-row h1 {font-size: 1.75rem; padding: 0;}
.headline h2 {font-size: 1.3rem; line-height: 1.35; padding: 0; margin: 0; font-weight: 600;}
.headline p {font-size: .9rem; line-height: 1.35; opacity: .8; margin: .25rem 0 0;}
</style>"""
