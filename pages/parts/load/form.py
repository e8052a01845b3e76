"""The form of a new load test: its fields, the plan that they make, and the start button."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import streamlit as st

from engine.core.config import SETTINGS, RunConfig, WorkloadConfig
from engine.core.format import change, duration, exact, plural
from engine.core.option import SWITCHED, options_of
from engine.core.presets import parse_engines
from engine.experiments.experiment import Plan
from engine.load.goodput import Limits
from engine.load.load_plan import (
    CONFIRM,
    DEFAULTS,
    ENGINES_UNDER_LOAD,
    LAW,
    RATES,
    arrival_spec,
    parse_rates,
    plan_load,
)
from engine.load.queue_growth import ENOUGH_BATCHES
from engine.workload.arrivals import offered_rate, parse_arrival, rate_deviation
from engine.workload.budgets import parse_budget
from engine.workload.prompts import parse_prompts
from pages.parts.experiments.description import cap_notes, execution_notes
from pages.parts.experiments.form import (
    NO_ID,
    PlanOrProblems,
    base_config,
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
from pages.parts.shared.fields import Field, fields_of, switch_text
from pages.parts.shared.markdown import listed
from pages.parts.shared.run_settings import draw_advanced, draw_model
from pages.parts.shared.widgets import choice, group, number, text
from pages.parts.shared.workloads import budget_text, workload_of

MAX_REQUESTS = 10_000
OWN: dict[str, dict[str, Any]] = {
    "requests": {"low": 1, "high": MAX_REQUESTS, "default": DEFAULTS["requests"], "label": "Requests at every rate"},
    "confirm": {"help": "Runs 0.9 and 1.1 times the measured capacity."},
    "ttft_limit_s": {"high": 3600, "unset": "no limit"},
    "tpot_limit_s": {"high": 3600, "unset": "no limit"},
}
OPTIONS = (
    *(ENGINES_UNDER_LOAD, RATES, LAW, CONFIRM),
    *(SETTINGS[name] for name in ("requests", "prompts", "budget", "slots", "rescale_arrivals")),
    *options_of(Limits).values(),
)
FIELDS: dict[str, Field] = experiment_fields(**fields_of(OPTIONS, OWN))
FILE = "prompts 'file': use the command line for a prompt file: engine arrivals --prompt-file"
FORM = PredictionForm("load")
HELP = "Runs all points one after another, engines interleaved. Points that fail are recorded, and the test continues."
LEAST_LIMIT_S = 0.001


def read_load(values: Mapping[str, Any]) -> PlanOrProblems:
    """The plan for `values`, one for each of FIELDS."""
    problems = _text_problems(values)
    if problems:
        return PlanOrProblems(plan=None, problems=problems)
    engines = parse_engines(values["engines"])
    try:
        workload = WorkloadConfig(
            prompts=values["prompts"],
            requests=values["requests"],
            budget=values["budget"],
            seed=values["seed"],
            rescale_arrivals=SWITCHED[values["rescale_arrivals"]],
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
    """The form's values for a load test with this configuration and these settings."""
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
        "rescale_arrivals": switch_text(config.workload.rescale_arrivals),
    }


def draw_form() -> None:
    """The plan with its start button, and all settings of a new load test."""
    plan = st.container(border=True)
    values: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    left, right = st.columns(2, gap="medium")
    with left:
        _draw_load(values, notes)
        _draw_limits(values)
    with right:
        _draw_requests(values, notes)
        with group("Model", "The same for all runs of the load test."):
            draw_model(values, notes, FIELDS)
            draw_repeats(values, FIELDS)
    draw_advanced(values, FIELDS)
    settings = read_load(values)
    draw_problems(notes, settings)
    with plan:
        draw_plan(settings, _describe, "Run the load test", FORM, help=HELP)


def _draw_load(values: dict[str, Any], notes: dict[str, Any]) -> None:
    with group("Load", "Every engine gets the same requests at the same times."):
        values["engines"] = text("engines", fields=FIELDS)
        notes["engines"] = st.empty()
        notes["engines"].caption("The first engine is the base of ratios.")
        values["rates"] = text("rates", fields=FIELDS)
        notes["rates"] = st.empty()
        values["law"] = text("law", fields=FIELDS)
        notes["law"] = st.empty()
        notes["law"].caption("poisson: random and independent; constant: evenly spaced; gamma: in bursts.")
        values["rescale_arrivals"] = choice("rescale_arrivals", fields=FIELDS)
        values["slots"] = number("slots", fields=FIELDS)
        values["confirm"] = choice("confirm", fields=FIELDS)


