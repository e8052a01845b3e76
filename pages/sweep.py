"""Sweep: batch sizes against prompt lengths, one closed batch a point. `?experiment=` names one; settings go along."""

from __future__ import annotations

import streamlit as st

from pages.parts.bench_fields import complaints
from pages.parts.experiment_choice import EXPERIMENT, choose_experiment
from pages.parts.experiment_progress import show_progress
from pages.parts.experiment_start import is_form_open
from pages.parts.experiment_tools import draw_experiment_tools
from pages.parts.format import plain
from pages.parts.front_door import front_door
from pages.parts.predictions_section import draw_predictions
from pages.parts.sweep_chooser import LIMITS, draw_chooser
from pages.parts.sweep_data import SweepData, load_sweep
from pages.parts.sweep_form import draw_form
from pages.parts.sweep_head import draw_head
from pages.parts.sweep_results import draw_ceilings, draw_costs, draw_ragged, draw_table, draw_throughput
from pages.parts.sweep_settings import FIELDS
from store.predicting import Subject

KIND = "sweep"
REFRESH_S = 2.0


def render() -> None:
    """What the page is for, the sweep that is shown, and the form for another."""
    st.title("Sweep", anchor=False)
    st.markdown(
        "How far does batching carry? One run a point: B equal requests in one batch, for each prompt length and batch "
        "size. The figures show what a larger batch brings, what it costs, and where memory ends."
    )
    for line in complaints(st.query_params.to_dict(), FIELDS | LIMITS):
        st.warning(f"This link asks for something that cannot be set: {plain(line)}.", icon=":material/link_off:")
    is_open = is_form_open(any(name in st.query_params for name in FIELDS))
    chosen = choose_experiment(KIND, KIND)
    if chosen is None and EXPERIMENT not in st.query_params:
        st.info(
            "No sweep has been run yet. The settings below make one; on the command line "
            "`python -m engine sweep` does the same, and what it measures appears here.",
            icon=":material/hourglass_empty:",
        )
    if chosen is None:
        st.subheader("A new sweep", anchor=False)
        draw_form()
        return
    state = show_progress(chosen)
    with st.expander("Set up another sweep", icon=":material/add:", expanded=is_open):
        draw_form()
    draw_predictions(Subject(kind="experiment", subject_id=chosen))
    st.fragment(_draw_results, run_every=REFRESH_S if state == "live" else None)(chosen)
    if state != "live":
        draw_experiment_tools(chosen)


def _draw_results(experiment_id: str) -> None:
    """All sections; while the sweep runs they are drawn again as points come in, each in its place."""
    data = load_sweep(experiment_id)
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
