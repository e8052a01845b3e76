"""Before a run on Bench: the simulator's preview of each engine, and how many runs and how much time repeats take.

The preview uses the newest calibration of the run's device with the model; without one, a line says how to make it.
A workload that takes the simulator more than a moment has no preview, so that the page stays responsive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import streamlit as st

from engine.core.config import RunConfig
from engine.core.format import duration, number, plural
from engine.core.presets import PRESETS
from engine.core.units import dtype_of
from engine.experiments.repeats import plan_repeats
from engine.hardware.calibration import Calibration
from engine.metrics.metric import Value
from engine.metrics.metrics import run_metrics
from engine.simulator.machine import THIS, fitting_calibration, simulated_machine
from engine.simulator.simulator import estimated_tokens, simulate
from engine.workload.workload import Workload
from pages.parts.bench.settings import COMPARISONS, BenchSettings
from pages.parts.experiments.choice import EXPERIMENT
from pages.parts.experiments.estimate import PassTimes, basis_text, duration_text, known_times
from pages.parts.experiments.form import NO_ID, named, submit
from pages.parts.predictions.form import Draft, PredictionForm
from pages.parts.runs.badges import SIMULATED
from pages.parts.shared.devices import device_of
from pages.parts.shared.machines import calibrations
from pages.parts.shared.markdown import code, listed, plain
from pages.parts.shared.workloads import workload_of

ENOUGH_S = 0.25  # most time that simulating all engines may take, on a laptop core
TOKEN_S, SERIAL_TOKEN_S, REQUEST_S, CHUNK_S, BLOCK_S = 2.5e-6, 9e-6, 4e-4, 6e-5, 2e-6  # measured, rounded up
PREFIX = "hardware this: "  # of the simulator's errors; the page shows them without it

Runs = Sequence[RunConfig]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """`metrics` by name, empty if `problem` says why there are none. `source` names the calibration."""

    metrics: dict[str, Value]
    source: str = ""
    problem: str = ""


def draw_preview(configs: Sequence[RunConfig]) -> None:
    """A table with a row an engine, marked as simulated; or one line that says why there is none."""
    known = [c for c in calibrations() if c.device.partition(":")[0] == device_of(configs[0].device)]
    if problem := _why_not(configs, known):
        st.caption(f":material/function: {problem}")
        return
    previews = [(config, preview(config, _fitting(config, known))) for config in configs]
    answered = [(config, found) for config, found in previews if found.metrics]
    if answered:
        st.markdown(f"**:violet-badge[:material/function: {SIMULATED.label}] Preview**")
        st.markdown(preview_table(answered))
        st.caption(f"{plain(answered[0][1].source)} {_basis(configs[0])}")
    problems = {config.engine: found.problem for config, found in previews if found.problem}
    for problem in dict.fromkeys(problems.values()):
        mine = [engine for engine, its in problems.items() if its == problem]
        st.caption(f":material/function: No preview of {listed(mine)}: {_as_written(problem)}.")


def preview_table(rows: Sequence[tuple[RunConfig, Preview]]) -> str:
    """A Markdown table of duration, output tokens/s, median TTFT and median queue wait."""
    lines = ["| engine | duration | output tokens/s | TTFT p50 | queue wait p50 |", "|---|--:|--:|--:|--:|"]
    for config, found in rows:
        metric = found.metrics
        cells = (
            duration(metric["duration_s"]),
            number(metric["output_tokens_per_s"]),
            duration(metric["ttft_p50_s"]),
            duration(metric["queue_wait_p50_s"]),
        )
        lines.append(f"| {config.engine} | {' | '.join(cells)} |")
    return "\n".join(lines)


@lru_cache(maxsize=128)
def preview(config: RunConfig, calibration_text: str) -> Preview:
    """Simulate one engine on the machine of a calibration, given as JSON."""
    known = Calibration.from_json(calibration_text)
    try:
        machine = simulated_machine(config, THIS, calibrations=[known])
        simulated = simulate(config, workload_of(config.workload), machine.cost, machine.shape)
    except ValueError as error:
        return Preview(metrics={}, problem=str(error).removeprefix(PREFIX))
    if simulated.shortage is not None:
        return Preview(metrics={}, problem=f"it runs out of memory ({simulated.shortage})")
    return Preview(metrics=run_metrics(simulated.record()), source=machine.source)


def simulating_s(config: RunConfig, workload: Workload) -> float:
    """Estimate how long simulating a run takes; infinity for too many requests."""
    if len(workload.requests) * REQUEST_S > ENOUGH_S:
        return math.inf
    tokens = sum(spec.budget_tokens for spec in workload.requests)
    prompts = sum(estimated_tokens(spec.prompt) for spec in workload.requests)
    total_s = len(workload.requests) * REQUEST_S
    total_s += tokens * (SERIAL_TOKEN_S if config.engine == "serial" else TOKEN_S)
    if PRESETS[config.engine].has_blocks:
        total_s += (prompts + tokens) / config.block_size * BLOCK_S
    if PRESETS[config.engine].is_chunked:
        total_s += prompts / config.max_num_batched_tokens * CHUNK_S
    return total_s


def _why_not(configs: Sequence[RunConfig], known: Sequence[Calibration]) -> str:
    """Why no engine has a preview; empty if one may have one."""
    first = configs[0]
    if not known:
        return (
            "No preview: this device is not calibrated. Run "
            f"{code(f'.venv/bin/python -m engine calibrate --model {first.model}')} to measure it."
        )
    if sum(simulating_s(config, workload_of(config.workload)) for config in configs) > ENOUGH_S:
        return (
            "No preview: simulating this many requests and tokens takes too long for this page. Run "
            "`.venv/bin/python -m engine simulate` instead."
        )
    return ""


def _fitting(config: RunConfig, known: Sequence[Calibration]) -> str:
    """The calibration that the simulator uses for a run, as JSON."""
    device = device_of(config.device)
    resolved = replace(config, device=device, dtype=dtype_of(config.dtype, device))
    return fitting_calibration(resolved, known).to_json()


def _basis(config: RunConfig) -> str:
    """What the preview assumes."""
    workload = workload_of(config.workload)
    sentences = ["Simulated: the engine's own scheduler on a virtual clock, with calibrated pass times; no model runs."]
    if not all(spec.ignore_eos for spec in workload.requests):
        sentences.append("Every budget counts in full; an early EOS shortens the run.")
    if config.workload.prompts in ("chat", "file"):
        sentences.append("Prompts count one token per four characters.")
    return " ".join(sentences)


def _as_written(problem: str) -> str:
    """Text with Markdown escaped, except commands in backticks."""
    parts = problem.rstrip(".").split("`")
    return "`".join(part if place % 2 else plain(part) for place, part in enumerate(parts))


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
