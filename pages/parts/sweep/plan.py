"""From the Sweep page's form to a plan, or to what is wrong, a line a field; and back. Pure: no widgets, no store."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from engine.core.budgets import parse_budget
from engine.core.config import SETTINGS, RunConfig, WorkloadConfig
from engine.core.experiment import Plan
from engine.core.sweep_plan import (
    BATCH_SIZES,
    DEFAULTS,
    PROMPT_GRID,
    RAGGED_MIX,
    parse_batch_sizes,
    parse_prompt_grid,
    plan_sweep,
)
from pages.parts.bench_fields import fields_of
from pages.parts.experiments.form import base_config, experiment_fields, shared_values
from pages.parts.experiments.plan import NO_ID, PlanOrProblems, problem_of, text_problems

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
