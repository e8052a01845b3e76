"""The sections of a comparison that hold figures: timelines on one axis, the waste side by side, latencies overlaid."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pandas as pd
import streamlit as st

from engine.core.format import count
from pages.figures.latency.cdf import latency_caption, latency_cdf
from pages.figures.timeline.preemptions import preemptions_of
from pages.figures.timeline.queue import queue_from_passes
from pages.figures.timeline.timeline import shared_range, slot_timeline, timelines_caption
from pages.figures.waste.breakdowns import IN_TIME
from pages.figures.waste.kv_layouts import kv_layouts, kv_layouts_caption
from pages.figures.waste.waste import waste_breakdown, waste_caption
from pages.parts.runs.execution import discarded_text
from pages.parts.runs.explanations import LATENCY_WHY, TIMELINE_WHY, WASTE_WHY
from pages.parts.runs.latencies import LATENCY_FIGURES, LatencyFigure, absence, counted_noun, overlaid, worst_gap_text
from pages.parts.runs.loaded_run import RunData
from pages.parts.runs.sensitivity import draw_definitions
from pages.parts.shared.charts import in_columns, show, show_still
from pages.parts.shared.lab import is_dark
from pages.parts.shared.unit_switch import unit_switch

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
            preemptions=preemptions_of(run.events),
            title=name,
            dark=is_dark(),
        )
        show(figure, key=f"timeline_{run.run_id}", alt=f"Slot timeline of {name}")
    st.caption(timelines_caption({name: run.spans for name, run in runs.items()}, unit=unit))
    if lost := preempted_text({name: preemptions_of(run.events) for name, run in runs.items()}):
        st.caption(lost)
    with st.expander("How to read this"):
        st.markdown(TIMELINE_WHY)


def draw_kv_layouts(runs: Runs) -> None:
    """What held real tokens and what did not, in memory and in the passes, a bar a run over one axis."""
    st.subheader("Where each KV position went", anchor="kv")
    ledger = pd.DataFrame([run.ledger(name) for name, run in runs.items()])
    show(kv_layouts(ledger, dark=is_dark()), key="kv_layouts", alt="Where each KV position went, all runs")
    st.caption(kv_layouts_caption(ledger))
    with st.expander("What the parts are"):
        st.markdown(KV_WHY)


def draw_wastes(runs: Runs) -> None:
    """The seconds that waste is charged with, a bar a run; of CUDA graphs, the padding of their buckets."""
    st.subheader("Waste in time, side by side", anchor="waste")
    ledger = pd.DataFrame([run.ledger(name) for name, run in runs.items()])
    show(waste_breakdown(ledger, groups=IN_TIME, dark=is_dark()), key="waste", alt="Waste ledger of all runs")
    st.caption(waste_caption(ledger, IN_TIME))
    for name, run in runs.items():
        if discarded := discarded_text(run.config, run.metrics):
            st.caption(f"{name}: {discarded}")
    with st.expander("What is counted, and what is attributed"):
        st.markdown(WASTE_WHY)


def draw_overlays(runs: Runs) -> None:
    """Each latency once, all runs in one figure over one axis."""
    st.subheader("Latencies, overlaid", anchor="latencies")
    draw_definitions(next(iter(runs.values())).definitions)
    in_columns([partial(_draw_overlay, runs, latency) for latency in LATENCY_FIGURES])
    if worst := worst_gap_text({name: run.metrics for name, run in runs.items()}):
        st.caption(worst)
    with st.expander("What each of them measures"):
        st.markdown(LATENCY_WHY)


def _draw_overlay(runs: Runs, latency: LatencyFigure) -> None:
    missing = {name: run for name, run in runs.items() if not run.latencies[latency.key].n}
    present = {name: run for name, run in runs.items() if name not in missing}
    if present:
        definitions = next(iter(present.values())).definitions  # the same for all
        frame = overlaid({name: run.latencies[latency.key] for name, run in present.items()}, definitions)
        noun = counted_noun(latency, definitions)
        figure = latency_cdf(frame, title=latency.title, counted=noun, dark=is_dark())
        show_still(figure, key=f"cdf_{latency.key}", alt=f"{latency.title}, cumulative, all runs")
        st.caption(latency_caption(frame, latency.words, counted=noun))
    else:
        st.markdown(f"**{latency.title}**")
    for name, run in missing.items():
        st.caption(f":material/info: {name}: {absence(latency, run.requests, run.status)}.")


def preempted_text(lost: Mapping[str, pd.DataFrame]) -> str:
    """How often each run preempted a request; empty where none did."""
    counts = {name: len(frame) for name, frame in lost.items()}
    if not any(counts.values()):
        return ""
    said = [f"{name} {count(number) if number else 'none'}" for name, number in counts.items()]
    return f"Preemptions (triangles): {', '.join(said)}."


KV_WHY = """
A **position** is room for one token's keys and values. Above, positions held in memory, each counted for the seconds
that passes ran while it was held; below, positions that passes attended over.

- **Real tokens**: tokens of requests that still ran.
- **Padding**: columns of a row that hold none of its tokens, since another row is longer. A padded batch holds and
  computes them; slots compute them up to the widest row.
- **Dead**: rows whose request had ended, held and computed until their batch ended.
- **Reserved**: held for tokens that might come. A slot is as wide as the longest request may become.
- **Block ends**: the unfilled rest of each table's last block. It is all that paging leaves, and less than a block a
  request.
"""
