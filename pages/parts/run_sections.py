"""The sections of a run's page that hold figures: timeline, waste, latencies, passes. Each has its finding below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.figures import captions
from pages.figures.cdf import latency_cdf
from pages.figures.passes import pass_trace
from pages.figures.preemptions import preemptions_of, preemptions_told
from pages.figures.queue import queue_from_passes
from pages.figures.timeline import slot_timeline
from pages.figures.waste import waste_ledger
from pages.parts.lab import is_dark
from pages.parts.latencies import LATENCIES, Latency, absence, counted_noun, overlaid
from pages.parts.movement import draw_definitions
from pages.parts.page_state import page_key
from pages.parts.run_data import RunData
from pages.parts.run_execution import discarded_words, execution_told, notes_of
from pages.parts.unit_switch import chosen_unit, unit_switch

CHART = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]}
STILL = {"displayModeBar": False}


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
    st.caption(captions.timeline(run.spans, unit=unit, num_lanes=lanes))
    if told := preemptions_told(preemptions_of(run.events)):
        st.caption(told)
    with st.expander("How to read this"):
        st.markdown(TIMELINE_WHY)


def draw_waste(run: RunData) -> None:
    """What was computed, spent and held for nothing."""
    st.subheader("Waste ledger", anchor="waste")
    ledger = pd.DataFrame([run.ledger("")])
    show(waste_ledger(ledger, dark=is_dark()), key="waste", alt="Waste ledger")
    st.caption(captions.waste(ledger))
    if discarded := discarded_words(run.config, run.metrics):
        st.caption(discarded)
    with st.expander("What is counted, and what is attributed"):
        st.markdown(WASTE_WHY)


def draw_latencies(run: RunData) -> None:
    """Five cumulative distributions in two columns; one that cannot be drawn says why."""
    st.subheader("Latencies", anchor="latencies")
    draw_definitions(run.definitions)
    in_columns([partial(_draw_latency, run, latency) for latency in LATENCIES])
    with st.expander("What each of them measures"):
        st.markdown(LATENCY_WHY)


def _draw_latency(run: RunData, latency: Latency) -> None:
    if not run.latencies[latency.key].n:
        st.markdown(
            f"**{latency.title}**  \n:material/info: {absence(latency, run.requests, run.status).capitalize()}."
        )
        return
    frame = overlaid({run.config.engine: run.latencies[latency.key]}, run.definitions)
    noun = counted_noun(latency, run.definitions)
    figure = latency_cdf(frame, title=latency.title, counted=noun, dark=is_dark())
    show(figure, key=f"cdf_{latency.key}", alt=f"{latency.title}, cumulative", config=STILL)
    st.caption(captions.latency(frame, latency.words, counted=noun))


def draw_passes(run: RunData) -> None:
    """The time, the rows and the width of each pass, one under the other."""
    st.subheader("Passes", anchor="passes")
    show(pass_trace(run.passes, unit=chosen_unit(), dark=is_dark()), key="passes", alt="Pass trace")
    st.caption(captions.pass_kinds(run.pass_kinds))
    totals = run.pass_totals
    if executed := execution_told(run.config, totals["captured_passes"], totals["passes"], notes_of(run.row)):
        st.caption(f":material/bolt: {executed}")
    with st.expander("Why passes take what they take"):
        st.markdown(PASSES_WHY)
    st.page_link(
        "pages/roofline.py",
        label="These passes under the machine's ceilings",
        icon=":material/roofing:",
        query_params={"run": run.run_id},
    )


def in_columns(drawings: Sequence[Callable[[], None]]) -> None:
    """Two columns, row by row, so that neighbours begin at one height; on a phone one under the other."""
    for row in range(0, len(drawings), 2):
        for column, draw in zip(st.columns(2, gap="medium"), drawings[row : row + 2], strict=False):
            with column:
                draw()


def show(figure: go.Figure, *, key: str, alt: str, config: Mapping[str, Any] | None = None) -> None:
    """One figure as the lab shows them all: its own colours, no logo."""
    st.plotly_chart(figure, key=page_key(key), theme=None, config=dict(CHART if config is None else config), alt=alt)


TIMELINE_WHY = """
Each lane is one place in the batch, from the run's start at the left to its end at the right; the number is the
request that holds it.

- **Prefill** (slate): the prompt is read. It yields the first token. Read in chunks, each chunk is a span of its own.
- **Decode** (green): one more token at every step.
- **Dead** (red, hatched): the request has ended and its row is computed on, because the batch goes on.
- **Empty** (near white): nobody holds the slot.
- **Preempted** (triangle): the request lost its KV blocks here and waits again; what it had is computed anew.

The strip above shows how many requests wait. By step, every step is as wide as any other: that is the schedule. By
second, it is what the schedule cost on this machine.
"""

WASTE_WHY = """
Positions and slot-steps are **counted**. Seconds are an **attribution**: a pass takes its time as a whole, and padding
and dead rows are charged their share of its positions. It says where the time went, not what would be saved without
them. Memory is in **position-seconds**: room for one token's keys and values, held for one second. What holds no token
of a running request is padding, rows that had ended, **room** reserved for tokens to come, or **block ends**: the
unfilled rest of the last block of each table. **Bucket padding** are the tokens that a CUDA graph computes beyond those
asked for, since it was recorded for a round number of them; they write nowhere.
"""

LATENCY_WHY = "\n".join(f"- **{latency.title}**: {latency.why}" for latency in LATENCIES)

PASSES_WHY = """
A pass is one run of the model. Prefill passes read whole prompts and take longer with every token of them; while one
runs, all decoding rows stand still. A decode pass yields one token a row; it reads all weights whatever the number of
rows, so a few more rows cost little, and it attends over as many columns as its widest row needs. A mixed pass does
both: it decodes all rows and reads chunks of prompts in what its budget of tokens leaves, so that nobody stands still.
"""
