"""The Sweep page: one batch of B equal requests for each prompt length and batch size."""

from __future__ import annotations

import streamlit as st

from pages.parts.experiments.page import ExperimentPage, draw_experiment_page
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.share import share
from pages.parts.sweep.again import draw_measure_again
from pages.parts.sweep.form import FIELDS, draw_form, sweep_values
from pages.parts.sweep.measured import MeasuredSweep, load_sweep
from pages.parts.sweep.results import (
    LIMITS,
    draw_batch_choice,
    draw_ceilings,
    draw_costs,
    draw_ragged,
    draw_table,
    draw_throughput,
    sweep_failures,
    sweep_line,
)
from pages.report.sharing import shared_experiment


def render() -> None:
    """The chosen sweep with its results, and the form for a new one."""
    st.title("Sweep", anchor=False)
    st.markdown(
        "Measure how throughput, latency and memory scale with batch size: one batch of B equal requests for each "
        "prompt length and batch size."
    )
    draw_experiment_page(PAGE)


def _draw_sections(data: MeasuredSweep) -> None:
    share(shared_experiment(data.experiment_id))
    if not data.grid.empty:
        draw_throughput(data)
        draw_measure_again(data)
    if data.grid["tpot_s"].notna().any():
        draw_batch_choice(data)
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
