"""The button that starts an experiment, under what somebody expects of it: written down first, then queued."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from engine.core.experiment import Plan
from engine.core.prediction_questions import of_plan
from pages.parts.bench_fields import Field, Number
from pages.parts.experiment_choice import EXPERIMENT, follow_experiment
from pages.parts.experiment_progress import draw_queue
from pages.parts.format import plain
from pages.parts.lab import lab
from pages.parts.prediction_form import PredictionForm, write_down
from pages.parts.predictions_section import subject_of_job
from pages.parts.visit import visitor

Named = Callable[[Plan], Plan]
FORM_OPEN = "experiment_form_open"


def is_form_open(is_asked: bool) -> bool:
    """Whether the form is unfolded beside an experiment: for a link with settings, until something is started."""
    if is_asked and EXPERIMENT not in st.query_params:
        st.session_state[FORM_OPEN] = True
    return bool(st.session_state.get(FORM_OPEN))


def fill_form(values: Mapping[str, Any], fields: Mapping[str, Field]) -> None:
    """Put values into the form's widgets, defaults where there is none, and unfold it. For a button's `on_click`."""
    for name, field in fields.items():
        value = values.get(name, field.default)
        st.session_state[name] = float(value) if _is_real(field) and value is not None else value
    st.session_state[FORM_OPEN] = True


def _is_real(field: Field) -> bool:
    return isinstance(field, Number) and not field.whole


def draw_start(plan: Plan | None, label: str, form: PredictionForm, named: Named, *, help: str) -> None:
    """What do you expect, and the button. Without a plan it is off. `named` gives a plan an id of its own."""
    form.draw(of_plan(plan) if plan is not None else [])
    pressed = st.button(label, icon=":material/play_arrow:", type="primary", disabled=plan is None, help=help)
    draw_queue()
    if pressed and plan is not None:
        _start(named(plan), form)


def _start(plan: Plan, form: PredictionForm) -> None:
    """Write down what is expected, then queue the job; nothing runs where a prediction is typed in half."""
    choices = of_plan(plan)
    if problem := form.problem(choices):
        st.error(plain(problem), icon=":material/error:")
        return
    drafts = form.collect(choices)
    try:
        lab().queue.submit_experiment(plan, visitor(), before=lambda job: write_down(subject_of_job(job), drafts))
    except OSError as error:
        st.error(f"The experiment cannot be kept on disk: {plain(str(error))}.", icon=":material/error:")
        return
    form.forget(drafts)
    st.session_state[FORM_OPEN] = False
    follow_experiment(plan.experiment_id)
    st.rerun()
