"""The finding of one run in one sentence, and its cautions."""

from __future__ import annotations

import streamlit as st

from engine.core.format import duration, percent, plural, quantity
from engine.validity.validity import Outcome
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.runs.run_text import busy_line, ending_text
from pages.parts.runs.validity import Checks, distrust_text, draw_badges, names_of


def run_finding(run: LoadedRun, why: str = "") -> str:
    """How fast the run was, and which share of its slot-steps was lost. With `why`, the reason why its times cannot be
    trusted, it gives what was counted instead."""
    name, metrics = run.config.engine.capitalize(), run.metrics
    tokens, finished = int(metrics.get("output_tokens") or 0), int(metrics.get("finished_requests") or 0)
    if run.status != "completed":
        return f"{name} {ending_text(run.status, finished, run.num_requests)}, with {plural(tokens, 'token')}."
    if run.info.get("simulated"):
        name = f"Simulated {run.config.engine}"
    arrival = run.config.workload.arrival
    slot_steps = metrics.get("slot_steps")
    if why and slot_steps:
        passes = plural(int(metrics.get("passes") or 0), "forward pass", "forward passes")
        text = f"{name} needed {passes} and {plural(int(slot_steps), 'slot-step')} for {plural(tokens, 'token')}"
        return f"{text}{_dead(run)}. {distrust_text([arrival], why)}"
    if arrival != "closed" and metrics.get("e2e_p50_s"):
        text = f"{name} completed half of {plural(run.num_requests, 'answer')} within "
        return f"{text}{duration(metrics['e2e_p50_s'])} of their arrival, at {_rate(run)}{_dead(run)}."
    took = metrics.get("duration_s")
    in_time = f" in {duration(took)}, {_rate(run)}" if took else ""
    return f"{name} answered {plural(run.num_requests, 'request')}{in_time}{_dead(run)}."


def _rate(run: LoadedRun) -> str:
    return quantity(run.metrics.get("output_tokens_per_s"), "tokens/s")


def _dead(run: LoadedRun) -> str:
    """`; 39.1 % of its slot-steps went to ended requests`; empty where there are no slot-steps."""
    share = run.metrics.get("dead_fraction")
    if share is None or not run.metrics.get("slot_steps"):
        return ""
    if not share:
        return "; no slot-step went to an ended request"
    return f"; {percent(share)} of its slot-steps went to ended requests"


def draw_run_cautions(run: LoadedRun, checks: Checks) -> None:
    """One button that opens: how many badges the run lost, or that it earned all; then every check."""
    busy = busy_line(run.info)
    if not checks and not busy:  # the run is not over
        return
    with st.popover(cautions_label(checks, busy), icon=":material/rule:", type="tertiary"):
        if busy:
            st.markdown(f":material/speed: {busy}")
        if checks:
            draw_badges(checks)


def cautions_label(checks: Checks, busy: str) -> str:
    """`2 cautions`: lost badges, and a machine that was busy when the run began; or `All 8 badges earned`."""
    cautions = len(names_of(checks, Outcome.FAIL)) + bool(busy)
    return plural(cautions, "caution") if cautions else f"All {len(names_of(checks, Outcome.PASS))} badges earned"
