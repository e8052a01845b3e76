"""Repeats on Bench: how many runs each button then starts, about how long that takes, and the start of them."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.core.config import RunConfig
from engine.core.dtypes import dtype_of
from engine.core.format import plural
from engine.core.repeats_plan import plan_repeats
from pages.parts.bench_settings import Settings
from pages.parts.devices import device_of
from pages.parts.experiments.choice import EXPERIMENT
from pages.parts.experiments.estimate import Pace, basis_words, duration_words, known_pace
from pages.parts.experiments.plan import NO_ID, named
from pages.parts.experiments.start import submit
from pages.parts.markdown import listed, plain
from pages.parts.prediction_form import Draft, PredictionForm
from pages.parts.shared.workloads import workload_of

Runs = Sequence[RunConfig]


def draw_repeats(settings: Settings) -> None:
    """What the buttons come to where each engine is run more than once; nothing where it is not."""
    config = settings.config
    if config is None or settings.repeats < 2:
        return
    device = device_of(config.device)
    pace = known_pace(config.model, dtype_of(config.dtype, device), device, config.execution)
    st.markdown(plain(runs_words(settings, pace)))
    runs = [config, *(settings.pair or ()), *(settings.layouts or ())]
    st.caption(plain(basis_words(runs, pace, "Times")))


def runs_words(settings: Settings, pace: Pace | None) -> str:
    """`3 times, all engines once and then all again: 3 runs of continuous (about 20 s), 6 of the pair (about 40 s).`"""
    assert settings.config is not None
    choices = (
        (settings.config.engine, (settings.config,)),
        ("the pair", settings.pair),
        ("the four layouts", settings.layouts),
    )
    said = []
    for name, runs in choices:
        if runs is not None:
            count = plural(len(runs) * settings.repeats, "run") if not said else f"{len(runs) * settings.repeats:,}"
            said.append(f"{count} of {name}{_about(runs, settings.repeats, pace)}")
    return f"{settings.repeats:,} times, all engines once and then all again: {listed(said)}."


def start_repeats(runs: Runs, repeats: int, form: PredictionForm, drafts: Sequence[Draft]) -> None:
    """Write down what is expected, queue the experiment, and go to the page that follows it."""
    plan = named(plan_repeats(runs, experiment_id=NO_ID, created_at="", repeats=repeats))
    if submit(plan, form, drafts):
        st.switch_page("pages/repeats.py", query_params={EXPERIMENT: plan.experiment_id})


def _about(runs: Runs, repeats: int, pace: Pace | None) -> str:
    if pace is None:
        return ""
    return f" (about {duration_words(repeats * sum(_run_s(pace, config) for config in runs))})"


def _run_s(pace: Pace, config: RunConfig) -> float:
    """No run is over before its last request has arrived."""
    last_s = max((spec.arrival_s for spec in workload_of(config.workload).requests), default=0.0)
    return max(pace.run_s(config), last_s)
