"""The Sweep page's form: what is measured, how many runs that is, how long it may take, and the button."""

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
from pages.parts.experiments.description import cap_text, how_text
from pages.parts.experiments.estimate import estimate_text
from pages.parts.experiments.form import (
    NO_ID,
    PlanOrProblems,
    base_config,
    draw_engine,
    draw_how,
    draw_model,
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
from pages.parts.shared.widgets import group, text

# From the Sweep page's form to a plan, or to what is wrong, a line a field; and back. Pure: no widgets, no store.

OWN = {
    "engine": {"default": DEFAULTS["engine"]},
    "batch_size": {"default": "1,2,4,8,16"},
    "budget": {"default": DEFAULTS["budget"]},
    "mix": {"default": ""},
}
OPTIONS = (SETTINGS["engine"], PROMPT_GRID, BATCH_SIZES, SETTINGS["budget"], RAGGED_MIX)
FIELDS = experiment_fields(**fields_of(OPTIONS, OWN))


def read_sweep(values: Mapping[str, Any]) -> PlanOrProblems:
    """`values` has an entry for each of FIELDS. Without prompts a mix alone is swept."""
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
    """The form's values for a sweep's settings."""
    return shared_values(config, settings) | {
        "engine": config.engine,
        "prompts": settings.get("prompts") or "",
        "batch_size": ",".join(map(str, settings.get("batch_sizes") or ())),
        "mix": settings.get("mix") or "",
    }


FORM = PredictionForm("sweep")
HELP = "One run after another. Points that fail or do not fit in memory are recorded, and the sweep goes on."
MIX_WORDS = (
    "Empty: none. Each batch size then gets a batch of mixed lengths, and its control: as many rows, all as long as "
    "its longest prompt and its longest budget."
)


def draw_form() -> None:
    """Everything about a new sweep, from the plan's summary down to the last setting."""
    plan = st.container(border=True)
    values: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    left, right = st.columns(2, gap="medium")
    with left, group("What is swept", "Each prompt length at each batch size: one closed batch of equal rows a point."):
        draw_grid(values, notes)
    with right, group("By what", "The engine and the machine."):
        draw_engine(values, FIELDS)
        draw_model(values, FIELDS)
        draw_repeats(values, FIELDS)
    draw_how(values, FIELDS)
    settings = read_sweep(values)
    draw_problems(notes, settings)
    with plan:
        draw_plan(settings, _said, "Run the sweep", FORM, help=HELP)


def draw_grid(values: dict[str, Any], notes: dict[str, Any]) -> None:
    """Prompt lengths, batch sizes, budget, and the mix of the ragged batch."""
    values["prompts"] = text("Prompt lengths", "prompts", "p16,p64,p256, each a line in the figures", fields=FIELDS)
    notes["prompts"] = st.empty()
    values["batch_size"] = text("Batch sizes B", "batch_size", "1,2,4,8,16,32", fields=FIELDS)
    notes["batch_size"] = st.empty()
    values["budget"] = text("Budget: new tokens a request", "budget", "64; 64-256; eos:200", fields=FIELDS)
    notes["budget"] = st.empty()
    values["mix"] = text("Mix of a ragged batch", "mix", "p16,p64,p256 or p16:3,p4096:1", fields=FIELDS)
    notes["mix"] = st.empty()
    notes["mix"].caption(MIX_WORDS)


def _said(plan: Plan) -> tuple[str, ...]:
    return plan_text(plan), machine_text(plan), estimate_text(plan)


def plan_text(plan: Plan) -> str:
    """`16 runs: 2 prompt lengths x 4 batch sizes, 2 ragged batches with their controls; each 2 times.`"""
    once = [point for point in plan.points if point.repeat == 0]
    roles = Counter(str(point.values["role"]) for point in once)
    grid = [point for point in once if point.values["role"] == "point"]
    parts = []
    if grid:
        lengths = len({point.values["prompts"] for point in grid})
        sizes = len({point.values["batch_size"] for point in grid})
        parts.append(f"{plural(lengths, 'prompt length')} x {plural(sizes, 'batch size')}")
    if roles["ragged"]:
        ragged = plural(roles["ragged"], "ragged batch", "ragged batches")
        parts.append(f"{ragged} with {'its control' if roles['ragged'] == 1 else 'their controls'}")
    repeats = 1 + max(point.repeat for point in plan.points)
    each = f", each {repeats:,} times, interleaved" if repeats > 1 else ""
    return f"{plural(len(plan.points), 'run')}: {' and '.join(parts)}{each}."


def machine_text(plan: Plan) -> str:
    """`static, smollm2-135m in fp32 on cpu, 32 new tokens a request`; caps where there are any."""
    config = plan.points[0].config
    budget = f"{config.workload.budget} new tokens a request"
    return ", ".join([config.engine, model_on_device(config), *how_text(config), budget, *cap_text(config)]) + "."
