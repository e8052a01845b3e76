"""The Repeats page: engines that ran several times, interleaved, and how reproducible their difference is."""

from __future__ import annotations

from functools import cache

import streamlit as st

from pages.parts.experiments.page import ExperimentPage, draw_experiment_page
from pages.parts.repeats.measured import MeasuredRepeats, load_repeats
from pages.parts.repeats.results import (
    FIELDS,
    draw_bench_link,
    draw_finding,
    draw_medians,
    draw_runs,
    repeats_failures,
    repeats_line,
)
from pages.parts.shared.entry_guard import entry_guard

NO_PLAN = "The store has no plan of this experiment. Its runs are in History; open them on Compare."


def render() -> None:
    """The chosen experiment with its results, and the link to Bench for a new one."""
    st.title("Repeats", anchor=False)
    st.markdown(
        "Check whether a difference between engines is reproducible: each engine runs several times, interleaved with "
        "the others."
    )
    loaded = cache(load_repeats)  # loads each experiment once a drawing of the page
    page = ExperimentPage(
        kind="repeats",
        noun="repeats experiment",
        command=".venv/bin/python -m engine run --repeats 3",
        command_does="repeats one engine",
        fields={},
        limits=FIELDS,
        draw_form=lambda: draw_bench_link(loaded),
        load=load_repeats,
        line=repeats_line,
        failures=repeats_failures,
        draw_sections=_draw_sections,
        soon="Figures appear after the first run.",
        no_plan=NO_PLAN,
    )
    draw_experiment_page(page, first=loaded)


def _draw_sections(data: MeasuredRepeats) -> None:
    draw_finding(data)
    draw_medians(data)
    draw_runs(data)


entry_guard(render)
