"""Run: one run, from its key figures to every answer. `?run_id=` names it; the default is the newest."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from engine.core.presets import PRESETS
from pages.parts.predictions.section import draw_predictions, has_predictions
from pages.parts.run.blocks import draw_blocks
from pages.parts.run.environment import draw_environment, draw_every_metric
from pages.parts.run.finding import draw_run_cautions, run_finding
from pages.parts.run.header import draw_description, draw_key_figures, draw_toolbar
from pages.parts.run.requests import draw_requests
from pages.parts.run.sections import draw_latencies, draw_passes, draw_timeline, draw_waste
from pages.parts.runs.again import draw_again
from pages.parts.runs.figures import UNIT, draw_timeline_tools
from pages.parts.runs.latency_definitions import (
    DEFINITIONS,
    by_chosen_definitions,
    draw_definitions,
    draw_definitions_control,
)
from pages.parts.runs.loaded_run import LoadedRun, companions_of, find_row, load_run, recent_rows
from pages.parts.runs.run_text import choice_label
from pages.parts.runs.status import draw_no_runs, draw_status, draw_unknown
from pages.parts.runs.tabs import Tab, draw_sections, tab_field
from pages.parts.runs.timeline import TIMELINE_FIELDS, draw_player
from pages.parts.runs.validity import distrust
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.headline import draw_headline, draw_title_row, reading
from pages.parts.shared.lab import lab
from pages.parts.shared.share import share
from pages.parts.shared.widgets import draw_complaints
from pages.report.sharing import shared_runs
from store.predictions.predictions import Subject

RUN_ID = "run_id"
WASTE, LATENCIES, PASSES, BLOCKS, REQUESTS, DETAILS, PREDICTIONS = (
    "Waste", "Latencies", "Passes", "KV blocks", "Requests", "Details", "Predictions",
)  # fmt: skip
TABS = tab_field((WASTE, LATENCIES, PASSES, BLOCKS, REQUESTS, DETAILS, PREDICTIONS))


def render() -> None:
    """The choice of a run, then the run."""
    title_row = draw_title_row("Run")
    draw_complaints(TABS | TIMELINE_FIELDS, also=(RUN_ID, UNIT, *DEFINITIONS))
    rows = recent_rows()
    asked = st.query_params.get(RUN_ID)
    row = None
    if asked is not None:
        row = next((row for row in rows if row["run_id"] == asked), None) or find_row(asked)
    if asked is not None and row is None:
        draw_unknown([asked])
    elif not rows:
        draw_no_runs("This page shows a run: its slot timeline, waste, latencies and every answer.")
    if not rows:
        return
    with title_row:
        chosen = _choose(rows, asked, row)
    with reading(chosen or ""):
        run = load_run(chosen) if chosen else None
    if run is not None:
        with title_row:
            draw_toolbar(run, companions_of(run))
            share(shared_runs([run.run_id], run.config))
        _draw_run(run)


def _choose(rows: list[dict[str, Any]], asked: str | None, row: dict[str, Any] | None) -> str | None:
    """Draw the choice among the recent runs and the run in the address, whose row is `row`. The default is the
    newest."""
    labels = {str(each["run_id"]): choice_label(each) for each in rows}
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
    """The finding, the timeline and the tiles; everything else is in tabs."""
    checks = lab().store.runs.checks(run.run_id)
    recounted = by_chosen_definitions({run.config.engine: run})[run.config.engine]
    why = distrust({run.config.engine: checks})
    with st.container(gap="xxsmall"):
        draw_headline(run_finding(recounted, why))
        draw_status(run)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            draw_timeline_tools()
            draw_run_cautions(run, checks)
            if why:
                draw_again([run])
        draw_timeline(recounted)
        draw_definitions(recounted.definitions)
        draw_key_figures(recounted)
        draw_description(run)
        draw_player({run.config.engine: recounted})
    draw_sections(_sections(run, recounted))


def _sections(run: LoadedRun, recounted: LoadedRun) -> list[Tab]:
    def latencies() -> None:
        draw_latencies(recounted)
        draw_definitions_control({run.config.engine: run}, {run.config.engine: recounted})

    def details() -> None:
        draw_every_metric(recounted)
        draw_environment(run)

    found = [
        Tab(title=WASTE, draw=partial(draw_waste, recounted)),
        Tab(title=LATENCIES, draw=latencies),
        Tab(title=PASSES, draw=partial(draw_passes, recounted)),
    ]
    if PRESETS[run.config.engine].has_blocks:
        found.append(Tab(title=BLOCKS, draw=partial(draw_blocks, recounted)))
    found += [
        Tab(title=REQUESTS, draw=partial(draw_requests, recounted)),
        Tab(title=DETAILS, draw=details),
    ]
    subject = Subject(kind="run", subject_id=run.run_id)
    if has_predictions(subject):
        found.insert(0, Tab(title=PREDICTIONS, draw=partial(draw_predictions, subject)))
    return found


entry_guard(render)
