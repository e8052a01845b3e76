"""Repeats: engines run in turn several times, and what of their difference stands. `?experiment=` names one."""

from __future__ import annotations

from functools import cache

import streamlit as st

from engine.runlog.experiment_log import EXPERIMENT_FILE
from pages.parts.experiments.page import draw_experiment_page, follow_results
from pages.parts.front_door import front_door
from pages.parts.lab import lab
from pages.parts.repeats.head import draw_head, draw_way_to_bench
from pages.parts.repeats.measured import RepeatsData, load_repeats
from pages.parts.repeats.results import FIELDS, draw_finding, draw_medians, draw_runs

SOON = "The figures appear with the first run that has ended."
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
    draw_experiment_page(
        kind="repeats",
        noun="repeats experiment",
        command=".venv/bin/python -m engine run --repeats 3",
        command_does="repeats one engine",
        fields={},
        limits=FIELDS,
        draw_form=lambda: draw_way_to_bench(loaded),
        draw_results=lambda experiment_id, is_live: follow_results(
            experiment_id, is_live, load_repeats, _draw_results, first=loaded
        ),
    )


def _draw_results(experiment_id: str, data: RepeatsData | None) -> None:
    """All sections."""
    if data is None:
        has_plan = (lab().home / "runs" / experiment_id / EXPERIMENT_FILE).is_file()
        st.caption(SOON if has_plan else NO_PLAN)
        return
    draw_head(data)
    if not data.has_results:
        st.caption(SOON)
        return
    draw_finding(data)
    draw_medians(data)
    draw_runs(data)


front_door(render)
