"""Load: engines under streams of arriving requests. `?experiment=` names a load test; its settings go along."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from engine.load.goodput import Limits
from pages.parts.experiments.page import ExperimentPage, draw_experiment_page
from pages.parts.load.form import FIELDS, LEAST_LIMIT_S, draw_form, load_values
from pages.parts.load.measured import MeasuredLoad, load_load
from pages.parts.load.results import (
    draw_capacity,
    draw_goodput,
    draw_queue,
    draw_rates,
    draw_waits,
    draw_whole_table,
    load_failures,
    load_line,
)
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.widgets import number

WITHIN = {"ttft_within_s": FIELDS["ttft_limit_s"], "tpot_within_s": FIELDS["tpot_limit_s"]}


def render() -> None:
    """What the page is for, the load test that is shown, and the form for another."""
    st.title("Load", anchor=False)
    st.markdown(
        "What happens when requests come one after another, as readers send them? Every engine gets the same requests "
        "at the same moments, at several rates: up to where does it keep up, what does it serve beyond, and how long "
        "do readers wait?"
    )
    draw_experiment_page(PAGE)


def _draw_sections(data: MeasuredLoad) -> None:
    draw_rates(data)
    draw_waits(data)
    draw_queue(data)
    draw_capacity(data)
    st.subheader("Goodput", anchor=False)
    limits = _draw_limits(data)
    limited = load_load(data.experiment_id, limits) if limits else None
    draw_goodput(limited or data, bool(limits))
    draw_whole_table(limited or data)


def _draw_limits(data: MeasuredLoad) -> Limits:
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


PAGE = ExperimentPage(
    kind="load",
    noun="load test",
    command=".venv/bin/python -m engine arrivals",
    fields=FIELDS,
    limits=WITHIN,
    draw_form=draw_form,
    load=load_load,
    line=load_line,
    failures=load_failures,
    form_values=load_values,
    draw_sections=_draw_sections,
)

entry_guard(render)