def _draw_requests(values: dict[str, Any], notes: dict[str, Any]) -> None:
    with group("Requests", "The same at every rate."):
        values["requests"] = number("requests", fields=FIELDS)
        notes["requests"] = st.empty()
        values["prompts"] = text("prompts", fields=FIELDS)
        notes["prompts"] = st.empty()
        values["budget"] = text("budget", fields=FIELDS)
        notes["budget"] = st.empty()


def _draw_limits(values: dict[str, Any]) -> None:
    with group("Latency limits", "Goodput counts the requests within these limits."):
        first, following = st.columns(2)
        with first:
            values["ttft_limit_s"] = number("ttft_limit_s", step=0.1, least=LEAST_LIMIT_S, fields=FIELDS)
        with following:
            values["tpot_limit_s"] = number("tpot_limit_s", step=0.01, least=LEAST_LIMIT_S, fields=FIELDS)
        st.caption("You can change these later; they affect only the analysis, not the runs.")


def _describe(plan: Plan) -> tuple[str, ...]:
    return plan_text(plan), machine_text(plan), time_text(plan), drawn_text(plan), few_text(plan)


def plan_text(plan: Plan) -> str:
    """`8 runs: static and continuous at 3 rates and all at once, then 4 more around the measured capacities.`"""
    settings = plan.settings
    rates, engines = len(settings["rates_per_s"]), list(settings["engines"])
    text = f"{plural(len(plan.points), 'run')}: {listed(engines)} at {plural(rates, 'rate')} and all at once"
    if settings["confirm"]:
        text += f", then {2 * len(engines) * settings['repeats']:,} more around the measured capacities"
    return text + (f"; each {settings['repeats']:,} times, interleaved." if settings["repeats"] > 1 else ".")


def machine_text(plan: Plan) -> str:
    """`48 requests per run, chat questions. …: smollm2-135m in fp32 on cpu, 4 slots.`"""
    config = plan.points[0].config
    workload = config.workload
    what = "chat questions" if workload.prompts == "chat" else f"prompts of {workload.prompts}"
    how = [*execution_notes(config), plural(config.slots, "slot"), *cap_notes(config)]
    return (
        f"{plural(workload.requests, 'request')} per run, {what}. {budget_text(workload.budget)} "
        f"{model_on_device(config)}, {', '.join(how)}."
    )


def time_text(plan: Plan) -> str:
    """The time over which requests arrive: the least duration of the runs."""
    count = plan.points[0].config.workload.requests
    lowest = min(plan.settings["rates_per_s"])
    arrivals = [p.config.workload.arrival for p in plan.points if p.values["role"] == "rate"]
    rates = [parse_arrival(arrival).rate or 1.0 for arrival in arrivals]
    total_s = sum(count / rate for rate in rates)
    return (
        f"Requests arrive over about {duration(count / lowest)} at the lowest rate, and over {duration(total_s)} in "
        "all runs. A run ends when its last request is finished."
    )


def drawn_text(plan: Plan) -> str:
    """How far the drawn rates are from the requested ones, at every rate alike: one seed draws one trace."""
    workload = workload_of(next(p.config.workload for p in plan.points if p.values["role"] == "rate"))
    drawn = offered_rate(np.array([spec.arrival_s for spec in workload.requests]))
    deviation = rate_deviation(parse_arrival(workload.config.arrival).rate, drawn)
    if deviation is None:
        return ""
    return f"Drawn and requested rates differ by {change(deviation)} at this seed."


def few_text(plan: Plan) -> str:
    """A warning if there are too few requests for a steady state; else empty."""
    config = plan.points[0].config
    batches = config.workload.requests / config.slots
    if batches >= ENOUGH_BATCHES:
        return ""
    return (
        f"{plural(config.workload.requests, 'request')} fill {plural(config.slots, 'slot')} only "
        f"{exact(batches, digits=2)} times, too few to check whether the queue grows; use "
        f"{ENOUGH_BATCHES * config.slots:,} or more."
    )
