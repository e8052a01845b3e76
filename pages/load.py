"""Load: engines under streams of arriving requests. `?experiment=` names a load test; its settings go along."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from engine.core.goodput import Limits
from pages.parts.bench_widgets import number
from pages.parts.experiment_page import draw_experiment_page, follow_results
from pages.parts.front_door import front_door
from pages.parts.load_data import LoadData, load_load
from pages.parts.load_form import LEAST_LIMIT_S, draw_form
from pages.parts.load_head import draw_head
from pages.parts.load_queue_section import draw_queue
from pages.parts.load_results import draw_capacity, draw_goodput, draw_rates, draw_waits, draw_whole_table
from pages.parts.load_settings import FIELDS

WITHIN = {"ttft_within_s": FIELDS["ttft_limit_s"], "tpot_within_s": FIELDS["tpot_limit_s"]}


def render() -> None:
    """What the page is for, the load test that is shown, and the form for another."""
    st.title("Load", anchor=False)
    st.markdown(
        "What happens when requests come one after another, as readers send them? Every engine gets the same requests "
        "at the same moments, at several rates: up to where does it keep up, what does it serve beyond, and how long "
        "do readers wait?"
    )
    draw_experiment_page(
        kind="load",
        noun="load test",
        command=".venv/bin/python -m engine arrivals",
        fields=FIELDS,
        limits=WITHIN,
        draw_form=draw_form,
        draw_results=lambda experiment_id, is_live: follow_results(experiment_id, is_live, load_load, _draw_results),
    )


def _draw_results(experiment_id: str, data: LoadData | None) -> None:
    """All sections; while the test runs they are drawn again as points come in, each in its place."""
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
        f"{name}_within_s": replace(FIELDS[f"{name}_limit_s"], default=data.settings.get(f"{name}_limit_s"))
        for name in ("ttft", "tpot")
    }
    left, right = st.columns(2, gap="medium")
    with left:
        ttft_s = number("First token within, seconds", "ttft_within_s", step=0.1, least=LEAST_LIMIT_S, fields=fields)
    with right:
        tpot_s = number("Each next within, seconds", "tpot_within_s", step=0.01, least=LEAST_LIMIT_S, fields=fields)
    return Limits(ttft_s=ttft_s, tpot_s=tpot_s)


front_door(render)
