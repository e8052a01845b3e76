"""The Load page: engines under arriving requests, at several rates."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from engine.load.goodput import Limits
from pages.parts.experiments.page import ExperimentPage, draw_experiment_page
from pages.parts.load.form import FIELDS, LEAST_LIMIT_S, draw_form, load_values
from pages.parts.load.measured import MeasuredLoad, load_load
from pages.parts.load.results import (
    AT,
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
from pages.parts.shared.fields import Field, Number
from pages.parts.shared.share import share
from pages.parts.shared.widgets import number
from pages.report.sharing import shared_experiment

WITHIN = {"ttft_within_s": FIELDS["ttft_limit_s"], "tpot_within_s": FIELDS["tpot_limit_s"]}


def render() -> None:
    """The chosen load test with its results, and the form for a new one."""
    st.title("Load", anchor=False)
    st.markdown(
        "Compare engines under arriving requests: every engine gets the same requests at the same times, at several "
        "rates."
    )
    draw_experiment_page(PAGE)


def _draw_sections(data: MeasuredLoad) -> None:
    share(shared_experiment(data.experiment_id))
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
    """The latency limits of goodput: the plan's, until others are set here."""
    fields: dict[str, Field] = {}
    for name, field in WITHIN.items():
        assert isinstance(field, Number)
        fields[name] = replace(field, default=data.settings.get(name.replace("_within_s", "_limit_s")))
    left, right = st.columns(2, gap="medium")
    with left:
        ttft_s = number("ttft_within_s", step=0.1, least=LEAST_LIMIT_S, fields=fields)
    with right:
        tpot_s = number("tpot_within_s", step=0.01, least=LEAST_LIMIT_S, fields=fields)
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
    also=(AT,),
)

entry_guard(render)
