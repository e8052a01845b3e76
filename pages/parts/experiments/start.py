"""The button that starts an experiment, under what somebody expects of it: written down first, then queued."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from engine.core.experiment import Plan
from engine.core.prediction_questions import of_plan
from pages.parts.bench_fields import Field, Number
from pages.parts.experiments.choice import EXPERIMENT, follow_experiment
from pages.parts.experiments.plan import PlanOrProblems, named
from pages.parts.experiments.progress import draw_queue
from pages.parts.lab import lab
from pages.parts.markdown import plain
from pages.parts.page_state import note, noted, put
from pages.parts.prediction_form import Draft, PredictionForm, write_down
from pages.parts.predictions_section import subject_of_job
from pages.parts.visit import visitor

FORM_OPEN = "form_open"


def is_form_open(is_asked: bool) -> bool:
    """Whether the form is unfolded beside an experiment: for a link with settings, until something is started."""
    if is_asked and EXPERIMENT not in st.query_params:
        note(FORM_OPEN, True)
    return bool(noted(FORM_OPEN))


def fill_form(values: Mapping[str, Any], fields: Mapping[str, Field]) -> None:
    """Put values into the form's widgets, defaults where there is none, and unfold it. For a button's `on_click`."""
    filled = {name: values.get(name, field.default) for name, field in fields.items()}
    put({name: float(v) if _is_real(fields[name]) and v is not None else v for name, v in filled.items()})
    note(FORM_OPEN, True)


def _is_real(field: Field) -> bool:
    return isinstance(field, Number) and not field.whole


def draw_problems(notes: Mapping[str, Any], settings: PlanOrProblems) -> None:
    """What is wrong with a field, at the place that is kept for it."""
    for name, place in notes.items():
        if name in settings.problems:
            place.caption(f":red[:material/error: {plain(settings.problems[name])}]")


def draw_plan(
    settings: PlanOrProblems, said: Callable[[Plan], Sequence[str]], label: str, form: PredictionForm, *, help: str
) -> None:
    """What the form comes to, or what has to be mended; what do you expect; and the button, off without a plan.

    `said` tells a plan: how many runs, on what, and then what there is to note.
    """
    plan = settings.plan
    if plan is None:
        st.markdown("**Something has to be mended before this can run:**")
        st.markdown("\n".join(f"- {plain(problem)}" for problem in settings.problems.values()))
    else:
        headline, what, *notes = said(plan)
        st.markdown(f"**{plain(headline)}**  \n{plain(what)}")
        for note in filter(None, notes):
            st.caption(plain(note))
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
    if submit(plan, form, form.collect(choices)):
        note(FORM_OPEN, False)
        follow_experiment(plan.experiment_id)
        st.rerun()


def submit(plan: Plan, form: PredictionForm, drafts: Sequence[Draft]) -> bool:
    """Write down what is expected and queue the experiment; False, and a line, where it cannot be kept on disk."""
    try:
        lab().queue.submit_experiment(plan, visitor(), before=lambda job: write_down(subject_of_job(job), drafts))
    except OSError as error:
        st.error(f"The experiment cannot be kept on disk: {plain(str(error))}.", icon=":material/error:")
        return False
    form.forget(drafts)
    return True
