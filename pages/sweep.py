"""Sweep: batch sizes against prompt lengths, one closed batch a point. `?experiment=` names one; settings go along."""

from __future__ import annotations

import streamlit as st

from pages.parts.experiments.page import ExperimentPage, draw_experiment_page
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.sweep.form import FIELDS, draw_form, sweep_values
from pages.parts.sweep.measured import MeasuredSweep, load_sweep
from pages.parts.sweep.results import (
    LIMITS,
    draw_ceilings,
    draw_chooser,
    draw_costs,
    draw_ragged,
    draw_table,
    draw_throughput,
    sweep_failures,
    sweep_line,
)


def render() -> None:
    """What the page is for, the sweep that is shown, and the form for another."""
    st.title("Sweep", anchor=False)
    st.markdown(
        "How far does batching carry? One run a point: B equal requests in one batch, for each prompt length and batch "
        "size. The figures show what a larger batch brings, what it costs, and where memory ends."
    )
    draw_experiment_page(PAGE)


def _draw_sections(data: MeasuredSweep) -> None:
    if not data.grid.empty:
        draw_throughput(data)
    if data.grid["tpot_s"].notna().any():
        draw_chooser(data)
        draw_costs(data)
        draw_ceilings(data)
    draw_ragged(data)
    draw_table(data)


PAGE = ExperimentPage(
    kind="sweep",
    noun="sweep",
    command=".venv/bin/python -m engine sweep",
    fields=FIELDS,
    limits=LIMITS,
    draw_form=draw_form,
    load=load_sweep,
    line=sweep_line,
    failures=sweep_failures,
    form_values=sweep_values,
    draw_sections=_draw_sections,
)

entry_guard(render)
