"""The sections of a comparison that hold figures: timelines on one axis, the waste side by side, latencies overlaid."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pandas as pd
import streamlit as st

from pages.figures import captions
from pages.figures.cdf import latency_cdf
from pages.figures.queue import queue_from_passes
from pages.figures.timeline import shared_range, slot_timeline
from pages.figures.waste import waste_ledger
from pages.parts.lab import is_dark
from pages.parts.latencies import LATENCIES, Latency, absence, overlaid, samples
from pages.parts.run_data import RunData
from pages.parts.run_sections import LATENCY_WHY, STILL, TIMELINE_WHY, WASTE_WHY, in_columns, show
from pages.parts.unit_switch import unit_switch

Runs = Mapping[str, RunData]


def draw_timelines(runs: Runs) -> None:
    """One timeline a run, one under another, all over the same x range."""
    st.subheader("Slot timelines on one axis", anchor="timelines")
    unit = unit_switch()
    window = shared_range([run.spans for run in runs.values()], unit)
    for name, run in runs.items():
        figure = slot_timeline(
            run.spans,
            unit=unit,
            queue=queue_from_passes(run.passes),
            x_range=window,
            num_lanes=run.config.num_slots,
            title=name,
            dark=is_dark(),
        )
        show(figure, key=f"timeline_{run.run_id}", alt=f"Slot timeline of {name}")
    st.caption(captions.timelines({name: run.spans for name, run in runs.items()}, unit=unit))
    with st.expander("How to read this"):
        st.markdown(TIMELINE_WHY)


def draw_wastes(runs: Runs) -> None:
    """Each measure of waste with a bar a run."""
    st.subheader("Waste, side by side", anchor="waste")
    ledger = pd.DataFrame([{"series": name, **run.metrics} for name, run in runs.items()])
    show(waste_ledger(ledger, dark=is_dark()), key="waste", alt="Waste ledger of all runs")
    st.caption(captions.waste(ledger))
    with st.expander("What is counted, and what is attributed"):
        st.markdown(WASTE_WHY)


def draw_overlays(runs: Runs) -> None:
    """Each latency once, all runs in one figure over one axis."""
    st.subheader("Latencies, overlaid", anchor="latencies")
    in_columns([partial(_draw_overlay, runs, latency) for latency in LATENCIES])
    with st.expander("What each of them measures"):
        st.markdown(LATENCY_WHY)


def _draw_overlay(runs: Runs, latency: Latency) -> None:
    missing = {name: run for name, run in runs.items() if samples(latency, run.requests, run.gaps).empty}
    present = {name: (run.requests, run.gaps) for name, run in runs.items() if name not in missing}
    if present:
        frame = overlaid(latency, present)
        figure = latency_cdf(frame, title=latency.title, counted=latency.counted, dark=is_dark())
        show(figure, key=f"cdf_{latency.key}", alt=f"{latency.title}, cumulative, all runs", config=STILL)
        st.caption(captions.latency(frame, latency.words, counted=latency.counted))
    else:
        st.markdown(f"**{latency.title}**")
    for name, run in missing.items():
        st.caption(f":material/info: {name}: {absence(latency, run.requests, run.status)}.")
