"""Run: one run, from its key figures to every answer. `?run_id=` names it; the default is the newest."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.parts.predictions.section import draw_predictions
from pages.parts.run.blocks import draw_blocks
from pages.parts.run.environment import draw_environment, draw_every_metric
from pages.parts.run.header import draw_header, draw_key_figures, draw_run_tools
from pages.parts.run.requests import draw_requests
from pages.parts.run.sections import draw_latencies, draw_passes, draw_timeline, draw_waste
from pages.parts.runs.figures import UNIT
from pages.parts.runs.latency_definitions import DEFINITIONS, choose_definitions
from pages.parts.runs.loaded_run import LoadedRun, companions_of, find_row, load_run, recent_rows
from pages.parts.runs.run_text import choice_label
from pages.parts.runs.status import draw_no_runs, draw_status, draw_unknown
from pages.parts.runs.timeline import TIMELINE_FIELDS
from pages.parts.runs.validity import draw_validity
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.widgets import draw_complaints
from store.predictions.predictions import Subject

RUN_ID = "run_id"


def render() -> None:
    """The choice of a run, then the run."""
    st.title("Run", anchor=False)
    draw_complaints(TIMELINE_FIELDS, also=(RUN_ID, UNIT, *DEFINITIONS))
    rows = recent_rows()
    asked = st.query_params.get(RUN_ID)
    if asked is not None and find_row(asked) is None:
        draw_unknown([asked])
    elif not rows:
        draw_no_runs("This page shows a run: its slot timeline, waste, latencies and every answer.")
    chosen = _choose(rows, asked) if rows else None
    run = load_run(chosen) if chosen else None
    if run is not None:
        _draw_run(run)


def _choose(rows: list[dict[str, Any]], asked: str | None) -> str | None:
    """Draw the choice among the recent runs and the run in the address. The default is the newest."""
    labels = {str(row["run_id"]): choice_label(row) for row in rows}
    row = find_row(asked) if asked else None
    if asked and row:
        labels = labels if asked in labels else {asked: choice_label(row)} | labels
    options = list(labels)
    index = options.index(asked) if asked and row else None if asked else 0
    chosen = st.selectbox(
        "Run",
        options,
        index=index,
        format_func=lambda run_id: labels.get(run_id, run_id),
        placeholder="Choose a run",
        label_visibility="collapsed",
    )
    if chosen is not None and chosen != asked:
        st.query_params[RUN_ID] = chosen
    return chosen


def _draw_run(run: LoadedRun) -> None:
    draw_header(run, companions_of(run))
    draw_status(run)
    draw_run_tools(run)
    key_figures = st.container()
    run = choose_definitions({run.config.engine: run})[run.config.engine]
    with key_figures:
        draw_key_figures(run)
    draw_predictions(Subject(kind="run", subject_id=run.run_id))
    draw_validity(run)
    draw_timeline(run)
    draw_blocks(run)
    draw_waste(run)
    draw_latencies(run)
    draw_passes(run)
    draw_requests(run)
    draw_every_metric(run)
    draw_environment(run)


entry_guard(render)
