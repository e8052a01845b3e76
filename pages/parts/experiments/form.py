"""The parts of a form that every kind of experiment has: engine, model and device, and how each run is carried out.

A page names its fields with `experiment_fields`, draws its own beside these, and reads all of them by name. The address
has every field by its name, so that a link brings back the whole form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.errors import FieldError
from engine.core.format import plural
from engine.core.option import options_of, settings_of
from engine.core.presets import PRESETS
from engine.core.run_id import new_run_id, utc_now
from engine.core.units import dtype_of
from engine.experiments.experiment import REPEATS, Plan
from engine.hardware.model_catalog import list_models
from engine.predictions.questions import of_plan
from pages.parts.experiments.choice import EXPERIMENT, follow_experiment
from pages.parts.experiments.progress import draw_queue
from pages.parts.predictions.form import Draft, PredictionForm, add_predictions
from pages.parts.predictions.section import subject_of_job
from pages.parts.shared.devices import available_devices, available_executions, device_of, execution_text
from pages.parts.shared.fields import CAP, FIELDS, LEAST_POOL_GIB, Choice, Field, Number, field_of
from pages.parts.shared.lab import lab, visitor
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import note, noted, put
from pages.parts.shared.widgets import choice, model, number

MAX_REPEATS = 100
EACH_ITS_OWN = ("engine", "slots", "form", "return", "gpu_memory_utilization")  # what not every such form has
SHARED = ("seed", *(each.name for each in options_of(RunConfig).values() if each.name not in EACH_ITS_OWN))


def experiment_fields(**own: Field) -> dict[str, Field]:
    """The fields of a page's form: those that every experiment has, then the page's own."""
    return {name: FIELDS[name] for name in SHARED} | {"repeats": field_of(REPEATS, high=MAX_REPEATS)} | own


def draw_engine(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """One engine, and in a line what it shows."""
    values["engine"] = choice("Engine", "engine", fields=fields)
    st.caption(f"What it shows: {PRESETS[values['engine']].shows}.")


def draw_model(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """What runs, on what, in which number format."""
    models = {row["name"]: row for row in list_models()}
    values["model"] = model(
        list(models),
        str(fields["model"].default),
        "A name of the list, or type a folder with safetensors or GGUF, or a hub id as owner/model.",
    )
    row = models.get(str(values["model"]))
    if row is not None and row["why"] is not None:
        st.caption(f":orange[{plain(row['why'])}.]")
    values["device"] = choice("Device", "device", available_devices(), fields=fields)
    values["dtype"] = choice("Number format", "dtype", fields=fields)
    used = device_of(values["device"])
    st.caption(f"This runs in {dtype_of(values['dtype'], used)} on {used}.")


def draw_how(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """Caps on memory, repeats, and how passes are carried out, folded away."""
    on_cpu = device_of(values["device"]) == "cpu"
    with st.expander("Advanced: caps on memory, execution, timing, seed"):
        left, right = st.columns(2, gap="medium")
        with left:
            values["pool_gib"] = number(
                "KV pool, at most GiB", "pool_gib", step=0.01, least=LEAST_POOL_GIB, fields=fields
            )
            values["capacity_gib"] = number("All memory, at most GiB", "capacity_gib", step=0.5, fields=fields)
            st.caption(CAP.replace("ends the run", "ends a point"))
            values["block_size"] = choice("Token positions a block (block-size)", "block_size", fields=fields)
            values["max_num_batched_tokens"] = number(
                "Tokens a step, at most (max-num-batched-tokens)", "max_num_batched_tokens", fields=fields
            )
            st.caption("A block's size is read by paged and chunked alone, the tokens a step by chunked alone.")
        with right:
            values["execution"] = choice(
                "Execution", "execution", available_executions(values["device"]), fields=fields
            )
            st.caption(execution_text(values["device"]))
            values["timing"] = choice("Timing", "timing", disabled=on_cpu, fields=fields)
            if on_cpu:
                st.caption("Off: on a CPU a pass is over when its call returns, so both timings are the same.")
            values["warmups"] = number("Warm-up rounds before each run's clock starts", "warmups", fields=fields)
            values["seed"] = number("Seed", "seed", fields=fields)


def draw_repeats(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """How often each point is measured."""
    values["repeats"] = number("Repeats", "repeats", fields=fields)
    if values["repeats"] > 1:
        repeats = plural(values["repeats"], "time")
        st.caption(f"Every point {repeats}, interleaved: all once before any again. Medians and spreads are shown.")
    else:
        st.caption("One run a point says nothing about spread; three or five show it.")


def base_config(values: Mapping[str, Any], *, slots: int, workload: WorkloadConfig) -> RunConfig:
    """The run that all points are variations of. ValueError as RunConfig."""
    given = {**values, "model": (values["model"] or "").strip()}
    return RunConfig(**{**settings_of(RunConfig, given), "slots": slots, "workload": workload})


def form_link(values: Mapping[str, Any], fields: Mapping[str, Field]) -> dict[str, str]:
    """The query parameters that bring the form back; values at their default are left out.

    For links from other pages: on the page itself widgets keep what they have, whatever a link says (`fill_form`).
    """
    return {
        name: str(values[name])
        for name, field in fields.items()
        if name in values and values[name] is not None and str(values[name]) != str(field.default)
    }


def shared_values(config: RunConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What every form of an experiment has of one point's config and of the plan's settings."""
    own = {name: getattr(config, name) for name in SHARED if name != "seed"}
    texts = {name: str(value) for name, value in own.items() if isinstance(FIELDS[name], Choice)}
    of_workload = {"budget": config.workload.budget, "seed": config.workload.seed}
    return own | texts | of_workload | {"repeats": settings.get("repeats") or 1}


# What a form of an experiment comes to: a plan, or what is wrong, a line a field. Pure: no widgets, no store.

NO_ID = "planned"  # of a plan that has not been started


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOrProblems:
    """A plan that can be run, or the problems, a line a field, that stand in its way."""

    plan: Plan | None
    problems: Mapping[str, str]


def text_problems(values: Mapping[str, Any], checks: Mapping[str, Callable[[], object]]) -> dict[str, str]:
    """The line of each check that raises ValueError, by the name of its field; a model has to be named too."""
    problems = {}
    for name, check in checks.items():
        try:
            check()
        except ValueError as error:
            problems[name] = str(error)
    if not (values["model"] or "").strip():
        problems["model"] = "name a model, or a folder or hub id"
    return problems


def problem_of(error: ValueError, fields: Collection[str], whole: str) -> dict[str, str]:
    """An error's line by the field that it is about; `whole` stands for all of them."""
    name = error.field if isinstance(error, FieldError) else whole
    return {name if name in fields else whole: str(error)}


def named(plan: Plan) -> Plan:
    """The plan as an experiment of its own: a new id, made now."""
    created_at = utc_now()
    return replace(plan, experiment_id=new_run_id(), created_at=created_at)


# The button that starts an experiment, under what somebody expects of it: written down first, then queued.

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
        lab().queue.submit_experiment(plan, visitor(), before=lambda job: add_predictions(subject_of_job(job), drafts))
    except OSError as error:
        st.error(f"The experiment cannot be kept on disk: {plain(str(error))}.", icon=":material/error:")
        return False
    form.forget(drafts)
    return True
