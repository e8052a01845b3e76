"""What each compared run is: its badges, settings and machine, how it ended, and a link to it."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from pages.parts.runs.badges import show_badges
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.runs.run_text import busy_line, engine_line, machine_line, workload_line
from pages.parts.runs.status import draw_status
from pages.parts.shared.markdown import plain


def draw_run_cards(runs: Mapping[str, LoadedRun]) -> None:
    """A card for each run, in two columns."""
    items = list(runs.items())
    for row in range(0, len(items), 2):
        for column, (name, run) in zip(st.columns(2, gap="medium"), items[row : row + 2], strict=False):
            with column, st.container(border=True):
                _draw_card(name, run)


def _draw_card(name: str, run: LoadedRun) -> None:
    st.page_link(
        "pages/run.py",
        label=f"**{plain(name)}**",
        icon=":material/view_timeline:",
        query_params={"run_id": run.run_id},
        help="Open this run",
    )
    show_badges(run.row)
    st.caption(f"{engine_line(run.config)}. {workload_line(run.info, run.metrics)}. {machine_line(run.info)}.")
    if busy := busy_line(run.info):
        st.caption(f":material/speed: {busy}")
    if run.status != "running":  # the page shows that above
        draw_status(run)
