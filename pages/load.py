"""Load: engines under streams of arriving requests. `?experiment=` names a load test; its settings go along."""

from __future__ import annotations

import streamlit as st

from engine.core.goodput import Limits
from pages.parts.bench_fields import Field, Number, complaints
from pages.parts.bench_widgets import number
from pages.parts.experiment_choice import EXPERIMENT, choose_experiment
from pages.parts.experiment_progress import show_progress
from pages.parts.experiment_start import is_form_open
from pages.parts.format import plain
from pages.parts.front_door import front_door
from pages.parts.load_data import LoadData, load_load
from pages.parts.load_form import LEAST_LIMIT_S, draw_form
from pages.parts.load_head import draw_head
from pages.parts.load_queue_section import draw_queue
from pages.parts.load_results import draw_capacity, draw_goodput, draw_rates, draw_waits, draw_whole_table
from pages.parts.load_settings import FIELDS, LIMIT
from pages.parts.predictions_section import draw_predictions
from store.predicting import Subject

KIND = "load"
NOUN = "load test"
REFRESH_S = 2.0
WITHIN: dict[str, Field] = {"ttft_within_s": LIMIT, "tpot_within_s": LIMIT}


def render() -> None:
    """What the page is for, the load test that is shown, and the form for another."""
    st.title("Load", anchor=False)
    st.markdown(
        "What happens when requests come one after another, as readers send them? Every engine gets the same requests "
        "at the same moments, at several rates: up to where does it keep up, what does it serve beyond, and how long "
        "do readers wait?"
    )
    for line in complaints(st.query_params.to_dict(), FIELDS | WITHIN):
        st.warning(f"This link asks for something that cannot be set: {plain(line)}.", icon=":material/link_off:")
    is_open = is_form_open(any(name in st.query_params for name in FIELDS))
    chosen = choose_experiment(KIND, NOUN)
    if chosen is None and EXPERIMENT not in st.query_params:
        st.info(
            "No load test has been run yet. The settings below make one; on the command line "
            "`python -m engine arrivals` does the same, and what it measures appears here.",
            icon=":material/hourglass_empty:",
        )
    if chosen is None:
        st.subheader("A new load test", anchor=False)
        draw_form()
        return
    state = show_progress(chosen)
    with st.expander("Set up another load test", icon=":material/add:", expanded=is_open):
        draw_form()
    draw_predictions(Subject(kind="experiment", subject_id=chosen))
    data = load_load(chosen)
    is_moving = state == "live" or (data is not None and data.is_being_read)
    st.fragment(_draw_results, run_every=REFRESH_S if is_moving else None)(chosen, is_moving and state != "live")


def _draw_results(experiment_id: str, is_being_read: bool) -> None:
    """All sections; while the test runs they are drawn again as points come in, each in its place.

    `is_being_read`: they were drawn for as long as the store was reading the last runs; that ends here.
    """
    data = load_load(experiment_id)
    if is_being_read and data is not None and not data.is_being_read:
        st.rerun()
    if data is None or not data.has_results:
        st.caption("The figures appear with the first point that has run.")
        if data is None:
            return
    draw_head(data)
    if data.has_results:
        _draw_sections(data)


def _draw_sections(data: LoadData) -> None:
    draw_rates(data)
    draw_waits(data)
    draw_queue(data)
    draw_capacity(data)
    st.subheader("Goodput", anchor=False)
    limits = _draw_limits(data)
    limited = load_load(data.experiment_id, limits) if limits else None
    draw_goodput(limited or data, bool(limits))
    draw_whole_table(limited or data)


def _draw_limits(data: LoadData) -> Limits:
    """The limits to count by: those of the plan until others are set here."""
    fields = {
        f"{name}_within_s": Number(
            low=LIMIT.low, high=LIMIT.high, default=data.settings.get(f"{name}_limit_s"), whole=False, above=True
        )
        for name in ("ttft", "tpot")
    }
    left, right = st.columns(2, gap="medium")
    with left:
        ttft_s = number("First token within, seconds", "ttft_within_s", step=0.1, least=LEAST_LIMIT_S, fields=fields)
    with right:
        tpot_s = number("Each next within, seconds", "tpot_within_s", step=0.01, least=LEAST_LIMIT_S, fields=fields)
    return Limits(ttft_s=ttft_s, tpot_s=tpot_s)


front_door(render)
