"""Run: one run, from its six figures down to every answer. `?run_id=` names it; without it, the newest is shown."""

from __future__ import annotations

import streamlit as st

from pages.parts.front_door import front_door
from pages.parts.run_choice import draw_no_runs, draw_unknown, recent_rows
from pages.parts.run_data import RunData, find_row, load_run, partner_of
from pages.parts.run_environment import draw_environment
from pages.parts.run_header import draw_header, draw_key_figures
from pages.parts.run_requests import draw_requests
from pages.parts.run_sections import draw_latencies, draw_passes, draw_timeline, draw_waste
from pages.parts.run_status import draw_status
from pages.parts.run_words import choice_label

RUN_ID = "run_id"


def render() -> None:
    """The choice of a run, then the run."""
    st.title("Run", anchor=False)
    rows = recent_rows()
    asked = st.query_params.get(RUN_ID)
    if asked is None and not rows:
        draw_no_runs("This page shows one: its slot timeline, its waste, its latencies and every answer.")
        return
    if asked is not None and find_row(asked) is None:
        draw_unknown([asked])
        asked = None
        if not rows:
            return
    run_id = _choose(rows, asked)
    run = load_run(run_id) if run_id else None
    if run is not None:
        _draw_run(run)


def _choose(rows: list[dict[str, object]], asked: str | None) -> str | None:
    """The list of recent runs, with the one that was asked for, however old it is."""
    labels = {str(row["run_id"]): choice_label(row) for row in rows}
    if asked is not None and asked not in labels:
        labels = {asked: choice_label(find_row(asked) or {})} | labels
    options = list(labels)
    chosen = st.selectbox(
        "Run",
        options,
        index=options.index(asked) if asked else 0,
        format_func=lambda run_id: labels.get(run_id, run_id),
        label_visibility="collapsed",
    )
    if chosen != asked and chosen is not None:
        st.query_params[RUN_ID] = chosen
    return chosen


def _draw_run(run: RunData) -> None:
    draw_header(run, partner_of(run))
    draw_status(run)
    draw_key_figures(run)
    draw_timeline(run)
    draw_waste(run)
    draw_latencies(run)
    draw_passes(run)
    draw_requests(run)
    draw_environment(run)


front_door(render)
