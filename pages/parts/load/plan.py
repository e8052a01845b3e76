"""From the Load page's form to a plan, or to what is wrong, a line a field; and back. Pure: no widgets, no store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from engine.core.budgets import parse_budget
from engine.core.config import SETTINGS, RunConfig, WorkloadConfig
from engine.core.experiment import Plan
from engine.core.goodput import Limits
from engine.core.load_plan import (
    CONFIRM,
    DEFAULTS,
    ENGINES_UNDER_LOAD,
    LAW,
    RATES,
    arrival_spec,
    parse_engines,
    parse_rates,
    plan_load,
)
from engine.core.option import options_of
from engine.core.prompts import parse_prompts
from pages.parts.bench_fields import Field, fields_of
from pages.parts.experiments.form import base_config, experiment_fields, shared_values
from pages.parts.experiments.plan import NO_ID, PlanOrProblems, problem_of, text_problems

MAX_REQUESTS = 10_000
OWN: dict[str, dict[str, Any]] = {
    "requests": {"low": 1, "high": MAX_REQUESTS, "default": DEFAULTS["requests"]},
    "ttft_limit_s": {"high": 3600},
    "tpot_limit_s": {"high": 3600},
}
OPTIONS = (
    *(ENGINES_UNDER_LOAD, RATES, LAW, CONFIRM),
    *(SETTINGS[name] for name in ("requests", "prompts", "budget", "slots")),
    *options_of(Limits).values(),
)
FIELDS: dict[str, Field] = experiment_fields(**fields_of(OPTIONS, OWN))
FILE = "prompts 'file': a load test of a file's prompts is made on the command line: engine arrivals --prompt-file"


def read_load(values: Mapping[str, Any]) -> PlanOrProblems:
    """`values` has an entry for each of FIELDS."""
    problems = _text_problems(values)
    if problems:
        return PlanOrProblems(plan=None, problems=problems)
    engines = parse_engines(values["engines"])
    try:
        workload = WorkloadConfig(
            prompts=values["prompts"], requests=values["requests"], budget=values["budget"], seed=values["seed"]
        )
        base = base_config({**values, "engine": engines[0]}, slots=values["slots"], workload=workload)
        limits = Limits(ttft_s=values["ttft_limit_s"], tpot_s=values["tpot_limit_s"])
        plan = _plan(base, engines, values["rates"], values["law"], values["repeats"], limits, values["confirm"])
    except ValueError as error:
        return PlanOrProblems(plan=None, problems=problem_of(error, FIELDS, "load"))
    return PlanOrProblems(plan=plan, problems={})


@lru_cache(maxsize=32)
def _plan(
    base: RunConfig, engines: tuple[str, ...], rates: str, law: str, repeats: int, limits: Limits, confirm: str
) -> Plan:
    return plan_load(
        base,
        experiment_id=NO_ID,
        created_at="",
        engines=engines,
        rates_per_s=parse_rates(rates),
        law=law,
        repeats=repeats,
        limits=limits,
        confirm=confirm == "yes",
    )


def _text_problems(values: Mapping[str, Any]) -> dict[str, str]:
    checks: dict[str, Callable[[], object]] = {
        "engines": lambda: parse_engines(values["engines"]),
        "rates": lambda: parse_rates(values["rates"]),
        "law": lambda: arrival_spec(values["law"], 1.0),
        "prompts": lambda: parse_prompts(values["prompts"]),
        "budget": lambda: parse_budget(values["budget"]),
    }
    problems = text_problems(values, checks)
    if values["prompts"] == "file":
        problems["prompts"] = FILE
    return problems


def load_values(config: RunConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The form's values for a load test's settings."""
    return shared_values(config, settings) | {
        "engines": ",".join(settings.get("engines") or ()),
        "rates": ",".join(f"{float(rate):g}" for rate in settings.get("rates_per_s") or ()),
        "law": settings.get("law") or "poisson",
        "confirm": "yes" if settings.get("confirm") else "no",
        "ttft_limit_s": settings.get("ttft_limit_s"),
        "tpot_limit_s": settings.get("tpot_limit_s"),
        "requests": config.workload.requests,
        "prompts": config.workload.prompts,
        "slots": config.slots,
    }
