"""Before repeats on Bench: how many runs each button starts, and how much time they take."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.core.config import RunConfig
from engine.core.format import plural
from engine.core.units import dtype_of
from engine.experiments.repeats import plan_repeats
from pages.parts.bench.settings import COMPARISONS, BenchSettings
from pages.parts.experiments.choice import EXPERIMENT
from pages.parts.experiments.estimate import PassTimes, basis_text, duration_text, known_times
from pages.parts.experiments.form import NO_ID, named, submit
from pages.parts.predictions.form import Draft, PredictionForm
from pages.parts.shared.devices import device_of
from pages.parts.shared.markdown import listed, plain
from pages.parts.shared.workloads import workload_of

Runs = Sequence[RunConfig]


def draw_repeats(settings: BenchSettings) -> None:
    """How many runs each button starts, and how long they take; nothing for one run an engine."""
    config = settings.config
    if config is None or settings.repeats < 2:
        return
    device = device_of(config.device)
    known = known_times(config.model, dtype_of(config.dtype, device), device, config.execution)
    st.markdown(plain(runs_text(settings, known)))
    runs = [config, *(settings.pair or ()), *(settings.layouts or ())]
    st.caption(plain(basis_text(runs, known, "Estimated")))


def runs_text(settings: BenchSettings, known: PassTimes | None) -> str:
    """`3 repeats, interleaved: 3 runs for continuous (about 20 s), 6 for the two engines (about 40 s).`"""
    assert settings.config is not None
    choices = (
        (settings.config.engine, (settings.config,)),
        (COMPARISONS["pair"].name, settings.pair),
        (COMPARISONS["layouts"].name, settings.layouts),
    )
    counts: list[str] = []
    for name, runs in choices:
        if runs is not None:
            number_of_runs = len(runs) * settings.repeats
            count = f"{number_of_runs:,}" if counts else plural(number_of_runs, "run")
            counts.append(f"{count} for {name}{_time_text(runs, settings.repeats, known)}")
    return f"{settings.repeats:,} repeats, interleaved: {listed(counts)}."


def start_repeats(runs: Runs, repeats: int, form: PredictionForm, drafts: Sequence[Draft]) -> None:
    """Save the prediction, queue the experiment, and open its page."""
    plan = named(plan_repeats(runs, experiment_id=NO_ID, created_at="", repeats=repeats))
    if submit(plan, form, drafts):
        st.switch_page("pages/repeats.py", query_params={EXPERIMENT: plan.experiment_id})


def _time_text(runs: Runs, repeats: int, known: PassTimes | None) -> str:
    if known is None:
        return ""
    return f" (about {duration_text(repeats * sum(_run_s(known, config) for config in runs))})"


def _run_s(known: PassTimes, config: RunConfig) -> float:
    """A run lasts at least until its last request arrives."""
    last_s = max((spec.arrival_s for spec in workload_of(config.workload).requests), default=0.0)
    return max(known.run_s(config), last_s)
