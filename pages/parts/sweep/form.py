"""The form of a new sweep: its fields, the plan that they make, and the start button."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import streamlit as st

from engine.core.config import SETTINGS, RunConfig, WorkloadConfig
from engine.core.format import plural
from engine.experiments.experiment import Plan
from engine.experiments.sweep_plan import (
    BATCH_SIZES,
    DEFAULTS,
    PROMPT_GRID,
    RAGGED_MIX,
    parse_batch_sizes,
    parse_prompt_grid,
    plan_sweep,
)
from engine.workload.budgets import parse_budget
from pages.parts.experiments.description import cap_notes, execution_notes
from pages.parts.experiments.estimate import estimate_text
from pages.parts.experiments.form import (
    NO_ID,
    PlanOrProblems,
    base_config,
    draw_engine,
    draw_plan,
    draw_problems,
    draw_repeats,
    experiment_fields,
    problem_of,
    shared_values,
    text_problems,
)
from pages.parts.predictions.form import PredictionForm
from pages.parts.shared.devices import model_on_device
from pages.parts.shared.fields import fields_of
from pages.parts.shared.run_settings import draw_advanced, draw_model
from pages.parts.shared.widgets import group, text

OWN: dict[str, dict[str, Any]] = {
    "engine": {"default": DEFAULTS["engine"]},
    "batch_size": {"default": "1,2,4,8,16"},
    "budget": {"default": DEFAULTS["budget"]},
    "mix": {"default": ""},
}
OPTIONS = (SETTINGS["engine"], PROMPT_GRID, BATCH_SIZES, SETTINGS["budget"], RAGGED_MIX)
FIELDS = experiment_fields(**fields_of(OPTIONS, OWN))
FORM = PredictionForm("sweep")
HELP = "Runs all points one after another. Points that fail are recorded, and the sweep continues."
RAGGED = (
    "Empty: no ragged batches. Otherwise each batch size also gets a batch of mixed lengths and its control: a uniform "
    "batch with the longest prompt and the longest budget."
)


def read_sweep(values: Mapping[str, Any]) -> PlanOrProblems:
    """The plan for `values`, one for each of FIELDS. Without prompts, only ragged batches of the mix run."""
    problems = _text_problems(values)
    if problems:
        return PlanOrProblems(plan=None, problems=problems)
    try:
        workload = WorkloadConfig(prompts="p16", budget=values["budget"], seed=values["seed"])
        base = base_config(values, slots=1, workload=workload)
        plan = _plan(base, values["prompts"] or None, values["batch_size"], values["mix"] or None, values["repeats"])
    except ValueError as error:
        return PlanOrProblems(plan=None, problems=problem_of(error, FIELDS, "sweep"))
    return PlanOrProblems(plan=plan, problems={})


@lru_cache(maxsize=32)
def _plan(base: RunConfig, prompts: str | None, batch_sizes: str, mix: str | None, repeats: int) -> Plan:
    return plan_sweep(
        base,
        experiment_id=NO_ID,
        created_at="",
        prompts=prompts,
        batch_sizes=batch_sizes,
        mix=mix,
        repeats=repeats,
    )


def _text_problems(values: Mapping[str, Any]) -> dict[str, str]:
    checks = {
        "budget": lambda: parse_budget(values["budget"]),
        "batch_size": lambda: parse_batch_sizes(values["batch_size"]),
        "prompts": lambda: parse_prompt_grid(values["prompts"]) if values["prompts"] else None,
    }
    return text_problems(values, checks)


def sweep_values(config: RunConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The form's values for a sweep with this configuration and these settings."""
    return shared_values(config, settings) | {
        "engine": config.engine,
        "prompts": settings.get("prompts") or "",
        "batch_size": ",".join(map(str, settings.get("batch_sizes") or ())),
        "mix": settings.get("mix") or "",
    }


def draw_form() -> None:
    """The plan with its start button, and all settings of a new sweep."""
    plan = st.container(border=True)
    values: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    left, right = st.columns(2, gap="medium")
    with left, group("Grid", "One batch of equal requests for each prompt length and batch size."):
        _draw_grid(values, notes)
    with right, group("Engine and model", "The same for all runs of the sweep."):
        draw_engine(values, FIELDS)
        draw_model(values, notes, FIELDS)
        draw_repeats(values, FIELDS)
    draw_advanced(values, FIELDS)
    settings = read_sweep(values)
    draw_problems(notes, settings)
    with plan:
        draw_plan(settings, _describe, "Run the sweep", FORM, help=HELP)


def _draw_grid(values: dict[str, Any], notes: dict[str, Any]) -> None:
    """Prompt lengths, batch sizes, budget, and the mix of the ragged batch, each with a place for its problem."""
    for name in ("prompts", "batch_size", "budget", "mix"):
        values[name] = text(name, fields=FIELDS)
        notes[name] = st.empty()
    notes["mix"].caption(RAGGED)


def _describe(plan: Plan) -> tuple[str, ...]:
    return plan_text(plan), machine_text(plan), estimate_text(plan)


def plan_text(plan: Plan) -> str:
    """`24 runs: 2 prompt lengths x 4 batch sizes and 2 ragged batches with their controls, each 2 times …`."""
    once = [point for point in plan.points if point.repeat == 0]
    roles = Counter(str(point.values["role"]) for point in once)
    grid = [point for point in once if point.values["role"] == "point"]
    contents = []
    if grid:
        lengths = len({point.values["prompts"] for point in grid})
        sizes = len({point.values["batch_size"] for point in grid})
        contents.append(f"{plural(lengths, 'prompt length')} x {plural(sizes, 'batch size')}")
    if roles["ragged"]:
        ragged = plural(roles["ragged"], "ragged batch", "ragged batches")
        contents.append(f"{ragged} with {'its control' if roles['ragged'] == 1 else 'their controls'}")
    repeats = 1 + max(point.repeat for point in plan.points)
    each = f", each {repeats:,} times, interleaved" if repeats > 1 else ""
    return f"{plural(len(plan.points), 'run')}: {' and '.join(contents)}{each}."


def machine_text(plan: Plan) -> str:
    """`static, smollm2-135m in fp32 on cpu, 32 output tokens per request`, with the memory limits that are set."""
    config = plan.points[0].config
    budget = f"{config.workload.budget} output tokens per request"
    return (
        ", ".join([config.engine, model_on_device(config), *execution_notes(config), budget, *cap_notes(config)]) + "."
    )
