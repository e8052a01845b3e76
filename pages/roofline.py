"""The Roofline page: measured passes under the machine's ceilings, the bend, and issue and device time."""

from __future__ import annotations

import streamlit as st

from pages.parts.roofline.bend import cases_of_points, cases_of_runs
from pages.parts.roofline.ceilings import CARD, draw_choice
from pages.parts.roofline.choice import EXPERIMENT, RUN, RUNS, ChosenRuns, asked_runs, choose
from pages.parts.roofline.passes import MeasuredPasses
from pages.parts.roofline.sections import draw_bend, draw_finding, draw_kinds, draw_roofline, draw_step_time
from pages.parts.runs.loaded_run import recent_rows
from pages.parts.runs.status import draw_no_runs
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.lab import lab
from pages.parts.shared.widgets import draw_complaints


def render() -> None:
    """The choice of runs and ceilings, then the results."""
    st.title("Roofline", anchor=False)
    st.markdown(
        "Compare each measured pass with the machine's measured limits for reading memory, computing and issuing "
        "kernels."
    )
    draw_complaints({}, also=(RUN, RUNS, EXPERIMENT, CARD))
    if not recent_rows() and not asked_runs():
        draw_no_runs("This page compares its passes with the machine's ceilings.")
        return
    chosen_runs = choose()
    series = [one for one in chosen_runs.series if not one.bins.empty]
    if not series:
        if chosen_runs.series:
            st.info("No pass of this run has ended.", icon=":material/hourglass_empty:")
        return
    _draw(chosen_runs, series)


def _draw(chosen_runs: ChosenRuns, series: list[MeasuredPasses]) -> None:
    ceilings = draw_choice(series)
    cases = cases_of_runs(series)
    if chosen_runs.experiment_id is not None:
        cases = cases_of_points(lab().store.experiments.points(chosen_runs.experiment_id)) or cases
    draw_finding(series, ceilings, cases)
    draw_roofline(series, ceilings)
    draw_bend(series, ceilings, cases)
    draw_step_time(series, ceilings)
    draw_kinds(series, ceilings)


entry_guard(render)
