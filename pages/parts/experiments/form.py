"""The form of a new experiment: the fields that every kind has, its plan or problems, and the button that starts it.

A page lists its fields with `experiment_fields`, draws its own beside the shared ones, and reads all of them by name.
The address has every field by name, so that a link restores the whole form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from engine.core.config import SETTINGS, RunConfig, WorkloadConfig
from engine.core.errors import FieldError
from engine.core.format import plural
from engine.core.option import options_of, settings_of
from engine.core.presets import PRESETS
from engine.core.run_id import new_run_id, utc_now
from engine.experiments.experiment import REPEATS, Plan
from engine.predictions.questions import of_plan
from pages.parts.experiments.choice import EXPERIMENT, follow_experiment
from pages.parts.experiments.progress import draw_queue
from pages.parts.predictions.form import Draft, PredictionForm, add_predictions
from pages.parts.predictions.section import subject_of_job
from pages.parts.shared.fields import FIELDS, Choice, Field, Number, field_of
from pages.parts.shared.lab import lab, visitor
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import note, noted, put
from pages.parts.shared.widgets import choice, number

MAX_REPEATS = 100
NOT_SHARED = ("engine", "slots", "form", "return", "gpu_memory_utilization")  # settings that not every form has
SHARED = ("seed", *(each.name for each in options_of(RunConfig).values() if each.name not in NOT_SHARED))
NO_ID = "planned"  # of a plan that has not been started
FORM_OPEN = "form_open"

# Fields


def experiment_fields(**own: Field) -> dict[str, Field]:
    """The fields of a page's form: the shared ones, then the page's own."""
    return {name: FIELDS[name] for name in SHARED} | {"repeats": field_of(REPEATS, high=MAX_REPEATS)} | own


def draw_engine(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """The choice of one engine, and what it shows."""
    values["engine"] = choice("engine", fields=fields)
    st.caption(f"Shows: {PRESETS[values['engine']].shows}.")


def draw_repeats(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """How often each point runs."""
    values["repeats"] = number("repeats", fields=fields)
    if values["repeats"] > 1:
        repeats = plural(values["repeats"], "time")
        st.caption(
            f"Every point runs {repeats}; repeats are interleaved, so slow drift affects all points about equally."
        )
    else:
        st.caption("One run per point shows no spread; use 3 to 5 repeats to measure it.")


# From the values of the fields to a plan or its problems, and back. Pure.


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOrProblems:
    """A plan that can run, or its problems, one line a field."""

    plan: Plan | None
    problems: Mapping[str, str]


def base_config(values: Mapping[str, Any], *, slots: int, workload: WorkloadConfig) -> RunConfig:
    """The configuration that all points vary. ValueError as RunConfig."""
    given = {**values, "model": (values["model"] or "").strip()}
    return RunConfig(**{**settings_of(RunConfig, given), "slots": slots, "workload": workload})


def text_problems(values: Mapping[str, Any], checks: Mapping[str, Callable[[], object]]) -> dict[str, str]:
    """The error of each check that raises ValueError, by field name. A blank model is an error too."""
    problems = {}
    every: dict[str, Callable[[], object]] = {
        **checks,
        "model": lambda: SETTINGS["model"].check(values["model"] or ""),
    }
    for name, check in every.items():
        try:
            check()
        except ValueError as error:
            problems[name] = str(error)
    return problems


def problem_of(error: ValueError, fields: Collection[str], whole: str) -> dict[str, str]:
    """An error by the field that it is about, or by `whole` if it is about no single field."""
    name = error.field if isinstance(error, FieldError) else whole
    return {name if name in fields else whole: str(error)}


def named(plan: Plan) -> Plan:
    """The plan with a new experiment id and the current time."""
    return replace(plan, experiment_id=new_run_id(), created_at=utc_now())


def shared_values(config: RunConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The shared fields' values for an experiment with this configuration and these settings of its plan."""
    own = {name: getattr(config, name) for name in SHARED if name != "seed"}
    texts = {name: str(value) for name, value in own.items() if isinstance(FIELDS[name], Choice)}
    of_workload = {"budget": config.workload.budget, "seed": config.workload.seed}
    return own | texts | of_workload | {"repeats": settings.get("repeats") or 1}


# The form on the page: open or closed, filled, its problems, its plan, and its start.


def is_form_open(is_asked: bool) -> bool:
    """Whether the form is open next to an experiment: after a link with settings, until an experiment starts."""
    if is_asked and EXPERIMENT not in st.query_params:
        note(FORM_OPEN, True)
    return bool(noted(FORM_OPEN))


def fill_form(values: Mapping[str, Any], fields: Mapping[str, Field]) -> None:
    """Put values, or defaults, into the form's widgets and open it. For a button's `on_click`."""
    filled = {name: values.get(name, field.default) for name, field in fields.items()}
    put({name: float(v) if _is_real(fields[name]) and v is not None else v for name, v in filled.items()})
    note(FORM_OPEN, True)


def _is_real(field: Field) -> bool:
    return isinstance(field, Number) and not field.whole


def draw_problems(notes: Mapping[str, Any], settings: PlanOrProblems) -> None:
    """The problem of each field, in the place kept for it."""
    for name, place in notes.items():
        if name in settings.problems:
            place.caption(f":red[:material/error: {plain(settings.problems[name])}]")


def draw_plan(
    settings: PlanOrProblems, describe: Callable[[Plan], Sequence[str]], label: str, form: PredictionForm, *, help: str
) -> None:
    """The plan or its problems, the prediction form, and the start button, disabled without a plan.

    `describe` returns a plan's number of runs, its configuration, and notes, which may be empty.
    """
    plan = settings.plan
    if plan is None:
        st.markdown("**Fix these settings first:**")
        st.markdown("\n".join(f"- {plain(problem)}" for problem in settings.problems.values()))
    else:
        headline, what, *notes = describe(plan)
        st.markdown(f"**{plain(headline)}**  \n{plain(what)}")
        for line in filter(None, notes):
            st.caption(plain(line))
    form.draw(of_plan(plan) if plan is not None else [])
    pressed = st.button(label, icon=":material/play_arrow:", type="primary", disabled=plan is None, help=help)
    draw_queue()
    if pressed and plan is not None:
        _start(named(plan), form)


def _start(plan: Plan, form: PredictionForm) -> None:
    """Save the prediction, then queue the experiment. An incomplete prediction is an error and queues nothing."""
    choices = of_plan(plan)
    if problem := form.problem(choices):
        st.error(plain(problem), icon=":material/error:")
        return
    if submit(plan, form, form.collect(choices)):
        note(FORM_OPEN, False)
        follow_experiment(plan.experiment_id)
        st.rerun()


def submit(plan: Plan, form: PredictionForm, drafts: Sequence[Draft]) -> bool:
    """Save the prediction and queue the experiment. False, with an error on the page, if it cannot be saved."""
    try:
        lab().queue.submit_experiment(plan, visitor(), before=lambda job: add_predictions(subject_of_job(job), drafts))
    except OSError as error:
        st.error(f"The experiment cannot be saved: {plain(str(error))}.", icon=":material/error:")
        return False
    form.forget(drafts)
    return True
