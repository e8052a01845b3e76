"""The sections of a run's page with a figure each: timeline, waste, latencies, passes. A caption states the finding."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from engine.core.config import RunConfig
from engine.core.format import count, plural
from pages.figures.latency.cdf import latency_caption, latency_cdf
from pages.figures.timeline.passes import pass_kinds_caption, pass_trace
from pages.figures.timeline.preemptions import preemptions_of, preemptions_text
from pages.figures.timeline.timeline import timeline_caption
from pages.figures.waste.waste import waste_breakdown, waste_caption
from pages.parts.runs.figures import (
    LATENCY_FIGURES,
    LATENCY_HELP,
    WASTE_HELP,
    LatencyFigure,
    absence,
    chosen_unit,
    counted_noun,
    discarded_text,
    overlaid,
)
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.runs.timeline import draw_slot_timelines
from pages.parts.shared.charts import in_columns, show, show_still
from pages.parts.shared.lab import is_dark
from pages.parts.shared.markdown import plain

LANES_PX = 300  # of a timeline with its tiles on a laptop's first screen


def draw_timeline(run: LoadedRun) -> None:
    """The slots over steps or seconds, with the queue above."""
    unit = draw_slot_timelines({run.config.engine: run}, room_px=LANES_PX)
    st.caption(timeline_caption(run.spans, unit=unit, num_lanes=run.config.num_slots))
    if preempted := preemptions_text(preemptions_of(run.events)):
        st.caption(preempted)


def draw_waste(run: LoadedRun) -> None:
    """Positions, time and memory spent on nothing."""
    waste = pd.DataFrame([run.waste_row("")])
    show(waste_breakdown(waste, dark=is_dark()), key="waste", alt="Waste")
    st.caption(waste_caption(waste))
    if discarded := discarded_text(run.config, run.metrics):
        st.caption(discarded)
    with st.expander("Counted and attributed waste"):
        st.markdown(WASTE_HELP)


def draw_latencies(run: LoadedRun) -> None:
    """Five cumulative distributions in two columns; a text says why one is missing."""
    in_columns([partial(_draw_latency, run, latency) for latency in LATENCY_FIGURES])
    with st.expander("What each latency measures"):
        st.markdown(LATENCY_HELP)


def _draw_latency(run: LoadedRun, latency: LatencyFigure) -> None:
    if not run.latencies[latency.key].n:
        st.markdown(
            f"**{latency.title}**  \n:material/info: {absence(latency, run.requests, run.status).capitalize()}."
        )
        return
    frame = overlaid({run.config.engine: run.latencies[latency.key]}, run.definitions)
    noun = counted_noun(latency, run.definitions)
    figure = latency_cdf(frame, title=latency.title, counted=noun, dark=is_dark())
    show_still(figure, key=f"cdf_{latency.key}", alt=f"{latency.title}, cumulative")
    st.caption(latency_caption(frame, latency.phrase, counted=noun))


def draw_passes(run: LoadedRun) -> None:
    """The time, the rows and the width of each forward pass, one below the other."""
    show(pass_trace(run.passes, unit=chosen_unit(), dark=is_dark()), key="passes", alt="Pass trace")
    st.caption(pass_kinds_caption(run.pass_kinds))
    if executed := executed_text(run):
        st.caption(f":material/bolt: {executed}")
    with st.expander("What the time of a pass depends on"):
        st.markdown(PASSES_HELP)
    st.page_link(
        "pages/roofline.py",
        label="These passes on Roofline",
        icon=":material/roofing:",
        query_params={"run": run.run_id},
    )


def executed_text(run: LoadedRun) -> str:
    """How the passes were executed, as Markdown; empty where there is nothing to say."""
    totals = run.pass_totals
    if run.info.get("simulated"):
        return simulated_execution_text(run.config, totals["passes"])
    return execution_text(run.config, totals["captured_passes"], totals["passes"], notes_of(run.row))


def notes_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The worker's notes on how it executed the run. `row` is the store's row of the run."""
    notes = (row.get("result") or {}).get("notes") or (row.get("info") or {}).get("notes") or ()
    return tuple(str(note) for note in notes)


def execution_text(config: RunConfig, captured: int, passes: int, notes: tuple[str, ...]) -> str:
    """How many passes replayed a CUDA graph and why the others did not; only the notes for an eager run."""
    reason = plain(" ".join(notes))
    if config.execution != "graph" or not passes:
        return reason
    of_all = f"{count(captured)} of {plural(passes, 'pass', 'passes')} replayed a CUDA graph"
    if captured == passes:
        return " ".join(filter(None, [f"{of_all}.", reason]))
    others = "the others ran eager" if captured else "all ran eager"
    return f"{of_all}; {others}{f': {reason}' if reason else '.'}"


def simulated_execution_text(config: RunConfig, passes: int) -> str:
    """How the passes of a simulated run were to be executed; empty for eager passes. None was captured or replayed."""
    if config.execution != "graph" or not passes:
        return ""
    return f"{plural(passes, 'pass', 'passes')} simulated as CUDA graphs: one launch each."


PASSES_HELP = """
A pass is one run of the model. A prefill pass processes whole prompts and takes longer with every prompt token;
decoding rows wait for it. A decode pass yields one token per row. It reads all weights for any number of rows, so a few
more rows cost little; it attends over as many columns as its widest row needs. A mixed pass does both: it decodes all
rows and spends the rest of its token budget on chunks of prompts, so decoding rows do not wait.
"""
