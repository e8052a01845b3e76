"""Repeats: engines run in turn several times, and what of their difference stands. `?experiment=` names one."""

from __future__ import annotations

from functools import cache

import streamlit as st

from pages.parts.experiments.page import ExperimentPage, draw_experiment_page
from pages.parts.repeats.measured import MeasuredRepeats, load_repeats
from pages.parts.repeats.results import (
    FIELDS,
    draw_finding,
    draw_medians,
    draw_runs,
    draw_way_to_bench,
    repeats_failures,
    repeats_line,
)
from pages.parts.shared.entry_guard import entry_guard

NO_PLAN = "The store has no plan of this experiment: its runs are in History, and Compare sets them side by side."


def render() -> None:
    """What the page is for, the experiment that is shown, and the way to another."""
    st.title("Repeats", anchor=False)
    st.markdown(
        "A run measured twice differs from itself. Here all engines run once, then all again, several times. The page "
        "shows how far an engine's runs lie apart, in how many repeats it comes out ahead of another, and how often "
        "chance alone would do that."
    )
    loaded = cache(load_repeats)  # once for all that is drawn with the page
    page = ExperimentPage(
        kind="repeats",
        noun="repeats experiment",
        command=".venv/bin/python -m engine run --repeats 3",
        command_does="repeats one engine",
        fields={},
        limits=FIELDS,
        draw_form=lambda: draw_way_to_bench(loaded),
        load=load_repeats,
        line=repeats_line,
        failures=repeats_failures,
        draw_sections=_draw_sections,
        soon="The figures appear with the first run that has ended.",
        no_plan=NO_PLAN,
    )
    draw_experiment_page(page, first=loaded)


def _draw_sections(data: MeasuredRepeats) -> None:
    draw_finding(data)
    draw_medians(data)
    draw_runs(data)


entry_guard(render)
