"""The sections of a run's page that hold figures: timeline, waste, latencies, passes. Each has its finding below."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from pages.figures.latency.cdf import latency_caption, latency_cdf
from pages.figures.timeline.passes import pass_kinds_caption, pass_trace
from pages.figures.timeline.preemptions import preemptions_of, preemptions_text
from pages.figures.timeline.queue import queue_from_passes
from pages.figures.timeline.timeline import slot_timeline, timeline_caption
from pages.figures.waste.waste import waste_breakdown, waste_caption
from pages.parts.runs.execution import discarded_text, executed_text, notes_of
from pages.parts.runs.explanations import LATENCY_WHY, PASSES_WHY, TIMELINE_WHY, WASTE_WHY
from pages.parts.runs.latencies import LATENCY_FIGURES, LatencyFigure, absence, counted_noun, overlaid
from pages.parts.runs.loaded_run import RunData
from pages.parts.runs.sensitivity import draw_definitions
from pages.parts.shared.charts import in_columns, show, show_still
from pages.parts.shared.lab import is_dark
from pages.parts.shared.unit_switch import chosen_unit, unit_switch


def draw_timeline(run: RunData) -> None:
    """The slots over steps or seconds, with the queue above."""
    st.subheader("Slot timeline", anchor="timeline")
    unit = unit_switch()
    lanes = run.config.num_slots
    figure = slot_timeline(
        run.spans,
        unit=unit,
        queue=queue_from_passes(run.passes),
        num_lanes=lanes,
        preemptions=preemptions_of(run.events),
        dark=is_dark(),
    )
    show(figure, key="timeline", alt="Slot timeline")
    st.caption(timeline_caption(run.spans, unit=unit, num_lanes=lanes))
    if told := preemptions_text(preemptions_of(run.events)):
        st.caption(told)
    with st.expander("How to read this"):
        st.markdown(TIMELINE_WHY)


def draw_waste(run: RunData) -> None:
    """What was computed, spent and held for nothing."""
    st.subheader("Waste ledger", anchor="waste")
    ledger = pd.DataFrame([run.ledger("")])
    show(waste_breakdown(ledger, dark=is_dark()), key="waste", alt="Waste ledger")
    st.caption(waste_caption(ledger))
    if discarded := discarded_text(run.config, run.metrics):
        st.caption(discarded)
    with st.expander("What is counted, and what is attributed"):
        st.markdown(WASTE_WHY)


def draw_latencies(run: RunData) -> None:
    """Five cumulative distributions in two columns; one that cannot be drawn says why."""
    st.subheader("Latencies", anchor="latencies")
    draw_definitions(run.definitions)
    in_columns([partial(_draw_latency, run, latency) for latency in LATENCY_FIGURES])
    with st.expander("What each of them measures"):
        st.markdown(LATENCY_WHY)


def _draw_latency(run: RunData, latency: LatencyFigure) -> None:
    if not run.latencies[latency.key].n:
        st.markdown(
            f"**{latency.title}**  \n:material/info: {absence(latency, run.requests, run.status).capitalize()}."
        )
        return
    frame = overlaid({run.config.engine: run.latencies[latency.key]}, run.definitions)
    noun = counted_noun(latency, run.definitions)
    figure = latency_cdf(frame, title=latency.title, counted=noun, dark=is_dark())
    show_still(figure, key=f"cdf_{latency.key}", alt=f"{latency.title}, cumulative")
    st.caption(latency_caption(frame, latency.words, counted=noun))


def draw_passes(run: RunData) -> None:
    """The time, the rows and the width of each pass, one under the other."""
    st.subheader("Passes", anchor="passes")
    show(pass_trace(run.passes, unit=chosen_unit(), dark=is_dark()), key="passes", alt="Pass trace")
    st.caption(pass_kinds_caption(run.pass_kinds))
    totals = run.pass_totals
    if executed := executed_text(run.config, totals["captured_passes"], totals["passes"], notes_of(run.row)):
        st.caption(f":material/bolt: {executed}")
    with st.expander("Why passes take what they take"):
        st.markdown(PASSES_WHY)
    st.page_link(
        "pages/roofline.py",
        label="These passes under the machine's ceilings",
        icon=":material/roofing:",
        query_params={"run": run.run_id},
    )
