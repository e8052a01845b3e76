"""The Load page's form: which engines at which rates, on which requests; how many runs that is, and the button."""

from __future__ import annotations

from typing import Any

import streamlit as st

from engine.core.arrivals import parse_arrival
from engine.core.config import ENGINES
from engine.core.experiment import Plan
from engine.core.format import duration, plural
from engine.core.load_plan import LAWS
from engine.core.queue_growth import ENOUGH_BATCHES
from pages.parts.bench_widgets import choice, group, number, text
from pages.parts.devices import model_on_device
from pages.parts.experiments.description import cap_words, how_words
from pages.parts.experiments.form import draw_how, draw_model, draw_repeats
from pages.parts.experiments.start import draw_plan, draw_problems
from pages.parts.load.plan import FIELDS, read_load
from pages.parts.markdown import listed
from pages.parts.prediction_form import PredictionForm
from pages.parts.shared.workloads import budget_text

FORM = PredictionForm("load")
HELP = "One run after another, engines taking turns at every rate. A point that fails is recorded and left."
LEAST_LIMIT_S = 0.001


def draw_form() -> None:
    """Everything about a new load test, from the plan's summary down to the last setting."""
    plan = st.container(border=True)
    values: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    left, right = st.columns(2, gap="medium")
    with left:
        _draw_load(values, notes)
        _draw_limits(values)
    with right:
        _draw_requests(values, notes)
        with group("On what", "The model and the machine."):
            draw_model(values, FIELDS)
            draw_repeats(values, FIELDS)
    draw_how(values, FIELDS)
    settings = read_load(values)
    draw_problems(notes, settings)
    with plan:
        draw_plan(settings, _said, "Run the load test", FORM, help=HELP)


def _draw_load(values: dict[str, Any], notes: dict[str, Any]) -> None:
    with group("Load", "Every engine gets the same requests at the same moments, at every rate."):
        values["engines"] = text("Engines", "engines", f"some of {', '.join(ENGINES)}", fields=FIELDS)
        notes["engines"] = st.empty()
        notes["engines"].caption("The first is the one that the others are compared with.")
        values["rates"] = text("Rates, requests a second", "rates", "0.5,1,2", fields=FIELDS)
        notes["rates"] = st.empty()
        values["law"] = text("How requests come", "law", LAWS, fields=FIELDS)
        notes["law"] = st.empty()
        notes["law"].caption("poisson: at random, as many independent users would; constant: evenly; gamma: in bursts.")
        values["slots"] = number("Slots: rows that run at once (max-num-seqs)", "slots", fields=FIELDS)
        values["confirm"] = choice("Confirm each capacity with two runs around it", "confirm", fields=FIELDS)


def _draw_requests(values: dict[str, Any], notes: dict[str, Any]) -> None:
    with group("Requests", "The same at every rate; the seed draws them."):
        values["requests"] = number("Requests at every rate", "requests", fields=FIELDS)
        notes["requests"] = st.empty()
        values["prompts"] = text("Prompts", "prompts", "chat; p16,p64; p16:3,p4096:1", fields=FIELDS)
        notes["prompts"] = st.empty()
        values["budget"] = text("Budget: new tokens a request", "budget", "64; 64-256; 8x32+8x256; eos", fields=FIELDS)
        notes["budget"] = st.empty()


def _draw_limits(values: dict[str, Any]) -> None:
    with group("Limits", "What a reader accepts: goodput counts the requests that keep within it."):
        first, following = st.columns(2)
        with first:
            values["ttft_limit_s"] = number(
                "First token within, s", "ttft_limit_s", step=0.1, least=LEAST_LIMIT_S, fields=FIELDS
            )
        with following:
            values["tpot_limit_s"] = number(
                "Each next within, s", "tpot_limit_s", step=0.01, least=LEAST_LIMIT_S, fields=FIELDS
            )
        st.caption("Both can be set later too: they change no run, only what is counted.")


def _said(plan: Plan) -> tuple[str, ...]:
    return plan_words(plan), machine_words(plan), time_words(plan), few_words(plan)


def plan_words(plan: Plan) -> str:
    """`8 runs: static and continuous at 3 rates and all at once, then 4 around their capacities.`"""
    settings = plan.settings
    rates, engines = len(settings["rates_per_s"]), list(settings["engines"])
    said = f"{plural(len(plan.points), 'run')}: {listed(engines)} at {plural(rates, 'rate')} and all at once"
    if settings["confirm"]:
        said += f", then {2 * len(engines) * settings['repeats']:,} more around the capacities that this shows"
    return said + (f"; each {settings['repeats']:,} times, interleaved." if settings["repeats"] > 1 else ".")


def machine_words(plan: Plan) -> str:
    """`48 requests of chat a run, …: smollm2-135m in fp32 on cpu, 4 slots.`"""
    config = plan.points[0].config
    workload = config.workload
    what = "chat questions" if workload.prompts == "chat" else f"prompts of {workload.prompts}"
    how = [*how_words(config), plural(config.slots, "slot"), *cap_words(config)]
    return (
        f"{plural(workload.requests, 'request')} a run, {what}. {budget_text(workload.budget)} "
        f"{model_on_device(config)}, {', '.join(how)}."
    )


def time_words(plan: Plan) -> str:
    """How long requests come for at each rate: no run can be shorter."""
    count = plan.points[0].config.workload.requests
    lowest = min(plan.settings["rates_per_s"])
    arrivals = [p.config.workload.arrival for p in plan.points if p.values["role"] == "rate"]
    rates = [getattr(parse_arrival(arrival), "rate", 1.0) for arrival in arrivals]
    total_s = sum(count / rate for rate in rates)
    return (
        f"At the lowest rate requests come for about {duration(count / lowest)}; over all rates and engines for "
        f"{duration(total_s)}. A run ends when its last request is answered."
    )


def few_words(plan: Plan) -> str:
    """A warning where there are too few requests for a steady state: only a few full batches."""
    config = plan.points[0].config
    batches = config.workload.requests / config.slots
    if batches >= ENOUGH_BATCHES:
        return ""
    return (
        f"{plural(config.workload.requests, 'request')} fill {plural(config.slots, 'slot')} only "
        f"{number(batches, 2)} times over: whether a queue grows cannot be told well from so few. "
        f"{ENOUGH_BATCHES * config.slots:,} or more would do."
    )
