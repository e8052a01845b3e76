"""Repeats: engines run in turn several times, and what of their difference stands. `?experiment=` names one."""

from __future__ import annotations

import streamlit as st

from engine.runlog.experiment_log import EXPERIMENT_FILE
from pages.parts.experiment_page import draw_experiment_page
from pages.parts.experiment_results import draw_unreadable
from pages.parts.front_door import front_door
from pages.parts.lab import lab
from pages.parts.repeats_data import load_repeats
from pages.parts.repeats_head import draw_head, draw_way_to_bench
from pages.parts.repeats_results import FIELDS, draw_finding, draw_medians, draw_runs

REFRESH_S = 2.0
SOON = "The figures appear with the first run that has ended."
NO_PLAN = "The store has no plan of this experiment: its runs are in History, and Compare sets them side by side."


def render() -> None:
    """What the page is for, the experiment that is shown, and the way to another."""
    st.title("Repeats", anchor=False)
    st.markdown(
        "A run measured twice differs from itself. Here all engines run once, then all again: what a second run would "
        "have shown is seen, and so is whether it differs by more than the engines do."
    )
    draw_experiment_page(
        kind="repeats",
        noun="repeats experiment",
        command="python -m engine run --repeats 3",
        fields={},
        limits=FIELDS,
        draw_form=draw_way_to_bench,
        draw_results=_follow_results,
    )


def _follow_results(experiment_id: str, is_live: bool) -> None:
    """Drawn again while it runs, and after it until the store has read its last run."""
    try:
        data = load_repeats(experiment_id)
    except ValueError as error:
        draw_unreadable(error)
        return
    is_being_read = data is not None and data.is_being_read
    st.fragment(_draw_results, run_every=REFRESH_S if is_live or is_being_read else None)(
        experiment_id, is_being_read and not is_live
    )


def _draw_results(experiment_id: str, is_being_read: bool) -> None:
    """All sections. `is_being_read`: drawn for as long as the store was reading the last run; that ends here."""
    data = load_repeats(experiment_id)
    if data is None:
        has_plan = (lab().home / "runs" / experiment_id / EXPERIMENT_FILE).is_file()
        st.caption(SOON if has_plan else NO_PLAN)
        return
    if is_being_read and not data.is_being_read:
        st.rerun()
    draw_head(data)
    if not data.has_results:
        st.caption(SOON)
        return
    draw_finding(data)
    draw_medians(data)
    draw_runs(data)


front_door(render)
