"""Sweep: batch sizes against prompt lengths, one closed batch a point. `?experiment=` names one; settings go along."""

from __future__ import annotations

import streamlit as st

from pages.parts.experiments.page import draw_experiment_page
from pages.parts.experiments.results import draw_unreadable
from pages.parts.front_door import front_door
from pages.parts.sweep.chooser import LIMITS, draw_chooser
from pages.parts.sweep.form import draw_form
from pages.parts.sweep.head import draw_head
from pages.parts.sweep.measured import SweepData, load_sweep
from pages.parts.sweep.plan import FIELDS
from pages.parts.sweep.results import draw_ceilings, draw_costs, draw_ragged, draw_table, draw_throughput

REFRESH_S = 2.0


def render() -> None:
    """What the page is for, the sweep that is shown, and the form for another."""
    st.title("Sweep", anchor=False)
    st.markdown(
        "How far does batching carry? One run a point: B equal requests in one batch, for each prompt length and batch "
        "size. The figures show what a larger batch brings, what it costs, and where memory ends."
    )
    draw_experiment_page(
        kind="sweep",
        noun="sweep",
        command=".venv/bin/python -m engine sweep",
        fields=FIELDS,
        limits=LIMITS,
        draw_form=draw_form,
        draw_results=_follow_results,
    )


def _follow_results(experiment_id: str, is_live: bool) -> None:
    st.fragment(_draw_results, run_every=REFRESH_S if is_live else None)(experiment_id)


def _draw_results(experiment_id: str) -> None:
    """All sections; while the sweep runs they are drawn again as points come in, each in its place."""
    try:
        data = load_sweep(experiment_id)
    except ValueError as error:
        draw_unreadable(error)
        return
    if data is None or not data.has_results:
        st.caption("The figures appear with the first point that has run.")
        if data is None:
            return
    draw_head(data)
    if data.has_results:
        _draw_sections(data)


def _draw_sections(data: SweepData) -> None:
    if not data.grid.empty:
        draw_throughput(data)
    if data.grid["tpot_s"].notna().any():
        draw_chooser(data)
        draw_costs(data)
        draw_ceilings(data)
    draw_ragged(data)
    draw_table(data)


front_door(render)
