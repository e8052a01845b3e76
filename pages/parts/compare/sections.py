"""The sections of a comparison with figures: timelines on one axis, latencies, KV memory and waste side by side."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pandas as pd
import streamlit as st

from engine.core.format import count
from pages.figures.latency.cdf import latency_caption, latency_cdf
from pages.figures.timeline.preemptions import preemptions_of
from pages.figures.timeline.timeline import timelines_caption
from pages.figures.waste.breakdowns import IN_TIME
from pages.figures.waste.kv_layouts import kv_layouts, kv_layouts_caption
from pages.figures.waste.waste import waste_breakdown, waste_caption
from pages.parts.runs.figures import (
    LATENCY_FIGURES,
    LATENCY_HELP,
    WASTE_HELP,
    LatencyFigure,
    absence,
    counted_noun,
    discarded_text,
    overlaid,
    worst_gap_text,
)
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.runs.timeline import draw_slot_timelines
from pages.parts.shared.charts import in_columns, show, show_still
from pages.parts.shared.lab import is_dark
from pages.parts.shared.markdown import plain

PAIR_LANES_PX = 80  # of each of two timelines, so that both and the tiles are on a laptop's first screen

Runs = Mapping[str, LoadedRun]


def draw_timelines(runs: Runs) -> None:
    """One timeline per run, one below the other, all over the same x range."""
    unit = draw_slot_timelines(runs, room_px=PAIR_LANES_PX)
    st.caption(plain(timelines_caption({name: run.spans for name, run in runs.items()}, unit=unit)))
    if lost := preempted_text({name: preemptions_of(run.events) for name, run in runs.items()}):
        st.caption(plain(lost))


def draw_kv_layouts(runs: Runs) -> None:
    """Positions with real tokens and without, in memory and in the passes, a bar per run."""
    waste = pd.DataFrame([run.waste_row(name) for name, run in runs.items()])
    show(kv_layouts(waste, dark=is_dark()), key="kv_layouts", alt="KV positions by use, all runs")
    st.caption(plain(kv_layouts_caption(waste)))
    with st.expander("Kinds of positions"):
        st.markdown(KV_HELP)


def draw_wastes(runs: Runs) -> None:
    """The seconds spent on waste, a bar per run, and the bucket padding of CUDA graphs."""
    waste = pd.DataFrame([run.waste_row(name) for name, run in runs.items()])
    show(waste_breakdown(waste, groups=IN_TIME, dark=is_dark()), key="waste", alt="Waste in time, all runs")
    st.caption(plain(waste_caption(waste, IN_TIME)))
    for name, run in runs.items():
        if discarded := discarded_text(run.config, run.metrics):
            st.caption(f"{plain(name)}: {discarded}")
    with st.expander("Counted and attributed waste"):
        st.markdown(WASTE_HELP)


def draw_overlays(runs: Runs) -> None:
    """A figure per latency, with all runs over one axis."""
    in_columns([partial(_draw_overlay, runs, latency) for latency in LATENCY_FIGURES])
    if worst := worst_gap_text({name: run.metrics for name, run in runs.items()}):
        st.caption(plain(worst))
    with st.expander("What each latency measures"):
        st.markdown(LATENCY_HELP)


def _draw_overlay(runs: Runs, latency: LatencyFigure) -> None:
    missing = {name: run for name, run in runs.items() if not run.latencies[latency.key].n}
    present = {name: run for name, run in runs.items() if name not in missing}
    if present:
        definitions = next(iter(present.values())).definitions  # the same for all
        frame = overlaid({name: run.latencies[latency.key] for name, run in present.items()}, definitions)
        noun = counted_noun(latency, definitions)
        figure = latency_cdf(frame, title=latency.title, counted=noun, dark=is_dark())
        show_still(figure, key=f"cdf_{latency.key}", alt=f"{latency.title}, cumulative, all runs")
        st.caption(plain(latency_caption(frame, latency.phrase, counted=noun)))
    else:
        st.markdown(f"**{latency.title}**")
    for name, run in missing.items():
        st.caption(f":material/info: {plain(name)}: {absence(latency, run.requests, run.status)}.")


def preempted_text(lost: Mapping[str, pd.DataFrame]) -> str:
    """Each run's number of preemptions; empty where no run has any."""
    counts = {name: len(frame) for name, frame in lost.items()}
    if not any(counts.values()):
        return ""
    parts = [f"{name} {count(number) if number else 'none'}" for name, number in counts.items()]
    return f"Preemptions (triangles): {', '.join(parts)}."


KV_HELP = """
A **position** is the memory of one token's keys and values. The upper bars show positions held in memory, each weighted
by the time passes ran while it was held. The lower bars show positions that passes attended over.

- **Real tokens**: tokens of running requests.
- **Padding**: columns of a row without a token of its own, because another row is longer. A padded batch holds and
  computes them; slots compute them up to the widest row.
- **Dead**: rows of ended requests, held and computed until their batch ends.
- **Reserved**: memory for tokens that may still come. A slot is as wide as the longest possible request.
- **Block ends**: the unfilled rest of each block table's last block, less than one block per request.
"""
